"""Values for BigQuery are checked: a value that its column cannot hold stops only its own change."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import orjson
import pytest

from forager.core.errors import Permanent
from forager.sdk.delivery import CHANGE_ID, ColumnType, MirrorColumn, MirrorTable
from forager.sinks.bigquery.ledger_rows import merge, quoted
from forager.sinks.bigquery.sink import LARGEST_ROW, encode, line_of

JOB = "0f1c9b52-6a7e-4d0e-8e63-0a2f3c5b7d11"
TABLE = MirrorTable("t", "v", (MirrorColumn("job_id", "STRING"), MirrorColumn("body", "JSON"), CHANGE_ID), ("job_id",))


@pytest.mark.parametrize(
    ("kind", "value", "sent"),
    [
        ("STRING", "=1+1\n", "=1+1\n"),
        ("INT64", 2**63 - 1, 2**63 - 1),
        ("INT64", 3.0, 3),
        ("FLOAT64", -112.074, -112.074),
        ("BOOL", 0, False),
        ("TIMESTAMP", "2026-03-14T12:04:00.120Z", "2026-03-14T12:04:00.120000Z"),
        ("TIMESTAMP", datetime(2026, 3, 14, tzinfo=UTC), "2026-03-14T00:00:00Z"),
        ("DATE", "2026-03-14", "2026-03-14"),
        ("DATE", date(2026, 3, 14), "2026-03-14"),
        ("NUMERIC", Decimal("19.9900"), "19.99"),
        ("NUMERIC", "1e3", "1000"),
        ("NUMERIC", "-0.000000001", "-0.000000001"),
        ("JSON", {"a": ["\n"]}, '{"a":["\\n"]}'),
        ("JSON", '{"a":1}', '{"a":1}'),
        ("JSON", None, None),
    ],
)
def test_a_value_is_sent_in_the_form_of_its_column(kind: ColumnType, value: Any, sent: Any) -> None:
    assert encode(MirrorColumn("x", kind), value, "t") == sent


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("INT64", 2**63),
        ("INT64", "three"),
        ("INT64", 1.5),
        ("FLOAT64", float("nan")),
        ("FLOAT64", "x"),
        ("TIMESTAMP", "2026-03-14T12:04:00"),
        ("TIMESTAMP", "soon"),
        ("DATE", "2026-02-30"),
        ("NUMERIC", "1" + 29 * "0"),
        ("NUMERIC", "0.0000000001"),
        ("NUMERIC", "NaN"),
        ("NUMERIC", "ten"),
        ("JSON", "{"),
        ("JSON", {"a": {1, 2}}),
    ],
)
def test_a_value_that_a_column_cannot_hold_is_refused_and_named(kind: ColumnType, value: Any) -> None:
    with pytest.raises(Permanent, match=rf"t\.x is {kind} and cannot hold"):
        encode(MirrorColumn("x", kind), value, "t")


def test_a_struct_is_encoded_field_by_field() -> None:
    column = MirrorColumn("totals", "STRUCT", (MirrorColumn("zips", "INT64"), MirrorColumn("new", "INT64")))
    assert encode(column, '{"zips": 3, "other": 4}', "t") == {"zips": 3, "new": None}


def test_a_row_is_one_line_whatever_is_in_it__S20() -> None:
    nasty = {"text": '\n{"job_id": "injected"}\n', "quote": "`'\"\\"}
    line = line_of(TABLE, {"job_id": "a\nb", "body": nasty, "change_id": 7}, is_removed=False)
    assert line.count(b"\n") == 1
    assert orjson.loads(line) == {
        "job_id": "a\nb",
        "body": orjson.dumps(nasty).decode(),
        "change_id": 7,
        "is_removed": False,
    }


def test_a_row_that_is_too_large_is_refused() -> None:
    with pytest.raises(Permanent, match="at most"):
        line_of(TABLE, {"job_id": JOB, "body": {"x": "y" * LARGEST_ROW}, "change_id": 1})


def test_jobs_are_constants_in_a_statement_and_can_be_nothing_but_ids__S19() -> None:
    assert f"t.`job_id` IN ('{JOB}')" in merge(TABLE, "s", "p.d", {JOB})
    with pytest.raises(ValueError, match="UUID"):
        merge(TABLE, "s", "p.d", {"x') OR ('1' = '1"})
    with pytest.raises(ValueError, match="identifier"):
        quoted("a`b")
