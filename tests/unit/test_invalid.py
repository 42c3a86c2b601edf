"""Findings of pydantic in plain words, whatever their kind."""

from typing import Any, get_args

import pytest
from pydantic_core.core_schema import ErrorType

from forager.core.invalid import plain_message


@pytest.mark.parametrize("kind", get_args(ErrorType))
def test_no_kind_of_finding_is_passed_on_as_it_is(kind: str) -> None:
    told = plain_message({"type": kind, "msg": "Input should be of another make", "ctx": {}})

    assert told.startswith("Input should") == (kind in ("value_error", "assertion_error")), "only our own words are"


@pytest.mark.parametrize(
    ("kind", "limit", "told"),
    [
        ("string_too_short", {"min_length": 1}, "must not be empty"),
        ("string_too_short", {"min_length": 2}, "must have at least 2 characters"),
        ("string_too_long", {"max_length": 1}, "must have at most 1 character"),
        ("too_short", {"min_length": 1}, "must not be empty"),
        ("too_long", {"actual_length": 1, "max_length": 0}, "has 1 entry; at most 0 are allowed"),
        ("greater_than_equal", {"ge": 0.0}, "must be at least 0"),
        ("less_than_equal", {"le": 100_000.0}, "must be at most 100,000"),
        ("less_than_equal", {"le": 0.5}, "must be at most 0.5"),
        ("less_than", {"lt": 1 << 63}, "is too large a number"),
        ("string_pattern_mismatch", {"pattern": "^[A-Z]{3}$"}, "must be three capital letters, such as EUR"),
    ],
)
def test_a_limit_is_named_in_numbers_and_nouns_that_fit(kind: str, limit: dict[str, Any], told: str) -> None:
    assert plain_message({"type": kind, "msg": "", "ctx": limit}) == told
