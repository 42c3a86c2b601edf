"""What a warehouse mirrors of a pipeline beside its records: a table of its jobs and a table of its tasks.

A `Mirror` only names tables and columns. A sink reads the rows from views of the ledger and writes them; `forager
restore` reads them back.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol
from uuid import UUID

from forager.core.record import Record
from forager.core.restored import LastNumbers, RestoredJob

ColumnType = Literal["STRING", "INT64", "FLOAT64", "BOOL", "TIMESTAMP", "DATE", "NUMERIC", "JSON", "STRUCT"]


@dataclass(frozen=True, slots=True)
class MirrorColumn:
    """One column of a table in the warehouse. Every column may be NULL."""

    name: str
    type: ColumnType
    fields: tuple["MirrorColumn", ...] = ()
    """The fields of a STRUCT."""


CHANGE_ID = MirrorColumn("change_id", "INT64")
"""The number of the change with which a row was written: a row is replaced only by one with a greater number."""
DETAILS = MirrorColumn("details", "JSON")
"""The row as the ledger has it, for `forager restore`. Its names are those of `RestoredJob`, of `RestoredTask` (whose
number is `id` and whose body is `input`) and of `RestoredRecord` (whose number is `id`; fields that the table lacks are
beside it)."""


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
    """By kind of record: the table that takes the place of the one made from the record's class. Job scope only."""
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
