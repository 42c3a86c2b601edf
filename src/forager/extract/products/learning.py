"""Learns from the pages of a shop where its template shows each field. Pure.

The teachers are values that are known without the template: markup that is sure and that the page also shows
(`teach`), or, after a change of layout, the last good values of known products (`heal`). The pages are grouped by
template. For each field every place that shows the value gives paths; a path is kept if it finds the values of the
template's other pages. It is scored by leave-one-page-out: chosen without one page, it must find that page's value.

A value that is the same on every page teaches nothing: every place with these words would do. So at least two different
values are needed. The exception is the currency of a shop, which needs no place.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

import orjson

from forager.extract.html.document import Document
from forager.extract.products.findings import DECIMALS, FIELDS, ProductFindings
from forager.extract.products.wrappers import FieldPath, Mode, PageWrapper, bare, text_at, value_of
from forager.extract.schemas.learn import json_paths_to, selectors_of, shown_texts
from forager.extract.schemas.read import json_blocks
from forager.extract.schemas.spec import SchemaField
from forager.extract.schemas.template import anchors_of, group_pages, name_of, shape_of
from forager.extract.text.strings import one_line

MARKUP = ("json-ld", "microdata", "opengraph", "meta")
SURE = 0.9
"""Confidence from which a value of the markup teaches …"""
SURE_STOCK = 0.85
"""… and from which a state of stock does: it never has more from one source, and what the page shows must agree."""
LEAST_TEACHERS = 3
MOST_TAUGHT = 4
"""Pages whose places give paths; all pages check them."""
MOST_PATHS = 80
"""Paths of one field that are checked."""
LONGEST_AROUND = 24
"""Characters around a value that may belong to its label."""
LEAST_RIGHT = 0.5
"""A path that is right on a smaller share of the pages is dropped."""
VOLATILE = frozenset(("price", "availability", "rating", "review_count"))
"""Fields that may have changed since a last good value was read."""
_TEXTS = frozenset(("product_name", "brand", "category", "sku", "gtin", "description"))
_NOT_READ = frozenset(("content", "href", "src"))
"""Attributes that are markup, or addresses."""
_FOR_MACHINES = ("[itemprop=", "[property=")

Verdict = Literal["right", "near", "wrong", "missing"]


@dataclass(slots=True)
class LearntField:
    """The path to one field in a template, and how reliable it is."""

    field: str
    path: dict[str, Any] | None
    """A `SchemaField`; None for a constant."""
    before: str
    after: str
    constant: str | None
    pages: int
    """Pages with a known value."""
    support: int
    """Pages on which the path finds it."""
    wrong: int
    """Pages on which it finds another value."""
    score: float
    """Share of the pages whose value is found by the path that the others choose."""

    def as_path(self) -> FieldPath:
        path = None if self.path is None else SchemaField.model_validate(self.path)
        return FieldPath(self.field, path, self.score, self.before, self.after, self.constant)


@dataclass(slots=True)
class LearntTemplate:
    """One template of a shop."""

    template: str
    anchors: list[str]
    pages: int
    teachers: int
    fields: list[LearntField] = field(default_factory=list)

    def as_wrapper(self, version: int = 0) -> PageWrapper:
        paths = tuple(each.as_path() for each in self.fields)
        return PageWrapper(self.template, version, tuple(self.anchors), paths)


@dataclass(slots=True)
class _Page:
    document: Document
    values: Mapping[str, Any]
    blocks: list[tuple[str, Any]]


def learn_site(
    pages: bytes,
    read: Callable[[Document], ProductFindings],
    mode: Mode = "teach",
    least: int = LEAST_TEACHERS,
) -> list[LearntTemplate]:
    """Learn from pages in JSON: a list of objects with `url`, `html` and, to heal, the last good `values`.

    Templates with fewer than `least` teachers are left out, as are those of which no field was learnt. To heal, only
    pages that the rules cannot read are given, so their values are not read from them.
    """
    known = [_known(Document(each["html"], each["url"]), each.get("values"), read) for each in orjson.loads(pages)]
    return learn_pages(known, mode, least)


def learn_pages(
    known: Sequence[tuple[Document, Mapping[str, Any]]], mode: Mode = "teach", least: int = LEAST_TEACHERS
) -> list[LearntTemplate]:
    """Learn from pages and their known values; a page without any is only an example of another page."""
    shapes = [shape_of(document) for document, _ in known]
    learnt = []
    for group in group_pages(shapes):
        teachers = [number for number in group.members if known[number][1]]
        anchors = anchors_of(group, shapes, teachers) if len(teachers) >= least else ()
        if anchors:
            template = LearntTemplate(name_of(anchors), list(anchors), len(group.members), len(teachers))
            own = [_Page(*known[number], list(json_blocks(known[number][0]))) for number in teachers]
            template.fields = [each for name in FIELDS if (each := _learn_field(name, own, mode, least)) is not None]
            if template.fields:
                learnt.append(template)
    return learnt


def _known(
    document: Document, values: Mapping[str, Any] | None, read: Callable[[Document], ProductFindings]
) -> tuple[Document, Mapping[str, Any]]:
    if values is not None:
        given = {n: value_of(n, Decimal(each) if n in DECIMALS else each) for n, each in values.items()}
        return document, {name: value for name, value in given.items() if value is not None}
    return document, sure_values(read(document))


def sure_values(findings: ProductFindings) -> dict[str, Any]:
    """Return the values that may teach: of a product page, from markup, with a confidence of 0.9 or more."""
    if not findings.is_product:
        return {}
    held = findings.values.items()
    return {name: each.value for name, each in held if each.source in MARKUP and each.confidence >= least_sure(name)}


def least_sure(name: str) -> float:
    """Return the confidence from which a field's value in the markup teaches."""
    return SURE_STOCK if name == "availability" else SURE


def _learn_field(name: str, pages: Sequence[_Page], mode: Mode, least: int) -> LearntField | None:
    own = [page for page in pages if name in page.values]
    if len(own) < least:
        return None
    values = Counter(_plain(page.values[name]) for page in own)
    if len(values) == 1 and name == "currency":
        (only,) = (page.values[name] for page in own[:1])
        return LearntField(name, None, "", "", str(only), len(own), len(own), 0, 1.0)
    if name == "currency" or len(values) < 2:
        return None
    candidates = _candidates(name, own)
    if not candidates:
        return None
    judged = [[_judge(name, path, page, mode) for page in own] for path in candidates]
    best = _choose(judged, range(len(own)))
    if best is None:
        return None
    survived = 0
    for left_out in range(len(own)):
        chosen = _choose(judged, [number for number in range(len(own)) if number != left_out])
        survived += chosen is not None and judged[chosen][left_out] in ("right", "near")
    path, verdicts = candidates[best], Counter(judged[best])
    return LearntField(
        name,
        path.path.model_dump(by_alias=True, exclude_none=True) if path.path is not None else None,
        path.before,
        path.after,
        None,
        len(own),
        verdicts["right"] + verdicts["near"],
        verdicts["wrong"],
        round(survived / len(own), 3),
    )


def _choose(judged: Sequence[Sequence[Verdict]], pages: Sequence[int] | range) -> int | None:
    """Return the candidate that is right on most of these pages, the surest of equal ones: they are in that order."""

    def merit(number: int) -> tuple[int, int]:
        counts = Counter(judged[number][page] for page in pages)
        return 2 * counts["right"] + counts["near"] - 2 * counts["wrong"], -number

    best = max(range(len(judged)), key=merit, default=None)
    if best is None:
        return None
    right = sum(judged[best][page] == "right" for page in pages)
    return best if right >= LEAST_RIGHT * len(pages) else None


def _judge(name: str, path: FieldPath, page: _Page, mode: Mode) -> Verdict:
    text = text_at(page.document, path, page.blocks)
    found = None if text is None else value_of(name, text)
    if found is None:
        return "missing"
    wanted = page.values[name]
    if _plain(found) == _plain(wanted):
        return "right"
    return "near" if mode == "heal" and _may_have_become(name, wanted, found) else "wrong"


def _may_have_become(name: str, before: Any, now: Any) -> bool:
    """Return whether a value can be the present one of a product whose last good value is older."""
    if name == "availability":
        return True
    if name == "review_count":
        return bool(before <= now <= 2 * before + 20)
    if name == "rating":
        return bool(abs(before - now) <= 1)
    return name == "price" and bool(before / 2 <= now <= before * 2)


def _plain(value: Any) -> Any:
    return one_line(value).casefold() if isinstance(value, str) else Decimal(value)


def _candidates(name: str, pages: Sequence[_Page]) -> list[FieldPath]:
    """Return the paths by which some pages show their value, the surest first; paths of several pages before others."""
    found: dict[tuple[str, str, str], tuple[float, FieldPath]] = {}
    times = Counter[tuple[str, str, str]]()
    step = max(1, len(pages) // MOST_TAUGHT)
    for page in pages[::step][: MOST_TAUGHT + 1]:
        own = {key: (sure, path) for key, sure, path in _paths(name, page)}
        times.update(own.keys())
        found = {**own, **found}
    ranked = sorted(found, key=lambda key: (-times[key], -found[key][0], len(key[0])))
    # The order in the list is the order of trust.
    chosen = sorted(ranked[:MOST_PATHS], key=lambda key: (-found[key][0], -times[key], len(key[0])))
    return [found[key][1] for key in chosen]


def _paths(name: str, page: _Page) -> Iterator[tuple[tuple[str, str, str], float, FieldPath]]:
    wanted = page.values[name]
    for block, data in page.blocks:
        if block != "ld+json":
            for json_path in json_paths_to(data, lambda each: _plain_json(name, each) == _plain(wanted)):
                yield _made(name, {"json": json_path}, 0.8)
    for node, attr, text in page.document.once(shown_texts):
        if attr in _NOT_READ:
            continue
        around = _around(name, text, wanted)
        if around is None:
            continue
        for css, _, sure in selectors_of(node):
            if not css.startswith(_FOR_MACHINES):
                less = (0.1 if attr else 0.0) + (0.02 if any(around) else 0.0)
                yield _made(name, {"css": css, **({"attr": attr} if attr else {})}, sure - less, *around)


def _plain_json(name: str, each: Any) -> Any:
    if isinstance(each, bool) or each is None or len(str(each)) > 2_000:
        return None
    value = value_of(name, each)
    return None if value is None else _plain(value)


def _around(name: str, text: str, wanted: Any) -> tuple[str, str] | None:
    """Return the words before and after the value in a text of a value and its label."""
    if name not in _TEXTS:
        value = value_of(name, text)
        return ("", "") if value is not None and _plain(value) == _plain(wanted) else None
    line, value = one_line(text), one_line(str(wanted))
    if line.casefold() == value.casefold():
        return "", ""
    at = line.find(value)
    if at < 0 or len(value) < 2 or len(line) - len(value) > LONGEST_AROUND:
        return None
    before, after = line[:at], line[at + len(value) :]
    is_apart = (not before or not before[-1].isalnum()) and (not after or not after[0].isalnum())
    return (before, after) if is_apart and bare(line, before, after) is not None else None


def _made(
    name: str, path: dict[str, str], sure: float, before: str = "", after: str = ""
) -> tuple[tuple[str, str, str], float, FieldPath]:
    key = (repr(sorted(path.items())), before, after)
    return key, sure, FieldPath(name, SchemaField.model_construct(**_fields(path)), 1.0, before, after)


def _fields(path: dict[str, str]) -> dict[str, Any]:
    return {("json_path" if name == "json" else name): value for name, value in path.items()}
