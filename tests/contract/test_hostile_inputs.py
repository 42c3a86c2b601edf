"""A search for inputs that make a reader slow: pieces that are repeated, in the contexts of a page, for every reader.

A regular expression holds the interpreter's lock while it searches, so that one page could stop the whole service. In
CI size a part of the search runs, with a fixed seed; `make chaos` runs all of it, up to a megabyte.
"""

import random
import time
from collections.abc import Callable, Iterator

import pytest

from forager.extract import companies
from forager.extract.products.parsers import amazon
from forager.extract.schemas import described
from tests.support.hostile import (
    CONTEXTS,
    PUMPS,
    READERS,
    TEXT_READERS,
    Sampler,
    cpu_seconds,
    patterns,
    repeated,
    searched,
)

KB = 1_024
CHECKED = 0.12
"""CPU seconds beyond which the growth of a cost is measured."""
FACTOR = 4
GROWTH = 9.0
"""Factor by which the cost may grow when the input grows by `FACTOR`: linear is 4, quadratic 16."""
IN_TIME = 3.0
"""CPU seconds for a quarter of a megabyte."""
A_STEP = 0.5
"""CPU seconds that a step may take: a page that is read in another way from some size on, such as JSON that is cut at a
limit and mended. What takes longer counts, even if it grows no further."""
MOST = 12.0
"""CPU seconds after which a reader is stopped."""

# Each of these once took minutes of CPU time for a page of a megabyte.
KNOWN = [
    ("extractor linkedin_profile", "title", " - "),
    ("extractor linkedin_profile", "title of a profile", " - "),
    ("extractor linkedin_profile", "metas", " – a"),
    ("extractor page", "json-ld, broken", '\\"'),
    ("extractor job_posting", "json-ld, open string", '\\"'),
    ("product parser base", "json-ld, broken", "/*"),
    ("product parser amazon", "data in a script", '\\"'),
    ("extractor company_website", "paragraph", "©"),
    ("extractor company_website", "headline", "©"),
    ("extractor company_website", "title", " l inc"),
    ("sitemap", "raw", "<loc> "),
    ("sitemap", "raw", "<loc>"),
    ("json", "raw", '\\"'),
]


# Lines whose beginning leads to a pattern that takes time by a power of the rest. The rest is a piece, repeated.
WORDS = f"<p>{'words ' * 40}</p>"
SHOP = "<title>Kettle</title><h1>Kettle</h1><p>$ 20.00</p><button>Add to cart</button>"
LINES = [
    ("extractor listing", "<h1>Homes {}</h1>" + WORDS, "1"),
    ("extractor listing", "<h1>Homes {}</h1>" + WORDS, "111 "),
    ("extractor listing", "<title>{}</title><h1>Nice</h1><p>Price: $ 900</p>" + WORDS, "a-"),
    ("extractor listing", "<title>{}</title><p>Rent: $ 900</p>" + WORDS, "in "),
    ("extractor listing", "<h1>12 Elm Street, ({}</h1><p>Rent: $ 900</p>" + WORDS, "1"),
    ("extractor listing", "<h1>12 Elm Street, {}</h1><p>Rent: $ 900</p>" + WORDS, "(1"),
    ("extractor listing", "<address>12 Elm Street, {}</address><p>Rent: $ 900</p>" + WORDS, "(1"),
    ("extractor listing", "<h1>{}</h1><p>Rent: $ 900</p>" + WORDS, "1 000"),
    ("product parser base", SHOP + "<p>{}</p>", "1, "),
    ("product parser base", SHOP + "<p>Item #: {}</p>", "item-"),
    ("product parser base", SHOP + "<form><p>{}</p></form><span class=price>{}x</span>", "$1 "),
    ("product parser base", "<title>{}</title>" + SHOP, "a - "),
    ("extractor job_posting", "<title>{}</title><h1>{}</h1><a href=/jobs/1234-a>aaaa</a>", "1 "),
    ("extractor job_posting", "<h1>Baker</h1><dl><dt>Salary<dd>€ {}</dl>", "1 "),
    ("extractor company_website", "<title>{}</title><p>© 2026 {}</p>", "- "),
    ("extractor page", "<style>{}</style><div style='{}'>" + WORDS, ".a{display : none}"),
    ("extractor page", "<pre>{}</pre>" + WORDS, "`"),
    ("extractor page", "{}" + WORDS, "<div aria-hidden=true>words of a closed tab"),
    ("extractor page", "{}" + WORDS, "<blockquote><ul><li>a"),
    ("extractor page", "<table>{}</table>" + WORDS, "<tr><td rowspan=200 colspan=60>a"),
    ("extractor page", "{}" + WORDS, "<p id=fn1>a<a href=#fn1>1</a>"),
    ("extractor company_website", "<div class=logo><img alt='{}'></div><header><h1>{}</h1></header>", "a."),
]


def cost(reader: str, context: str, piece: str, size: int) -> float:
    read = READERS.get(reader) or TEXT_READERS[reader]
    page = CONTEXTS[context](repeated(piece, size))
    return cpu_seconds(lambda: read(page), MOST)


def grows_too_fast(reader: str, context: str, piece: str, size: int) -> bool:
    """Return whether the cost of this input grows faster than its size. A cost that is small at `size` does not
    matter, and neither does a short step: from some size on, a page is read in another way. What grows too fast is
    long at `size` already, as a quadratic cost below a limit is, or grows again beyond it."""
    big = cost(reader, context, piece, size)
    if big < CHECKED:
        return False
    small = min(cost(reader, context, piece, size // FACTOR) for _ in range(2))
    if big <= GROWTH * small and big < MOST:
        return False
    big = min(big, cost(reader, context, piece, size))  # once more: a busy machine is no proof
    small = min(small, cost(reader, context, piece, size // FACTOR))
    if big <= GROWTH * small and big < MOST:
        return False
    return big >= A_STEP or cost(reader, context, piece, FACTOR * size) > min(MOST * 0.99, GROWTH * big)


def combinations() -> Iterator[tuple[str, str, str]]:
    for piece in PUMPS:
        for reader in READERS:
            for context in CONTEXTS:
                yield reader, context, piece
        for reader in TEXT_READERS:
            yield reader, "raw", piece


@pytest.mark.parametrize(("reader", "context", "piece"), KNOWN)
def test_an_input_that_was_slow_is_read_in_linear_time__S6(reader: str, context: str, piece: str) -> None:
    assert cost(reader, context, piece, 250 * KB) <= IN_TIME
    assert not grows_too_fast(reader, context, piece, 64 * KB)


@pytest.mark.parametrize(("reader", "page", "piece"), LINES)
def test_a_long_line_with_a_known_beginning_is_read_in_time__S6(reader: str, page: str, piece: str) -> None:
    text = page.replace("{}", repeated(piece, 64 * KB))
    assert cpu_seconds(lambda: READERS[reader](text), IN_TIME) < IN_TIME


def test_no_reader_is_slower_than_linear_in_a_part_of_the_search__S6() -> None:
    chosen = list(combinations())
    random.Random(25).shuffle(chosen)
    began, slow, tried = time.process_time(), [], 0
    for reader, context, piece in chosen:
        if time.process_time() - began > 8.0:
            break
        tried += 1
        if grows_too_fast(reader, context, piece, 16 * KB):
            slow.append((reader, context, piece))
    assert not slow
    assert tried > 40


def test_no_regular_expression_is_worse_than_quadratic_in_a_part_of_the_search__S6() -> None:
    """Many search only a line or a title, whose length is limited: there a quadratic one takes no time, but a worse one
    does."""
    found = patterns()
    assert len(found) > 300
    random.Random(25).shuffle(found)
    began, slow = time.process_time(), []
    for pattern, where in found:
        if time.process_time() - began > 10.0:
            break
        pieces, beginnings = Sampler(pattern, 25).pumps()
        search = searched(pattern)
        for beginning in beginnings[:2]:
            for piece in pieces:
                text = beginning + repeated(piece, 400) + "\0"
                if cpu_seconds(lambda text=text, search=search: search(text), 1.0) > 0.05:  # type: ignore[misc]
                    slow.append((where, beginning, piece))
    assert not slow


@pytest.mark.parametrize(
    ("search", "text"),
    [
        (companies.LEGAL_FORM.search, " " * 20_000),
        (companies._SURE_LEGAL.search, " " * 20_000 + "x"),
        (companies._without_place, "(" + "1" * 20_000),
        (amazon._BRAND.match, "visit the " + " " * 20_000),
        (described.answers_of, " ```json" + "\n" * 20_000),
    ],
)
def test_an_expression_that_was_quadratic_reads_a_long_run_in_time__S6(
    search: Callable[[str], object], text: str
) -> None:
    assert cpu_seconds(lambda: search(text), 2.0) < 0.5


@pytest.mark.chaos
@pytest.mark.parametrize("reader", [*READERS, *TEXT_READERS])
def test_no_reader_is_slower_than_linear__S6(reader: str) -> None:
    slow = []
    for each, context, piece in combinations():
        if each == reader and grows_too_fast(reader, context, piece, 64 * KB):
            slow.append((context, piece))
    assert not slow


@pytest.mark.chaos
@pytest.mark.parametrize("size", [250 * KB, 1_024 * KB])
@pytest.mark.parametrize("reader", [*READERS, *TEXT_READERS])
def test_a_big_hostile_page_is_read_in_time__S6(reader: str, size: int) -> None:
    slow, dice = [], random.Random(size)
    for each, context, piece in combinations():
        if each == reader and dice.random() < 0.1:
            seconds = cost(reader, context, piece, size)
            if seconds >= MOST:  # some contexts hold the text six times
                slow.append((context, piece, seconds))
    assert not slow


@pytest.mark.chaos
@pytest.mark.parametrize("part", range(10))
def test_no_regular_expression_is_worse_than_quadratic__S6(part: int) -> None:
    slow = []
    for pattern, where in patterns()[part::10]:
        pieces, beginnings = Sampler(pattern, part).pumps()
        search = searched(pattern)
        for beginning in beginnings:
            for piece in pieces:
                text = beginning + repeated(piece, 1_000) + "\0"
                if cpu_seconds(lambda text=text, search=search: search(text), 1.0) > 0.2:  # type: ignore[misc]
                    slow.append((where, beginning, piece))
    assert not slow
