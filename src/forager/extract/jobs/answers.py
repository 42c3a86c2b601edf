"""A posting out of a system's JSON: which object it is, and its parts by that system's names for them. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from forager.extract.jobs.systems import SYSTEMS, System
from forager.extract.json_search import plain_key

DEEPEST = 4
_TITLES = frozenset(
    ("title", "jobtitle", "positiontitle", "vacancytitle", "postingtitle", "jobopeningname", "objective", "jobname")
)
_WEAK_TITLES = frozenset(("name", "text"))
_WITNESSES = re.compile(
    r"(?:job|work|primary|full)?(?:location|place)s?(?:text|name)?|(?:job|position)?description\w*|city|categories"
    r"|employmenttype|employment|department\w*|jobad|postedon|externalpath|organizations|details|content\w*",
)
_OTHERS = re.compile(r"similar|related|recommend|other|more", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a system's JSON has."""

    posting: Mapping[str, Any] | None
    """The one posting; None if there are none or several."""
    count: int
    """Number of postings."""
    system: System | None = None
    around: Mapping[str, Any] | None = None
    """The object that holds the posting, if any: it may name the employer."""


def answer_of(tree: Any) -> Answer:
    """Find the posting in a JSON document. Lists of similar jobs beside one posting do not count."""
    if isinstance(tree, dict):
        system = _system_of(tree)
        if system is not None or _is_posting(tree, weak=False):
            return Answer(tree, 1, system)
    for found, around in _lists(tree, 0):
        postings = [each for each in found if isinstance(each, dict) and (_system_of(each) or _is_posting(each))]
        if postings and len({_title_of(each) for each in postings}) == 1 and len(postings) == len(found):
            return Answer(postings[0], 1, _system_of(postings[0]), around)  # one job, once for each of its places
        if len(postings) > 1:
            return Answer(None, len(postings), _system_of(postings[0]), around)
    for inner in _mappings(tree, 0):
        system = _system_of(inner)
        if system is not None:
            return Answer(inner, 1, system, tree if isinstance(tree, dict) else None)
    return Answer(None, 0)


def values_at(data: Mapping[str, Any], path: str) -> Iterator[Any]:
    """The values under a path; `@` is the object itself. A list on the way is gone through."""
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
