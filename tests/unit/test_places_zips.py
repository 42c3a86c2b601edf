"""The ZIP reference data: what ships, and what a CSV may hold."""

from pathlib import Path

import pytest

from forager.core.errors import Rejected
from forager.pipelines.places.zips import Zip, ZipTable, read_csv, shipped_zips


def csv(*lines: str) -> list[str]:
    return [f"{line}\n" for line in lines]


def test_the_shipped_table_has_every_zip_of_the_states__PL_4() -> None:
    zips = shipped_zips()
    assert len(zips) > 42_000
    assert {"AZ", "MA", "TX", "DC", "PR"} <= set(zips.states)
    assert 300 < len(zips.of_state("AZ")) < len(zips.of_state("AZ", po_boxes=True))


def test_a_shipped_zip_has_its_place__PL_4() -> None:
    known = shipped_zips().get("85004")
    assert known is not None
    assert (known.state, known.city, known.county, known.type, known.active) == (
        "AZ",
        "Phoenix",
        "Maricopa County",
        "STANDARD",
        True,
    )
    assert known.lat == pytest.approx(33.45, abs=0.1)
    assert known.long == pytest.approx(-112.07, abs=0.1)


def test_leading_zeros_are_kept__PL_4() -> None:
    zips = [known.zip for known in shipped_zips().of_state("MA")]
    assert "02139" in zips
    assert all(len(text) == 5 and text.startswith("0") for text in zips)


def test_only_standard_and_active_zips_are_taken_by_default__PL_4() -> None:
    assert {(known.type, known.active) for known in shipped_zips().of_state("NY")} == {("STANDARD", True)}
    wider = shipped_zips().of_state("NY", po_boxes=True)
    assert {known.type for known in wider} >= {"STANDARD", "PO BOX", "UNIQUE"}
    assert all(known.active for known in wider)


def test_zips_of_a_state_are_in_order_and_an_unknown_state_has_none__PL_4() -> None:
    taken = [known.zip for known in shipped_zips().of_state("TX")]
    assert taken == sorted(taken)
    assert shipped_zips().of_state("ZZ") == ()
    assert shipped_zips().get("00000") is None


def test_the_shipped_table_is_read_once() -> None:
    assert shipped_zips() is shipped_zips()


def test_a_csv_needs_only_zip_and_state__PL_4() -> None:
    assert read_csv(csv("zip,state", "02139,ma", "85004, AZ ")) == [Zip("02139", "MA"), Zip("85004", "AZ")]


def test_a_csv_may_have_more_columns__PL_4() -> None:
    [known] = read_csv(
        csv("State,ZIP,city,county,lat,long,type,active,extra", "AZ,85001,Phoenix,Maricopa,33.4,-112,po box,no,x")
    )
    assert known == Zip("85001", "AZ", "Phoenix", "Maricopa", 33.4, -112.0, "PO BOX", False)


def test_the_first_row_of_a_repeated_zip_counts__PL_4() -> None:
    zips = ZipTable(read_csv(csv("zip,state,city", "42223,KY,Fort Campbell", "42223,TN,Elsewhere")))
    assert (len(zips), zips.states) == (1, ("KY",))


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (csv("zipcode,state", "85001,AZ"), "line 1: no column zip"),
        (csv("a,b", "1,2"), "line 1: no column zip and state"),
        ([], "line 1: no column zip and state"),
        (csv("zip,state"), "no rows"),
        (csv("zip,state", "85001,AZ", "2139,MA"), "line 3: zip '2139' is not five digits (was a leading zero lost?"),
        (csv("zip,state", "8500a,AZ"), "line 2: zip '8500a' is not five digits"),
        (csv("zip,state", "85001,Arizona"), "line 2: state 'ARIZONA' is not two letters"),
        (csv("zip,state", "85001"), "line 2: state '' is not two letters"),
        (csv("zip,state,lat", "85001,AZ,north"), "line 2: lat 'north' is not a number"),
        (csv("zip,state,lat", "85001,AZ,nan"), "line 2: lat 'nan' is not between -90 and 90"),
        (csv("zip,state,long", "85001,AZ,181"), "line 2: long '181' is not between -180 and 180"),
        (csv("zip,state,active", "85001,AZ,maybe"), "line 2: active 'maybe' is neither true nor false"),
        (csv("zip,state", *["x,AZ"] * 7), "line 6: zip 'x' is not five digits … and 2 more"),
        (["zip,state\n", '"' + "x" * 200_000], "after line 1: not CSV"),
    ],
)
def test_a_bad_csv_is_refused_with_its_lines__PL_4(lines: list[str], told: str) -> None:
    with pytest.raises(Rejected) as caught:
        read_csv(lines, name="mine.csv")
    assert caught.value.message.startswith("mine.csv")
    assert told in caught.value.message


def test_a_csv_file_is_read_whatever_wrote_it__PL_4(tmp_path: Path) -> None:
    path = tmp_path / "zips.csv"
    path.write_bytes(b"\xef\xbb\xbfzip,state\r\n02139,MA\r\n")
    assert ZipTable.from_csv(path).get("02139") == Zip("02139", "MA")


def test_an_unreadable_file_is_reported__PL_4(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match=r"gone\.csv: No such file"):
        ZipTable.from_csv(tmp_path / "gone.csv")
    latin = tmp_path / "latin.csv"
    latin.write_bytes("zip,state,city\n00601,PR,Añasco\n".encode("latin-1"))
    with pytest.raises(Rejected, match="Save the CSV as UTF-8"):
        ZipTable.from_csv(latin)
