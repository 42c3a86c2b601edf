"""E-mail addresses: lower-cased, checked by form alone. Pure; never asks a name server."""

import re
from collections.abc import Iterator
from urllib.parse import unquote

from email_validator import EmailNotValidError, validate_email

LONGEST = 320
_ADDRESS = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}", re.ASCII)
# What looks like an address, and is a picture's name or a template's.
_NOT_MAIL = re.compile(r"\.(?:png|jpe?g|gif|svg|webp|css|js)$|@(?:\d+x\b|example\.|sentry|domain\.|email\.|yourdomain)")


def clean_email(value: str) -> str:
    """`Info@Example.DE` and `mailto:info@example.de?subject=x` as `info@example.de`; ValueError for anything else."""
    text = value.strip()
    if text[:7].lower() == "mailto:":
        text = unquote(text[7:].partition("?")[0]).strip()
    if len(text) > LONGEST:
        raise ValueError("too long for an e-mail address")
    try:
        return str(validate_email(text, check_deliverability=False).normalized).lower()
    except EmailNotValidError as error:
        raise ValueError(f"not an e-mail address: {error}") from error


def emails_in(text: str) -> Iterator[str]:
    """Addresses in a text, in its order, also those written with (at) and (dot)."""
    plain = re.sub(r"\s?[\[(]\s?at\s?[\])]\s?", "@", text[:20_000], flags=re.IGNORECASE)
    plain = re.sub(r"\s?[\[(]\s?dot\s?[\])]\s?", ".", plain, flags=re.IGNORECASE)
    for match in _ADDRESS.finditer(plain):
        try:
            address = clean_email(match[0])
        except ValueError:
            continue
        if not _NOT_MAIL.search(address):
            yield address
