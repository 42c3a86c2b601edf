"""Filters of record lists, derived from the indexes that a record class declares.

A record can be filtered by its key and by every field of an index that covers the whole table. The filter that an index
serves drives the walk; any other one is applied to a bounded number of rows per page, so that no request scans a table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any
from uuid import UUID

from pydantic import TypeAdapter, ValidationError

from forager.core.database import Row
from forager.core.errors import FieldError, Rejected
from forager.core.ids import did_you_mean
from forager.core.record import Index, Record
from forager.ledger.catalog import Catalog
from forager.ledger.schema.record_tables import RecordTable
from forager.sdk.queries import JOB_NAME, JOB_NAMES, Walk, at, bare_type, columns_of, loads

MOST_NUMBER = 2**63
_ANY_ORDER = ("id",)


@dataclass(frozen=True, slots=True)
class Filters:
    """Values for columns of one record table, checked and encoded."""

    values: Mapping[str, Any]
    driving: frozenset[str] = frozenset()
    """The columns that an index serves together …"""
    order: tuple[str, ...] = _ANY_ORDER
    """… and the order in which it then gives the rows."""

    @property
    def bound(self) -> dict[str, Any]:
        """The values under the names that the conditions use."""
        return {f"f_{name}": value for name, value in self.values.items()}

    def conditions(self, names: Sequence[str] | frozenset[str], table: str = "") -> tuple[str, ...]:
        prefix = f"{table}." if table else ""
        return tuple(f"{prefix}{name} = :f_{name}" for name in self.values if name in names)

    @property
    def rest(self) -> frozenset[str]:
        return frozenset(self.values) - self.driving

    @property
    def mark(self) -> str:
        """Part of the name of a list: a cursor of another filter is refused."""
        if not self.values:
            return ""
        text = repr(sorted((name, repr(value)) for name, value in self.values.items()))
        return f" where {sha256(text.encode()).hexdigest()[:16]}"


NO_FILTERS = Filters({})


def filter_names(record: type[Record]) -> tuple[str, ...]:
    """Return the fields that a list of this kind can be filtered by."""
    indexed = [name for index in _whole(record) for name in index.names if name in record.model_fields]
    names = dict.fromkeys((record.key_field, *indexed))
    return tuple(name for name in names if columns_of(record)[name].kind != "json")


def read_filters(record: type[Record], given: Mapping[str, str]) -> Filters:
    """Check and encode filters that a caller has written as text. Raises `Rejected`, naming every wrong one."""
    known = filter_names(record)
    values, wrong = dict[str, Any](), list[FieldError]()
    for name, text in given.items():
        if name not in known:
            near = did_you_mean(name, known)
            wrong.append(FieldError(name, f"not a filter of {record.kind!r};{near} choose from {', '.join(known)}"))
            continue
        try:
            values[name] = _encoded(record, name, text)
        except ValueError as error:
            wrong.append(FieldError(name, str(error)))
    if wrong:
        raise Rejected(f"{wrong[0].field}: {wrong[0].message}.", fields=wrong)
    return _driven(record, values)


def stored_value(record: type[Record], name: str, told: Any) -> Any:
    """Return a value of the change log as the record's table would store it; None for one that its class does not
    take."""
    try:
        return None if told is None else _encoded(record, name, str(told))
    except ValueError:
        return None


def _driven(record: type[Record], values: Mapping[str, Any]) -> Filters:
    """Return the filters with the index that serves most of them."""
    best = Filters(values)
    keyed = Index((record.key_field,))
    for index in (keyed, *_whole(record)):
        served = []
        for name in index.names:
            if name not in values:
                break
            served.append(name)
        if len(served) > len(best.driving):
            best = Filters(values, frozenset(served), _order(record, index, len(served)))
    return best


def _order(record: type[Record], index: Index, served: int) -> tuple[str, ...]:
    """Return the order of the rows behind the served columns, if it is one that a cursor can name: text that is never
    null."""
    following = index.columns[served : served + 1]
    is_text = record.model_fields[record.key_field].annotation is str
    return (record.key_field, "id") if following == (record.key_field,) and is_text else _ANY_ORDER


def _whole(record: type[Record]) -> list[Index]:
    """A partial index serves only queries that state its condition."""
    return [index for index in record.indexes if index.where is None]


def _encoded(record: type[Record], name: str, text: str) -> Any:
    try:
        value = TypeAdapter(bare_type(record.model_fields[name].annotation)).validate_strings(text)
    except ValidationError as error:
        raise ValueError(error.errors(include_url=False)[0]["msg"]) from error
    try:
        value = columns_of(record)[name].encoded(value)
    except ArithmeticError as error:  # for example a time before the year 1
        raise ValueError("is out of range") from error
    if isinstance(value, int) and abs(value) >= MOST_NUMBER:
        raise ValueError("is out of range")
    return value


# The walks that lists and exports of records take: through a whole table, or through what one job found.


def walk_through(
    catalog: Catalog,
    table: RecordTable,
    job: int | None,
    filters: Filters,
    *,
    as_of: int | None = None,
    mark: str | None = None,
) -> Walk:
    """Return all records of a table, or those that a job found, in the order of their finding.

    `as_of`: only records that had been seen by then, in Unix milliseconds. `mark` names the filters in the cursor.
    """
    mark = filters.mark if mark is None else mark
    plan = _all_of(table, filters, mark) if job is None else _of_job(catalog, table, job, filters, mark)
    if as_of is None:
        return plan
    row = "r" if plan.columns == _FOUND else "w"
    return replace(
        plan,
        of=f"{plan.of} as of {as_of}",
        only=(*plan.only, f"{row}.first_seen_at <= :as_of"),
        values={**plan.values, "as_of": as_of},
    )


def as_people_see(table: RecordTable, row: Row) -> dict[str, Any]:
    """Return a row with the types of its record, and the times that the ledger keeps."""
    own = table.decode({name: row[name] for name in table.fields})
    kept = {name: at(row[name]) if name.endswith("_at") else row[name] for name in table.kept}
    if "gone_evidence" in kept:
        kept["gone_evidence"] = loads(kept["gone_evidence"])
    return {**({"job": UUID(row["public_id"])} if table.per_job else {}), **own, **kept}


def _all_of(table: RecordTable, filters: Filters, mark: str) -> Walk:
    scope, joins = (f", {JOB_NAME}", JOB_NAMES) if table.per_job else ("", "")
    return Walk(
        f"records {table.name}{mark}",
        f"SELECT * FROM {table.name}",
        filters.order,
        filters.conditions(filters.driving),
        columns=f"w.*{scope}",
        joins=joins,
        only=filters.conditions(filters.rest, "w"),
        values=filters.bound,
    )


def _of_job(catalog: Catalog, table: RecordTable, job: int, filters: Filters, mark: str) -> Walk:
    field = table.record.key_field
    of = f"records {table.name} of job {job}{mark}"
    if table.per_job:
        return Walk(
            of,
            f"SELECT * FROM {table.name}",
            ("id",),
            ("job_id = :job",),
            columns=f"w.*, {JOB_NAME}",
            joins=JOB_NAMES,
            only=filters.conditions(tuple(filters.values), "w"),
            values={**filters.bound, "job": job},
        )
    seen_by = next(
        (
            t
            for t in catalog.records.values()
            if t.per_job and t.record.identity == table.record.identity and t.record.identity is not None
        ),
        None,
    )
    if seen_by is None:
        raise Rejected(f"Records of kind {table.record.kind!r} belong to no job: export them without one.")
    # A job found the world-scoped records to which its own records of the same identity refer.
    return Walk(
        of,
        f"SELECT id, {seen_by.record.key_field} AS {field} FROM {seen_by.name}",
        ("id",),
        ("job_id = :job",),
        columns=_FOUND,
        joins=f"JOIN {table.name} r ON r.{field} = w.{field}",
        only=filters.conditions(tuple(filters.values), "r"),
        values={**filters.bound, "job": job},
    )


_FOUND = "r.*"
"""The columns of a row: those of the record of world scope (`r`), not of the table that the walk goes along."""
