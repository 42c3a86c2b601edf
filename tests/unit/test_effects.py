"""Limits of an effect on a plain table, and of the table's declarations."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, ClassVar

import pytest
from sqlalchemy import MetaData

from forager.core.errors import Rejected
from forager.core.record import Index
from forager.core.table import Effect, TableRow
from forager.ledger.schema.record_ddl import add_plain_tables
from forager.sdk.queries import folded


class Market(TableRow):
    table: ClassVar[str] = "markets"
    key: ClassVar[tuple[str, ...]] = ("id", "day")
    stamped: ClassVar[frozenset[str]] = frozenset({"created_at"})
    id: str
    day: int
    city: str
    failures: int = 0
    cost: Decimal = Decimal(0)
    share: float | None = None
    seen_at: datetime | None = None
    created_at: datetime | None = None


KEY = {"id": "nyc", "day": 1}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"key": {"id": "nyc"}}, "identified by id, day"),
        ({"key": {**KEY, "city": "x"}}, "identified by id, day"),
        ({"key": {"id": "nyc", "day": "monday"}}, "Market.day: "),
        ({"add": {"colour": 1}}, "has no column colour"),
        ({"set": {"id": "la"}}, "has no column id"),
        ({"add": {"failures": 1}, "set": {"failures": 0}}, "choose one of add, set and fill"),
        ({"add": {"city": 1}}, "cannot be added"),
        ({"add": {"failures": 1.5}}, "cannot be added"),
        ({"add": {"failures": True}}, "cannot be added"),
        ({"add": {"failures": 2**63}}, "cannot be added"),
        ({"add": {"cost": 0.1}}, "cannot be added"),
        ({"set": {"failures": "many"}}, "Market.failures: "),
        ({"set": {"failures": None}}, "Market.failures: "),
        ({"set": {"failures": 2**63}}, "does not fit into 64 bits"),
        ({"set": {"share": float("inf")}}, "Market.share: "),
        ({"set": {"created_at": None}}, "must not be empty"),
        ({"add": {"failures": 1}, "insert": True}, "needs city"),
    ],
)
def test_an_effect_that_no_row_could_take_is_refused_when_it_is_made(arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Effect(Market, **{"key": KEY, **arguments})


def test_effects_on_one_row_become_one_statement_and_rows_come_in_one_order() -> None:
    other = Effect(Market, {"id": "aaa", "day": 1}, add={"failures": 1})
    writes = folded(
        [
            Effect(Market, KEY, add={"failures": 1, "cost": Decimal("0.5")}),
            other,
            Effect(Market, KEY, set={"failures": 0, "seen_at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}),
            Effect(Market, KEY, add={"failures": 2, "cost": 1}),
        ]
    )
    assert [write.key["id"] for write in writes] == ["aaa", "nyc"]
    assert (writes[1].set, writes[1].add) == ({"failures": 2, "seen_at": 1000}, {"cost": 15_000})


def test_an_update_is_not_taken_into_a_later_insert() -> None:
    """The row may be missing: on an empty table the update must do nothing."""
    effects = [Effect(Market, KEY, add={"failures": 1}), Effect(Market, KEY, set={"city": "x"}, insert=True)]
    assert [(write.insert, write.add, write.set) for write in folded(effects)] == [
        (False, {"failures": 1}, {}),
        (True, {}, {"city": "x"}),
    ]


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ({"key": ()}, "needs a `key`"),
        ({"key": ("share",)}, "needs a `key`"),
        ({"key": ("colour",)}, "names colour"),
        ({"stamped": frozenset({"city"})}, "hold no time"),
        ({"indexes": (Index(("colour",)),)}, "names colour"),
    ],
)
def test_a_class_with_a_declaration_that_its_table_cannot_have_is_refused(attributes: dict[str, Any], why: str) -> None:
    declared = type("Declared", (Market,), {"__module__": __name__, "__annotations__": {}, **attributes})
    with pytest.raises(Rejected, match=why):
        add_plain_tables(MetaData(), [declared], "sqlite")
