"""Requirements of a recheck on its records, checked when the catalog is built."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

import pytest
from pydantic import BaseModel

from forager.core.errors import Rejected
from forager.core.pipeline import Pipeline
from forager.core.recheck import Recheck, recheck
from forager.core.record import Clear, Index, Record
from forager.ledger.catalog import Catalog

INDEX = Index(("next_at", "name"), where="next_at IS NOT NULL")


class Page(Record):
    kind: ClassVar[str] = "page"
    table: ClassVar[str] = "pages"
    key_field: ClassVar[str] = "name"
    quiet: ClassVar[frozenset[str]] = frozenset({"next_at", "etag", "at"})
    indexes: ClassVar[tuple[Index, ...]] = (INDEX, Index(("etag",), where="etag IS NOT NULL"), Index(("at",)))
    name: str
    next_at: datetime | Clear | None = None
    loud_at: datetime | None = None
    etag: str | None = None
    at: datetime | None = None


class Other(Page):
    kind: ClassVar[str] = "other"
    table: ClassVar[str] = "others"


def pipeline(name: str, rechecks: Sequence[Recheck]) -> Pipeline:
    return Pipeline(name=name, params=BaseModel, plan=lambda _: (), steps=(), records=(Page,), rechecks=tuple(rechecks))


def on(field: str, record: type[Record] = Page, name: str | None = None) -> Recheck:
    return recheck(record, due=field, task=lambda _: None, name=name)


def test_a_recheck_is_named_after_its_record_and_field_unless_it_has_a_name() -> None:
    assert (on("next_at").name, on("next_at", name="recrawl").name) == ("page.next_at", "recrawl")
    Catalog([pipeline("a", [on("next_at")])])


@pytest.mark.parametrize("name", ["", "a b", "a/b", "x" * 101])
def test_a_name_that_is_no_part_of_an_address_is_rejected(name: str) -> None:
    with pytest.raises(Rejected):
        Recheck(Page, "next_at", lambda _: None, name)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (on("missing"), "needs Page.missing as a quiet field"),
        (on("loud_at"), "needs Page.loud_at as a quiet field"),
        (on("etag"), "needs Page.etag as a quiet field"),
        (on("at"), 'needs Index(("at",), where="at IS NOT NULL") on Page'),
        (on("next_at", Other), "Other, which is not a record of this pipeline"),
    ],
)
def test_a_recheck_whose_records_cannot_be_found_by_their_due_time_is_rejected(wrong: Recheck, message: str) -> None:
    with pytest.raises(Rejected) as error:
        Catalog([pipeline("a", [wrong])])
    assert message in error.value.message


def test_two_rechecks_cannot_have_one_name() -> None:
    with pytest.raises(Rejected, match=r"Two rechecks are called 'page\.next_at'"):
        Catalog([pipeline("a", [on("next_at")]), pipeline("b", [on("next_at")])])
