"""Valid values of a record, and valid declarations of a record class."""

import pickle
from datetime import datetime
from typing import Any, ClassVar, Literal

import pytest
from pydantic import ValidationError

from forager.core.errors import Rejected
from forager.core.record import CLEAR, Clear, Index, Record
from forager.ledger.schema.record_tables import record_tables


class Reading(Record):
    kind: ClassVar[str] = "reading"
    table: ClassVar[str] = "readings"
    key_field: ClassVar[str] = "name"

    name: str
    value: float | None = None
    text: str | None = None
    due: datetime | Clear | None = None


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_a_number_that_no_store_keeps_alike_is_refused(value: float) -> None:
    with pytest.raises(ValidationError, match="finite"):
        Reading(name="a", value=value)


def test_only_a_field_that_declares_it_can_be_cleared() -> None:
    assert Reading(name="a", due=CLEAR).due is CLEAR
    with pytest.raises(ValidationError):
        Reading(name="a", text=CLEAR)


def test_there_is_one_clear_however_a_record_is_copied_and_json_shows_it_as_null() -> None:
    record = Reading(name="a", due=CLEAR)
    assert pickle.loads(pickle.dumps(record)).due is CLEAR
    assert record.model_copy(deep=True).due is CLEAR
    assert record.model_dump(mode="json")["due"] is None
    assert {"type": "null"} in Reading.model_json_schema()["properties"]["due"]["anyOf"]


@pytest.mark.parametrize("said", ["clear", "CLEAR", ["clear"], "('clear',)"])
def test_no_text_of_a_page_is_taken_for_clear(said: Any) -> None:
    with pytest.raises(ValidationError):
        Reading(name="a", due=said)


def _declares(**attributes: Any) -> type[Record]:
    return type("Declared", (Reading,), {"__module__": __name__, "__annotations__": {}, **attributes})


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ({"quiet": frozenset({"nothing"})}, "quiet names nothing, which are not fields"),
        ({"quiet": frozenset({"name"})}, "quiet names its key"),
        ({"indexes": (Index(("value DESC", "colour")),)}, "names colour, which are not columns"),
        ({"scope": "job"}, "its rows are final"),
    ],
)
def test_a_class_with_a_declaration_that_its_table_cannot_have_is_refused(attributes: dict[str, Any], why: str) -> None:
    with pytest.raises(Rejected, match=why):
        record_tables([_declares(**attributes)])


def test_words_of_a_fixed_list_are_text_so_that_an_index_can_use_them() -> None:
    class Shelf(Reading):
        stock: Literal["in", "out"] | None = None
        level: Literal[1, 2] | None = None
        mixed: Literal["a", 1] | None = None

    table = record_tables([Shelf])["reading"]
    kinds = dict(zip(table.fields, map(str, table.types), strict=True))
    assert (kinds["stock"], kinds["level"], kinds["mixed"]) == ("TEXT", "BIGINT", "JSON")
    assert table.values(Shelf(name="a", stock="in", mixed=1))[table.fields.index("stock")] == "in"
