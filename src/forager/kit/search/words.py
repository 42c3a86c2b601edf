"""Words of texts and of questions, and which words are one edit apart. Pure.

Near words are found without looking through all words: each word is stored under itself and under every form with one
letter left out. Two words that are one edit apart share such a form.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator

SHORTEST = 5
"""Shorter words are only found as they are written."""
LONGEST = 40
_WORD = re.compile(r"[^\W_]+")


def words_of(text: str) -> list[str]:
    """The words of a text in lower case and without accents, in their order."""
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
    """Whether near words are looked for: it is long enough and no number."""
    return SHORTEST <= len(word) <= LONGEST and not any(char.isdigit() for char in word)


def forms_of(word: str) -> set[str]:
    """The word itself, and with each of its letters left out."""
    return {word, *(word[:place] + word[place + 1 :] for place in range(len(word)))}


def are_near(one: str, other: str) -> bool:
    """Whether one edit makes one word the other: a letter more, fewer or another, or two neighbours swapped."""
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
    """What is stored for these words: (form, word)."""
    for word in words:
        for form in forms_of(word):
            yield form, word
