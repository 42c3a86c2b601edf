"""URLs in one form: https, without what only tracks. Pure."""

import hashlib
import re
from functools import lru_cache
from urllib.parse import SplitResult, parse_qsl, quote, urljoin, urlsplit, urlunsplit

from w3lib.url import safe_url_string

from forager.core.hosts import one_spelling
from forager.extract.tables import table

_DATA = table("urls")

LONGEST = 4_096
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):(?!\d)")
_TRACKING_PREFIXES = tuple(_DATA["tracking_prefixes"])
_TRACKING = frozenset(_DATA["tracking"].split())
# First parts of the endings of countries' domain names that stand for a kind, as in `co.uk`.
_SECOND_LEVEL = frozenset("ac co com edu gob gov gouv go ltd mil ne net nhs nom or org plc sch".split())


def clean_url(value: str) -> str:
    """Return an https URL without tracking parameters. Raises `ValueError` with the reason for anything else."""
    text = re.sub(r"[\t\n\r]", "", value.strip())
    if len(text) > LONGEST:
        raise ValueError("the URL is too long")
    scheme = _SCHEME.match(text)
    if text.startswith("//"):
        text = "https:" + text
    elif scheme is None:
        text = "https://" + text
    elif scheme[1].lower() not in ("http", "https"):
        raise ValueError(f"a {scheme[1]}: address is not a web page")
    parts = urlsplit(safe_url_string(text))
    host = one_spelling(parts.hostname or "")
    if not _is_host(host):
        raise ValueError("the URL has no host")
    if ":" in host:
        host = f"[{host}]"
    port = f":{parts.port}" if parts.port and parts.port not in (80, 443) else ""
    path = urlsplit(urljoin("https://host/", parts.path)).path if "/." in parts.path else parts.path
    return urlunsplit(("https", host + port, path or "/", _kept(parts.query), parts.fragment))


def is_tracking(name: str) -> bool:
    name = name.lower()
    return name in _TRACKING or name.startswith(_TRACKING_PREFIXES)


def same_site(one: str, other: str) -> bool:
    """Return whether two URLs are in one site: the same host, or hosts of one registered domain as far as a name
    shows it."""
    try:
        return site_of(one) == site_of(other)
    except ValueError:
        return False


def site_of(url: str) -> str:
    host = one_spelling(urlsplit(url).hostname or "")
    labels = host.split(".")
    if len(labels) < 3 or labels[-1].isdigit() or ":" in host:
        return host
    short = len(labels[-1]) == 2 and labels[-2] in _SECOND_LEVEL
    return ".".join(labels[-3:] if short else labels[-2:])


def _is_host(host: str) -> bool:
    return bool(host) and (":" in host or re.fullmatch(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?", host) is not None)


def _kept(query: str) -> str:
    """Return the query without tracking parameters and otherwise unchanged: order, blanks and repeats may mean
    something."""
    parts = [part for part in query.split("&") if part and not is_tracking(parameter_name(part))]
    return quote("&".join(parts), safe="%/?:@!$&'()*+,;=~-._[]{}|^`\\")


def parameter_name(part: str) -> str:
    """Return the decoded name of one `name=value` of a query."""
    pairs = parse_qsl(part.partition("=")[0] + "=x", max_num_fields=5)
    return pairs[0][0].strip() if pairs else ""


# One spelling for each page: the URL by which a page is known, and its hash. Pure.
#
# Two addresses that differ only in parts without effect on the page (letter case of the host, default port, dot
# segments, order of parameters, fragment, tracking) have the same canonical URL. Parameters that may choose the page
# are kept. The scheme stays as it is: some sites answer on one of them only.


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


@lru_cache(maxsize=1_024)  # a page's own URL is used several times while it is read
def canonical_url(url: str) -> str:
    """Return the one spelling of a web page's URL. Applying it twice changes nothing more.

    Raises `ValueError` with the reason if the text is not an http or https URL, or has a user name in it.
    """
    plain = _PLAIN.match(url)
    if plain and len(url) <= LONGEST and one_spelling(plain[1]) == plain[1]:
        return url  # most are; the rest of this takes ten times as long
    return _spelled(url)


def _spelled(url: str) -> str:
    """Return the one spelling of a URL that may be escaped or have a query."""
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


@lru_cache(maxsize=1_024)  # used by the page, its product and its task
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
    """Return the character itself if it needs no escape; else the escape with upper-case digits."""
    character = chr(int(escape[1], 16))
    return character if character in _UNRESERVED else escape[0].upper()
