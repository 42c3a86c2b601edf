"""`forager changes`: before and now of what changed, found by time in a numbered log."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import typer

from forager.cli.changes import changed_rows, read_since
from forager.core.errors import Rejected
from forager.sdk.cli.client import ListPage
from forager.sdk.cli.invocation import Reached
from tests.support.cli import Forager

NOW = datetime(2026, 3, 14, 12, tzinfo=UTC)


def change(number: int, hours: float, price: int, version: int, op: str = "changed") -> dict[str, Any]:
    moment = NOW - timedelta(hours=hours)
    body = {
        "product_name": "Oak table",
        "url": "https://shop.example/oak",
        "price": price,
        "brand": "Oak",
        "version": version,
    }
    about = {"kind": "product", "key": "p1", "op": op, "version": version, "scope": "world"}
    return {"id": number, "at": moment.isoformat(), "body": body, **about}


LOG = [change(1, 72, 100, 1, "new"), change(2, 48, 90, 2), change(3, 5, 80, 3), change(4, 1, 80, 4, "gone")]


class Api:
    """The change log and one record's history."""

    def __init__(self) -> None:
        self.requests = 0

    async def ask(self, _: str, path: str, *, query: Mapping[str, Any]) -> ListPage:
        self.requests += 1
        found = [each for each in LOG if each["id"] > query.get("after", 0)][: query["limit"]]
        return ListPage(found, {"last": LOG[-1]["id"], "next_after": found[-1]["id"] if found else LOG[-1]["id"]})

    async def get(self, path: str, **_: Any) -> Any:
        if path == "/records":
            return [{"kind": "product", "fields": ["product_name", "price"]}, {"kind": "place", "fields": ["phone"]}]
        assert path == "/records/product/p1/history"
        return LOG[::-1]


async def test_only_changes_since_the_moment_are_shown_as_before_and_now() -> None:
    rows = await changed_rows(Reached(Api()), NOW - timedelta(days=1), None, None, 100)  # type: ignore[arg-type]

    assert [(row["op"], row["field"], row["before"], row["now"]) for row in rows] == [
        ("gone", None, None, None),
        ("changed", "price", 90, 80),
    ]
    assert rows[1]["name"] == "Oak table"


async def test_a_field_leaves_out_every_other_change_and_the_limit_keeps_the_newest() -> None:
    reached: Any = Reached(Api())  # type: ignore[arg-type]
    prices = await changed_rows(reached, NOW - timedelta(days=9), None, "price", 100)
    newest = await changed_rows(reached, NOW - timedelta(days=9), None, "price", 1)

    assert [(row["before"], row["now"]) for row in prices] == [(90, 80), (100, 90)]
    assert newest == prices[:1]
    assert await changed_rows(reached, NOW - timedelta(days=9), None, "phone", 100) == []


@pytest.mark.parametrize(
    ("kind", "field", "said"),
    [
        (None, "prise", "no record has a field 'prise'. Did you mean 'price'"),
        ("product", "phone", "no product has a field 'phone'. Choose from price, product_name."),
    ],
)
async def test_a_field_that_no_such_record_has_is_refused(kind: str | None, field: str, said: str) -> None:
    reached: Any = Reached(Api())  # type: ignore[arg-type]
    with pytest.raises(Rejected) as refused:
        await changed_rows(reached, NOW - timedelta(days=9), kind, field, 100)
    assert refused.value.fields[0].field == "field"
    assert refused.value.fields[0].message.startswith(said)


@pytest.mark.parametrize("text", ["1d", "90m", "2026-03-14T12:00:00Z", "2026-03-14"])
def test_a_time_may_be_how_long_ago_or_when(text: str) -> None:
    assert read_since(text).tzinfo is not None


@pytest.mark.parametrize("text", ["soon", "5", "", "-1d"])
def test_anything_else_is_refused_with_examples(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="such as 1d"):
        read_since(text)


@pytest.mark.usefixtures("store")
def test_an_empty_log_is_reported_as_empty(forager: Forager) -> None:
    assert forager("changes", "--since", "1d").err.startswith("No changes since")
    assert forager("changes", "--json").data == []
    assert "--since" in forager("changes", "--since", "soon").err
