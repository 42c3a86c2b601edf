"""Learns a schema from examples: a few pages with the values that are wanted. Pure.

Several paths are made for every occurrence of a value: structured data, meta tags, attributes made for programs,
ids, the label next to it, classes, and last the position in the tree. A path is kept if it finds the wanted value on
every example. It is checked by leave-one-out: learnt without one page, it must find that page's value.

The parts of the paths (`shown_texts`, `selectors_of`, `json_paths_to`) also serve `extract/products/learning.py`,
which learns from the pages of a site.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson
from selectolax.lexbor import LexborNode

from forager.extract.html.document import Document
from forager.extract.schemas.read import json_blocks, read_schema, typed
from forager.extract.schemas.spec import PageSchema, SchemaField
from forager.extract.schemas.template import WORD, is_name, own_selector
from forager.extract.text.strings import one_line

MOST_NODES = 20_000
MOST_PLACES = 40
LEAST_SURE = 0.7
ATTRIBUTES = ("content", "href", "src", "datetime", "value", "title", "alt", "data-price", "data-value", "data-id")
_MARKED = ("itemprop", "data-testid", "data-test", "data-qa", "data-field", "data-role", "property")
_KEY = re.compile(r"[A-Za-z_@$][\w@:$-]*")
_LABEL = re.compile(r"[^\W\d_][^\"\\<>\n]{1,39}?(?=\s*[:#.]?\s*$)")
_LABELLED = frozenset(("dd", "td"))
_NOT_SHOWN = frozenset("script style noscript template svg head title option select".split())
Example = tuple[Document, Mapping[str, Any]]


@dataclass(slots=True)
class Learnt:
    """The schema that was found, and how far each field can be trusted."""

    fields: dict[str, SchemaField] = field(default_factory=dict)
    checked: dict[str, str] = field(default_factory=dict)
    """Maps a field to the number of pages on which leave-one-out found the value, such as `3 of 3`."""
    unsure: dict[str, str] = field(default_factory=dict)
    """Maps a field to the reason why its path may be wrong or is missing."""

    def schema(self) -> PageSchema:
        """Return the schema. Raises `ValueError` if nothing was learnt."""
        return PageSchema(fields=self.fields)


def learn_from(pages: bytes) -> Learnt:
    """Learn from examples in JSON: a list of objects with `url`, `html` and `values`."""
    return learn([(Document(each["html"], each["url"]), each["values"]) for each in orjson.loads(pages)])


def learn(examples: Sequence[Example]) -> Learnt:
    """Find a path for each field of the examples."""
    learnt = Learnt()
    names = list(dict.fromkeys(name for _, values in examples for name in values))
    for name in names:
        own = [(document, values[name]) for document, values in examples if values.get(name) is not None]
        found = best(own)
        if found is None:
            learnt.unsure[name] = "no path finds these values on all examples; check that the pages show them"
            continue
        right = sum(_survives(own, place) for place in range(len(own))) if len(own) > 1 else 0
        sure = round(found.confidence * (right / len(own) if len(own) > 1 else 0.5), 2)
        learnt.fields[name] = found.field.model_copy(update={"confidence": sure})
        learnt.checked[name] = f"{right} of {len(own)}" if len(own) > 1 else "not checked"
        if len(own) == 1:
            learnt.unsure[name] = "learnt from one page only; give another example"
        elif sure < LEAST_SURE:
            learnt.unsure[name] = f"found by {found.how}, which may differ on other pages"
    return learnt


@dataclass(frozen=True, slots=True)
class Candidate:
    field: SchemaField
    how: str
    confidence: float


def best(own: Sequence[tuple[Document, Any]]) -> Candidate | None:
    """Return the most reliable path that finds the value on every page."""
    if not own:
        return None
    first, value = own[0]
    seen: set[str] = set()
    candidates = sorted(candidates_of(first, value), key=lambda each: -each.confidence)
    for candidate in candidates:
        key = candidate.field.model_dump_json(exclude={"confidence"})
        if key in seen:
            continue
        seen.add(key)
        if all(_finds(candidate.field, document, wanted) for document, wanted in own):
            return candidate
    return None


def _survives(own: Sequence[tuple[Document, Any]], left_out: int) -> bool:
    """Return whether the path that the other pages teach finds the value of this one."""
    found = best([each for place, each in enumerate(own) if place != left_out])
    return found is not None and _finds(found.field, *own[left_out])


def _finds(wanted: SchemaField, document: Document, value: Any) -> bool:
    read = read_schema(PageSchema(fields={"x": wanted}), document).values.get("x")
    return read is not None and same(read.value, value)


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal, apart from blanks."""
    if isinstance(one, str) and isinstance(other, str):
        return one_line(one) == one_line(other)
    return bool(one == other)


def candidates_of(document: Document, value: Any) -> Iterator[Candidate]:
    """Yield the paths by which this page shows a value."""
    kind = _type_of(value)
    for name, data in json_blocks(document):
        for path in json_paths_to(data, lambda each: same(each, value) or same(str(each), str(value))):
            sure = 0.98 if name == "ld+json" else 0.93
            yield Candidate(_made(kind, json=path), "data of the page", sure)
    for name in document.metas:
        wanted = _made(kind, meta=name)
        if _finds(wanted, document, value):
            yield Candidate(wanted, "a meta tag", 0.9)
    for node, attr in _places(document, value, kind):
        for css, how, sure in selectors_of(node):
            yield Candidate(_made(kind, css=css, attr=attr), how, sure)


def _made(kind: str, **paths: Any) -> SchemaField:
    return SchemaField.model_validate({"type": kind, **{name: path for name, path in paths.items() if path}})


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "integer" if isinstance(value, int) else "number" if isinstance(value, float) else "string"


class ShownText(NamedTuple):
    """The text of an element, or one of its attributes."""

    node: LexborNode
    attr: str | None
    text: str


def shown_texts(document: Document) -> list[ShownText]:
    """Return the texts of all elements and their attributes that may hold a value, in the order of the page. Use it by
    `document.once`: every field of a page needs the same list."""
    body, found = document.tree.body, list[ShownText]()
    for node in body.css("*")[:MOST_NODES] if body is not None else ():
        if node.tag in _NOT_SHOWN:
            continue
        attributes = node.attributes
        for attr in ATTRIBUTES:
            given = attributes.get(attr)
            if given and len(given) < 2_000:
                found.append(ShownText(node, attr, given))
        text = node.text(deep=True, separator=" ")
        if text and len(text) < 5_000 and (line := one_line(text)):
            found.append(ShownText(node, None, line))
    return found


def json_paths_to(data: Any, is_wanted: Callable[[Any], bool]) -> Iterator[str]:
    """Yield the paths of a block of JSON that lead to a wanted value, at most ten."""
    stack: list[tuple[str, Any]] = [("$", data)]
    looked = found = 0
    while stack and looked < MOST_NODES and found < 10:
        path, each = stack.pop()
        looked += 1
        if isinstance(each, dict):
            stack += [(f"{path}.{key}", inner) for key, inner in each.items() if _KEY.fullmatch(key)]
        elif isinstance(each, list):
            stack += [(f"{path}[{place}]", inner) for place, inner in enumerate(each[:50])]
        elif path != "$" and is_wanted(each):
            found += 1
            yield path


def _places(document: Document, value: Any, kind: str) -> Iterator[tuple[LexborNode, str | None]]:
    """Yield the innermost elements whose text is the value, and those with an attribute that is."""
    wanted, found = _made(kind, css="x"), 0
    for node, attr, text in document.once(shown_texts):
        if found >= MOST_PLACES:
            return
        short = attr is not None or kind == "string" or len(text) < 60
        if short and same(typed(wanted, [text], document)[0], value):
            found += 1
            yield node, attr


def selectors_of(node: LexborNode) -> Iterator[tuple[str, str, float]]:
    """Yield selectors of an element with how they work and how sure they are."""
    attributes, tag = node.attributes, node.tag
    for name in _MARKED:
        value = attributes.get(name)
        if value and WORD.fullmatch(value):
            yield f'[{name}="{value}"]', "an attribute made for programs", 0.92
    own = own_selector(node)
    if (chosen := attributes.get("id")) and is_name(chosen):
        yield f"#{chosen}", "an id", 0.9
    if own != tag:
        yield own, "a class", 0.85
    if tag in _LABELLED and (label := _label_of(node)) is not None:
        yield label, "the label next to it", 0.84
    above = node.parent
    for _ in range(4):
        if above is None or above.tag in ("html", "body", "-undef"):
            break
        if (chosen := above.attributes.get("id")) and is_name(chosen):
            yield f"#{chosen} {own}", "an id above it", 0.85
        elif own_selector(above) != above.tag:
            yield f"{own_selector(above)} {own}", "a class above it", 0.8
            yield f"{own_selector(above)} > {_nth(node)}", "its position below a class", 0.65
        above = above.parent
    if tag in ("h1", "title", "time", "address"):
        yield str(tag), "its element", 0.8
    yield _position(node), "its position on the page", 0.5


def _label_of(node: LexborNode) -> str | None:
    """Return the selector of a cell by the words in the cell before it: rows come and go from page to page, their
    labels stay."""
    before = node.prev
    while before is not None and before.tag == "-text":
        before = before.prev
    if before is None or before.tag not in ("dt", "th", "td"):
        return None
    words = _LABEL.match(one_line(before.text(deep=True, separator=" ")))
    return f'{before.tag}:lexbor-contains("{words[0]}") + {node.tag}' if words else None


def _nth(node: LexborNode) -> str:
    number, before = 1, node.prev
    while before is not None:
        number += before.tag == node.tag
        before = before.prev
    return f"{node.tag}:nth-of-type({number})"


def _position(node: LexborNode) -> str:
    steps: list[str] = []
    each: LexborNode | None = node
    while each is not None and each.tag not in ("html", "body", "-undef") and len(steps) < 12:
        steps.append(_nth(each))
        each = each.parent
    return " > ".join(reversed(steps))
