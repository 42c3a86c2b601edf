"""The query kit: building blocks for a pipeline's `reports.py`.

`Database` is the port that the ledger implements; SQL is portable, with `:name` values. `walk` reads one page of a list
along an index and returns the cursor of the next one.
"""

from forager.core.database import Database, Row
from forager.kit.queries.aliases import stored_key
from forager.kit.queries.change_log import last_change
from forager.kit.queries.columns import Column, Encoder, Kind, bare_type, columns_of
from forager.kit.queries.jobs import JOB_NAME, JOB_NAMES, job_number, no_job
from forager.kit.queries.page import MOST, Page, Walk, checked_limit, decode_cursor, encode_cursor, walk
from forager.kit.queries.tables import (
    RowWrite,
    change_row,
    decoded,
    folded,
    insert_row,
    one_row,
    read_rows,
    remove_row,
)
from forager.kit.queries.values import at, loads, task_body

__all__ = [
    "JOB_NAME",
    "JOB_NAMES",
    "MOST",
    "Column",
    "Database",
    "Encoder",
    "Kind",
    "Page",
    "Row",
    "RowWrite",
    "Walk",
    "at",
    "bare_type",
    "change_row",
    "checked_limit",
    "columns_of",
    "decode_cursor",
    "decoded",
    "encode_cursor",
    "folded",
    "insert_row",
    "job_number",
    "last_change",
    "loads",
    "no_job",
    "one_row",
    "read_rows",
    "remove_row",
    "stored_key",
    "task_body",
    "walk",
]
