"""What a company is called, by its web site: every place that may name it is a vote. Pure.

One place alone is often wrong: a title is a slogan, a copyright line names the maker of a map, a headline is a command.
Places that agree are rarely wrong.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from forager.extract.addresses import Address, names_above
from forager.extract.document import Document
from forager.extract.emails import emails_in
from forager.extract.locations import location_of
from forager.extract.organisations import LEGAL_FORM, bare, copyright_owners, legal_names, tidy, title_parts
from forager.extract.urls import site_of

MOST_WORDS = 8
MOST_OWNERS = 5
LONGEST_TITLE = 300
MOST_PARTS = 10
SHORTEST = 3
"""Characters of a name, without signs, that may be a part of another one."""
_HOST = re.compile(r"[\w-]+(?:\.[\w-]+)+", re.ASCII)
_WWW = re.compile(r"^www\.", re.IGNORECASE)
_LOGO = re.compile(r"\blogo\b|\bhome(?: ?page)?\b", re.IGNORECASE)
_SERVICES = frozenset(
    "google googlemaps googleinc facebook twitter youtube linkedin instagram pinterest wordpress joomla drupal wix"
    " shopify squarespace volusion microsoft adobe cloudflare paypal yahoo weebly godaddy tumblr"
    " zencart magento prestashop".split()
)
"""Companies whose names appear on other companies' pages, in maps, buttons and shop systems."""
_WORDS = frozenset(
    "all city restaurant hotel shop store company group services service products product online portal office school"
    " church welcome contact address business solutions".split()
)
"""One of these words alone is not a name, only part of one."""
_NO_NAME = re.compile(
    r"^an? (?:division|subsidiary|member|part|service|project|brand) of\b|@|https?:|\d{5}|[?!:]$"
    r"|\b(?:tel|phone|fax|e-?mail|click|call|hours|monday|department|dept|attn|directions|map|address|welcome|copyright"
    r"|reserved|privacy|terms|please|submit|subscribe|search|menu)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Named:
    """A name, the place that has it, and how much that place counts."""

    name: str
    source: str
    weight: float


def company_name(document: Document, places: Sequence[Address]) -> Named | None:
    """The name with most votes, as its most reliable place writes it; `weight` is the sum. None without a candidate.

    `places` are the addresses of the page: the line above a company's street is its name.
    """
    cities = {bare(place.where.city or "") for place in places}
    candidates = [one for one in _candidates(document, places) if _is_name(one.name) and bare(one.name) not in cities]
    if not candidates:
        return None
    hosts = _hosts(document)
    votes = {bare(one.name): _votes(one, candidates, hosts) for one in candidates}
    title = _words(document.title or "")

    def rank(one: Named) -> tuple[float, bool, float, int]:
        return votes[bare(one.name)], one.source == "text:legal", one.weight, len(_words(one.name) & title)

    best = max(candidates, key=rank)
    return Named(best.name, best.source, votes[bare(best.name)])


def is_host(name: str) -> bool:
    """Whether a name is only a web address: `shop.example.com`."""
    return bool(_HOST.fullmatch(name))


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.casefold()))


def _candidates(document: Document, places: Sequence[Address]) -> Iterator[Named]:
    for key, weight in (("og:site_name", 3.0), ("application-name", 2.0)):
        yield from _named(document.metas.get(key, ""), f"meta:{key}", weight)
    for owner in islice(copyright_owners(document), MOST_OWNERS):
        yield from _named(owner, "text:copyright", 2.5)
    for place in places[:3]:
        for above in [text for text in names_above(document, place) if _is_capitalised(text)][:2]:
            yield from _named(above, "text:address", 2.0)
    for name in islice(legal_names(document.shown), 3):
        yield Named(name, "text:legal", 1.5)
    text = bare(document.text)
    for part in title_parts((document.title or "")[:LONGEST_TITLE])[:MOST_PARTS]:
        if len(part.split()) <= MOST_WORDS - 2:
            yield Named(part, "title", 1.5 if text.count(bare(part)) >= 2 else 0.8)
    for node in document.tree.css("[class*='logo' i] img[alt], img[class*='logo' i][alt], img[id*='logo' i][alt]")[:3]:
        yield from _named(_LOGO.sub(" ", node.attributes.get("alt") or ""), "css:img[alt]", 1.5)
    for node in document.tree.css("header h1, #header h1")[:2]:
        yield from _named(node.text(separator=" "), "css:h1", 0.8)


def _named(text: str, source: str, weight: float) -> Iterator[Named]:
    name = tidy(text)
    if name:
        yield Named(_WWW.sub("", name), source, weight / 2 if is_host(name) else weight)


def _votes(one: Named, all_of_them: Sequence[Named], hosts: frozenset[str]) -> float:
    """The sum over the different places that have the name; half of it for a place that has it as a part."""
    own = bare(one.name)
    by_source: dict[str, float] = {}
    for other in all_of_them:
        name = bare(other.name)
        shared = len(own) >= SHORTEST and len(name) >= SHORTEST and (name in own or own in name)
        share = 1.0 if name == own else 0.4 if shared else 0.0
        by_source[other.source] = max(by_source.get(other.source, 0.0), share * other.weight)
    return sum(by_source.values()) + (
        1.5 if any(own in host or host in own for host in hosts if len(host) > 3) else 0.0
    )


def _hosts(document: Document) -> frozenset[str]:
    """What the site and its mailboxes are called, without their top-level domains."""
    sites = {
        site_of(document.url),
        *(site_of(f"https://{mail.partition('@')[2]}/") for mail in emails_in(document.text)),
    }
    return frozenset(re.sub(r"[\W_]+", "", site.partition(".")[0].casefold()) for site in sites)


def _is_capitalised(text: str) -> bool:
    """Whether all words but the small ones begin with a capital, as in a name and unlike in a sentence."""
    words = [word for word in re.findall(r"[^\W\d_]+", text) if len(word) > SHORTEST]
    return bool(words) and all(word[0].isupper() for word in words) and "..." not in text and ". ." not in text


def _is_name(name: str) -> bool:
    short = bare(name)
    if not short or short in _SERVICES or short in _WORDS or len(name.split()) > MOST_WORDS or _NO_NAME.search(name):
        return False
    if LEGAL_FORM.search(name):
        return True
    where = location_of(name)
    return not (where.country and (where.city is None or "," in name))
