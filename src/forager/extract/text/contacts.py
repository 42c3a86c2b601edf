"""E-mail addresses: lower-cased, checked by form alone. Pure; sends no query to a name server."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote

from email_validator import EmailNotValidError, validate_email

LONGEST = 320
_ADDRESS = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}", re.ASCII)
# Names of pictures and templates in the form of an address.
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


# Telephone numbers to E.164. Pure. A doubtful number is left out: a wrong one is worse than none.


PHONE_LONGEST = 250
MOST_TRIES = 2_000
_TRUNK = re.compile(r"\(\s*0\s*\)")
_CODED_TRUNK = re.compile(r"((?:\+|\b00)\s?\d{1,3})\s*\(\s*0\s*\)\s*")
_ENOUGH_DIGITS = re.compile(r"(?:\d\D{0,6}){6}")
_AMERICAN = re.compile(r"(?<![\d+])(?:1[-. ])?\(?([2-9]\d\d)\)?[-. ]{1,2}([2-9]\d\d)[-. ](\d{4})(?!\d)")


@dataclass(frozen=True, slots=True)
class PhoneFound:
    number: str
    start: int
    end: int


def e164(value: str, region: str | None = None) -> str:
    """`+14152343611`. A number without + needs a region (ISO, two letters)."""
    text = value.strip()
    if len(text) > PHONE_LONGEST:
        raise ValueError("too long for a telephone number")
    text = text.removeprefix("tel:").replace("%20", " ")
    text = _TRUNK.sub("", text)
    if text.startswith(("(+", "( +", "+ ")) or (text.startswith("00") and not text.startswith("000")):
        text = "+" + re.sub(r"^00|\D", "", text)
    import phonenumbers  # 5 MB: only where pages are read

    try:
        number = phonenumbers.parse(text, region)
    except phonenumbers.NumberParseException as error:
        raise ValueError(f"not a telephone number: {error}") from error
    if not phonenumbers.is_valid_number(number):
        raise ValueError("no telephone has this number")
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)


def without_trunks(text: str) -> str:
    """Return the text with `+43 (0) 732` as `+43 732`: a zero that is dialled only inside of the country, with blanks
    around it, hides a number from `phones_in`."""
    return _CODED_TRUNK.sub(r"\1 ", text) if "(" in text else text


def phones_in(text: str, region: str | None = None) -> Iterator[PhoneFound]:
    """Yield numbers in a line of text. Without a region: those with a country code, and those in the American
    grouping."""
    if not _ENOUGH_DIGITS.search(text[:2_000]):
        return
    text = _TRUNK.sub(lambda numbers: " " * len(numbers[0]), text[:2_000])
    import phonenumbers

    matcher = phonenumbers.PhoneNumberMatcher(text, region, phonenumbers.Leniency.VALID, MOST_TRIES)
    numbers = [
        PhoneFound(
            phonenumbers.format_number(match.number, phonenumbers.PhoneNumberFormat.E164), match.start, match.end
        )
        for match in matcher
    ]
    yield from numbers
    if region is None:
        for american in _AMERICAN.finditer(text):
            if any(one.start < american.end() and american.start() < one.end for one in numbers):
                continue
            try:
                yield PhoneFound(e164(american[0], "US"), american.start(), american.end())
            except ValueError:
                continue
