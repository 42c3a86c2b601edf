"""No sequence of tags, repeated, nests deeper in a real parser than it is counted, nor makes it open more elements."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from forager.extract.html_depth import MOST_DEPTH, MOST_REOPENED
from forager.extract.html_limits import _is_reasonable

MANY = 1_600
PER_LEVEL = 6
"""An element that is counted may hold a few that are not: a table a body, a row, a cell and a paragraph."""
NAMES = (
    "a b i font nobr span div p li dd dt ul ol dl table tr td th tbody caption select option optgroup button form h1 "
    "h2 section object applet marquee template svg math mi desc foreignobject path g title style script br img link "
    "input body html frameset ruby rt center fieldset pre address noscript image keygen xmp label time"
).split()


@st.composite
def tags(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(NAMES))
    return draw(st.sampled_from((f"<{name}>", f"<{name} id=@>", f"</{name}>", f"</{name}>", f"<{name}/>", "x")))


cycles = st.lists(tags(), min_size=1, max_size=7).map("".join)


@settings(max_examples=150, deadline=None)
@given(cycles, cycles, st.booleans())
def test_a_page_that_passes_is_neither_deep_nor_endless__S6(before: str, cycle: str, paragraphs: bool) -> None:
    times = MANY // max(1, cycle.count("<"))
    page = before + "".join(cycle.replace("@", str(number)) for number in range(times)) + "<p>x" * (300 * paragraphs)
    if _is_reasonable(page):
        depth, elements = measured(page)
        assert depth <= PER_LEVEL * MOST_DEPTH
        assert elements <= 2 * page.count("<") + MOST_REOPENED + MANY


@pytest.mark.parametrize(
    "page", ["<div>" * 5_000, "".join(f"<div><b id={n}></div>" for n in range(999)) + "<p>x" * 999]
)
def test_what_the_measure_would_find_is_refused__S6(page: str) -> None:
    depth, elements = measured(page)
    assert depth > PER_LEVEL * MOST_DEPTH or elements > 2 * page.count("<") + MOST_REOPENED
    assert not _is_reasonable(page)


def measured(page: str) -> tuple[int, int]:
    """Depth of the parsed page, and the number of its nodes."""
    levels = list(_levels(LexborHTMLParser(page)))
    return max(levels, default=0), len(levels)


def _levels(tree: LexborHTMLParser) -> Iterator[int]:
    stack = [(tree.root, 1)]
    while stack:
        node, level = stack.pop()
        if node is None:
            continue
        yield level
        stack += [(node.next, level), (node.child, level + 1)]
