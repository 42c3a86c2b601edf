"""Reads the structured data of a page: JSON-LD first, then microdata, then RDFa, in one shape. Pure."""

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from json import JSONDecoder
from typing import Any, NamedTuple

import orjson
from selectolax.lexbor import LexborNode

from forager.extract.html.document import Document
from forager.extract.text.strings import one_line, paragraphs

# JSON as pages hold it: with comments, CDATA, trailing commas, bad escapes, a brace too many. Pure, never raises.


LONGEST = 2_000_000
_WRAPPERS = re.compile(
    r"^\s*(?:<!--|//\s*<!\[CDATA\[|/\*\s*<!\[CDATA\[\s*\*/|<!\[CDATA\[)|(?:-->|//\s*\]\]>|/\*\s*\]\]>\s*\*/|\]\]>)\s*$"
)
# Strings first, so that nothing inside of one is taken for a comment or a comma. A string or comment that never ends
# takes all that follows: if it failed instead, the search would begin again at every quote, in quadratic time.
_OUTSIDE_STRINGS = re.compile(
    r"\"(?:[^\"\\]++|\\.)*+\"?+|/\*(?:[^*]++|\*(?!/))*+(?:\*/)?+|//[^\n]*+|,(?=\s*+[}\]])", re.DOTALL
)
_BAD_ESCAPE = re.compile(r"\\(?![\"\\/bfnrtu])")
_SHORT_UNICODE = re.compile(r"\\u(?![0-9a-fA-F]{4})")
_DECODER = json.JSONDecoder(strict=False)


def loads_tolerantly(text: str) -> Any:
    """Return the content of a script of JSON; None if it cannot be read."""
    text = text[:LONGEST].strip().lstrip("\ufeff")
    if not text:
        return None
    try:
        return orjson.loads(text)
    except ValueError:
        pass
    text = _WRAPPERS.sub("", _WRAPPERS.sub("", text)).strip().rstrip(";").strip()
    for mend in (_as_it_is, _without_comments, _with_good_escapes):
        text = mend(text)
        try:
            return _DECODER.raw_decode(text)[0]  # what comes after the first value is not ours to judge
        except (ValueError, RecursionError):
            continue
    return None


def _as_it_is(text: str) -> str:
    return text


def _without_comments(text: str) -> str:
    mended = text
    for _ in range(2):  # a comma may trail only once the comment after it is gone
        mended = _OUTSIDE_STRINGS.sub(lambda match: match[0] if match[0].startswith('"') else "", mended)
    start = re.search(r"[\[{]", mended)
    return mended[start.start() :] if start else mended


def _with_good_escapes(text: str) -> str:
    return _SHORT_UNICODE.sub(r"\\\\u", _BAD_ESCAPE.sub(r"\\\\", text))


# Microdata and RDFa Lite, in the shape of JSON-LD: nested mappings with `@type`. Pure, one walk, no recursion.


MOST_THINGS = 500
_URLS = {"a": "href", "area": "href", "link": "href", "img": "src", "source": "src", "video": "src", "audio": "src"}
_SKIPPED = frozenset(("script", "style", "template", "noscript"))


@dataclass(frozen=True, slots=True)
class _Syntax:
    """The attributes of a syntax."""

    name: str
    scope: str
    type: str
    prop: str


_MICRODATA = _Syntax("microdata", "itemscope", "itemtype", "itemprop")
_RDFA = _Syntax("rdfa", "typeof", "typeof", "property")


@dataclass(slots=True)
class _Gathering:
    things: list[dict[str, Any]] = field(default_factory=list)
    seen: int = 0


def microdata(document: Document) -> list[dict[str, Any]]:
    return _gather(document, _MICRODATA) if document.marks.microdata else []


def rdfa(document: Document) -> list[dict[str, Any]]:
    return _gather(document, _RDFA) if document.marks.rdfa else []


def _gather(document: Document, syntax: _Syntax) -> list[dict[str, Any]]:
    """Collect the top-level items in page order, each with its nested items. Only marked elements are examined, and
    the elements around them."""
    gathering = _Gathering()
    begun: dict[int, dict[str, Any]] = {}
    owners: dict[int, dict[str, Any] | None] = {}
    skipped: set[int] = set()
    seen: set[int] = set()
    for node in document.marked_tree.css(f"[{syntax.scope}], [{syntax.prop}]"):
        if gathering.seen >= MOST_THINGS:
            break
        if node.mem_id in seen or _is_skipped(node):
            continue
        seen.add(node.mem_id)
        around: list[int] = []
        owner, above = None, node.parent
        while above is not None and above.tag != "-document":
            place = above.mem_id
            if place in skipped or _is_skipped(above):
                skipped.update(around)
                skipped.add(place)
                break
            if place in begun or place in owners:
                owner = begun[place] if place in begun else owners[place]
                above = None
                break
            around.append(place)
            above = above.parent
        if above is not None and above.mem_id in skipped:
            continue
        owners.update(dict.fromkeys(around, owner))
        thing = _take(document, node, owner, syntax, gathering)
        if thing is not None:
            begun[node.mem_id] = thing
    return gathering.things


def _is_skipped(node: LexborNode) -> bool:
    return node.tag in _SKIPPED and "itemprop" not in node.attributes


def _take(
    document: Document, node: LexborNode, owner: dict[str, Any] | None, syntax: _Syntax, gathering: _Gathering
) -> dict[str, Any] | None:
    """Return the item that begins at this element, if one does. A property is added to the item around it."""
    attributes = node.attributes
    prop = attributes.get(syntax.prop)
    begins = syntax.scope in attributes
    if not begins and (not prop or owner is None):
        return None
    names = [name.rpartition("/")[2].rpartition(":")[2] for name in (prop or "").split()[:10]]
    if not begins:
        if owner is not None:
            _add(owner, names, _value(document, node))
        return None
    gathering.seen += 1
    thing: dict[str, Any] = {"@type": _types(attributes.get(syntax.type) or "")}
    if owner is not None and names:
        _add(owner, names, thing)
        words = attributes.get("content")
        if words:
            thing.setdefault("name", one_line(words))
    else:
        gathering.things.append(thing)
    thing["@text"] = node
    return thing


def _add(owner: dict[str, Any], names: list[str], value: Any) -> None:
    if value in ("", None):
        return
    for name in names:
        if name in owner:
            held = owner[name]
            owner[name] = [*held, value][:100] if isinstance(held, list) else [held, value]
        else:
            owner[name] = value


def _types(text: str) -> list[str]:
    return [name.rstrip("/").rpartition("/")[2].rpartition(":")[2].rpartition("#")[2] for name in text.split()[:5]]


def _value(document: Document, node: LexborNode) -> str | None:
    attributes = node.attributes
    content = attributes.get("content")
    if content is not None:
        return one_line(content)
    tag = node.tag or ""
    if tag in _URLS and attributes.get(_URLS[tag]) is not None:
        return document.absolute(attributes.get(_URLS[tag]) or "")
    if tag in ("time", "data", "meter") and (attributes.get("datetime") or attributes.get("value")):
        return one_line(attributes.get("datetime") or attributes.get("value") or "")
    return paragraphs(node.html or "")


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
    """Number of things around it."""

    def get(self, *names: str) -> Any:
        """Return the first of these properties that is not empty."""
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
    """Return all things, outer before inner, JSON-LD before the rest. They are read once and shared between rules, so a
    caller must not change them."""
    return document.once(_things)


def _things(document: Document) -> tuple[Thing, ...]:
    collected = _flattened("json-ld", list(_json_ld(document)))
    collected += _flattened("microdata", microdata(document))
    collected += _flattened("rdfa", rdfa(document))
    return tuple(collected)


def of_type(candidates: Iterable[Thing], *types: str) -> list[Thing]:
    """Return the things of these types; outer ones first, and in each depth in the order of the page."""
    wanted = frozenset(types)
    return sorted((thing for thing in candidates if thing.types & wanted), key=lambda thing: thing.depth)


def text_of(value: Any, deep: int = 3) -> str | None:
    """Return text of a property, however it is wrapped: a string, a list, a named thing, a language map."""
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
    """Return the value itself, or the first of a list."""
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
    """Replace a mere reference by the item that it refers to."""
    if isinstance(value, dict) and len(value) == 1 and isinstance(value.get("@id"), str):
        return named.get(value["@id"], value)
    if isinstance(value, list):
        return [_resolved(one, named) if isinstance(one, dict) else one for one in value[:200]]
    return value


def _walk(roots: list[Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield every mapping, with its depth; @graph and lists do not count as depth."""
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


# Values in JSON of any shape, found by what their keys are called. Pure.


JSON_MOST_NODES = 20_000
JSON_DEEPEST = 30


def plain_key(name: str) -> str:
    """`PositionTitle`, `position_title` and `position-title` are one."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def values_by_key(tree: Any, *names: str) -> Iterator[tuple[str, Any]]:
    """Path and value of each of these keys; an earlier name before a later one, an outer value before an inner one."""
    by_key: dict[str, list[tuple[str, Any]]] = {plain_key(name): [] for name in names}
    waiting: deque[tuple[str, int, Any]] = deque([("", 0, tree)])
    for _ in range(JSON_MOST_NODES):
        if not waiting:
            break
        path, depth, value = waiting.popleft()
        if depth > JSON_DEEPEST:
            continue
        if isinstance(value, list):
            waiting.extend((path, depth + 1, one) for one in value[:100])
        elif isinstance(value, dict):
            for name, inner in list(value.items())[:500]:
                here = f"{path}.{name}" if path else str(name)
                hits = by_key.get(plain_key(str(name)))
                if hits is not None:
                    hits.append((here, inner))
                if isinstance(inner, dict | list):
                    waiting.append((here, depth + 1, inner))
    for hits in by_key.values():
        yield from hits


# JSON that a page's scripts hold: `<script type="application/json">`, and values that a script assigns. Pure.


DATA_MOST_SCRIPTS = 40
DATA_LONGEST = 1_000_000
LEAST = 40
"""A shorter script holds no data."""
_ASSIGNED = re.compile(r"[\w$.\]\"']\s*=\s*(?=[\[{]\s*[\"{\[])")
MOST_VALUES = 5
_SCRIPT_DECODER = JSONDecoder(strict=False)


def script_data(document: Document) -> Iterator[Any]:
    """Yield every JSON value in the page's scripts, in page order; structured data (JSON-LD) is left out."""
    for node in document.tree.css("script")[:DATA_MOST_SCRIPTS]:
        kind = (node.attributes.get("type") or "").lower()
        text = node.text()
        if not LEAST <= len(text) <= DATA_LONGEST or "ld+json" in kind:
            continue
        if "json" in kind:
            value = loads_tolerantly(text)
            if value is not None:
                yield value
        elif not kind or "javascript" in kind or kind == "module":
            yield from _assigned(text)


def _assigned(script: str) -> Iterator[Any]:
    at = 0
    for _ in range(MOST_VALUES):
        match = _ASSIGNED.search(script, at)
        if match is None:
            return
        at = match.end()
        try:
            value, at = _SCRIPT_DECODER.raw_decode(script, match.end())
        except (ValueError, RecursionError):
            continue
        yield value
