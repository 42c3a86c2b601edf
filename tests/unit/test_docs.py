"""The pages that are made from the code say what the code says."""

from pathlib import Path

import pytest

from scripts import requirements_doc


def test_the_page_of_requirements_is_up_to_date() -> None:
    expected = requirements_doc.render(requirements_doc.collect(requirements_doc.ROOT / "tests"))

    up_to_date = requirements_doc.PAGE.read_text("utf-8") == expected
    assert up_to_date, "docs/requirements.md is stale: run `make requirements`"


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("test_plain", []),
        ("test_one__PL_6", ["PL-6"]),
        ("test_two__PL_6__R5", ["PL-6", "R5"]),
        ("test_a_property__SC_P12", ["SC-P12"]),
        ("test_security__S11", ["S11"]),
    ],
)
def test_ids_are_read_from_the_end_of_a_name(name: str, ids: list[str]) -> None:
    assert requirements_doc.requirement_ids(name) == ids


@pytest.mark.parametrize("suffix", ["PL6", "XX_1", "R_five", "twice", "pl_6"])
def test_a_suffix_that_is_no_id_is_refused_with_the_form_to_use(suffix: str) -> None:
    with pytest.raises(requirements_doc.UnknownRequirement, match="each behind two underscores"):
        requirements_doc.requirement_ids(f"test_x__{suffix}")


def test_requirements_are_listed_by_family_and_number_with_every_test(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_a.py").write_text("def test_x__PL_10(): ...\nasync def test_y__PL_9__R2(): ...\n")
    (tests / "test_b.py").write_text("class TestB:\n    def test_z__PL_9(self): ...\n")

    page = requirements_doc.render(requirements_doc.collect(tests))

    lines = [line for line in page.splitlines() if line.startswith(("##", "**", "- "))]
    assert lines == [
        "## Places",
        "**PL-9**",
        "- `tests/test_a.py::test_y__PL_9__R2`",
        "- `tests/test_b.py::test_z__PL_9`",
        "**PL-10**",
        "- `tests/test_a.py::test_x__PL_10`",
        "## Reliability",
        "**R2**",
        "- `tests/test_a.py::test_y__PL_9__R2`",
    ]


def test_every_trap_of_the_ledger_has_a_test_or_is_not_built_yet() -> None:
    shown = requirements_doc.collect(requirements_doc.ROOT / "tests")

    unguarded = {number for number in requirements_doc.TRAPS if not shown.get(f"trap {number}")}
    assert unguarded == requirements_doc.NOT_BUILT.keys()


def test_a_trap_is_read_from_before_the_ids_and_must_be_known(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_a.py").write_text("def test_x_trap_1__PL_10(): ...\n")
    assert requirements_doc.collect(tests).keys() == {"PL-10", "trap 1"}
    (tests / "test_a.py").write_text("def test_x_trap_99(): ...\n")
    with pytest.raises(requirements_doc.UnknownRequirement, match="no trap 99"):
        requirements_doc.collect(tests)
