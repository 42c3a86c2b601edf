"""Groups the pages of a site by the template that made them, and recognises further pages of a template. Pure.

The *shape* of a page is the set of its steps from an element to an element inside it, such as `article.piece > h1`:
tags and the classes that a person has named. Repeated blocks count once, texts and markup for machines not at all, so
the pages of one template have nearly the same shape, with JSON-LD or without. A template is recognised by a few
*anchors*: steps that all of its pages have and other pages of the site do not. Looking for them costs little.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from selectolax.lexbor import LexborNode

from forager.extract.html.document import Document

MOST_NODES = 6_000
ALIKE = 0.5
"""Pages of one template share at least this part of all steps that one of them has."""
MOST_ANCHORS = 12
LEAST_ANCHORS = 3
"""Pages with fewer steps in common cannot be told apart."""
ON_NEARLY_ALL = 0.95
FITTING = 0.8
"""Share of a template's anchors that a page of it must have."""
_SKIPPED = frozenset("script style noscript template svg path br -text -comment".split())

WORD = re.compile(r"[A-Za-z][\w-]{0,60}")
_MADE_UP = re.compile(r"\d{3,}|[0-9a-f]{6,}|^(?:css|sc|jsx|svelte|_)-?|__\w{5,}$", re.IGNORECASE)

Shape = frozenset[str]


def shape_of(document: Document) -> Shape:
    """Return the steps of a page, as CSS selectors."""
    body = document.tree.body
    steps = set[str]()
    for node in body.css("*")[:MOST_NODES] if body is not None else ():
        above = node.parent
        if above is not None and node.tag not in _SKIPPED and above.tag not in _SKIPPED:
            steps.add(f"{own_selector(above)} > {own_selector(node)}")
    return frozenset(steps)


@dataclass(slots=True)
class PageGroup:
    """Pages that look as if one template had made them."""

    members: list[int] = field(default_factory=list)
    """Positions of the pages in the list that was grouped."""
    counts: Counter[str] = field(default_factory=Counter)
    """Number of members by step."""

    def add(self, number: int, shape: Shape) -> None:
        self.members.append(number)
        self.counts.update(shape)

    def core(self, share: float = 0.5) -> Shape:
        """Return the steps that this share of the members has."""
        least = share * len(self.members)
        return frozenset(step for step, count in self.counts.items() if count >= least)


def group_pages(shapes: Sequence[Shape]) -> list[PageGroup]:
    """Put each page to the group that it is most like, or into a new one. The largest group comes first."""
    groups: list[PageGroup] = []
    for number, shape in enumerate(shapes):
        ranked = ((_alike(shape, group.core()), group) for group in groups)
        best = max(ranked, key=lambda each: each[0], default=(0.0, None))
        group = best[1] if best[1] is not None and best[0] >= ALIKE else None
        if group is None:
            group = PageGroup()
            groups.append(group)
        group.add(number, shape)
    return sorted(groups, key=lambda each: -len(each.members))


def _alike(one: Shape, other: Shape) -> float:
    union = len(one | other)
    return len(one & other) / union if union else 0.0


def anchors_of(group: PageGroup, shapes: Sequence[Shape], among: Sequence[int] | None = None) -> tuple[str, ...]:
    """Return the anchors of a group: steps of nearly all of its pages, the ones that are rare on other pages first.

    `among`: the members that count; without it all of them. Returns nothing if the pages have too little in common.
    """
    own = set(group.members if among is None else among)
    counts = Counter(step for number in own for step in shapes[number])
    common = frozenset(step for step, count in counts.items() if count >= ON_NEARLY_ALL * len(own))
    others = [
        shape
        for number, shape in enumerate(shapes)
        if number not in own and len(common & shape) < ON_NEARLY_ALL * len(common)
    ]
    elsewhere = Counter(step for shape in others for step in shape)
    # Longer steps name more classes: they identify a template better than `div > div`.
    ranked = sorted(common, key=lambda step: (elsewhere[step], -step.count("."), -len(step), step))
    return tuple(sorted(ranked[:MOST_ANCHORS])) if len(ranked) >= LEAST_ANCHORS else ()


def name_of(anchors: Sequence[str]) -> str:
    """Return a short name of a template, the same for the same anchors."""
    return hashlib.blake2b("\n".join(sorted(anchors)).encode(), digest_size=4).hexdigest()


def fits(anchors: Sequence[str], document: Document) -> bool:
    """Return whether a page has enough of a template's anchors."""
    missing, allowed = 0, int((1 - FITTING) * len(anchors))
    for anchor in anchors:
        if not document.tree.css_matches(anchor):
            missing += 1
            if missing > allowed:
                return False
    return bool(anchors)


def own_selector(node: LexborNode) -> str:
    """Return the selector of an element by its tag and at most two classes that a person has named."""
    classes = [name for name in (node.attributes.get("class") or "").split() if is_name(name)][:2]
    return "".join((node.tag or "*", *(f".{name}" for name in classes)))


def is_name(name: str) -> bool:
    """Return whether a name looks as if a person had chosen it: made-up names change with every release."""
    return bool(WORD.fullmatch(name)) and not _MADE_UP.search(name)
