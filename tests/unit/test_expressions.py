"""Conditions on records: what they mean, and how wrong ones are reported."""

from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar, Literal

import pytest

from forager.core.record import Record
from forager.sdk.expressions import DEEPEST, LONGEST, BadExpression, compiled, fields_of


class Offer(Record):
    kind: ClassVar[str] = "offer"
    table: ClassVar[str] = "offers"
    key_field: ClassVar[str] = "uid"
    quiet: ClassVar[frozenset[str]] = frozenset({"etag"})
    uid: str
    price: Decimal | None = None
    stars: float | None = None
    availability: Literal["in_stock", "sold_out"] | None = None
    open: bool | None = None
    seen: datetime | None = None
    tags: list[str] | None = None
    more: dict[str, Any] | None = None
    etag: str | None = None


FIELDS = fields_of(Offer)
NOW = {
    "uid": 'Oak "7"',
    "price": "40.00",
    "stars": 4.5,
    "availability": "in_stock",
    "open": True,
    "seen": "2026-03-14T12:00:00Z",
    "tags": ["new", "oak"],
}
OLD = {**NOW, "price": "50.00", "tags": ["new"]}


@pytest.mark.parametrize(
    "text",
    [
        'price < 50 and availability == "in_stock"',
        "old.price > price",
        "(old.price - price) / old.price >= 0.2",
        "price == 40",
        "price == 40.0 and price != 41",
        "-price < 0 and abs(price - old.price) == 10",
        "price * 2 + 1 == 81 and 1 + 2 * 3 == 7 and 10 - 2 - 3 == 5 and 12 / 2 / 3 == 2",
        "changed(price) and changed(tags) and not changed(stars)",
        "not (price < 10) and not price < 10",
        "price < 1 or price < 2 or price < 41",
        "price < 1 and price < 2 or open",
        "open == true and (open)",
        'availability in ["sold_out", "in_stock"] and price in [1, 40]',
        'seen > "2026-03-14" and seen <= "2026-03-14T13:00:00+01:00"',
        'contains(uid, "OAK") and contains(tags, "oak") and not contains(tags, "OA")',
        'lower(uid) == "oak \\"7\\"" and length(tags) == 2 and length(uid) == 7',
        "uid == 'Oak \"7\"'",
        "more == null and price != null and null == more",
        'change.op == "changed" and change.version > 1 and change.kind == "offer"',
    ],
)
def test_conditions_that_are_true(text: str) -> None:
    about = {"op": "changed", "version": 2, "kind": "offer"}
    assert compiled(text, FIELDS).matches(NOW, OLD, about)
    assert not compiled(f"not ({text})", FIELDS).matches(NOW, OLD, about)


@pytest.mark.parametrize(
    "text",
    [
        "price < 50",
        "not (price < 50)",
        "price + 1 > 0",
        "old.price > 0",
        "changed(price)",
        "not changed(price)",
        "1 / 0 > 0",
        "not (1 / 0 > 0)",
        'contains(uid, "a")',
        "price < 50 and true",
        "price < 50 or false",
        "open",
    ],
)
def test_what_is_not_known_matches_nothing(text: str) -> None:
    assert not compiled(text, FIELDS).matches({}, None)


def test_a_known_side_decides_where_it_can() -> None:
    assert compiled("price < 50 or true", FIELDS).matches({})
    assert compiled("not (price < 50 and false)", FIELDS).matches({})


@pytest.mark.parametrize("value", [None, True, "many", "NaN", "Infinity", "1" * 65, [1], {"a": 1}])
def test_values_that_do_not_fit_their_field_are_not_known(value: Any) -> None:
    assert not compiled("price < 50 or price >= 50", FIELDS).matches({"price": value})


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("", 1, "empty"),
        ("   ", 1, "empty"),
        ("price <", 8, "the condition ends"),
        ("price < 50 and", 15, "the condition ends"),
        ("(price < 50", 12, r"expected \)"),
        ("price < 50)", 11, "expected `and`, `or` or the end"),
        ("price = 50", 7, "compare with =="),
        ("price < 5 && open", 11, "write `and`"),
        ("open || open", 6, "write `or`"),
        ("!open", 1, "write `not`"),
        ("prise < 50", 1, "did you mean 'price'"),
        ("old.prise < 50", 5, "did you mean 'price'"),
        ("etag == 'a'", 1, "there is no field 'etag'"),
        ("change.price > 1", 8, "choose from op, kind, key"),
        ("price < 'a'", 7, "a number cannot be compared with a text"),
        ("price", 1, "expected a comparison, and this is a number"),
        ("open and price", 10, "expected a comparison"),
        ("1 < price < 2", 11, "two sides"),
        ('availability == "in_stok"', 17, "did you mean 'in_stock'"),
        ('availability in ["in_stock", "gone"]', 30, "not a possible value"),
        ('seen > "yesterday"', 8, "not a time"),
        ("tags == 'a'", 6, "a list cannot be compared"),
        ("more > more", 6, "only be compared with null"),
        ("price < null", 7, "null can only"),
        ("open < true", 6, "true and false"),
        ("uid + 1 == 2", 1, "takes numbers, not a text"),
        ("-uid == 2", 2, "takes a number"),
        ("'never ends", 1, "has no end"),
        ("eval('1')", 1, "there is no function 'eval'"),
        ("contains(uid)", 1, "takes 2 values, not 1"),
        ("contains(price, 'a')", 10, "takes a text here, not a number"),
        ("changed(1)", 9, "name of a field"),
        ("price.__class__ == 1", 6, "expected `and`"),
        ("price < §", 9, "has no meaning"),
        ("and", 1, "expected a field"),
        (f"open and {'1' * 65} > 1", 10, "at most 64"),
    ],
)
def test_a_wrong_condition_is_reported_with_its_position(text: str, position: int, message: str) -> None:
    with pytest.raises(BadExpression, match=message) as caught:
        compiled(text, FIELDS)
    assert caught.value.position == position
    assert f"(at character {position})" in str(caught.value)


def test_limits_hold_at_and_past_them() -> None:
    assert compiled("(" * DEEPEST + "open" + ")" * DEEPEST, FIELDS).matches({"open": True})
    with pytest.raises(BadExpression, match="levels deep"):
        compiled("(" * (DEEPEST + 1) + "open" + ")" * (DEEPEST + 1), FIELDS)
    longest = "open" + " " * (LONGEST - 4)
    assert compiled(longest, FIELDS).matches({"open": True})
    with pytest.raises(BadExpression, match="at most"):
        compiled(longest + " ", FIELDS)


def test_an_expression_states_what_it_reads() -> None:
    one, other = compiled("price < 50 and open", FIELDS), compiled("old.price > 1 or changed(stars)", FIELDS)
    assert (sorted(one.names), one.uses_old) == (["open", "price"], False)
    assert (sorted(other.names), other.uses_old) == (["price", "stars"], True)
