"""Rules for the addresses of a crawl: scope, spelling, session ids, patterns, endless spaces. Pure.

Everything here judges an address by its text alone. What a crawl learns while it runs is in `frontier.py`.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache
from urllib.parse import urlsplit, urlunsplit

from forager.core.hosts import host_of
from forager.extract.text.urls import canonical_url, parameter_name, site_of

MOST_SEGMENTS = 25
"""Path segments of an address; a longer path is a relative link that repeats itself."""
MOST_PARAMETERS = 6
"""Parameters of an address; each adds a dimension to an endless space."""
LONGEST = 1_500
YEARS_AHEAD = 2
"""A page of a calendar that is further in the future than this is not visited."""

_NO_PAGE = re.compile(
    r"\.(?:jpe?g|png|gif|webp|avif|svg|ico|css|m?js|json|xml|rss|atom|pdf|zip|gz|tgz|bz2|7z|rar|dmg|exe|msi|apk|iso"
    r"|mp[34]|m4[av]|ogg|wav|webm|avi|mov|mkv|docx?|xlsx?|pptx?|odt|ods|csv|woff2?|ttf|eot|wasm|bin)\Z",
    re.IGNORECASE,
)
_SESSION = re.compile(
    r"(?:php|asp|j)?_?sess(?:ion)?_?(?:id|key)?|s_?id|jsessionid|cfid|cftoken|zenid|oscsid|aspsessionid\w*",
    re.IGNORECASE,
)
_SESSION_VALUE = re.compile(r"[0-9a-zA-Z_-]{8,}")
_IN_PATH = re.compile(r";(?:jsessionid|sid|phpsessid)=[^/;]*", re.IGNORECASE)
_ACTIONS = re.compile(
    r"(?:^|&)(?:add[-_]to[-_](?:cart|wishlist)|action|do|replytocom|share|print|logout)=", re.IGNORECASE
)
_PAGING = re.compile(r"(?:p|pg|page|paged|start|offset|from|seite)=\d{1,6}", re.IGNORECASE)
_NUMBERS = re.compile(r"\d+")
_HASHES = re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{12,}\b", re.IGNORECASE)
_DATE = re.compile(r"(?<!\d)((?:19|20|21)\d\d)[-/_.]?(?:0?[1-9]|1[0-2])(?!\d{3})")
_YEAR = re.compile(r"(?:^|[&?])(?:y|year|jahr|annee)=(\d{4})(?:&|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of the web that one crawl may visit."""

    host: str
    """Canonical, with its port unless that is a default."""
    subdomains: bool = False
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    """Globs over path and query: `/docs/*`. `*` also matches a slash."""

    def covers(self, url: str) -> bool:
        """Return whether an address is one of the site's hosts."""
        host = host_of(url)
        return _bare(host) == _bare(self.host) or (self.subdomains and _within(host, self.host))

    def refusal(self, url: str, this_year: int) -> str | None:
        """Return why an address in its one spelling is not visited; None if it is."""
        if not self.covers(url):
            return "outside"
        parts = urlsplit(url)
        where = f"{parts.path}?{parts.query}" if parts.query else parts.path
        if self.include and not any(matches(each, where) for each in self.include):
            return "not_included"
        if any(matches(each, where) for each in self.exclude):
            return "excluded"
        if _NO_PAGE.search(parts.path):
            return "not_a_page"
        return "trap" if is_endless(parts.path, parts.query, this_year) else None


def _bare(host: str) -> str:
    """Return a host without `www.`: most sites answer at one of the two and redirect from the other."""
    return host.removeprefix("www.")


def _within(host: str, other: str) -> bool:
    """Return whether two hosts belong to one registered domain."""
    return site_of(f"https://{host}/") == site_of(f"https://{other}/")


def matches(glob: str, where: str) -> bool:
    """Return whether a glob matches path and query. The pattern is compiled with atomic groups: no glob takes more than
    time in proportion to the product of the two lengths."""
    return _compiled(glob)(where) is not None


@lru_cache(maxsize=1_024)
def _compiled(glob: str) -> Callable[[str], "re.Match[str] | None"]:
    return re.compile(translate(glob)).match


def is_endless(path: str, query: str, this_year: int) -> bool:
    """Return whether an address looks like one of an endless space: a path that repeats itself, too many parameters,
    an action, or a calendar that is far in the future."""
    if len(path) + len(query) > LONGEST or query.count("&") >= MOST_PARAMETERS:
        return True
    segments = [segment for segment in path.split("/") if segment]
    if len(segments) > MOST_SEGMENTS or _repeats(segments):
        return True
    if query and _ACTIONS.search(query):
        return True
    years = [int(found[1]) for found in _DATE.finditer(path + "?" + query)] + [
        int(found[1]) for found in _YEAR.finditer(query)
    ]
    return any(year > this_year + YEARS_AHEAD for year in years)


def _repeats(segments: list[str]) -> bool:
    """Return whether the same segment, or the same pair, comes three times in a row."""
    for width in (1, 2, 3):
        for start in range(len(segments) - 3 * width + 1):
            first = segments[start : start + width]
            if first == segments[start + width : start + 2 * width] == segments[start + 2 * width : start + 3 * width]:
                return True
    return False


def one_address(link: str) -> str | None:
    """Return the one spelling of a link, without ids of sessions; None if it is not a web address."""
    try:
        url = canonical_url(link)
    except ValueError:
        return None
    if ";" not in url and "?" not in url:
        return url
    parts = urlsplit(url)
    path = _IN_PATH.sub("", parts.path)
    query = "&".join(part for part in parts.query.split("&") if not _is_session(part))
    return urlunsplit((parts.scheme, parts.netloc, path, query, ""))


def _is_session(part: str) -> bool:
    name, _, value = part.partition("=")
    return bool(_SESSION.fullmatch(parameter_name(name)) and _SESSION_VALUE.fullmatch(value))


@lru_cache(maxsize=8_192)
def pattern_of(url: str) -> str:
    """Return the pattern of an address: numbers and hashes in the path become `#`, of the query the names remain.

    The last segment is `*` if it has hyphens, as titles have. Pages of one pattern are made by the same program of the
    site, so what was learnt of some holds for the others.
    """
    parts = urlsplit(url)
    segments = _NUMBERS.sub("#", _HASHES.sub("#", parts.path)).split("/")
    if segments[-1].count("-") >= 2:
        segments[-1] = "*"
    names = sorted({parameter_name(part) for part in parts.query.split("&") if part})
    return f"{parts.netloc}{'/'.join(segments)}" + (f"?{'&'.join(names)}" if names else "")


def rank_of(url: str, depth: int) -> int:
    """Return the order of an address in its crawl: near pages first, and those with parameters behind all others, but
    for the further pages of a list."""
    _, _, query = url.partition("?")
    if _PAGING.fullmatch(query):
        return depth
    return depth + (1_000 * (1 + query.count("&")) if query else 0)


def each_once(links: Iterable[str]) -> list[str]:
    """Return the web addresses of these links in one spelling, each once, in their order."""
    return list(dict.fromkeys(url for link in links if (url := one_address(link)) is not None))
