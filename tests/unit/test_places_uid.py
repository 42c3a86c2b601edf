"""The identity of a place: stable across pages, jobs and retries."""

import unicodedata
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forager.pipelines.places.parse import hashed_uid, normalised, place_uid, read_cid, read_place
from forager.pipelines.places.records import Place

words = st.text(min_size=1).filter(lambda text: bool(text.strip()))
json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
fields = st.sampled_from(
    ["title", "address", "placeId", "cid", "rating", "ratingCount", "latitude", "longitude", "category", "website"]
)


@pytest.mark.parametrize(
    ("row", "uid"),
    [
        ({"placeId": "ChIJx", "cid": "12", "title": "A"}, "ChIJx"),
        ({"cid": "12", "title": "A"}, "12"),
        ({"cid": 18446744073709551615}, "18446744073709551615"),
        ({"placeId": "", "cid": "12"}, "12"),
        ({"placeId": "x" * 513, "cid": "12"}, "12"),
        ({"address": "1 Elm St"}, None),
        ({"cid": 1.5e19}, None),
        ({"cid": True}, None),
        ({"cid": "0"}, None),
        ({"cid": -5}, None),
        ({"cid": "1" * 21}, None),
        ({}, None),
    ],
)
def test_a_place_id_comes_before_a_cid_and_a_cid_before_nothing__PL_13(row: dict[str, Any], uid: str | None) -> None:
    assert place_uid(row) == uid


def test_a_hash_stays_what_it_is_for_ever__PL_13() -> None:
    assert place_uid({"title": "Tin Roof", "address": "1 Elm St"}) == "h:51499fa72016f1e6480131e12f8ccbbc"
    assert place_uid({"title": "Tin Roof"}) != place_uid({"title": "Tin Roof", "address": "1 Elm St"})


def test_title_and_address_do_not_run_into_each_other__PL_13() -> None:
    assert hashed_uid("a b", "c") != hashed_uid("a", "b c")


@given(words, st.text())
def test_case_and_spacing_do_not_change_the_hash__PL_13(title: str, address: str) -> None:
    spaced = "\t ".join(f" {title} ".split())
    assert hashed_uid(spaced, f"  {address}\n") == hashed_uid(title, address)
    assert hashed_uid(unicodedata.normalize("NFD", title), address) == hashed_uid(title, address)


@given(st.text(alphabet=st.characters(max_codepoint=0x24F)))
def test_upper_and_lower_case_are_one__PL_13(text: str) -> None:
    assert normalised(text.upper().lower()) == normalised(text.lower().upper().lower())
    assert normalised(text.swapcase().casefold()) == normalised(text.swapcase())


@given(st.text())
def test_normalising_twice_changes_nothing__PL_13(text: str) -> None:
    assert normalised(normalised(text)) == normalised(text)


@given(
    words,
    st.text(),
    st.dictionaries(fields.filter(lambda name: name not in ("title", "address", "cid", "placeId")), json),
)
def test_other_fields_of_a_row_do_not_change_its_identity__PL_13(
    title: str, address: str, more: dict[str, Any]
) -> None:
    row = {"title": title, "address": address}
    assert place_uid({**more, **row}) == place_uid(row)


@given(st.integers(1, 2**64 - 1))
def test_a_cid_keeps_every_digit_as_text_or_as_a_number__PL_13(cid: int) -> None:
    assert read_cid(str(cid)) == read_cid(orjson.loads(orjson.dumps(cid))) == str(cid)


@given(st.dictionaries(fields, json))
def test_no_row_breaks_the_reader_and_every_place_is_valid__PL_13(row: dict[str, Any]) -> None:
    place = read_place(row)
    if place is not None:
        assert Place.model_validate(place.model_dump(), strict=True) == place
        assert 0 < len(place.key()) <= 512
