"""One spelling for each page: the URL by which a page is known, and its hash. Pure.

Two addresses that differ only in what does not choose the page (letter case of the host, default port, dot segments,
order of parameters, fragment, tracking) have the same canonical URL. Parameters that may choose the page are kept. The
scheme stays as it is: some sites answer on one of them only.
"""

import hashlib
import re
from functools import lru_cache
from urllib.parse import SplitResult, urlsplit, urlunsplit

from w3lib.url import safe_url_string

from forager.core.hosts import one_spelling
from forager.extract.urls import LONGEST, is_tracking, parameter_name

_DEFAULT_PORTS = {"http": 80, "https": 443}
_ESCAPE = re.compile(r"%([0-9a-fA-F]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_SHOP_TRACKING = re.compile(r"(?:pf|pd)_rd_[a-z]+|ref_|sprefix|crid|dib|dib_tag|_pos|_sid|_ss|_psq|_fid")
# `ref` is a click's origin in one shop and the article number in another: only the form of an origin is dropped.
_ORIGIN = re.compile(r"ref=[a-z]{2,}(?:_[a-z0-9]+)+", re.IGNORECASE)
# A URL that is in its one spelling if its host is: no query, nothing escaped, no dot segment.
_PLAIN = re.compile(
    r"https?://([a-z0-9.-]+)(?::(?!80/|443/)(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}))?"
    r"/(?:[A-Za-z0-9_~-][A-Za-z0-9_~.-]*+/?+)*+\Z"
)
_SCRIPT = re.compile(r"/(?:[^/]*\.(?:php\d?|aspx?|jsp|cgi|do|html?))?", re.IGNORECASE)


@lru_cache(maxsize=1_024)  # a page's own URL is asked for several times while it is read
def canonical_url(url: str) -> str:
    """Return the one spelling of a web page's URL. Applying it twice changes nothing more.

    Raises `ValueError` with the reason if the text is not an http or https URL, or has a user name in it.
    """
    plain = _PLAIN.match(url)
    if plain and len(url) <= LONGEST and one_spelling(plain[1]) == plain[1]:
        return url  # most are; the rest of this takes ten times as long
    return _spelled(url)


def _spelled(url: str) -> str:
    """The same for any URL."""
    text = re.sub(r"[\t\n\r]", "", url.strip())
    if len(text) > LONGEST:
        raise ValueError("the URL is too long")
    parts = urlsplit(safe_url_string(text))
    scheme = parts.scheme.lower()
    if scheme not in _DEFAULT_PORTS:
        raise ValueError("the URL should begin with https:// or http://")
    if "@" in parts.netloc:
        raise ValueError("the URL should have no user name and no password before the host")
    path = _path(parts.path)
    return urlunsplit((scheme, _host(parts, scheme), path, _query(parts.query, path), ""))


@lru_cache(maxsize=1_024)  # asked for by the page, its product and its task
def url_hash(canonical: str) -> str:
    """SHA-256 of a canonical URL, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical.encode()).hexdigest()


def _host(parts: SplitResult, scheme: str) -> str:
    host = one_spelling(parts.hostname or "")
    if not host or " " in host:
        raise ValueError("the URL has no host")
    port = parts.port
    name = f"[{host}]" if ":" in host else host
    return name if port in (None, _DEFAULT_PORTS[scheme]) else f"{name}:{port}"


def _path(path: str) -> str:
    """Without dot segments, and with every escape in its one spelling."""
    kept: list[str] = []
    segments = _ESCAPE.sub(_unescaped, path).split("/")[1:]
    for place, segment in enumerate(segments):
        is_last = place == len(segments) - 1
        if segment == "..":
            if kept:
                kept.pop()
        elif segment != ".":
            kept.append(segment)
            continue
        if is_last:
            kept.append("")
    return "/" + "/".join(kept)


def _query(query: str, path: str) -> str:
    parts = (_ESCAPE.sub(_unescaped, part) for part in query.split("&"))
    return "&".join(sorted(part for part in parts if part and not _tracks(part, path)))


def _tracks(part: str, path: str) -> bool:
    name = parameter_name(part).lower()
    if is_tracking(name) or _SHOP_TRACKING.fullmatch(name):
        return True
    last = path[path.rstrip("/").rfind("/") :]
    return bool(_ORIGIN.fullmatch(part)) and not _SCRIPT.fullmatch(last)


def _unescaped(escape: re.Match[str]) -> str:
    """An escape of a character that needs none is that character; any other has upper-case digits."""
    character = chr(int(escape[1], 16))
    return character if character in _UNRESERVED else escape[0].upper()
