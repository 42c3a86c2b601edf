"""Cuts Markdown to a size, so that what is left is still Markdown: whole blocks, whole lines of lists and tables, and
the addresses and footnotes that the text that is left refers to. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

CHARACTERS_A_TOKEN: Final = 4
"""Rule of thumb for English; text in other scripts is counted in bytes of UTF-8, which errs on the safe side."""
_REFERENCE: Final = re.compile(r"\]\[(\d{1,6})\]|\[(\^\d{1,6})\]")
_LEAST_OF_A_TABLE: Final = 3
"""Lines of a table that says something: its head, the line below, and a row."""


class Written(NamedTuple):
    """The Markdown of a page in parts. Joined by blank lines they are the text."""

    blocks: Sequence[str]
    notes: Mapping[str, str]
    """Footnotes by their mark, such as `^1`."""
    addresses: Mapping[str, str]
    """Addresses of links in lines of their own, by their number; empty unless links are written as references."""

    def within(self, max_tokens: int | None, *, first: str | None = None) -> str:
        """Return the text up to a size. `first` is a block before all others.

        A block that does not fit is left out with all that follow; of a list, a table, a quote or code, the lines that
        fit stay. If not even the first block fits, it is cut at a blank.
        """
        blocks = [first, *self.blocks] if first else [*self.blocks]
        if max_tokens is None:
            return self._joined(blocks, [*self.notes], [*self.addresses])
        left = max_tokens * CHARACTERS_A_TOKEN
        taken: list[str] = []
        known: set[str] = set()
        for block in blocks:
            size = self._size(block, known)
            if size <= left + 2:
                taken.append(block)
                left -= size
                known.update(self._named(block))
                continue
            rest = self._cut(block, left, known, is_first=not taken)
            if rest:
                taken.append(rest)
                known.update(self._named(rest))
            break
        notes = [mark for mark in self.notes if mark in known]
        return self._joined(taken, notes, [number for number in self.addresses if number in known])

    def _named(self, text: str) -> Iterator[str]:
        """Yield the marks of the notes and addresses that a text needs, those that its notes need included."""
        for found in _REFERENCE.finditer(text):
            name = found[1] or found[2]
            if name in self.addresses:
                yield name
            elif name in self.notes:
                yield name
                yield from (each for each in self._named_by_note(name) if each != name)

    def _named_by_note(self, name: str) -> Iterator[str]:
        return (found[1] for found in _REFERENCE.finditer(self.notes[name]) if found[1] in self.addresses)

    def _size(self, block: str, known: set[str]) -> int:
        """Return the bytes that a block adds, with the blank line before it and what it is the first to refer to."""
        more = {*self._named(block)} - known
        return len(block.encode()) + 2 + sum(len(self._ending(name).encode()) + 2 for name in more)

    def _ending(self, name: str) -> str:
        return self.addresses.get(name) or self.notes[name]

    def _cut(self, block: str, left: int, known: set[str], *, is_first: bool) -> str:
        lines = block.split("\n")
        fence = lines[0][: len(lines[0]) - len(lines[0].lstrip("`"))]
        is_code = len(fence) >= 3
        if is_code:
            left -= len(fence) + 1
            lines.pop()
        fitting: list[str] = []
        for line in lines if len(lines) > 1 else ():
            size = self._size(line, known) - 1
            if size > left + 1:
                break
            left -= size
            known = known | {*self._named(line)}
            fitting.append(line)
        if is_code:
            if len(fitting) == 1 and is_first:
                fitting.append(lines[1].encode()[: max(1, left)].decode("utf-8", "ignore"))
            return "\n".join([*fitting, fence]) if len(fitting) > 1 else ""
        if block.startswith("|") and len(fitting) < _LEAST_OF_A_TABLE:
            fitting = []
        if fitting or not is_first:
            return "\n".join(fitting).rstrip()
        cut = block.encode()[: max(1, left)].decode("utf-8", "ignore")
        return cut.rpartition(" ")[0] or cut

    def _joined(self, blocks: list[str], notes: list[str], addresses: list[str]) -> str:
        parts = [*blocks, *(self.notes[mark] for mark in notes)]
        if addresses:
            parts.append("\n".join(self.addresses[number] for number in addresses))
        return "\n\n".join(parts)
