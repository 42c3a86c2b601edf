"""Rows as files: JSON lines and CSV. Pure. A cell that a spreadsheet would run as a formula is made text (S17).

In CSV a nested object becomes one column per key, one level deep: `result.job_title`. Its keys differ from row to row,
so they are gathered from all rows (`Nested`) before the header is written.
"""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson

Row = Mapping[str, Any]
Encode = Callable[[Any], bytes]

RISKY = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""A cell of text that begins so is code to some spreadsheet; a leading apostrophe makes it text."""


def json_lines(rows: Iterable[Row], encode: Encode = orjson.dumps) -> bytes:
    """One JSON object per line."""
    return b"".join(encode(row) + b"\n" for row in rows)


class Nested:
    """The keys of nested objects, column by column, in the order in which rows first show them."""

    def __init__(self) -> None:
        self._keys: dict[str, dict[str, None]] = {}

    def note(self, rows: Iterable[Row]) -> None:
        """Gather the keys that these rows have."""
        for row in rows:
            for name, value in row.items():
                if isinstance(value, Mapping):
                    self._keys.setdefault(name, {}).update(dict.fromkeys(map(str, value)))

    def columns(self, names: Iterable[str]) -> list[str]:
        """The columns of a file: each name, or one for each key that was found below it."""
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
    """Text that no spreadsheet runs; also behind blanks, which some trim before they look."""
    return f"'{text}" if text.startswith(RISKY) or text.lstrip().startswith(RISKY) else text


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
    """Numbers stay numbers: a longitude of -112 is no formula."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return harmless(value.replace("\0", ""))
    text = encode(value).decode()
    return text.strip('"') if text.startswith('"') else text
