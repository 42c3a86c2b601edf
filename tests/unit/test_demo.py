"""The demo: whose folder it uses, and the audit after its crash."""

from pathlib import Path
from typing import Any

import pytest

from forager.cli import demo_setup
from forager.cli.demos.places_audit import audit_crash, expected_places
from forager.core.errors import Conflict
from forager.sandbox import Entry


def test_a_folder_that_is_not_of_a_demo_is_left_alone(tmp_path: Path) -> None:
    home = tmp_path / "demo"
    home.mkdir()
    (home / "precious").touch()

    with pytest.raises(Conflict, match="left alone"):
        demo_setup.fresh_folder(home)
    assert (home / "precious").exists()


def test_what_an_earlier_demo_left_is_removed(tmp_path: Path) -> None:
    home = demo_setup.fresh_folder(tmp_path / "demo")
    (home / "ledger.db").touch()

    demo_setup.fresh_folder(home)

    assert not (home / "ledger.db").exists()


ZIP = "85001"
ENDED = {
    "state": "completed",
    "total": 3,
    "completed": 1,
    "failed": 0,
    "skipped": 2,
    "cancelled": 0,
    "spent": 2,
    "guessed": 0,
}


def asked(n: int, page: int = 1, **changes: Any) -> Entry:
    entry = Entry(n=n, at=float(n), wall=0.0, endpoint="places", zip=ZIP, keyword="bars", page=page)
    for name, value in {"status": 200, "credits": 1, "places": 10, "delivered": True, **changes}.items():
        setattr(entry, name, value)
    return entry


def written(tmp_path: Path, *entries: Entry) -> Path:
    log = tmp_path / "requests.jsonl"
    log.write_bytes(b"".join(entry.json() + b"\n" for entry in entries))
    return log


def test_a_request_that_was_in_flight_at_the_kill_is_counted_and_passes(tmp_path: Path) -> None:
    entries = asked(1, status=0, delivered=False), asked(2)
    places = sorted(expected_places(entries))

    found = audit_crash(written(tmp_path, *entries), ENDED, places)

    assert places
    assert found.passed, found.failures
    assert found.sentence() == "0 lost, 0 duplicate records; 1 request in flight was sent again (1 credit)"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda places: places[1:], "1 places are lost"),
        (lambda places: [*places, places[0]], "1 records are duplicates"),
        (lambda places: [*places, "invented"], "1 stored places were in no answer"),
    ],
)
def test_the_audit_fails_when_the_ledger_is_wrong(tmp_path: Path, damage: Any, said: str) -> None:
    entries = [asked(1), asked(2)]

    found = audit_crash(written(tmp_path, *entries), ENDED, damage(sorted(expected_places(entries))))

    assert found.failures == (said,)


@pytest.mark.parametrize(
    "changes", [{"state": "partially_completed"}, {"skipped": 1}, {"spent": 1}], ids=["state", "open", "credits"]
)
def test_the_audit_fails_when_the_job_does_not_add_up(tmp_path: Path, changes: dict[str, Any]) -> None:
    entries = [asked(1), asked(2)]

    found = audit_crash(written(tmp_path, *entries), {**ENDED, **changes}, sorted(expected_places(entries)))

    assert len(found.failures) == 1


def test_the_audit_fails_when_a_page_after_a_short_one_was_paid__PL_10(tmp_path: Path) -> None:
    entries = [asked(1, places=7), asked(2, page=2)]

    found = audit_crash(written(tmp_path, *entries), ENDED, sorted(expected_places(entries)))

    assert found.failures == ("1 pages were paid for after a short one",)
