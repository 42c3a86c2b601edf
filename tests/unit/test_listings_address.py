"""Street addresses in one spelling."""

import pytest

from forager.pipelines.listings.records import address_key, house_number, normal_street, normal_unit, split_unit


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("40 Mill Road", "40 Mill Rd."),
        ("7 North 3rd Street", "7 N. Third St"),
        ("12 Park Place, Apt 4", "12  park pl"),
        ("9 O'Neil Avenue", "9 ONeil Ave"),
    ],
)
def test_two_spellings_of_a_street_are_one__LI_9(one: str, other: str) -> None:
    assert normal_street(one) == normal_street(other)
    assert address_key(one, "1", "02139") == address_key(other, "Unit 1", "02139")


@pytest.mark.parametrize(
    ("street", "expected"),
    [
        ("40 Mill Rd, Apt 3B", ("40 Mill Rd", "3B")),
        ("40 Mill Rd #12", ("40 Mill Rd", "12")),
        ("40 Mill Rd Unit 12-A", ("40 Mill Rd", "12-A")),
        ("40 Mill Rd", ("40 Mill Rd", None)),
        ("40 Unity St", ("40 Unity St", None)),
    ],
)
def test_a_unit_is_split_from_its_street(street: str, expected: tuple[str, str | None]) -> None:
    assert split_unit(street) == expected


def test_units_have_one_spelling() -> None:
    assert normal_unit("Apt. 3-b") == normal_unit("#3B") == "3b"
    assert normal_unit(None) == ""


@pytest.mark.parametrize(
    ("street", "expected"),
    [("40 Mill Rd", "40"), ("40-42 Mill Rd", "40-42"), ("40b Mill Rd", "40b"), ("Mill Rd", None)],
)
def test_the_house_number_leads_the_street(street: str, expected: str | None) -> None:
    assert house_number(street) == expected


def test_only_an_exact_address_is_a_key__LI_9() -> None:
    assert address_key("Mill Rd", None, "02139") is None
    assert address_key("40 Mill Rd", None, None) is None
    assert address_key(None, None, "02139") is None
    assert address_key("40 Mill Rd", "1", "02139") != address_key("40 Mill Rd", "2", "02139")
