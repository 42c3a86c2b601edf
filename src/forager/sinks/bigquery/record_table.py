"""The table of a record kind that no pipeline declares a table for: made from the record's class. Pure."""

from datetime import date, datetime
from decimal import Decimal

from forager.core.record import Record
from forager.kit.mirror import CHANGE_ID, ColumnType, MirrorColumn, MirrorTable
from forager.kit.queries import bare_type, columns_of

_EXACT: dict[type, ColumnType] = {Decimal: "NUMERIC", datetime: "TIMESTAMP", date: "DATE"}
_BY_KIND: dict[str, ColumnType] = {
    "text": "STRING",
    "boolean": "BOOL",
    "bigint": "INT64",
    "float": "FLOAT64",
    "json": "JSON",
}
KEPT = (
    MirrorColumn("version", "INT64"),
    MirrorColumn("first_seen_at", "TIMESTAMP"),
    MirrorColumn("gone_at", "TIMESTAMP"),
    CHANGE_ID,
)
"""What every such table has after the fields of the record."""


def record_table(record: type[Record]) -> MirrorTable:
    """Return the table of a record class: its fields (quiet ones left out, because they change without a change), then
    the columns of `KEPT`. A record of job scope has `job_id` before them."""
    fields = tuple(MirrorColumn(name, _type(record, name)) for name in columns_of(record) if name not in record.quiet)
    key: tuple[str, ...] = (record.key_field,)
    if record.scope == "job":
        fields, key = (MirrorColumn("job_id", "STRING"), *fields), ("job_id", record.key_field)
    return MirrorTable(record.table, record.table, (*fields, *KEPT), key)


def _type(record: type[Record], name: str) -> ColumnType:
    kind = bare_type(record.model_fields[name].annotation)
    return _EXACT.get(kind) or _BY_KIND[columns_of(record)[name].kind]
