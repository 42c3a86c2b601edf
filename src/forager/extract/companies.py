"""Finds the name of a company on its web site: every place that may name it is a vote. Pure.

One place alone is often wrong: a title is a slogan, a copyright line names the maker of a map, a headline is a command.
Places that agree are rarely wrong.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from forager.extract.html.document import Document, VisibleLine
from forager.extract.tables import any_of, table
from forager.extract.text.addresses import Address, names_above
from forager.extract.text.contacts import emails_in
from forager.extract.text.locations import country_code, country_of_state, location_of
from forager.extract.text.urls import site_of

_DATA = table("companies")

# Names of organisations in text: owners of copyright, names with a legal form. Pure.


LONGEST = 80
MOST_FORMS = 3
"""Legal forms behind one another, as in `Meyer GmbH & Co. KG`: a text may be made of endlessly many."""
_LEGAL = "|".join(_DATA["legal_forms"])
# A run of blanks is read from its beginning only: else a form would be tried at each of them, by the rest of the run.
LEGAL_FORM = re.compile(rf"(?:,|(?<!\s)\s)\s*+(?:{_LEGAL})\.?(?=$|[\s,;.)|])", re.IGNORECASE)
# Short forms that are words elsewhere count in capitals only.
_SURE_LEGAL = any_of(_DATA["sure_legal_forms"], r"(?:,|(?<!\s)\s)\s*+(?:{})\.?$", re.NOFLAG)
_COPYRIGHT = re.compile(
    r"(?:©|\(c\)|&copy;|copyright)"
    r"(?:\s*(?:©|\(c\)|copyright|by|,|(?:19|20)\d\d(?:\s*[-–—/]\s*(?:(?:19|20)\d\d|\d\d|present))?))*"
    r"[\s,.:|–-]*(?P<name>[^|•·©\n]{2,120})",
    re.IGNORECASE,
)
_ENDS = any_of(_DATA["after_owner"], r"(?<!\s)\s*(?:{}).*$")
_YEAR = re.compile(r"[\s,.-]*\b(?:19|20)\d\d\b[\s,.]*")
_GENERIC = any_of(_DATA["generic"], r"^(?:{})$")
_WELCOME = any_of(_DATA["welcome"], r"^(?:{})\s*(?:the )?(?=\w)")
_BEFORE_SIGN = re.compile(r"^(?P<name>[^|•·©\n]{3,80}?)\s*(?:©|\(c\))\s*(?:[|•·]|(?:19|20)\d\d|$)", re.IGNORECASE)
"""`Bimbo Bakeries © | 255 Business Center Dr`: the sign after the name."""
_FORM_FIRST = re.compile(r"^(?:ООО|ЗАО|ОАО|ПАО|АО|ИП|ТОВ|PT\.?|CV\.?)\s")
_STREETS = re.compile(
    r"^\d+[A-Za-z]?\s.*\b(?:st|street|rd|road|ave|avenue|dr|drive|blvd|lane|ln|way|court|suite)\b", re.IGNORECASE
)
TITLE_PARTS = re.compile(r"\s+[-–—|:·•»«]+\s+|\s*[|»«•]\s*|:\s+")


def copyright_owners(document: Document) -> Iterator[str]:
    """Yield the owners in a page's copyright lines, from its end, where these lines are."""
    for line in reversed(document.lines[-400:]):
        before = _BEFORE_SIGN.match(line.text) if len(line.text) <= 400 else None
        if before and (name := tidy(_YEAR.sub(" ", before["name"]))):
            yield name
            continue
        match = _COPYRIGHT.search(line.text) if len(line.text) <= 400 else None
        if match:
            owner = _ENDS.sub("", match["name"])
            year = _YEAR.search(owner)
            owner = owner[: year.start()] if year and year.start() > 2 else owner
            owner = owner.partition(",")[0] if _FORM_FIRST.match(owner) else owner
            form = LEGAL_FORM.search(owner)  # what follows it is another matter
            name = tidy(_YEAR.sub(" ", owner[: form.end()] if form else owner))
            if name:
                yield name


def legal_names(lines: Iterable[VisibleLine]) -> Iterator[str]:
    """Yield lines that are nothing but a name with a legal form: `Fincar Pty Ltd`."""
    for line in lines:
        if len(line.text) > LONGEST or _COPYRIGHT.search(line.text):
            continue
        name = tidy(line.text)
        if name and _SURE_LEGAL.search(line.text.strip(" .,")) and len(name.split()) <= 8:
            yield name


def title_parts(title: str) -> list[str]:
    """Return the parts of a page's title that can be names; what is in quotes stays together."""
    plain = re.sub(r"«([^«»]{2,60})»", r"\1", title)
    return [part for part in (tidy(piece) for piece in TITLE_PARTS.split(plain)) if part]


def tidy(name: str) -> str | None:
    """Return a name without the signs around it; None if nothing is left."""
    name = " ".join(re.sub(r"[®™©]", " ", name).split()).strip(" -–—|•·,:;»«*\"'")
    if name.count("«") > name.count("»"):
        name += "»"
    name = _WELCOME.sub("", name)
    if not 2 <= len(name) <= LONGEST or not any(letter.isalpha() for letter in name) or _GENERIC.match(name):
        return None
    return None if _STREETS.match(name) else _without_place(name)


def _without_place(name: str) -> str:
    """`City of Dallas, Texas` is City of Dallas; so is a place in brackets after a name."""
    bracket = _IN_BRACKETS.search(name)
    name = name[: bracket.start()].rstrip() if bracket and _NUMBER.search(bracket[0]) else name
    start, comma, end = name.rpartition(",")
    place = end.strip(" .")
    is_place = bool(country_of_state(place)) or bool(country_code(place, codes=False))
    return start.strip() if comma and is_place and len(start) > 2 else name


def bare(name: str) -> str:
    """Return a name in the form in which names are compared: without legal form, case and signs."""
    for _ in range(MOST_FORMS):
        name = LEGAL_FORM.sub("", name.strip(" .,"))
    return re.sub(r"[\W_]+", "", name.casefold())


MOST_WORDS = 8
MOST_OWNERS = 5
LONGEST_TITLE = 300
MOST_PARTS = 10
SHORTEST = 3
"""Characters of a name, without signs, that may be a part of another one."""
_IN_BRACKETS = re.compile(r"\([^()]*\)$")
_NUMBER = re.compile(r"\d{4}")
_HOST = re.compile(r"[\w-]+(?:\.[\w-]+)+", re.ASCII)
_WWW = re.compile(r"^www\.", re.IGNORECASE)
_LOGO = re.compile(r"\blogo\b|\bhome(?: ?page)?\b", re.IGNORECASE)
_SERVICES = frozenset(_DATA["services"].split())
"""Companies whose names appear on other companies' pages, in maps, buttons and shop systems."""
_WORDS = frozenset(_DATA["part_of_a_name"].split())
"""One of these words alone is not a name, only part of one."""
_NO_NAME = any_of(
    _DATA["no_name"],
    r"^an? (?:division|subsidiary|member|part|service|project|brand) of\b|@|https?:|\d{5}|[?!:]$|\b(?:{})\b",
)


@dataclass(frozen=True, slots=True)
class CompanyName:
    """A name, the place that has it, and how much that place counts."""

    name: str
    source: str
    weight: float


def company_name(document: Document, places: Sequence[Address]) -> CompanyName | None:
    """Return the name with most votes, as its most reliable place writes it; `weight` is the sum. None without a
    candidate.

    `places` are the addresses of the page: the line above a company's street is its name.
    """
    cities = {bare(place.where.city or "") for place in places}
    candidates = [one for one in _candidates(document, places) if _is_name(one.name) and bare(one.name) not in cities]
    if not candidates:
        return None
    hosts = _hosts(document)
    votes = {bare(one.name): _votes(one, candidates, hosts) for one in candidates}
    title = _words(document.title or "")

    def rank(one: CompanyName) -> tuple[float, bool, float, int]:
        return votes[bare(one.name)], one.source == "text:legal", one.weight, len(_words(one.name) & title)

    best = max(candidates, key=rank)
    return CompanyName(best.name, best.source, votes[bare(best.name)])


def is_host(name: str) -> bool:
    """Return whether a name is only a web address: `shop.example.com`."""
    return bool(_HOST.fullmatch(name))


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.casefold()))


def _candidates(document: Document, places: Sequence[Address]) -> Iterator[CompanyName]:
    for key, weight in (("og:site_name", 3.0), ("application-name", 2.0)):
        yield from _named(document.metas.get(key, ""), f"meta:{key}", weight)
    for owner in islice(copyright_owners(document), MOST_OWNERS):
        yield from _named(owner, "text:copyright", 2.5)
    for place in places[:3]:
        for above in [text for text in names_above(document, place) if _is_capitalised(text)][:2]:
            yield from _named(above, "text:address", 2.0)
    for name in islice(legal_names(document.shown), 3):
        yield CompanyName(name, "text:legal", 1.5)
    text = bare(document.text)
    for part in title_parts((document.title or "")[:LONGEST_TITLE])[:MOST_PARTS]:
        if len(part.split()) <= MOST_WORDS - 2:
            yield CompanyName(part, "title", 1.5 if text.count(bare(part)) >= 2 else 0.8)
    for node in document.tree.css("[class*='logo' i] img[alt], img[class*='logo' i][alt], img[id*='logo' i][alt]")[:3]:
        yield from _named(_LOGO.sub(" ", node.attributes.get("alt") or ""), "css:img[alt]", 1.5)
    for node in document.tree.css("header h1, #header h1")[:2]:
        yield from _named(node.text(separator=" "), "css:h1", 0.8)


def _named(text: str, source: str, weight: float) -> Iterator[CompanyName]:
    name = tidy(text)
    if name:
        yield CompanyName(_WWW.sub("", name), source, weight / 2 if is_host(name) else weight)


def _votes(one: CompanyName, all_of_them: Sequence[CompanyName], hosts: frozenset[str]) -> float:
    """Return the votes for a name: one for each different place that has it, half of one for a place that has it as a
    part."""
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
    """Return the names of the site's and its mailboxes' domains, without their top-level domains."""
    sites = {
        site_of(document.url),
        *(site_of(f"https://{mail.partition('@')[2]}/") for mail in emails_in(document.text)),
    }
    return frozenset(re.sub(r"[\W_]+", "", site.partition(".")[0].casefold()) for site in sites)


def _is_capitalised(text: str) -> bool:
    """Return whether all words but the small ones begin with a capital, as in a name and unlike in a sentence."""
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


# Types of schema.org that declare an organisation: companies, shops, practices, offices, schools, clubs.


ORGANISATIONS = frozenset(_DATA["organisations"].split())
"""`Organization` and `LocalBusiness` with the types below them, and places that are run like one, such as museums."""
