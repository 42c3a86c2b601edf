"""Finds the main content of a page: which of its paragraphs, lists and tables belong to what the page is about. Pure.

The visible tree is cut into units: a paragraph, a list, a table, a block of code. Each unit is described by numbers
(its words and links, the elements and class names around it, its containers' size and links, repetition, its place, and
what the whole page declares), and a small model of decision trees turns them into a probability. Nothing in it is about
one site or one language: a forum's posts, a shop's cards and an article's paragraphs differ in these numbers. The model
is a data file of our own making; `scripts/main_content_model.py` trains it and documents how.
"""

import json
import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from itertools import accumulate
from math import log2
from typing import Any, Final, NamedTuple

from forager.extract.html.visible_tree import Element
from forager.extract.tables import FOLDER, table

MOST_UNITS: Final = 6_000
"""Units that are examined; the rest of an endless page is left out."""
LONGEST_CLASS: Final = 160
LONG_UNIT: Final = 12
"""Words from which a unit with few links counts as prose."""
LEAST_WORDS: Final = 25
"""If fewer words are found, the page has no main content by the model: the best container is taken as a whole."""

_DATA: Final = table("main_content")
GROUPS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = tuple(
    (name, tuple(words)) for name, words in _DATA["classes"].items()
)
_AWAY: Final = tuple(_DATA["headings"]["away"])
_AREAS: Final = {
    name: 1 << at
    for at, name in enumerate(
        "nav header footer aside main article form section figure table list quote link heading details".split()
    )
}
_AREA_OF: Final = {
    **{name: name for name in ("nav", "header", "footer", "aside", "main", "article", "form", "section", "figure")},
    **dict.fromkeys(("table", "tbody", "tr", "td", "th"), "table"),
    **dict.fromkeys(("ul", "ol", "dl", "li"), "list"),
    "blockquote": "quote",
    "a": "link",
    "details": "details",
}
_ROLES: Final = {
    "navigation": "nav",
    "banner": "header",
    "contentinfo": "footer",
    "complementary": "aside",
    "main": "main",
    "article": "article",
    "search": "form",
    "dialog": "aside",
    "menu": "nav",
    "menubar": "nav",
}
_IN_LISTS: Final = frozenset("ul ol li dl dt dd p".split())
_IN_TABLES: Final = frozenset("table caption colgroup col thead tbody tfoot tr td th p ul ol li".split())
_LISTS: Final = frozenset(("ul", "ol", "dl"))
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NOT_LETTERS: Final = re.compile(r"[^a-z]+")
_SENTENCE_ENDS: Final = (".", "!", "?", "。", "！", "？", "…", ":", '."', ".”", ".)", "؟", "।")
_PRICE: Final = re.compile(r"[$€£¥₹]\s?\d|\d\s?(?:[$€£¥₹]|USD|EUR|GBP|zł|kr\b|Kč)")
_TAGS: Final = {
    tag: code
    for code, tags in enumerate(
        (
            *("", "p", "li ul", "ol dl dt dd", "table td th tr", "pre", "blockquote", "figcaption figure caption", "a"),
            *("label button form legend", "address", "article section main", "nav", "header", "footer"),
            "summary details",
        )
    )
    for tag in tags.split()
}
_HEADINGS: Final = {f"h{level}": level for level in range(1, 7)}


class PageHints(NamedTuple):
    """Declarations of a page outside of its visible text, as numbers."""

    article: float = 0.0
    product: float = 0.0
    collection: float = 0.0
    forum: float = 0.0
    faq: float = 0.0
    documentation: float = 0.0


class ContentUnit:
    """A piece of content that is kept or left out as a whole: a run of inline nodes, or one element."""

    __slots__ = ("element", "features", "level", "linked", "nodes", "parent", "probability", "size", "text")

    def __init__(self, parent: Element, nodes: Sequence[Element | str], element: Element | None) -> None:
        self.parent = parent
        self.nodes = nodes
        """The inline nodes of a run; empty for a whole element."""
        self.element = element
        self.text = ""
        self.size = self.linked = 0
        self.level = 0
        """Level of a heading, 1 to 6."""
        self.features: list[float] = []
        self.probability = 0.0


class _Box:
    """A block element with its parts in page order, and what they add up to."""

    __slots__ = ("cells", "element", "lists", "parts", "prices", "tables", "units")

    def __init__(self, element: Element) -> None:
        self.element = element
        self.parts: list[_Box | ContentUnit] = []
        self.units = self.prices = 0
        self.lists = self.tables = True
        """True while it holds nothing but what a plain list, or a plain table, holds."""

    def add_unit(self, unit: ContentUnit) -> None:
        self.parts.append(unit)
        element = self.element
        element.size += unit.size
        element.linked += unit.linked
        self.units += 1
        if unit.size >= LONG_UNIT and unit.linked * 3 <= unit.size:
            element.prose += unit.size

    def add_box(self, box: "_Box") -> None:
        self.parts.append(box)
        element, inner = self.element, box.element
        element.size += inner.size
        element.linked += inner.linked
        element.prose += inner.prose
        self.units += box.units
        self.lists = self.lists and box.lists and inner.tag in _IN_LISTS
        self.tables = self.tables and box.tables and inner.tag in _IN_TABLES and inner.tag != "table"

    def is_whole(self) -> bool:
        """Return whether the element is one unit: a plain list, a table of data, or code."""
        tag = self.element.tag
        if tag in _LISTS:
            return self.lists
        if tag == "table":
            return self.tables and self.units > 1 and self.element.size <= 40 * self.units
        return tag == "pre"


def cut(body: Element) -> tuple[_Box, list[ContentUnit]]:
    """Cut the visible tree into units, in page order, and count words, links and prose of every element."""
    box = _cut(body, False)
    units: list[ContentUnit] = []
    _gather(box, units)
    return box, units[:MOST_UNITS]


def _cut(element: Element, linked: bool) -> _Box:
    box = _Box(element)
    run: list[Element | str] = []
    for child in element.children:
        if isinstance(child, str) or not child.has_blocks:
            if isinstance(child, Element) and child.tag == "br" and run and _is_break(run[-1]):
                _end_run(box, run, linked)
                run = []
            else:
                run.append(child)
        else:
            _end_run(box, run, linked)
            run = []
            box.add_box(_cut(child, linked or child.tag == "a"))
    _end_run(box, run, linked)
    return box


def _is_break(node: Element | str) -> bool:
    return isinstance(node, Element) and node.tag == "br"


def _end_run(box: _Box, run: list[Element | str], linked: bool) -> None:
    """Make a unit of inline nodes, if they show any text or picture."""
    if not run or (len(run) == 1 and isinstance(run[0], str) and not run[0].strip()):
        return
    pieces: list[str] = []
    inside, pictures = _inline(run, pieces, linked)
    text = " ".join("".join(pieces).split())
    if not text and not pictures:
        return
    unit = ContentUnit(box.element, run, None)
    unit.text = text
    unit.size = len(text.split()) if text.isascii() else _words(text)
    unit.linked = min(inside, unit.size)
    unit.level = _HEADINGS.get(box.element.tag, 0)
    box.add_unit(unit)


def _inline(nodes: Sequence[Element | str], pieces: list[str], linked: bool) -> tuple[int, int]:
    """Collect the text of inline nodes. Returns the words of it that are in links, and the number of pictures."""
    inside = pictures = 0
    for node in nodes:
        if isinstance(node, str):
            pieces.append(node)
            if linked:
                inside += _words(node)
        elif node.tag == "img":
            pictures += 1
        elif node.tag in ("br", "wbr"):
            pieces.append(" ")
        else:
            more, shown = _inline(node.children, pieces, linked or node.tag == "a")
            inside += more
            pictures += shown
    return inside, pictures


def _words(text: str) -> int:
    """Count words; in scripts without blanks between them, two characters are one."""
    if text.isascii():
        return len(text.split())
    dense = sum(1 for sign in text if "\u3040" <= sign <= "\u9fff" or "\u0e00" <= sign <= "\u0e7f")
    return len(text.split()) + dense // 2


def _gather(box: _Box, units: list[ContentUnit]) -> None:
    if box.is_whole():
        unit = ContentUnit(box.element.parent or box.element, (), box.element)
        unit.text = " ".join(_all_text(box))
        unit.size, unit.linked = box.element.size, box.element.linked
        box.parts = [unit]
        units.append(unit)
        return
    for part in box.parts:
        if isinstance(part, ContentUnit):
            units.append(part)
        else:
            _gather(part, units)


def _all_text(box: _Box) -> list[str]:
    found: list[str] = []
    for part in box.parts:
        if isinstance(part, ContentUnit):
            found.append(part.text)
        else:
            found += _all_text(part)
    return found


@lru_cache(maxsize=20_000)
def groups_of(names: str) -> int:
    """Return the groups of class names, as bits, that occur in the attributes of an element."""
    plain = f"-{_NOT_LETTERS.sub('-', _CAMEL.sub('-', names).lower()).strip('-')}-"
    found = 0
    for at, (_, words) in enumerate(GROUPS):
        for word in words:
            if word in plain:
                found |= 1 << at
                break
    return found


class _Around(NamedTuple):
    """The surroundings of the units of one element, inherited from its ancestors."""

    areas: int
    groups: int
    near: int
    """Groups of the nearest three ancestors."""
    gap: int
    """Levels between the element that holds most of the prose and the nearest common ancestor with it."""
    alike: int
    """Siblings of the same shape, of the nearest ancestor that has some."""
    alike_size: float
    alike_linked: float


def describe(body: Element, hints: PageHints) -> list[ContentUnit]:
    """Return the units of a page with their features, in page order."""
    return _described(body, hints)[1]


def _described(body: Element, hints: PageHints) -> tuple[_Box, list[ContentUnit], list[_Around]]:
    box, units = cut(body)
    around: list[_Around] = []
    if not units:
        return box, units, around
    core = _core(box)
    path = set()
    element: Element | None = core
    while element is not None:
        path.add(id(element))
        element = element.parent
    _surround(box, _Around(0, 0, 0, core.depth, 0, 0.0, 0.0), (0, 0), path, core, around)
    _fill(units, around, body, hints)
    return box, units, around


def _core(box: _Box) -> Element:
    """Return the deepest element that holds most of the page's prose."""
    while True:
        most = 0.6 * box.element.prose
        inner = next((part for part in box.parts if isinstance(part, _Box) and part.element.prose > most), None)
        if inner is None:
            return box.element
        box = inner


def _surround(
    box: _Box, outer: _Around, before: tuple[int, int], path: set[int], core: Element, found: list[_Around]
) -> None:
    """Append what surrounds each unit, in the order of the units."""
    element = box.element
    attributes = element.attributes
    names = own = 0
    area = _AREA_OF.get(element.tag)
    if attributes:
        text = f"{attributes.get('class') or ''} {attributes.get('id') or ''}"
        if len(text) > 1:
            own = groups_of(text[:LONGEST_CLASS])
        area = _ROLES.get(attributes.get("role") or "", area)
    if area in ("header", "footer") and outer.areas & _AREAS["quote"]:
        area = None  # of the quote: it names the source
    areas = outer.areas | _AREAS[area] if area else outer.areas
    if element.tag in _HEADINGS:
        areas |= _AREAS["heading"]
    names = own | before[0] | before[1]
    groups = outer.groups | own
    gap = core.depth - element.depth if id(element) in path else outer.gap
    if element is core or outer.gap == 0:
        gap = 0
    here = _Around(areas, groups, names, gap, outer.alike, outer.alike_size, outer.alike_linked)
    if len(box.parts) == 1 and isinstance(box.parts[0], ContentUnit) and box.parts[0].element is element:
        found.append(here)
        return
    shapes = _shapes(box)
    handed = (own, before[0])
    for part in box.parts:
        if isinstance(part, ContentUnit):
            found.append(here)
            continue
        count, size, linked = shapes.get(_shape(part.element), (0, 0, 0)) if shapes else (0, 0, 0)
        inner = here
        if count >= 3:
            inner = _Around(areas, groups, names, gap, count, size / count, linked / max(1, size))
        _surround(part, inner, handed, path, core, found)


def _shape(element: Element) -> str:
    return f"{element.tag} {element.get('class')[:24]}"


def _shapes(box: _Box) -> dict[str, tuple[int, int, int]]:
    """Return how often each shape occurs among the children, with the words and linked words of all of them."""
    if len(box.parts) < 3:
        return {}
    shapes: dict[str, tuple[int, int, int]] = {}
    for part in box.parts:
        if isinstance(part, _Box):
            shape = _shape(part.element)
            count, size, linked = shapes.get(shape, (0, 0, 0))
            shapes[shape] = (count + 1, size + part.element.size, linked + part.element.linked)
    return shapes


ANCESTORS: Final = 5
FEATURES: Final = (
    *("size", "linked", "ends", "commas", "level", "tag", "letters", "price", "digits", "away", "long_link"),
    *(f"{name}_{up}" for up in range(1, ANCESTORS + 1) for name in ("size", "linked", "prose", "share")),
    *("gap", "depth", "alike", "alike_size", "alike_linked"),
    *("place", "words_before", "words_after", "since_h1", "since_heading", "heading_level", "heading_away"),
    *("size_before", "linked_before", "size_after", "linked_after", "size_before_2", "size_after_2", "level_after"),
    *("size_near", "linked_near"),
    *("page_size", "page_linked", "page_prose", "page_units", "page_prices", "core_share", "core_linked", "has_main"),
    *(f"page_{name}" for name in PageHints._fields),
    *(f"in_{name}" for name in _AREAS),
    *(f"class_{name}" for name, _ in GROUPS),
    *(f"near_{name}" for name, _ in GROUPS),
)


@lru_cache(maxsize=10_000)
def _bits(value: int, count: int) -> tuple[int, ...]:
    return tuple(value >> at & 1 for at in range(count))


@lru_cache(maxsize=10_000)
def _log(value: int) -> float:
    return log2(1 + value)


def _fill(units: list[ContentUnit], around: list[_Around], body: Element, hints: PageHints) -> None:
    """Compute the features of every unit, in the order of FEATURES."""
    sizes = [_log(unit.size) for unit in units]
    shares = [unit.linked / unit.size if unit.size else 0.0 for unit in units]
    total = max(1, body.size)
    prices = [1.0 if unit.size < 200 and _PRICE.search(unit.text) else 0.0 for unit in units]
    in_core = sum(unit.size for unit, each in zip(units, around, strict=False) if each.gap == 0)
    core_linked = sum(unit.linked for unit, each in zip(units, around, strict=False) if each.gap == 0)
    main = _AREAS["main"]
    page = [
        _log(total),
        body.linked / total,
        body.prose / total,
        _log(len(units)),
        _log(int(sum(prices))),
        in_core / total,
        core_linked / max(1, in_core),
        1.0 if any(each.areas & main for each in around) else 0.0,
        *hints,
    ]
    words_to = [0, *accumulate(unit.size for unit in units)]
    links_to = [0, *accumulate(unit.linked for unit in units)]
    first_h1 = next((at for at, unit in enumerate(units) if unit.level == 1), -1)
    before, heading_at, heading_level, heading_away = 0, 0, 0, 0.0
    containers: dict[int, list[float]] = {}
    last = len(units) - 1
    for at, (unit, here) in enumerate(zip(units, around, strict=False)):
        text, size = unit.text, unit.size
        away = 0.0
        if size <= 12:
            lowered = text.lower()
            for word in _AWAY:
                if word in lowered:
                    away = 1.0
                    break
        if unit.level:
            heading_at, heading_level, heading_away = before, unit.level, away
        element = unit.element or unit.parent
        up = unit.parent
        above = containers.get(id(up))
        if above is None:
            above = containers[id(up)] = _containers(up, body)
        low, high = max(0, at - 3), min(at + 4, last + 1)
        near = words_to[high] - words_to[low]
        unit.features = [
            sizes[at],
            shares[at],
            1.0 if text.endswith(_SENTENCE_ENDS) else 0.0,
            (text.count(",") + text.count(". ") + text.count("，") + text.count("。")) / (size or 1),
            unit.level,
            _TAGS.get(element.tag, 0),
            len(text) / (size or 1),
            prices[at],
            sum(map(text.count, "0123456789")) / (len(text) or 1) if size < 40 else 0.0,
            away,
            1.0 if here.areas & _AREAS["link"] else 0.0,
            *above,
            here.gap,
            element.depth,
            _log(here.alike),
            _log(int(here.alike_size)),
            here.alike_linked,
            at / (last + 1),
            _log(before),
            _log(max(0, total - before - size)),
            at - first_h1 if first_h1 >= 0 else 0,
            _log(before - heading_at),
            heading_level,
            heading_away,
            sizes[at - 1] if at else 0.0,
            shares[at - 1] if at else 0.0,
            sizes[at + 1] if at < last else 0.0,
            shares[at + 1] if at < last else 0.0,
            sizes[at - 2] if at > 1 else 0.0,
            sizes[at + 2] if at + 1 < last else 0.0,
            units[at + 1].level if at < last else 0,
            _log(near),
            (links_to[high] - links_to[low]) / (near or 1),
            *page,
            *_bits(here.areas, len(_AREAS)),
            *_bits(here.groups, len(GROUPS)),
            *_bits(here.near, len(GROUPS)),
        ]
        before += size


def _containers(element: Element, body: Element) -> list[float]:
    """Describe the nearest ancestors: their words, links, prose, and share of the page's prose."""
    found: list[float] = []
    prose = max(1, body.prose)
    for _ in range(ANCESTORS):
        size = element.size or 1
        found += [_log(element.size), element.linked / size, element.prose / size, element.prose / prose]
        element = element.parent or element
    return found


# The model


class Model(NamedTuple):
    threshold: float
    score: Callable[[Sequence[float]], float]
    """Returns the logarithm of the odds that a unit with these features belongs to the main content."""


@cache
def model() -> Model:
    """Read the model once. Its features are stored by name, so that a model of other features is noticed at once.

    The trees become one expression of Python, `(0.1 if f[3] <= 7.5 else -0.2) + …`, which is evaluated in a quarter of
    the time of a loop over their nodes. Nothing but numbers of our own data file goes into it.
    """
    stored = json.loads((FOLDER / "main_content.json").read_text(encoding="utf-8"))
    names = {name: at for at, name in enumerate(FEATURES)}
    if unknown := [name for name in stored["features"] if name not in names]:
        raise RuntimeError(f"main_content.json has unknown features {unknown}: train it with main_content_model.py")
    places = [names[name] for name in stored["features"]]
    trees = "+".join(_expression(tree, places) for tree in stored["trees"])
    score = eval(f"lambda f: {trees}+{float(stored['bias'])!r}", {"__builtins__": {}})  # noqa: S307 - see above
    return Model(stored["threshold"], score)


def _expression(node: Any, places: list[int]) -> str:
    """Write a tree: a decision has a feature, the threshold up to which the first branch holds, and two branches."""
    if not isinstance(node, list):
        return repr(float(node))
    low, high = (_expression(branch, places) for branch in node[2:])
    return f"({low} if f[{places[node[0]]}]<={float(node[1])!r} else {high})"


def keep_main_content(body: Element, hints: PageHints) -> bool:
    """Remove from a visible tree what is not its main content. Returns False if nothing is left.

    A page in which the model finds next to nothing is kept without its header, footer, menus and side bars.
    """
    box, units, around = _described(body, hints)
    if not units:
        return False
    threshold, score = model()
    kept = [score(unit.features) >= threshold if unit.size else False for unit in units]
    _keep_headings(units, kept)
    _drop_surely_outside(units, around, kept)
    found = sum(unit.size for unit, is_kept in zip(units, kept, strict=True) if is_kept)
    if found < min(LEAST_WORDS, body.size):
        outer = _AREAS["nav"] | _AREAS["header"] | _AREAS["footer"] | _AREAS["aside"] | _AREAS["form"]
        kept = [not each.areas & outer for each in around[: len(units)]]
        if not any(unit.size for unit, is_kept in zip(units, kept, strict=True) if is_kept):
            kept = [True] * len(units)
    _keep_pictures(units, kept)
    chosen = {id(unit) for unit, is_kept in zip(units, kept, strict=True) if is_kept}
    _prune(box, chosen)
    return bool(chosen)


def _drop_surely_outside(units: list[ContentUnit], around: list[_Around], kept: list[bool]) -> None:
    """Drop the footer of the page, and an invitation to read on, share or comment at the end of what is kept."""
    footer, inner = _AREAS["footer"], _AREAS["main"] | _AREAS["article"]
    away = FEATURES.index("away")
    at_end = True
    for at in range(len(units) - 1, -1, -1):
        if not kept[at]:
            continue
        areas = around[at].areas
        if (areas & footer and not areas & inner) or (at_end and units[at].size <= 6 and units[at].features[away]):
            kept[at] = False
        else:
            at_end = False


def _keep_headings(units: list[ContentUnit], kept: list[bool]) -> None:
    """Keep a heading if what follows it is kept, and leave out one over nothing but what is left out."""
    for at in range(len(units) - 1, -1, -1):
        if not units[at].level or units[at].level == 1:
            continue
        after = next((ahead for ahead in range(at + 1, min(at + 4, len(units))) if units[ahead].size), None)
        if after is not None:
            kept[at] = kept[after] if not units[after].level else kept[at]


def _keep_pictures(units: list[ContentUnit], kept: list[bool]) -> None:
    """Keep a picture between kept texts, or beside one in the same container."""
    texts = [at for at, unit in enumerate(units) if unit.size]
    position = 0
    for at, unit in enumerate(units):
        if unit.size:
            position += 1
            continue
        before = texts[position - 1] if position else None
        after = texts[position] if position < len(texts) else None
        around = [kept[each] for each in (before, after) if each is not None]
        if around and all(around):
            kept[at] = True
        elif any(around):
            near = before if before is not None and kept[before] else after
            kept[at] = near is not None and _are_near(unit, units[near])


def _are_near(one: ContentUnit, other: ContentUnit) -> bool:
    """Return whether the nearest common ancestor is at most three levels above a picture."""
    above = set()
    element: Element | None = other.parent
    while element is not None:
        above.add(id(element))
        element = element.parent
    up: Element | None = one.parent
    for _ in range(3):
        if up is None or up.tag == "body":
            return False
        if id(up) in above:
            return True
        up = up.parent
    return False


def _prune(box: _Box, chosen: set[int]) -> bool:
    """Leave only chosen units below an element. Returns whether any is left."""
    children: list[Element | str] = []
    after_run = False
    for part in box.parts:
        if isinstance(part, ContentUnit):
            if id(part) not in chosen:
                continue
            if part.element is box.element:
                return True
            if after_run:
                children += [Element("br", {}, box.element), Element("br", {}, box.element)]
            children.extend(part.nodes)
            after_run = True
        elif _prune(part, chosen):
            children.append(part.element)
            after_run = False
    if children:
        box.element.children = children
    return bool(children)
