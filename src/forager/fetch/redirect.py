"""Builds the request for the next hop of a redirect. Credentials belong to one origin and must never reach another."""

from collections.abc import Mapping
from dataclasses import dataclass

from yarl import URL

from forager.core.errors import Refused

REDIRECTS = frozenset((301, 302, 303, 307, 308))

# Only these headers are sent on to another origin. A list of secret headers would miss those that an upstream invented.
HARMLESS = frozenset(("accept", "accept-encoding", "accept-language", "cache-control", "content-type", "user-agent"))


@dataclass(frozen=True, slots=True)
class Hop:
    """One request on the wire. `headers` contain credentials only as long as the origin has not changed."""

    url: URL
    method: str
    headers: Mapping[str, str]
    body: bytes | None


def next_hop(hop: Hop, status: int, location: str) -> Hop:
    """Return the next hop of a redirect, or None. Its target has not been checked by the guard yet."""
    url = _target(hop.url, location)
    method, body, headers = hop.method, hop.body, dict(hop.headers)
    if status in (301, 302, 303) and method != "HEAD":
        method, body = "GET", None
    if body is None:
        headers = {name: value for name, value in headers.items() if not name.lower().startswith("content-")}
    if origin(url) != origin(hop.url):
        headers = {name: value for name, value in headers.items() if name.lower() in HARMLESS}
    return Hop(url, method, headers, body)


def origin(url: URL) -> tuple[str, str | None, int | None]:
    return url.scheme, url.raw_host, url.port


def _target(base: URL, location: str) -> URL:
    """Resolve a location. One with a scheme is not joined: joining `http:x` to its base would hide that it has no
    host."""
    try:
        target = URL(location)
        return (target if target.scheme else base.join(target)).with_fragment(None)
    except (ValueError, UnicodeError):
        raise Refused("it redirects to something that is not a URL.") from None
