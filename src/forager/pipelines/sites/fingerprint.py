"""SimHash fingerprints of texts, and an index that finds a near-duplicate. Pure.

A fingerprint has 64 bits. Two texts that share almost all of their words differ in at most three of them. Words with
digits are left out: the pages of a calendar, a counter or a session differ in nothing else.

Adding 64 counters for each word would take a millisecond a page in Python. So each word has its hash spread over one
large integer, 16 bits for each counter, and a text is one sum of such integers.
"""

import re
from collections import OrderedDict
from hashlib import blake2b

BITS = 64
NEAR = 3
"""Bits in which near-duplicates may differ. Among four parts of a fingerprint one is then equal, which is the index."""
LEAST_WORDS = 12
"""Different words under which only an equal text counts: few words make a fingerprint of chance."""
MOST_WORDS = 4_096
MOST_TEXT = 400_000
MOST_CACHED = 100_000

_MARKS = re.compile(r"[^\w\s]+")
_SLOT = 16
_PART = 0xFFFF


def words_of(text: str) -> set[str]:
    """Return the different words of a text, in lower case, without those that have digits."""
    tokens = set(_MARKS.sub(" ", text[:MOST_TEXT].lower()).split())
    return {token for token in tokens if token.isalpha() and len(token) > 1}


def fingerprint(text: str) -> int:
    """Return the fingerprint of a text; 0 if it has too few words for one."""
    words = words_of(text)
    if len(words) < LEAST_WORDS:
        return 0
    chosen = sorted(words)[:MOST_WORDS] if len(words) > MOST_WORDS else words
    total = sum(map(_spread, chosen))
    counts = memoryview(total.to_bytes(BITS * _SLOT // 8, "little")).cast("H")
    half, found = len(chosen) / 2, 0
    for bit, count in enumerate(counts):
        if count > half:
            found |= 1 << bit
    return found or 1


_TABLE = tuple(sum(((byte >> bit) & 1) << (bit * _SLOT) for bit in range(8)) for byte in range(256))
_cache: dict[str, int] = {}


def _spread(word: str) -> int:
    known = _cache.get(word)
    if known is not None:
        return known
    digest = blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()
    spread = sum(_TABLE[byte] << (place * 8 * _SLOT) for place, byte in enumerate(digest))
    if len(_cache) >= MOST_CACHED:
        _cache.clear()
    _cache[word] = spread
    return spread


def distance(one: int, other: int) -> int:
    """Return the number of bits in which two fingerprints differ."""
    return (one ^ other).bit_count()


class NearIndex:
    """Fingerprints of pages, found again by any that differs in at most `NEAR` bits. It keeps the newest `most`."""

    def __init__(self, most: int = 200_000) -> None:
        self._most = most
        self._kept: OrderedDict[int, str] = OrderedDict()
        self._parts: tuple[dict[int, list[int]], ...] = ({}, {}, {}, {})

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, print_: int, name: str) -> None:
        """Add a fingerprint under a name, unless it is there."""
        if not print_ or print_ in self._kept:
            return
        self._kept[print_] = name
        for place, parts in enumerate(self._parts):
            parts.setdefault((print_ >> (16 * place)) & _PART, []).append(print_)
        if len(self._kept) > self._most:
            self._forget()

    def find(self, print_: int) -> str | None:
        """Return the name of a page with almost the same text, or None."""
        if not print_:
            return None
        exact = self._kept.get(print_)
        if exact is not None:
            return exact
        for place, parts in enumerate(self._parts):
            for other in parts.get((print_ >> (16 * place)) & _PART, ()):
                if distance(print_, other) <= NEAR:
                    return self._kept[other]
        return None

    def _forget(self) -> None:
        oldest, _ = self._kept.popitem(last=False)
        for place, parts in enumerate(self._parts):
            part = (oldest >> (16 * place)) & _PART
            left = [each for each in parts[part] if each != oldest]
            if left:
                parts[part] = left
            else:
                del parts[part]
