"""The formats of files: JSON lines, and CSV that is safe to open in a spreadsheet."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from forager.core.change import Change
from forager.kit.change_json import change_json, change_line
from forager.kit.tabular import CsvTable

Encode = Callable[[str, Sequence[Change]], bytes]
"""`encode(kind, changes)`: the content of one file. All changes are of that kind."""
ABOUT = ("id", "kind", "key", "op", "version", "scope", "job", "pipeline", "at")


def json_lines(_: str, changes: Sequence[Change]) -> bytes:
    return b"".join(map(change_line, changes))


class Csv:
    """One column for each field of the record, after those that every change has; nested values are JSON."""

    def __init__(self, fields: Mapping[str, Sequence[str]]) -> None:
        """`fields` by kind of record. Any other kind has its body in one column, as JSON."""
        self._fields = fields

    def __call__(self, kind: str, changes: Sequence[Change]) -> bytes:
        fields = self._fields.get(kind)
        names = ("body",) if fields is None else tuple(f"body.{name}" for name in fields)
        table = CsvTable((*ABOUT, *names), _encode)
        return table.header() + table.lines(map(change_json, changes))


def _encode(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_UTC_Z)
