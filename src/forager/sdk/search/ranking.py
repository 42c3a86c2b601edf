"""Turns a text into ranked hits on any index: splits words, limits candidates, and tries similar words if little is
found.

A search ranks at most `MOST` candidates, the newest ones, and reports if there were more: however common a word is, a
search costs about what reading that many records costs. Misspelt words are searched only when the words as written
find little.
"""

import re
import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from forager.core.database import Row

# Words of texts and of questions, and which words are one edit apart. Pure.
#
# Near words are found without looking through all words: each word is stored under itself and under every form with one
# letter left out. Two words that are one edit apart share such a form.


SHORTEST = 5
"""Shorter words are only found as they are written."""
LONGEST = 40
_WORD = re.compile(r"[^\W_]+")


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case and without accents, in their order."""
    return _WORD.findall(plain(text))


def plain(text: str) -> str:
    """Lower case, without accents: as the index spells it."""
    lower = text.lower()
    if lower.isascii():
        return lower
    decomposed = unicodedata.normalize("NFD", lower)
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def folding() -> tuple[str, str]:
    """Two strings of equal length for SQL's `translate`: accented letters become plain, punctuation becomes a space.

    Every character stands for exactly one, so that a place in the folded text is the same place in the original.
    """
    spelled = [chr(code) for code in (*range(0x21, 0x250), *range(0x2000, 0x2070))]
    pairs = [(char, folded) for char in spelled if (folded := _folded(char)) != char]
    return "".join(char for char, _ in pairs), "".join(folded for _, folded in pairs)


def _folded(char: str) -> str:
    if not _WORD.fullmatch(char):
        return " "
    base = unicodedata.normalize("NFD", char)[0]
    return base if base.isascii() else char


def can_be_misspelt(word: str) -> bool:
    """Return whether similar words are searched: the word is long enough and not a number."""
    return SHORTEST <= len(word) <= LONGEST and not any(char.isdigit() for char in word)


def forms_of(word: str) -> set[str]:
    """Return the word itself, and with each of its letters left out."""
    return {word, *(word[:place] + word[place + 1 :] for place in range(len(word)))}


def are_near(one: str, other: str) -> bool:
    """Return whether one edit turns one word into the other: a letter added, removed or replaced, or two neighbours
    swapped."""
    if one == other:
        return True
    short, long = sorted((one, other), key=len)
    if len(long) - len(short) > 1:
        return False
    start = next((n for n, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    if len(short) < len(long):
        return short[start:] == long[start + 1 :]
    swapped = long[start : start + 2] == short[start : start + 2][::-1]
    return short[start + 1 :] == long[start + 1 :] or (swapped and short[start + 2 :] == long[start + 2 :])


def rows_for(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the stored rows for these words: (form, word)."""
    for word in words:
        for form in forms_of(word):
            yield form, word


MOST = 5_000
"""Candidates that are ranked."""
WINDOWS = (6_000, 20_000)
"""The newest matches, to which the conditions are applied: the second window only if the first leaves too few."""
LITTLE = 5
"""With fewer hits than this, similar words are searched as well."""
MOST_WORDS = 12
MOST_NEAR = 8
START, END = "\ue000", "\ue001"
"""Marks around a match, between the index and the edge that shows it: characters that no text has."""
WEIGHTS = {"A": 10.0, "B": 4.0, "C": 2.0, "D": 1.0}
"""Scores of a match in a field, by the weight that `Record.search` gives the field."""

Near = Callable[[str], Awaitable[Sequence[str]]]
"""`near(word)`: words of the index that may be one edit away from a word; others among them are left out later."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A found record: its id, the requested columns, and its score (higher is better)."""

    row: Row
    score: float


@dataclass(frozen=True, slots=True)
class RankedHits:
    """All candidates, best first."""

    hits: Sequence[Hit]
    terms: Sequence[Sequence[str]]
    """The words that were searched: each is a list of alternatives, the word as written first."""
    more: bool
    """True if older records matched as well and were not ranked."""
    corrected: bool = False
    """True if similar words had to be searched."""
    unindexed: int = 0
    """Records that are not in the index yet."""


class Candidates(Protocol):
    """The two queries of ranking to an index."""

    async def matches(self, terms: Sequence[Sequence[str]], most: int) -> int:
        """Return the number of records that have all terms, counted up to `most`."""
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
        """Return the records among the newest `window` matches that meet the conditions (on `i`), at most `most` of
        them: each with its id, its `score`, and in `matches` how many records the window holds."""
        ...


def terms_of(text: str) -> list[list[str]]:
    """Return the words to look for in a text, each as a list of one alternative. Empty if the text has no word."""
    return [[word] for word in dict.fromkeys(words_of(text))][:MOST_WORDS]


async def find(
    candidates: Candidates,
    near: Near,
    text: str,
    columns: Sequence[str] = (),
    only: Sequence[str] = (),
    values: Mapping[str, Any] | None = None,
) -> RankedHits:
    """Find records by the words of a text; all words must match. `only` are SQL conditions on the record's row, called
    `i`; `columns` of that row are returned with each hit."""
    terms = terms_of(text)
    if not terms:
        return RankedHits((), (), more=False)
    ranked, more = await _ranked(candidates, terms, columns, only, values or {})
    if len(ranked) < LITTLE:
        wider = [await _with_near(near, alternatives[0]) for alternatives in terms]
        if wider != terms:
            others, more_of_them = await _ranked(candidates, wider, columns, only, values or {})
            if len(others) > len(ranked):
                return RankedHits(others, wider, more_of_them, corrected=True)
    return RankedHits(ranked, terms, more)


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
