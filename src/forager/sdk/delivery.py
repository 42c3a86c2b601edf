"""A warehouse's tables of a pipeline in addition to its records: one of its jobs and one of its tasks.

A `Mirror` only names tables and columns. A sink reads the rows from views of the ledger and writes them; `forager
restore` reads them back.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Literal, Protocol
from uuid import UUID

import orjson

from forager.core.change import Change
from forager.core.record import Record
from forager.core.upkeep import LastNumbers, RestoredJob
from forager.sdk.queries import bare_type, columns_of

ColumnType = Literal["STRING", "INT64", "FLOAT64", "BOOL", "TIMESTAMP", "DATE", "NUMERIC", "JSON", "STRUCT"]


@dataclass(frozen=True, slots=True)
class MirrorColumn:
    """One column of a table in the warehouse. Every column may be NULL."""

    name: str
    type: ColumnType
    fields: tuple["MirrorColumn", ...] = ()
    """The fields of a STRUCT."""


_EXACT: dict[Any, ColumnType] = {Decimal: "NUMERIC", datetime: "TIMESTAMP", date: "DATE"}
_BY_KIND: dict[str, ColumnType] = {
    "text": "STRING",
    "boolean": "BOOL",
    "bigint": "INT64",
    "float": "FLOAT64",
    "json": "JSON",
}


def column_type(record: type[Record], name: str) -> ColumnType:
    """Return the type of a field of a record in a warehouse."""
    return _EXACT.get(bare_type(record.model_fields[name].annotation)) or _BY_KIND[columns_of(record)[name].kind]


CHANGE_ID = MirrorColumn("change_id", "INT64")
"""The number of the change with which a row was written: a row is replaced only by one with a greater number."""
DETAILS = MirrorColumn("details", "JSON")
"""The row as stored in the ledger, for `forager restore`. Its names are those of `RestoredJob`, of `RestoredTask`
(number: `id`, body: `input`) and of `RestoredRecord` (number: `id`; fields that the table lacks are included)."""


@dataclass(frozen=True, slots=True)
class MirrorTable:
    """One table in the warehouse, and the view of the ledger that has its rows."""

    name: str
    view: str
    """It has the columns of the table but for `change_id`, and, unless it is the table of jobs, two more: `job_number`
    (the ledger's own number of the job) and `item` (the key of the task or the record). Both lead to an index."""
    columns: tuple[MirrorColumn, ...]
    """In their order in the warehouse, `change_id` included."""
    key: tuple[str, ...]
    """The columns that identify a row. The first is `job_id`, by which the table is clustered."""
    walk: str = "item"
    """The column of the view in the order of which an index has the rows of one job."""


@dataclass(frozen=True, slots=True)
class Mirror:
    """The tables of one pipeline."""

    jobs: MirrorTable
    tasks: MirrorTable
    records: Mapping[str, MirrorTable] = field(default_factory=dict)
    """Tables that replace those made from a record's class, by kind of record. Job scope only."""
    aliases: Callable[[Record], tuple[str, ...]] = lambda _: ()
    """Weaker keys of the thing that a restored record is about."""


def columns(text: str) -> tuple[MirrorColumn, ...]:
    """Return the columns that a text of lines `name TYPE` declares."""
    pairs = [line.split() for line in text.strip().splitlines()]
    return tuple(MirrorColumn(name, kind) for name, kind in pairs)  # type: ignore[arg-type]  # checked by a test


class RestoreSource(Protocol):
    """A mirror that jobs can be restored from."""

    async def last_numbers(self) -> LastNumbers:
        """Return the highest numbers in the mirror."""
        ...

    async def job_ids(self) -> Sequence[UUID]:
        """Return every job in the mirror, oldest first. Raises `NotFound` if there is no mirror."""
        ...

    async def job(self, job: UUID) -> RestoredJob:
        """Return a job with its tasks and, if it is unfinished, its records."""
        ...


# Declares the document of a record in an external search index: its alias, and which columns become which fields.
#
# A pipeline declares it once (`Feature.indexed`); the sinks that keep such an index read it from there.


FieldType = Literal["integer", "text", "keyword", "date"]


@dataclass(frozen=True, slots=True)
class IndexedField:
    """One field of a document."""

    name: str
    type: FieldType
    column: str
    """The column of the record's table. A date is a column of Unix milliseconds."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """The documents of one record class. The record must be of world scope and declare `search`."""

    record: type[Record]
    alias: str
    """The name under which the index is searched."""
    number: str
    """The field that holds the record's id: an integer, by which the newest records are found."""
    fields: tuple[IndexedField, ...]

    @property
    def searched(self) -> dict[str, str]:
        """Map the fields that are searched for words to their weights."""
        weights = self.record.search
        return {field.name: weights[field.column] for field in self.fields if field.column in weights}


# Declares what a pipeline publishes to a message broker: which changes, on which topic, in which form.
#
# Pure: a publication does not depend on a broker. A sink for a broker gets the message of each change from it.


@dataclass(frozen=True, slots=True)
class PublishedMessage:
    topic: str
    key: str
    """Messages with the same key keep their order."""
    value: Mapping[str, Any]
    """As JSON: what `orjson` encodes, so also fields of `Change.fields`."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Beside those that every message has: the number of its change, and its source."""


@dataclass(frozen=True, slots=True)
class PublishedStage:
    """Tasks of one kind whose beginning is published, so that consumers of the topic can claim them."""

    kind: str
    topic: str
    lane: str
    """The lane of these tasks."""
    queue: str
    """The queue of the lane, and the name of the consumer group."""


@dataclass(frozen=True, slots=True)
class Publication:
    """A pipeline's `Feature.publication`."""

    topics: tuple[str, ...]
    """Every topic that `message` names, but those of the stages."""
    kinds: frozenset[str]
    """The kinds of changes of which some are published."""
    message: Callable[[Change], PublishedMessage | None]
    """The message of a change of this pipeline; None if it is not published. The message of a queued task of a stage
    contains its public id as `task_id`."""
    stages: tuple[PublishedStage, ...] = ()
    """Published only where consumers do the work. New tasks of these kinds are then offered
    (`Pipeline.logged_states`)."""


# A change as JSON: the one form in which files, messages, streams and the API show it.


def change_json(change: Change) -> dict[str, Any]:
    """Return a change as a JSON object, its number first. The body is what the API shows of the record or the job."""
    return {**encodable(change), "body": change.body}


def encodable(change: Change) -> dict[str, Any]:
    """Return the same in a form for `encoded` only, with the body as the log stores it."""
    return {
        "id": change.id,
        "kind": change.kind,
        "key": change.key,
        "op": change.op,
        "version": change.version,
        "scope": change.scope,
        "job": change.job,
        "pipeline": change.pipeline,
        "at": datetime.fromtimestamp(change.at / 1000, UTC),
        "body": change.json,
    }


def change_line(change: Change) -> bytes:
    """Return a change as a line of JSON, with its end of line."""
    return encoded(encodable(change)) + b"\n"


def encoded(value: Mapping[str, Any]) -> bytes:
    """Encode an object as JSON. Times are in UTC and end with `Z`."""
    return orjson.dumps(value, option=orjson.OPT_UTC_Z)


# A set of change numbers as a bitmap: these are dense, so ten million of them take little more than a megabyte.


class NumberSet:
    def __init__(self) -> None:
        self._bits = bytearray()

    def add(self, number: int) -> None:
        index = number >> 3
        if index >= len(self._bits):
            self._bits.extend(bytes(index + 1 - len(self._bits)))
        self._bits[index] |= 1 << (number & 7)

    def __contains__(self, number: int) -> bool:
        index = number >> 3
        return index < len(self._bits) and bool(self._bits[index] & 1 << (number & 7))


def ranges_of(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the numbers as (first, last) of each run without a gap, in order."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges


def numbers_in(ranges: Iterable[Sequence[int]]) -> Iterable[int]:
    """Yield the reverse of `ranges_of`."""
    for first, last in ranges:
        yield from range(first, last + 1)
