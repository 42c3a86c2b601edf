"""Rechecks through the API and in the metrics: how many records are due, how late the oldest is, pause and resume."""

from datetime import datetime, timedelta
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

from forager.core.pipeline import Pipeline
from forager.core.recheck import recheck
from forager.core.record import Index, Record
from forager.ledger.tables import schedules
from tests.support.api import Front

PATH = "/api/v1/rechecks"
LATE = 90.0


class Page(Record):
    kind: ClassVar[str] = "page"
    table: ClassVar[str] = "rechecked_pages"
    key_field: ClassVar[str] = "name"
    quiet: ClassVar[frozenset[str]] = frozenset({"next_at"})
    indexes: ClassVar[tuple[Index, ...]] = (Index(("next_at",), where="next_at IS NOT NULL"),)
    name: str
    next_at: datetime | None = None


PAGES = Pipeline(
    name="pages",
    params=BaseModel,
    plan=lambda _: (),
    steps=(),
    records=(Page,),
    rechecks=(recheck(Page, due="next_at", task=lambda _: None, name="recrawl"),),
)


@pytest.fixture
async def front(simple: Front) -> Front:
    """An application with one more pipeline: three of its pages are due, one is not yet."""
    app = simple.app
    await app.database.write("CREATE TABLE rechecked_pages (id INTEGER PRIMARY KEY, name TEXT, next_at BIGINT)")
    app.rechecks = schedules.RecheckTable(app.database, [PAGES], app.ledger.now)
    now = await app.ledger.now()
    for number, after in enumerate((-LATE, -2.0, -1.0, 3_600.0)):
        due = round((now + timedelta(seconds=after)).timestamp() * 1000)
        insert = "INSERT INTO rechecked_pages (name, next_at) VALUES (:name, :due)"
        await app.database.write(insert, {"name": f"p{number}", "due": due})
    return simple


async def test_a_recheck_is_listed_and_shown_with_what_is_due_and_how_late(front: Front) -> None:
    (listed,) = await front.data(PATH)
    assert LATE <= listed.pop("late_seconds") < LATE + 60
    oldest, following = (datetime.fromisoformat(listed.pop(name)) for name in ("oldest_due", "next_due"))
    assert timedelta(seconds=3_600 + LATE - 1) < following - oldest < timedelta(seconds=3_600 + LATE + 1)
    nothing: dict[str, Any] = dict.fromkeys(("last_at", "error", "error_at", "job_id"))
    assert listed == {
        "name": "recrawl", "pipeline": "pages", "record": "page", "field": "next_at", "state": "active", "due": 3,
        "dispatched": 0, **nothing,
    }  # fmt: skip
    assert (await front.data(f"{PATH}/recrawl"))["due"] == 3


async def test_a_recheck_is_paused_and_resumed(front: Front) -> None:
    for verb, state in (("pause", "paused"), ("resume", "active")):
        for _ in range(2):
            answered = await front.client.post(f"{PATH}/recrawl/{verb}")
            assert (answered.status_code, answered.json()["data"]["state"]) == (200, state)
        assert (await front.data(f"{PATH}/recrawl"))["state"] == state


async def test_an_unknown_recheck_is_a_404(front: Front) -> None:
    for method, path in (("GET", "nothing"), ("POST", "nothing/pause"), ("POST", "nothing/resume")):
        answered = await front.client.request(method, f"{PATH}/{path}")
        assert answered.status_code == 404
        assert "forager rechecks list" in answered.text


async def test_due_records_are_counted_up_to_a_limit(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "COUNTED_TO", 2)
    shown = await front.data(f"{PATH}/recrawl")
    assert shown["due"] == 2
    assert shown["late_seconds"] >= LATE, "the oldest is among those that are counted"


async def test_metrics_contain_due_records_and_their_delay(front: Front) -> None:
    await front.client.post(f"{PATH}/recrawl/pause")
    told = (await front.client.get("/metrics")).text
    lines = dict(line.rsplit(" ", 1) for line in told.splitlines() if line.startswith("forager_recheck_"))
    late = float(lines.pop('forager_recheck_late_seconds{recheck="recrawl"}'))
    assert LATE <= late < LATE + 60
    assert lines == {
        'forager_recheck_due{recheck="recrawl"}': "3.0",
        'forager_recheck_dispatched_total{recheck="recrawl"}': "0.0",
        'forager_recheck_paused{recheck="recrawl"}': "1.0",
        'forager_recheck_failing{recheck="recrawl"}': "0.0",
    }
