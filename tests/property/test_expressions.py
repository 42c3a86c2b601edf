"""Conditions under any text and any values: they agree with Python where both have a meaning, and never raise."""

from contextlib import suppress
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from forager.sdk.expressions import BadExpression, FieldType, compiled

FIELDS = {
    "a": FieldType("number"),
    "b": FieldType("number"),
    "t": FieldType("text"),
    "when": FieldType("time"),
    "yes": FieldType("boolean"),
    "tags": FieldType("list"),
    "any": FieldType("json"),
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
STATES = st.dictionaries(st.sampled_from(sorted(FIELDS)), JSON)
PIECES = st.sampled_from(
    "a b t when yes tags any old change . op ( ) [ ] , and or not in == != < <= > >= + - * / 1 0 2.5 'x' \"2026-01-01\""
    " true false null contains changed length lower abs 1e9 § \\ '".split()
)


@given(st.lists(PIECES, max_size=25).map(" ".join) | st.text(max_size=60), STATES, STATES | st.none())
def test_any_text_is_a_condition_or_a_clear_error_and_running_it_never_raises(
    text: str, now: dict[str, Any], old: dict[str, Any] | None
) -> None:
    with suppress(BadExpression):
        assert compiled(text, FIELDS).matches(now, old) in (True, False)


def sums(depth: int) -> st.SearchStrategy[str]:
    leaf = st.sampled_from(["a", "b"]) | st.integers(0, 99).map(str)
    if not depth:
        return leaf
    part = sums(depth - 1)
    return leaf | st.tuples(part, st.sampled_from("+-*"), part).map(lambda each: f"({' '.join(each)})")


COMPARISONS = st.tuples(sums(2), st.sampled_from(["<", "<=", "==", "!=", ">", ">="]), sums(2)).map(" ".join)
CONDITIONS = st.recursive(
    COMPARISONS,
    lambda inner: (
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda each: f"({' '.join(each)})")
        | inner.map(lambda each: f"not ({each})")
    ),
    max_leaves=6,
)


@given(CONDITIONS, st.integers(-1000, 1000), st.integers(-1000, 1000))
def test_known_numbers_mean_what_they_mean_in_python(text: str, a: int, b: int) -> None:
    expected = eval(text, {"a": Decimal(a), "b": Decimal(b)})
    assert compiled(text, FIELDS).matches({"a": a, "b": b}) is expected
    assert compiled(f"not ({text})", FIELDS).matches({"a": a, "b": b}) is not expected


@given(CONDITIONS, st.integers(-9, 9))
def test_a_condition_and_its_opposite_never_both_match(text: str, a: int) -> None:
    state = {"a": a}  # b is not known
    both = [compiled(each, FIELDS).matches(state) for each in (text, f"not ({text})")]
    assert both != [True, True]
