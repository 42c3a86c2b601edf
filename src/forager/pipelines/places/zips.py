"""ZIP reference data: the included table, or any CSV or table with the columns `zip` and `state`.

Immutable once loaded; never uses the network. A ZIP is text everywhere: a number would lose its leading zeros.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple

import orjson
import zstandard

from forager.core.errors import ForagerError, Rejected

STANDARD = "STANDARD"
SHIPPED = Path(__file__).with_name("zips.json.zst")
"""The included table, as lists of the values of each column."""
_MOST_ERRORS = 5
_TRUE = {"", "1", "true", "t", "yes", "y"}
_FALSE = {"0", "false", "f", "no", "n"}


class Zip(NamedTuple):
    zip: str
    state: str
    city: str | None = None
    county: str | None = None
    lat: float | None = None
    long: float | None = None
    type: str = STANDARD
    active: bool = True


class ZipTable:
    """ZIPs by code and by state. The first row of a ZIP counts: some sources repeat one per city or county."""

    def __init__(self, rows: Iterable[Zip]) -> None:
        self._by_zip: dict[str, Zip] = {}
        for row in rows:
            self._by_zip.setdefault(row.zip, row)
        by_state: dict[str, list[Zip]] = {}
        for row in sorted(self._by_zip.values()):
            by_state.setdefault(row.state, []).append(row)
        self._by_state = {state: tuple(rows) for state, rows in by_state.items()}
        self.states: tuple[str, ...] = tuple(sorted(by_state))

    def __len__(self) -> int:
        return len(self._by_zip)

    def get(self, zip_code: str) -> Zip | None:
        return self._by_zip.get(zip_code)

    def of_state(self, state: str, *, po_boxes: bool = False) -> tuple[Zip, ...]:
        """Active ZIPs in ascending order: standard ones, or with `po_boxes` those of every type."""
        rows = self._by_state.get(state, ())
        return tuple(row for row in rows if row.active and (po_boxes or row.type == STANDARD))

    @classmethod
    def from_csv(cls, path: Path) -> "ZipTable":
        try:
            with path.open(encoding="utf-8-sig", newline="") as lines:
                return cls(read_csv(lines, name=str(path)))
        except OSError as error:
            raise Rejected(
                f"{path}: {error.strerror}. Name a readable CSV file with the columns zip, state."
            ) from error
        except UnicodeDecodeError as error:
            raise Rejected(f"{path} is not UTF-8 text ({error.reason}). Save the CSV as UTF-8.") from error

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[str, Any]], *, name: str) -> "ZipTable":
        """Build the table from rows of a database, checked as those of a CSV are. Raises `Rejected`, naming the wrong
        rows."""
        texts = ({column: _text(value) for column, value in row.items()} for row in rows)
        return cls(_checked(enumerate(texts, 1), name, "row", "Correct the table and start again."))


def _text(value: Any) -> str:
    """Return a value of a database as a CSV would have it."""
    return "" if value is None else str(value)


@cache
def shipped_zips() -> ZipTable:
    """Return the included table: some 42,800 ZIPs, made from the package `zipcodes` by `scripts/zip_table.py`. Read
    once, in about a tenth of a second: not on the loop."""
    return ZipTable(_shipped_rows())


def is_zip(text: str) -> bool:
    return len(text) == 5 and text.isascii() and text.isdigit()


def read_csv(lines: Iterable[str], *, name: str = "zips.csv") -> list[Zip]:
    """Return rows of a CSV with a header. Bad ones are reported together, by line, and nothing is loaded."""
    reader = csv.DictReader(lines, restval="")
    try:
        reader.fieldnames = [column.strip().lower() for column in reader.fieldnames or ()]
        missing = [column for column in ("zip", "state") if column not in reader.fieldnames]
        if missing:
            raise Rejected(f"{name}, line 1: no column {' and '.join(missing)}. The header must name zip and state.")
        numbered = ((reader.line_num, row) for row in reader)
        return _checked(numbered, name, "line", "Correct the file and load it again.")
    except csv.Error as error:
        raise Rejected(
            f"{name}, after line {reader.line_num}: not CSV ({error}). Save it as comma-separated text."
        ) from error


def _checked(numbered: Iterable[tuple[int, Mapping[str, str | None]]], name: str, what: str, remedy: str) -> list[Zip]:
    """Return the ZIPs of numbered rows. Raises `Rejected` with the first wrong ones, or for an empty list."""
    rows, errors = [], []
    for number, row in numbered:
        try:
            rows.append(_from_csv(row))
        except ValueError as error:
            errors.append(f"{what} {number}: {error}")
    if errors:
        more = f" … and {len(errors) - _MOST_ERRORS} more" if len(errors) > _MOST_ERRORS else ""
        raise Rejected(f"{name}: {'; '.join(errors[:_MOST_ERRORS])}{more}. {remedy}")
    if not rows:
        raise Rejected(f"{name} has no rows. Add one row per ZIP.")
    return rows


def _from_csv(row: Mapping[str, str | None]) -> Zip:
    def cell(column: str) -> str:
        return (row.get(column) or "").strip()

    zip_code, state, active = cell("zip"), cell("state").upper(), cell("active").lower()
    if not is_zip(zip_code):
        lost = " (was a leading zero lost? keep the column as text)" if zip_code.isdigit() and len(zip_code) < 5 else ""
        raise ValueError(f"zip {zip_code!r} is not five digits{lost}")
    if not (len(state) == 2 and state.isascii() and state.isalpha()):
        raise ValueError(f"state {state!r} is not two letters")
    if active not in _TRUE | _FALSE:
        raise ValueError(f"active {active!r} is neither true nor false")
    return Zip(
        zip=zip_code,
        state=intern(state),
        city=cell("city") or None,
        county=intern(cell("county")) or None,
        lat=_degrees("lat", cell("lat"), 90.0),
        long=_degrees("long", cell("long"), 180.0),
        type=intern(cell("type").upper() or STANDARD),
        active=active in _TRUE,
    )


def _degrees(column: str, text: str, most: float) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{column} {text!r} is not a number") from None
    if not -most <= value <= most:
        raise ValueError(f"{column} {text!r} is not between -{most:g} and {most:g}")
    return value


def _shipped_rows() -> Iterator[Zip]:
    try:
        columns = orjson.loads(zstandard.decompress(SHIPPED.read_bytes()))
    except (OSError, ValueError, zstandard.ZstdError) as error:
        raise ForagerError(f"The included table of ZIPs cannot be read: {error}. Install Forager again.") from error
    for zip_code, state, city, county, lat, long, type_, active in zip(*columns.values(), strict=True):
        yield Zip(zip_code, intern(state), city or None, intern(county) or None, lat, long, intern(type_), bool(active))
