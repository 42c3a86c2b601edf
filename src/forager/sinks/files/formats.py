"""The formats of files: JSON lines, CSV that is safe to open in a spreadsheet, and Parquet with types."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson

from forager.core.change import Change
from forager.core.record import Record
from forager.kit.change_json import change_json, change_line
from forager.kit.parquet import ParquetTable
from forager.kit.tabular import CsvTable

Encode = Callable[[str, Sequence[Change]], bytes]
"""`encode(kind, changes)`: the content of one file. All changes are of that kind."""
ABOUT = ("id", "kind", "key", "op", "version", "scope", "job", "pipeline", "at")
_ABOUT_TYPES = {**dict.fromkeys(ABOUT, str), "id": int, "version": int, "at": datetime}
_REST = "change_rest"


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


class Parquet:
    """One typed column for each field of the record, after those of the change, which begin with `change_`."""

    def __init__(self, records: Mapping[str, type[Record]]) -> None:
        """`records` by kind. Any other kind (jobs, tasks) has its body in the column `change_rest`, as JSON. Raises
        `Rejected` if the package is not installed."""
        about = {f"change_{name}": annotation for name, annotation in _ABOUT_TYPES.items()}
        self._tables = {kind: ParquetTable(about, record, _REST) for kind, record in records.items()}
        self._others = ParquetTable(about, None, _REST)

    def __call__(self, kind: str, changes: Sequence[Change]) -> bytes:
        return self._tables.get(kind, self._others).encode(list(map(self._row, changes)))

    @staticmethod
    def _row(change: Change) -> tuple[dict[str, Any], Mapping[str, Any]]:
        told = {f"change_{name}": value for name, value in change_json(change).items() if name in _ABOUT_TYPES}
        return {**told, "change_job": str(change.job) if change.job else None}, change.body or {}


def _encode(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_UTC_Z)
