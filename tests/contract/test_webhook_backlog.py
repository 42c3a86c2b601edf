"""A receiver that accepts nothing: changes stay in the log, outlive their process, and become messages once. On either
store."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from forager.app import App, open_app
from forager.config import new_settings
from forager.core.ledger import Settlement, Want
from forager.core.sink import SinkRow
from forager.core.states import TaskState
from forager.engine.deliver import Delivery
from forager.sinks.webhook.backlog import Backlog
from forager.sinks.webhook.changes import ChangeWebhooks
from tests.support.deliveries import QUICK
from tests.support.rig import HandClock

JOB = {"keyword": "bars", "zips": ["85001"], "dry_run": True}
BATCH, MOST = 4, 8
URL = "https://receiver.example/changes"


@pytest.fixture(params=["sqlite", "postgres"])
async def app(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[App]:
    url = None if request.param == "sqlite" else str(request.getfixturevalue("app_postgres_url"))
    async with open_app(new_settings(home=tmp_path, database_url=url, webhook_secret="a secret")) as opened:
        yield opened


async def life(app: App, clock: HandClock, looks: int = 1) -> bool:
    """A process that looks at the log so many times, a tenth of a second apart. What it remembers ends with it."""
    session = await app.ledger.begin("deliverer")
    sink = ChangeWebhooks(SinkRow("hooks", "webhook"), URL, app.ledger, app.reports.job, clock, Backlog(MOST))
    delivery = Delivery(app.ledger, app.sinks, sink, clock, lambda: session, replace(QUICK, batch=BATCH))
    done = False
    for _ in range(looks):
        done = await delivery.deliver_new()
        clock.pass_(0.1)
    await app.ledger.end(session)
    return done


async def accept(app: App, most: int) -> int:
    """The receiver accepts up to so many messages. Returns how many there were."""
    ledger = app.ledger
    session = await ledger.begin("by hand")
    lanes = [lane for lane in await ledger.take_lanes(session, 100) if lane.name.startswith("webhook:")]
    leases = (await ledger.settle_and_lease(session, [], [Want(lane.id, most) for lane in lanes])).leases
    await ledger.settle_and_lease(session, [Settlement(each, TaskState.COMPLETED) for each in leases], [])
    await ledger.end(session)
    return len(leases)


async def messages(app: App) -> list[str]:
    rows = await app.database.fetch("SELECT key FROM tasks WHERE key LIKE 'hooks%' ORDER BY id")
    return [row["key"] for row in rows]


async def test_changes_for_a_receiver_that_accepts_none_stay_in_the_log_and_arrive_once_when_it_does(app: App) -> None:
    clock = HandClock()
    for _ in range(30):
        await app.submit("places", JOB)
    wanted = [f"hooks_{change.id}" for change in await app.ledger.changes(0, 1_000) if change.pipeline == "places"]
    assert not await life(app, clock, looks=9)
    assert await messages(app) == wanted[:MOST], "more than these would wait in vain"
    (status,) = [each for each in await app.sinks.statuses() if each.name == "hooks"]
    assert (status.cursor, status.failures) == (MOST, 0)
    assert status.error is not None
    assert "Later changes stay in the log" in status.error
    assert not await life(app, clock, looks=15), "the next process tries one batch, and after a second another"
    assert await messages(app) == wanted[: MOST + 2 * BATCH]
    assert await accept(app, 1) == 1
    assert not await life(app, clock, looks=2)
    accepted = 1
    while not await life(app, clock):
        accepted += await accept(app, BATCH)
        assert accepted <= len(wanted)
    assert await messages(app) == wanted
