"""Parses a proxy's URL into a `ProxyEndpoint`. Pure; an error never repeats user or password."""

import re
from collections.abc import Iterable, Sequence
from ipaddress import IPv6Address
from typing import get_args
from urllib.parse import parse_qsl, unquote, urlsplit

from forager.core.errors import FieldError, Rejected
from forager.core.proxies import ProxyEndpoint, ProxyProtocol
from forager.core.secret import Secret

__all__ = ["FORM", "ProxyEndpoint", "parse_endpoint", "parse_file", "parse_region"]

FORM = "http://user:password@host:port (or https, socks5; user and password may be left out)"
PROTOCOLS: tuple[ProxyProtocol, ...] = get_args(ProxyProtocol)
LONGEST = 2048
_HOST = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")


def parse_endpoint(text: str, *, field: str = "address") -> ProxyEndpoint:
    """Parse a proxy's URL, which may end with `?region=de`. Raises `Rejected`, naming the part that is wrong."""
    text = text.strip()
    if len(text) > LONGEST or re.search(r"[\x00-\x20\x7f]", text) or text.count("://") != 1:
        raise _wrong(field, f"it should look like {FORM}")
    try:
        parts = urlsplit(text)
        port = parts.port
        host = (parts.hostname or "").lower()
    except ValueError:
        raise _wrong(field, "its host or port cannot be read; the port is a number from 1 to 65535") from None
    protocol = next((each for each in PROTOCOLS if each == parts.scheme.lower()), None)
    if protocol is None:
        raise _wrong(field, f"the protocol should be one of {', '.join(PROTOCOLS)}")
    if not port:
        raise _wrong(field, "the port is missing, or is not a number from 1 to 65535")
    if not _is_host(host):
        raise _wrong(field, "the host is not a name or an address")
    if parts.path not in ("", "/") or parts.fragment:
        raise _wrong(field, "nothing should follow the port but ?region=xx; % and / in a password are written %25, %2F")
    username, password = _secret(parts.username, field), _secret(parts.password, field)
    if password is not None and username is None:
        raise _wrong(field, "it has a password without a user")
    return ProxyEndpoint(protocol, host, port, username, password, _region(parts.query, field))


def parse_region(text: str, *, field: str = "region") -> str:
    """Return a two-letter country code in upper case; an empty text stays empty. Raises `Rejected` for anything
    else."""
    region = text.strip().upper()
    if not re.fullmatch(r"(?:[A-Z]{2})?", region):
        raise Rejected("The region is not valid.", fields=[FieldError(field, "two letters of a country, such as US")])
    return region


def parse_file(lines: Iterable[str], name: str) -> Sequence[ProxyEndpoint]:
    """Parse a file with one URL per line; empty lines and comments (#) are skipped. Reports all errors at once, by
    line."""
    endpoints: list[ProxyEndpoint] = []
    wrong: list[FieldError] = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and not text.startswith("#"):
            try:
                endpoints.append(parse_endpoint(text, field=f"{name}:{number}"))
            except Rejected as error:
                wrong.extend(error.fields)
    if wrong:
        problems = "; ".join(f"line {each.field.rpartition(':')[2]}: {each.message}" for each in wrong[:5])
        raise Rejected(f"The proxy file {name} has {len(wrong)} wrong lines: {problems}.", fields=wrong)
    return endpoints


def _is_host(host: str) -> bool:
    if ":" not in host:
        return len(host) <= 253 and _HOST.fullmatch(host) is not None
    try:
        return IPv6Address(host).scope_id is None
    except ValueError:
        return False


def _secret(quoted: str | None, field: str) -> Secret | None:
    if not quoted:
        return None
    text = unquote(quoted)
    if len(text.encode("utf-8", "replace")) > 255 or re.search(r"[\x00-\x1f\x7f\ufffd]", text):
        raise _wrong(field, "user and password may have at most 255 bytes, and no control characters")
    return Secret(text)


def _region(query: str, field: str) -> str | None:
    given = dict(parse_qsl(query, keep_blank_values=True))
    if set(given) - {"region"}:
        raise _wrong(field, "nothing but region=xx may follow the ?")
    return parse_region(given.get("region", ""), field=field) or None


def _wrong(field: str, what: str) -> Rejected:
    return Rejected(f"The proxy's address is not valid: {what}.", fields=[FieldError(field, what)])
