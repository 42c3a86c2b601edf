"""Canonical host names for politeness, and the domains that contain a host. Pure."""

import re
from collections.abc import Iterator
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

DEFAULT_PORTS = frozenset({"80", "443"})
LONGEST = 253
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_PORT = re.compile(r"[0-9]{1,5}")
_PLAIN = re.compile(r"https?://([a-zA-Z0-9._:-]+)(?:[/?#]|\Z)")
"""A URL whose host needs no closer look. `urlsplit` takes four times as long."""


def host_of(url: str) -> str:
    """Return the host of a URL in canonical form, with its port unless that is 80 or 443."""
    plain = _PLAIN.match(url)
    return one_spelling(plain[1] if plain else urlsplit(url).netloc.rpartition("@")[2])


@lru_cache(4_096)  # called several times per request, mostly for the same few hosts
def one_spelling(host: str) -> str:
    """Return the canonical form of a host: lower case, ASCII form of international names, no final dot, no port 80 or
    443. Never raises.

    Any other port stays: it is usually another program, with its own robots.txt. An IPv6 address has no brackets,
    unless a port follows.
    """
    name, port = _split_port(host.strip())
    name = _ascii(name.lower()).rstrip(".")
    address = _address(name)
    if address is not None:
        name = str(address)
    if not port or port in DEFAULT_PORTS:
        return name
    return f"[{name}]:{port}" if isinstance(address, IPv6Address) else f"{name}:{port}"


def checked_host(text: str) -> str:
    """Return a host name, address or host:port in canonical form. Raises `ValueError` with the problem for anything
    else."""
    if "/" in text or "@" in text:
        raise ValueError("it should be a host name alone, such as example.com, without https:// and without a path")
    spelled = one_spelling(text)
    name, port = _split_port(spelled)
    if port and not 0 < int(port) < 65_536:
        raise ValueError("the port should be between 1 and 65535")
    if _address(name) is not None:
        return spelled
    labels = name.split(".")
    if "*" in labels:
        raise ValueError("it should be without *: a rule for example.com holds for all hosts in it")
    if len(name) > LONGEST or not all(_LABEL.fullmatch(label) for label in labels) or labels[-1].isdigit():
        raise ValueError("it should be a host name such as example.com, or an IP address")
    return spelled


def domains_of(host: str) -> Iterator[str]:
    """Return the names under which rules for a canonical host may be stored, nearest first: the host, then the domains
    that contain it.

    A domain of one label, such as `com`, contains no host but itself; an address is in no domain.
    """
    yield host
    name, port = _split_port(host)
    if port:
        yield name
    if _address(name) is not None:
        return
    while name.count(".") > 1:
        name = name.partition(".")[2]
        yield name


def _split_port(host: str) -> tuple[str, str]:
    if host.startswith("["):
        name, _, port = host[1:].partition("]")
        port = port.removeprefix(":")
    elif host.count(":") == 1:
        name, _, port = host.partition(":")
    else:
        return host, ""
    return (name, port.lstrip("0") or "0") if _PORT.fullmatch(port) else (name if not port else host, "")


def _ascii(name: str) -> str:
    if name.isascii():
        return name
    try:
        return name.encode("idna").decode("ascii")
    except UnicodeError:
        return name


def _address(name: str) -> IPv4Address | IPv6Address | None:
    if not (name[:1].isdigit() or ":" in name):
        return None
    try:
        return ip_address(name)
    except ValueError:
        return None
