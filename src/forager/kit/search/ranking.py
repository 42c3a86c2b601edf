"""How a text becomes ranked hits, whatever keeps the index: the words, the windows, and near words if little is found.

A search ranks at most `MOST` candidates, the newest ones, and reports if there were more: however common a word is, a
search costs about what reading that many records costs. Misspelt words are looked for only when the words as written
find little.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from forager.core.database import Row
from forager.kit.search.words import are_near, can_be_misspelt, words_of

MOST = 5_000
"""Candidates that are ranked."""
WINDOWS = (6_000, 20_000)
"""The newest matches, to which the conditions are applied: the second window only if the first leaves too few."""
LITTLE = 5
"""Fewer hits than this, and near words are looked for."""
MOST_WORDS = 12
MOST_NEAR = 8
START, END = "\ue000", "\ue001"
"""Marks around a match, between the index and the edge that shows it: characters that no text has."""
WEIGHTS = {"A": 10.0, "B": 4.0, "C": 2.0, "D": 1.0}
"""What a match in a field counts for, by the weight that `Record.search` gives the field."""

Near = Callable[[str], Awaitable[Sequence[str]]]
"""`near(word)`: words of the index that may be one edit away from a word; others among them are left out later."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One record that was found: its id, the columns that were asked for, and its score (higher is better)."""

    row: Row
    score: float


@dataclass(frozen=True, slots=True)
class Found:
    """All candidates, best first."""

    hits: Sequence[Hit]
    terms: Sequence[Sequence[str]]
    """The words that were looked for: each is a list of alternatives, the word as written first."""
    more: bool
    """Whether older records matched as well and were not ranked."""
    corrected: bool = False
    """Whether near words had to be looked for."""
    unindexed: int = 0
    """Records that are not in the index yet."""


class Candidates(Protocol):
    """The two questions that ranking asks an index."""

    async def matches(self, terms: Sequence[Sequence[str]], most: int) -> int:
        """The number of records that have all terms, counted up to `most`."""
        ...

    async def search(
        self,
        terms: Sequence[Sequence[str]],
        columns: Sequence[str],
        only: Sequence[str],
        values: Mapping[str, Any],
        window: int,
        most: int,
    ) -> Sequence[Row]:
        """The records among the newest `window` matches that meet the conditions (on `i`), at most `most` of them: each
        with its id, its `score`, and in `matches` how many records the window holds."""
        ...


def terms_of(text: str) -> list[list[str]]:
    """The words to look for in a text, each as a list of one alternative. Empty if the text has no word."""
    return [[word] for word in dict.fromkeys(words_of(text))][:MOST_WORDS]


async def find(
    candidates: Candidates,
    near: Near,
    text: str,
    columns: Sequence[str] = (),
    only: Sequence[str] = (),
    values: Mapping[str, Any] | None = None,
) -> Found:
    """Find records by the words of a text; all words must match. `only` are SQL conditions on the record's row, called
    `i`; `columns` of that row are returned with each hit."""
    terms = terms_of(text)
    if not terms:
        return Found((), (), more=False)
    ranked, more = await _ranked(candidates, terms, columns, only, values or {})
    if len(ranked) < LITTLE:
        wider = [await _with_near(near, alternatives[0]) for alternatives in terms]
        if wider != terms:
            others, more_of_them = await _ranked(candidates, wider, columns, only, values or {})
            if len(others) > len(ranked):
                return Found(others, wider, more_of_them, corrected=True)
    return Found(ranked, terms, more)


async def _with_near(near: Near, word: str) -> list[str]:
    if not can_be_misspelt(word):
        return [word]
    others = [each for each in dict.fromkeys(await near(word)) if each != word and are_near(word, each)]
    return [word, *others[:MOST_NEAR]]


async def _ranked(
    candidates: Candidates,
    terms: Sequence[Sequence[str]],
    columns: Sequence[str],
    only: Sequence[str],
    values: Mapping[str, Any],
) -> tuple[list[Hit], bool]:
    rows: Sequence[Row] = ()
    more = False
    for window in WINDOWS:
        rows = await candidates.search(terms, columns, only, values, window, MOST + 1)
        matches = int(rows[0]["matches"]) if rows else await candidates.matches(terms, window) if only else 0
        more = len(rows) > MOST or matches >= window
        if len(rows) > MOST or not more:
            break
    hits = [Hit(row, float(row["score"])) for row in rows]
    hits.sort(key=lambda hit: -hit.row["id"])
    del hits[MOST:]
    hits.sort(key=lambda hit: -hit.score)
    return hits, more
