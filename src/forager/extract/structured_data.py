"""What a page says of itself in structured data: JSON-LD first, then microdata, then RDFa, in one shape. Pure."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from selectolax.lexbor import LexborNode

from forager.extract.document import Document
from forager.extract.json_ld import loads_tolerantly
from forager.extract.microdata import microdata, rdfa
from forager.extract.text import one_line

MOST_SCRIPTS = 60
MOST_NODES = 5_000
DEEPEST = 12
_NESTED = (dict, list)


class Thing(NamedTuple):
    source: str
    """`json-ld`, `microdata` or `rdfa`."""
    types: frozenset[str]
    """Names of schema.org without their address: `JobPosting`."""
    data: dict[str, Any]
    depth: int = 0
    """How far inside of others it stands."""

    def get(self, *names: str) -> Any:
        """The first of these properties that says something."""
        for name in names:
            value = self.data.get(name)
            if value not in (None, "", [], {}):
                return value
        return None

    def text(self, *names: str) -> str | None:
        for name in names:
            words = text_of(self.data.get(name))
            if words:
                return words
        return None


def things(document: Document) -> tuple[Thing, ...]:
    """All of them, outer before inner, JSON-LD before the rest."""
    marks = document.marks
    collected = _flattened("json-ld", list(_json_ld(document)))
    if marks.microdata:
        collected += _flattened("microdata", microdata(document))
    if marks.rdfa:
        collected += _flattened("rdfa", rdfa(document))
    return tuple(collected)


def of_type(candidates: Iterable[Thing], *types: str) -> list[Thing]:
    """Those of one of these types; outer ones first, and in each depth in the order of the page."""
    wanted = frozenset(types)
    return sorted((thing for thing in candidates if thing.types & wanted), key=lambda thing: thing.depth)


def text_of(value: Any, deep: int = 3) -> str | None:
    """Text of a property, however it is wrapped: a string, a list, a named thing, a language map."""
    if isinstance(value, str):
        return one_line(value) or None
    if isinstance(value, bool) or deep == 0:
        return None
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list):
        return next((words for one in value[:20] if (words := text_of(one, deep - 1))), None)
    if isinstance(value, dict):
        for name in ("name", "legalName", "@value", "value", "title"):
            words = text_of(value.get(name), deep - 1)
            if words:
                return words
        node = value.get("@text")
        if isinstance(node, LexborNode) and len(value) == 2:  # a thing without properties: what it shows
            return one_line(node.html or "")[:300] or None
    return None


def first(value: Any) -> Any:
    """The value itself, or the first of a list."""
    return value[0] if isinstance(value, list) and value else value


def types_of(data: dict[str, Any]) -> frozenset[str]:
    declared = data.get("@type") or data.get("type")
    names = declared if isinstance(declared, list) else [declared]
    return frozenset(name.rpartition("/")[2].rpartition(":")[2] for name in names[:10] if isinstance(name, str))


def _json_ld(document: Document) -> Iterator[Any]:
    for text in islice(document.json_ld(), MOST_SCRIPTS):
        value = loads_tolerantly(text)
        if value is not None:
            yield value


def _flattened(source: str, roots: list[Any]) -> list[Thing]:
    nodes = list(_walk(roots))
    named: dict[str, dict[str, Any]] = {}
    for _, data in nodes:
        name = data.get("@id")
        if isinstance(name, str) and len(data) > 1:
            named.setdefault(name, data)
    return [
        Thing(source, types, {key: _resolved(value, named) for key, value in data.items()} if named else data, depth)
        for depth, data in nodes
        if (types := types_of(data))
    ]


def _resolved(value: Any, named: dict[str, dict[str, Any]]) -> Any:
    """A mere reference as what it refers to."""
    if isinstance(value, dict) and len(value) == 1 and isinstance(value.get("@id"), str):
        return named.get(value["@id"], value)
    if isinstance(value, list):
        return [_resolved(one, named) if isinstance(one, dict) else one for one in value[:200]]
    return value


def _walk(roots: list[Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every mapping, with how deep it stands; @graph and lists do not count as depth."""
    stack: list[tuple[int, Any]] = [(0, root) for root in reversed(roots)]
    nodes = 0
    while stack and nodes < MOST_NODES:
        depth, value = stack.pop()
        nodes += 1
        if isinstance(value, list):
            stack += [(depth, one) for one in reversed(value[:1_000])]
        elif isinstance(value, dict) and depth <= DEEPEST:
            yield depth, value
            for name, inner in reversed(list(value.items())[:200]):
                if isinstance(inner, _NESTED):
                    stack.append((depth if name == "@graph" else depth + 1, inner))
