"""Writes rows as JSON lines or CSV. Pure. A cell that a spreadsheet would run as a formula becomes text (S17).

In CSV, a nested object becomes one column per key, one level deep: `result.job_title`. Its keys differ from row to row,
so they are collected from all rows (`Nested`) before the header is written.
"""

import csv
import io
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson

Row = Mapping[str, Any]
Encode = Callable[[Any], bytes]

RISKY = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""Some spreadsheets run text that begins with one of these; a leading apostrophe prevents that."""
_UNSEEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Me", "Mn", "Zl", "Zp", "Zs"})
_BLANK_LETTERS = frozenset("\u115f\u1160\u3164\uffa0\u2800")
"""Hangul fillers and the empty Braille pattern."""


def json_lines(rows: Iterable[Row], encode: Encode = orjson.dumps) -> bytes:
    """Return one JSON object per line."""
    return b"".join(encode(row) + b"\n" for row in rows)


class Nested:
    """Collects the keys of nested objects by column, in order of first appearance."""

    def __init__(self) -> None:
        self._keys: dict[str, dict[str, None]] = {}

    def note(self, rows: Iterable[Row]) -> None:
        """Collect the keys of these rows."""
        for row in rows:
            for name, value in row.items():
                if isinstance(value, Mapping):
                    self._keys.setdefault(name, {}).update(dict.fromkeys(map(str, value)))

    def columns(self, names: Iterable[str]) -> list[str]:
        """Return the columns of a file: each name, or one column per key collected for it."""
        return [column for name in names for column in self._below(name) or (name,)]

    def _below(self, name: str) -> list[str]:
        return [f"{name}.{key}" for key in self._keys.get(name, ())]


class CsvTable:
    """A CSV file with these columns; `a.b` is the key `b` of the object in `a`."""

    def __init__(self, columns: Sequence[str], encode: Encode = orjson.dumps) -> None:
        self._columns = columns
        self._encode = encode

    def header(self) -> bytes:
        return _written([[harmless(name) for name in self._columns]])

    def lines(self, rows: Iterable[Row]) -> bytes:
        return _written([_cell(_value(row, name), self._encode) for name in self._columns] for row in rows)


def harmless(text: str) -> str:
    """Return the text with an apostrophe if a spreadsheet could run it, also after leading blanks and characters that
    cannot be seen, such as a byte-order mark or a zero-width space: some programs drop them."""
    if text.startswith(RISKY):
        return f"'{text}"
    seen = next((at for at, char in enumerate(text) if not _is_unseen(char)), len(text))
    return f"'{text}" if text.startswith(RISKY, seen) else text


def _is_unseen(char: str) -> bool:
    """Return whether a character shows nothing: white space, control and format characters, marks that combine with
    the character before them, and letters that are blank by definition."""
    return char.isspace() or unicodedata.category(char) in _UNSEEN or char in _BLANK_LETTERS


def _written(lines: Iterable[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(lines)
    return text.getvalue().encode()


def _value(row: Row, column: str) -> Any:
    if column in row:
        return row[column]
    name, _, key = column.partition(".")
    inside = row.get(name)
    return inside.get(key) if isinstance(inside, Mapping) else None


def _cell(value: Any, encode: Encode) -> Any:
    """Format a cell. Numbers stay numbers: a longitude of -112 is not a formula."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return harmless(value.replace("\0", ""))
    text = encode(value).decode()
    return text.strip('"') if text.startswith('"') else text
