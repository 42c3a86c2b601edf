"""No sequence of tags, repeated, nests deeper in a real parser than it is counted, nor makes it open more elements."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from forager.extract.html.limits import _TOKEN, MOST_DEPTH, MOST_REOPENED, Depth, _is_reasonable

MANY = 1_200
PER_LEVEL = 6
"""A counted element may contain a few that are not counted: a table a body, a row, a cell and a paragraph."""
ROOM = 50
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


@settings(max_examples=300, deadline=None, derandomize=True)  # the same in every run; a search is for a person to start
@given(cycles, cycles, st.booleans())
def test_a_page_that_passes_is_neither_deeper_than_counted_nor_endless__S6(
    before: str, cycle: str, paragraphs: bool
) -> None:
    times = MANY // max(1, cycle.count("<"))
    page = before + "".join(cycle.replace("@", str(number)) for number in range(times)) + "<p>x" * (300 * paragraphs)
    if _is_reasonable(page):
        depth, elements = measured(page)
        counted, piled = count(page)
        assert depth <= PER_LEVEL * counted + piled + ROOM
        assert elements <= 2 * page.count("<") + MOST_REOPENED + MANY


@pytest.mark.parametrize(
    "page",
    ["<div>" * 5_000, "<dd><li>" * 1_500, "".join(f"<div><b id={n}></div>" for n in range(999)) + "<p>x" * 999],
    ids=["deep", "items in items", "endless"],
)
def test_what_the_measure_would_find_is_refused__S6(page: str) -> None:
    depth, elements = measured(page)
    assert depth > PER_LEVEL * MOST_DEPTH or elements > 2 * page.count("<") + MOST_REOPENED
    assert not _is_reasonable(page)


def count(page: str) -> tuple[int, int]:
    """The most elements that are open at once as counted, and the formatting elements that may be opened again."""
    depth, most = Depth(), 0
    for token in _TOKEN.finditer(page):
        if token[1]:
            depth.raw()
        elif token[4] and token[3]:
            depth.close(token[4].lower())
        elif token[4]:
            depth.open(token[4].lower(), itself_closed=page[token.end() - 2] == "/")
            most = max(most, len(depth._stack))
    return most, depth._piled


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
