"""Finds the employer on pages whose structured data does not name it: names around the advertisement, most reliable
first. Pure.

A job board's name also stands all over its pages, so a name counts only if the advertisement itself uses it, or if the
page's title has it as `Baker at Kiln` and the site is not called so.
"""

import re
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from forager.extract.companies import TITLE_PARTS, bare, copyright_owners, tidy
from forager.extract.html.document import Document, VisibleLine
from forager.extract.html.structured_data import Thing, of_type
from forager.extract.postings.answers import employer_in
from forager.extract.postings.systems import BOARDS, SYSTEMS
from forager.extract.tables import any_of, table
from forager.extract.text.locations import location_of
from forager.extract.text.strings import one_line
from forager.extract.text.urls import site_of

_DATA = table("postings")

A_SENTENCE = 60
MOST_WORDS = 7
A_SHORT_NAME = 5
"""A name of fewer letters must be a word of the advertisement: as letters alone it is in half of the words."""
LEAST_WITNESSES = 3
"""Places of a page and uses in its advertisement that must agree on a name: one of each may be chance."""
_OWNERS = ("Organization", "Corporation", "LocalBusiness", "CollegeOrUniversity", "EducationalOrganization")
_AROUND = frozenset("nav footer header aside form".split())
_AT = re.compile(r"\s+(?:at|bei|chez|hos|@|je|en|w)\s+", re.IGNORECASE)
_LOGO = re.compile(r"\b(?:company )?logo(?: (?:of|von|de))?\b|\bhome ?page\b", re.IGNORECASE)
_NOT_A_NAME = any_of(_DATA["not_a_name"], r"^(?:{})$")
_COPYRIGHT = re.compile(r"©|\(c\)|\bcopyright\b", re.IGNORECASE)
_CODE = re.compile(r"^[A-Z]{0,3}\d{2,}\s*[-–:]?\s+(?=\D)")


def employers(document: Document, known: Sequence[Thing], title: str) -> Iterator[tuple[str, str, bool]]:
    """Yield candidates, most reliable first: the name, its source, and whether it is certainly the employer.

    `title` is the posting's. Names of boards and systems, commands, legal phrases and the title itself are left out. A
    name is certain if the page's title has it as the employer, or if the advertisement uses it and another signal
    agrees: a second place of the page, or a second use in the advertisement.
    """
    told: list[tuple[str, str]] = []
    for name, source in _candidates(document, known, title):
        clean = _clean(name, title)
        if clean:
            told.append((clean, source))
    prose = " ".join(line.text for line in document.shown if _is_prose(line))
    joined, words = bare(prose), re.findall(r"\w+", prose.casefold())
    site = {bare(document.metas.get("og:site_name", "")), bare(site_of(document.url).partition(".")[0])}
    shown = bare(document.title or "")
    for name, source in told:
        short = bare(name)
        is_hiring = source == "title:at" and short not in site
        used = words.count(short) if len(short) < A_SHORT_NAME else joined.count(short)
        places = {place.partition(":")[0] for other, place in told if bare(other) == short}
        witnesses = len(places) + ("title" not in places and short in shown) + used
        yield name, source.removesuffix(":at"), is_hiring or (used > 0 and witnesses >= LEAST_WITNESSES)


def written_out(slug: str, text: str) -> str | None:
    """Return an employer's short name in an address (`acme-corp`) as a text writes it (`Acme Corp`); None if it does
    not.

    Without a capital letter it may be a mere word: a bakery at bread.example advertises bread.
    """
    letters = [re.escape(letter) for letter in slug.casefold() if letter.isalnum()]
    if len(letters) < 3:
        return None
    found = re.findall(rf"(?<!\w){'[ .&-]?'.join(letters)}(?!\w)", text[:50_000], re.IGNORECASE)
    return next((written for written in found if written != written.lower()), None)


def _is_prose(line: VisibleLine) -> bool:
    """A sentence of the advertisement. A copyright line does not count: it would confirm its own owner."""
    return len(line.text) > A_SENTENCE and line.area not in _AROUND and not _COPYRIGHT.search(line.text)


def _candidates(document: Document, known: Sequence[Thing], title: str) -> Iterator[tuple[str, str]]:
    for one in of_type(known, *_OWNERS):
        yield one.text("name") or "", f"{one.source}:{min(one.types)}.name"
    for key in ("og:site_name", "author", "application-name"):
        yield document.metas.get(key, ""), f"meta:{key}"
    for source, whole in (("title", document.title or ""), ("title", document.metas.get("og:title", ""))):
        yield from ((part, f"{source}:at" if hiring else source) for part, hiring in _beside(whole, title))
    for node in document.tree.css("header img[alt], [class*='logo' i] img[alt], img[class*='logo' i][alt]")[:5]:
        yield _LOGO.sub(" ", node.attributes.get("alt") or ""), "css:img[alt]"
    for owner in copyright_owners(document):
        yield owner, "copyright"
    slug = employer_in(document.url)
    own = site_of(document.url).partition(".")[0]
    for short in (slug[1] if slug else None, own if not _is_system(document.url) else None):
        written = written_out(short, document.text) if short else None
        if written:
            yield written, "url"


def _beside(whole: str, title: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a page's title beside the posting's, and whether after a word for `at`: `Baker at Kiln |
    Jobs`."""
    at = whole.casefold().find(title.casefold())
    if at < 0:
        return
    for rest in (whole[at + len(title) :], whole[:at]):
        for part in TITLE_PARTS.split(rest):
            told = _AT.split(f" {part} ", maxsplit=1)
            yield told[-1].strip(), len(told) == 2 and not told[0].strip()


def _clean(name: str, title: str) -> str | None:
    clean = tidy(_CODE.sub("", one_line(name)))
    if not clean or _NOT_A_NAME.match(clean) or len(clean.split()) > MOST_WORDS:
        return None
    short = bare(clean)
    if not short or short in bare(title) or bare(title) in short or short.casefold() in BOARDS:
        return None
    where = location_of(clean)
    return None if where.country and (where.city is None or "," in clean) else clean


def _is_system(url: str) -> bool:
    host = (urlsplit(url).hostname or "").casefold()
    return any(host == domain or host.endswith(f".{domain}") for system in SYSTEMS for domain in system.hosts)
