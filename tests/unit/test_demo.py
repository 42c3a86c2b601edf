"""The demo: whose folder it uses, and the audit after its crash."""

import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import orjson
import pytest

from forager.app.features import all_features
from forager.cli import demo_all, demo_run
from forager.cli.demo_run import kill_worker
from forager.cli.demo_view import PipelineRow, figures
from forager.cli.main import run
from forager.core.errors import Conflict
from forager.ledger.sqlite.lock import StoreLock
from forager.pipelines.places.demo import audit_crash, expected_places
from forager.sandbox import LoggedRequest
from forager.sdk.cli import report_html as html
from forager.sdk.cli.showcase import CostLine, Found


def test_a_folder_that_is_not_of_a_demo_is_left_alone(tmp_path: Path) -> None:
    home = tmp_path / "demo"
    home.mkdir()
    (home / "precious").touch()

    with pytest.raises(Conflict, match="left alone"):
        demo_run.fresh_folder(home)
    assert (home / "precious").exists()


def test_what_an_earlier_demo_left_is_removed(tmp_path: Path) -> None:
    home = demo_run.fresh_folder(tmp_path / "demo")
    (home / "ledger.db").touch()

    demo_run.fresh_folder(home)

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


def asked(n: int, page: int = 1, **changes: Any) -> LoggedRequest:
    entry = LoggedRequest(n=n, at=float(n), wall=0.0, endpoint="places", zip=ZIP, keyword="bars", page=page)
    for name, value in {"status": 200, "credits": 1, "places": 10, "delivered": True, **changes}.items():
        setattr(entry, name, value)
    return entry


def written(tmp_path: Path, *entries: LoggedRequest) -> Path:
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


HOSTILE = "<script>alert(1)</script><img src=x onerror=y>\"'"


def test_scraped_markup_is_escaped_in_every_part_of_the_report() -> None:
    point = {"latitude": 33.4, "longitude": -112.0, "title": HOSTILE, "share": 0.5}
    parts = [
        html.section(HOSTILE, note=HOSTILE),
        html.tiles([(HOSTILE, HOSTILE)]),
        html.table((HOSTILE,), [(HOSTILE,)]),
        html.columns_chart([(HOSTILE, 3.0)], label=HOSTILE),
        html.line_chart([(0.0, 1.0), (1.0, 2.0)], label=HOSTILE, marks=[(0.5, HOSTILE)]),
        html.point_map([point], label=HOSTILE),
        html.cards([{"title": HOSTILE, "lines": (HOSTILE,), "badge": (HOSTILE, HOSTILE), "chart": html.spark([1, 2])}]),
    ]
    page = html.page(HOSTILE, HOSTILE, *parts)

    assert "<script" not in page
    assert "<img" not in page
    assert "default-src 'none'" in page
    assert page.count("&lt;script&gt;") > 12


def test_the_report_and_the_data_of_the_demo_have_the_crash_the_costs_and_the_changes(tmp_path: Path) -> None:
    course = demo_all.Course(
        began=0.0,
        killed={"pid": 7, "at": 2.0, "done": 5, "in_flight": 3},
        back_after=1.5,
        pace=[(0.0, 0.0), (1.0, 5.0), (4.0, 10.0)],
    )
    found = Found(figures=[("places", "9")], spending=CostLine("credits", 915.0, 558.0, "357 saved"), data={"n": 9_000})
    change = {"kind": "product", "title": "Oak", "fields": [{"name": "price", "before": "9.1", "after": "1008"}]}
    result = demo_all.DemoResult({"places": found}, [change], ["places: 0 lost"], (), course, 2, 10, 4.0)

    page, data = demo_all.report_page(result), demo_all.as_data(result, tmp_path)

    assert demo_all.crash_line(result) == "Survived kill -9 with 3 tasks in flight, back after 1.5 s. places: 0 lost."
    assert all(text in page for text in ("kill -9", "915", "558", "Oak", "9.10", "1,008.00", "9,000"))
    assert data["spending"]["places"] == {"unit": "credits", "estimated": 915.0, "spent": 558.0}
    assert found.spending is not None
    assert found.spending.line() == "558 credits of at most 915 credits, 357 saved"


async def test_new_amounts_of_money_come_first_and_those_that_were_unknown_before_come_later() -> None:
    def changed(name: str, before: Any) -> dict[str, Any]:
        return {"op": "changed", "title": name, "fields": [{"name": name, "before": before, "after": "2"}]}

    class Latest:
        async def get(self, _: str, **__: Any) -> list[Any]:
            return [changed("stock", "1"), changed("rent_min", None), changed("price", "1")]

    moved = await demo_all._moved(Latest(), "listing")  # type: ignore[arg-type]

    assert [each["title"] for each in moved] == ["price", "rent_min", "stock"]


def test_every_pipeline_with_a_demo_takes_part_in_the_common_one() -> None:
    with_demo = {feature.name for feature in all_features() if feature.demo is not None}
    parts = [feature.showcase.load() for feature in all_features() if feature.showcase is not None]

    assert {part.title for part in parts} == with_demo
    assert len({part.upstream for part in parts}) == len(parts)


def test_a_row_of_the_view_shows_progress_rate_cost_and_what_happens_now() -> None:
    (part,) = [each.showcase.load() for each in all_features() if each.name == "places" and each.showcase]
    row = PipelineRow(part)
    row.looks.append([])
    counted = dict.fromkeys(("failed", "skipped", "cancelled", "retries", "running", "queued"), 0)
    for second, completed in enumerate((0, 100, 200)):
        row.note([{**counted, "total": 400, "completed": completed, "spent": completed}], float(second))
    row.now = "Silver Hall"

    assert figures(row) == {
        "done": "200/400 50%",
        "rate": "100/s",
        "cost": "200 credits",
        "left": "2 s left",
        "now": "Silver Hall",
    }


@pytest.mark.parametrize("arguments", [["places", "--stay"], ["--crash", "--stay"]], ids=" ".join)
def test_stay_is_for_the_demo_of_all_pipelines(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", *arguments]) == 2
    assert "forager demo --stay" in capsys.readouterr().err


def test_an_owner_that_has_just_died_is_not_killed_and_the_demo_looks_again(tmp_path: Path) -> None:
    """Its supervisor may have been faster; the lock is still held, by whatever inherited it."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    lock = StoreLock(tmp_path / "lock")
    assert kill_worker(tmp_path / "lock") is None
    lock.take()
    (tmp_path / "lock").write_bytes(orjson.dumps({"pid": gone.pid, "url": None}))
    assert kill_worker(tmp_path / "lock") is None
    alive = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    (tmp_path / "lock").write_bytes(orjson.dumps({"pid": alive.pid, "url": None}))
    assert kill_worker(tmp_path / "lock") == alive.pid
    assert alive.wait() == -signal.SIGKILL
    lock.release()


async def test_the_demo_waits_for_the_jobs_that_its_own_have_caused() -> None:
    """A listing that the last scrape no longer found is verified on the simulated portal, which ends with the demo."""
    states = iter([["running", "completed"], ["completed"], ["running"], ["completed"], ["completed"], ["completed"]])
    asked: list[Mapping[str, Any]] = []

    class JobsOfPipeline:
        async def get(self, path: str, /, **query: Any) -> Any:
            asked.append({"path": path, **query})
            return [{"state": state, "running": 0} for state in next(states)]

    parts = [feature.showcase.load() for feature in all_features() if feature.showcase is not None]
    await demo_all.wait_for_follow_up(cast("Any", JobsOfPipeline()), [PipelineRow(part) for part in parts])
    assert [(each["path"], each["pipeline"]) for each in asked] == [("/jobs", "listings")] * 5
