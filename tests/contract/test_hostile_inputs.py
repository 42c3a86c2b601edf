"""A search for inputs that make a reader slow: pieces that are repeated, in the contexts of a page, for every reader.

A regular expression holds the interpreter's lock while it searches, so that one page could stop the whole service. In
CI size a part of the search runs, with a fixed seed; `make chaos` runs all of it, up to a megabyte.
"""

import random
import time
from collections.abc import Iterator

import pytest

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


def cost(reader: str, context: str, piece: str, size: int) -> float:
    read = READERS.get(reader) or TEXT_READERS[reader]
    page = CONTEXTS[context](repeated(piece, size))
    return cpu_seconds(lambda: read(page), MOST)


def grows_too_fast(reader: str, context: str, piece: str, size: int) -> bool:
    """Return whether the cost of this input grows faster than its size. A cost that is small at `size` does not
    matter."""
    big = cost(reader, context, piece, size)
    if big < CHECKED:
        return False
    small = min(cost(reader, context, piece, size // FACTOR) for _ in range(2))
    if big <= GROWTH * small and big < MOST:
        return False
    big = min(big, cost(reader, context, piece, size))  # once more: a busy machine is no proof
    small = min(small, cost(reader, context, piece, size // FACTOR))
    return big > GROWTH * small or big >= MOST


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


def test_no_reader_is_slower_than_linear_in_a_part_of_the_search__S6() -> None:
    chosen = list(combinations())
    random.Random(25).shuffle(chosen)
    began, slow, tried = time.process_time(), [], 0
    for reader, context, piece in chosen:
        if time.process_time() - began > 20.0:
            break
        tried += 1
        if grows_too_fast(reader, context, piece, 16 * KB):
            slow.append((reader, context, piece))
    assert not slow
    assert tried > 100


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
