"""A posting out of a system's JSON: which object it is, and its parts by that system's names for them. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from forager.extract.companies import bare, tidy
from forager.extract.html.document import Document, VisibleLine
from forager.extract.html.structured_data import plain_key
from forager.extract.postings.systems import SYSTEMS, System
from forager.extract.tables import any_of, table

_DATA = table("postings")

DEEPEST = 4
_TITLES = frozenset(
    ("title", "jobtitle", "positiontitle", "vacancytitle", "postingtitle", "jobopeningname", "objective", "jobname")
)
_WEAK_TITLES = frozenset(("name", "text"))
_WITNESSES = any_of(_DATA["json_signals"], flags=re.NOFLAG)
_OTHERS = re.compile(r"similar|related|recommend|other|more", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PostingFields:
    """The values in a system's JSON."""

    posting: Mapping[str, Any] | None
    """Return the only posting; None for any other number of them."""
    count: int
    """Number of postings."""
    system: System | None = None
    around: Mapping[str, Any] | None = None
    """The object that holds the posting, if any: it may name the employer."""


def answer_of(tree: Any) -> PostingFields:
    """Find the posting in a JSON document. Lists of similar jobs next to one posting do not count."""
    if isinstance(tree, dict):
        system = _system_of(tree)
        if system is not None or _is_posting(tree, weak=False):
            return PostingFields(tree, 1, system)
    for found, around in _lists(tree, 0):
        postings = [each for each in found if isinstance(each, dict) and (_system_of(each) or _is_posting(each))]
        if postings and len({_title_of(each) for each in postings}) == 1 and len(postings) == len(found):
            return PostingFields(
                postings[0], 1, _system_of(postings[0]), around
            )  # one job, once for each of its places
        if len(postings) > 1:
            return PostingFields(None, len(postings), _system_of(postings[0]), around)
    for inner in _mappings(tree, 0):
        system = _system_of(inner)
        if system is not None:
            return PostingFields(inner, 1, system, tree if isinstance(tree, dict) else None)
    return PostingFields(None, 0)


def values_at(data: Mapping[str, Any], path: str) -> Iterator[Any]:
    """Yield the values under a path; `@` is the object itself. A list on the way is gone through."""
    waiting: list[Any] = [data]
    for name in () if path == "@" else path.split("."):
        here = [each for value in waiting for each in (value if isinstance(value, list) else [value])]
        waiting = [each[name] for each in here if isinstance(each, dict) and each.get(name) not in (None, "", [], {})]
    for value in waiting:
        yield from value[:20] if isinstance(value, list) else [value]


def employer_in(url: str) -> tuple[str, str] | None:
    """System and short name of the employer, if the address is that of a system's posting."""
    for system in SYSTEMS:
        match = re.search(system.employer, url) if system.employer else None
        if match and match[1].casefold() not in (
            "www",
            "jobs",
            "careers",
            "app",
            "boards",
            "job-boards",
            "embed",
            "api",
        ):
            return system.name, match[1]
    return None


def _system_of(data: Mapping[str, Any]) -> System | None:
    return next((system for system in SYSTEMS if system.keys and system.keys <= data.keys()), None)


def _title_of(data: Mapping[str, Any]) -> str:
    known = ((plain_key(str(name)), value) for name, value in data.items())
    return next((str(value) for name, value in known if name in _TITLES or name in _WEAK_TITLES), "")


def _is_posting(data: Mapping[str, Any], *, weak: bool = True) -> bool:
    keys = {plain_key(str(name)) for name, value in data.items() if value not in (None, "", [], {})}
    if not keys & (_TITLES | _WEAK_TITLES if weak else _TITLES):
        return False
    return any(_WITNESSES.fullmatch(key) for key in keys)


def _lists(tree: Any, depth: int) -> Iterator[tuple[list[Any], Mapping[str, Any] | None]]:
    """Lists of mappings, outer before inner, with the object that holds them."""
    if isinstance(tree, list):
        if tree and isinstance(tree[0], dict):
            yield tree, None
        return
    if not isinstance(tree, dict) or depth > DEEPEST:
        return
    for name, value in tree.items():
        if isinstance(value, list) and value and isinstance(value[0], dict) and not _OTHERS.search(str(name)):
            yield value, tree
    for value in tree.values():
        if isinstance(value, dict):
            yield from _lists(value, depth + 1)


def _mappings(tree: Any, depth: int) -> Iterator[Mapping[str, Any]]:
    if isinstance(tree, dict) and depth <= DEEPEST:
        yield tree
        for value in tree.values():
            yield from _mappings(value, depth + 1)


# Recognises a posting's title by its words, and an employer by its sentences, on pages that mark neither. Pure.
#
# A page of an older applicant system may have no heading: the title is a line among lines. It is recognised by
# the noun for the person sought (`Senior Network Engineer`), which the advertisement or the page's title repeats.


LONGEST = 90
MOST_WORDS = 12
MOST_TITLES = 3
"""More lines than this that could each be a title are a list of postings."""
MOST_READ = 4_000
_ROLE = any_of(
    [
        *_DATA["role"],
        r"\w*(?:{})(?:/?:?\*?in(?:nen)?|en)?".replace("{}", "|".join(_DATA["role_endings"])),
        *_DATA["role_abroad"],
    ],
    r"\b(?:{})s?\b",
)
_AROUND = frozenset("nav footer aside".split())
_HEADINGS = frozenset("h1 h2 h3 h4 h5".split())
_EQUAL = re.compile(
    r"(?:^|[.!?:]\s+)(?P<name>[A-Z](?:[\w&,'’/ -]|\.(?!\s+[A-Z])){1,70}?),? (?:is|are) (?:proud to be )?(?:an? )?"
    r"(?:\w+[ /-]){0,3}?(?i:equal(?:[ -]employment)?[ -]opportunity|EEO|EOE)\b"
)
_ABOUT = re.compile(r"^About (?P<name>(?!(?i:the|us|our|this|you|your)\b)[A-Z][\w&.,'’/ -]{1,60}?):?$")
_NO_NAME = re.compile(r"^(?:we|it|this|our|the (?:company|employer|client)|they|he|she|and|as|an?)\b", re.IGNORECASE)


def has_role(text: str) -> bool:
    """Return whether a short text names the person sought: `Senior Network Engineer`."""
    return len(text.split()) <= MOST_WORDS and bool(_ROLE.search(text))


def titles_by_role(document: Document, names: list[str]) -> list[tuple[str, str]]:
    """Return lines that can be the posting's title, most likely first, each with its source; none on a page with many.

    `names` are the parts of the page's own title. A line counts if it is a heading or set apart, or if the page's title
    or the advertisement repeats it.
    """
    lines = [line for line in document.shown if line.area not in _AROUND]
    prose = " ".join(line.text for line in lines if len(line.text) > LONGEST).casefold()
    titles = " ".join(names).casefold()
    scored: dict[str, int] = {}
    for line in lines:
        score = _score(line, titles, prose)
        if score:
            scored.setdefault(line.text, score)
    shown = sorted(scored, key=lambda text: -scored[text])
    if len(shown) > MOST_TITLES and scored[shown[0]] == scored[shown[1]]:
        return []
    return [*(("text:role", text) for text in shown), *(("title", name) for name in names if has_role(name))]


def _score(line: VisibleLine, titles: str, prose: str) -> int:
    text = line.text
    if not 3 < len(text) <= LONGEST or text[-1] in ".?!:;," or not text[0].isupper() or not has_role(text):
        return 0
    known = text.casefold()
    return 4 * (known in titles) + 2 * (line.tag in _HEADINGS) + (line.bold or known in prose)


def employers_by_sentence(document: Document) -> Iterator[str]:
    """Yield the employers that an advertisement names: `Kiln is an equal opportunity employer`, or `About Kiln`."""
    for line in document.shown:
        match = _ABOUT.match(line.text[:LONGEST]) or _EQUAL.search(line.text[:MOST_READ])
        name = tidy(match["name"]) if match else None
        if name and not _NO_NAME.match(name) and bare(name) and not has_role(name):
            yield name
