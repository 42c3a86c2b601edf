"""A receiver that accepts nothing: changes stay in the log, outlive their process, and become messages once. On either
store."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from forager.app.application import App
from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.core.ledger import Session, Settlement, Want
from forager.core.sink import SinkRow, SinkStatus
from forager.core.states import TaskState
from forager.engine.deliver import SinkDelivery
from forager.sinks.webhook.changes import Backlog, ChangeWebhooks
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


def delivery_of(app: App, clock: HandClock, session: Session, pipelines: frozenset[str] | None = None) -> SinkDelivery:
    row = SinkRow("hooks", "webhook", pipelines=pipelines)
    sink = ChangeWebhooks(row, URL, app.ledger, app.reports.job, clock, Backlog(MOST))
    return SinkDelivery(app.ledger, app.sinks, sink, clock, lambda: session, replace(QUICK, batch=BATCH))


async def life(app: App, clock: HandClock, looks: int = 1) -> bool:
    """Run a process that looks at the log `looks` times, a tenth of a second apart. Its memory ends with it."""
    session = await app.ledger.begin("deliverer")
    done = await look(delivery_of(app, clock, session), clock, looks)
    await app.ledger.end(session)
    return done


async def look(delivery: SinkDelivery, clock: HandClock, looks: int) -> bool:
    done = False
    for _ in range(looks):
        done = await delivery.deliver_new()
        clock.pass_(0.1)
    return done


async def add_changes(app: App, number: int, pipeline: str = "places") -> None:
    """Add `number` changes, each of a job of its own."""
    for _ in range(number):
        job = (await app.submit("places", JOB)).job
        if pipeline != "places":
            await app.database.write(
                "UPDATE jobs SET pipeline = :pipeline WHERE public_id = :job", {"pipeline": pipeline, "job": str(job)}
            )


async def status_of(app: App) -> SinkStatus:
    (status,) = [each for each in await app.sinks.statuses() if each.name == "hooks"]
    return status


async def answer(app: App, most: int, state: TaskState = TaskState.COMPLETED) -> int:
    """Let the receiver accept up to `most` messages, or refuse them for a day. Returns their number."""
    ledger = app.ledger
    session = await ledger.begin("by hand")
    lanes = [lane for lane in await ledger.take_lanes(session, 100) if lane.name.startswith("webhook:")]
    leases = (await ledger.settle_and_lease(session, [], [Want(lane.id, most) for lane in lanes])).leases
    await ledger.settle_and_lease(session, [Settlement(each, state, wait=86_400.0) for each in leases], [])
    await ledger.end(session)
    return len(leases)


async def messages(app: App) -> list[str]:
    rows = await app.database.fetch("SELECT key FROM tasks WHERE key LIKE 'hooks%' ORDER BY id")
    return [row["key"] for row in rows]


async def test_changes_for_a_receiver_that_accepts_none_stay_in_the_log_and_arrive_once_when_it_does(app: App) -> None:
    clock = HandClock()
    await add_changes(app, 30)
    wanted = [f"hooks_{change.id}" for change in await app.ledger.changes(0, 1_000) if change.pipeline == "places"]
    assert not await life(app, clock, looks=9)
    assert await messages(app) == wanted[:MOST], "more than these would wait in vain"
    status = await status_of(app)
    assert (status.cursor, status.error, status.retry_at) == (MOST, None, None), "whether it accepts some is not known"
    assert not await life(app, clock, looks=15), "the next process tries one batch, and after a second another"
    assert await messages(app) == wanted[: MOST + 2 * BATCH]
    status = await status_of(app)
    assert (status.error, status.failures) == (
        "16 webhooks wait for receiver.example; later changes stay in the log.",
        0,
    )
    assert status.error_at is not None
    assert status.retry_at is not None
    assert (status.retry_at - status.error_at).total_seconds() == pytest.approx(2, abs=0.2), (
        "when the next batch is due"
    )
    assert await answer(app, 1) == 1
    assert not await life(app, clock, looks=2)
    accepted = 1
    while not await life(app, clock):
        accepted += await answer(app, BATCH)
        assert accepted <= len(wanted)
    assert await messages(app) == wanted
    assert (await status_of(app)).retry_at is None


async def test_a_full_sink_passes_the_changes_of_other_pipelines_and_then_sends_its_probe(app: App) -> None:
    clock, session = HandClock(), await app.ledger.begin("deliverer")
    delivery = delivery_of(app, clock, session, frozenset({"places"}))
    await add_changes(app, MOST + BATCH)
    assert not await look(delivery, clock, 9)
    assert len(await messages(app)) == MOST
    await add_changes(app, 30, "other")
    await add_changes(app, 1)
    clock.pass_(1.0)
    assert not await look(delivery, clock, 3), "a probe of one batch; the others are passed, but for the last"
    assert len(await messages(app)) == MOST + BATCH
    status = await status_of(app)
    assert status.behind < 2 * BATCH
    assert status.retry_at is not None
    clock.pass_(2.0)
    assert await look(delivery, clock, 1), "the pause has doubled once: the changes of others are no probes"
    assert len(await messages(app)) == MOST + BATCH + 1


async def test_a_receiver_that_refuses_many_messages_gets_new_changes_without_growing_pauses(app: App) -> None:
    clock, session = HandClock(), await app.ledger.begin("deliverer")
    delivery = delivery_of(app, clock, session)
    await add_changes(app, MOST + BATCH)
    while not await look(delivery, clock, 1):
        clock.pass_(1.0)
    refused = len(await messages(app))
    assert await answer(app, 100, TaskState.WAITING) == refused
    clock.pass_(10.0)
    for _ in range(6):
        await add_changes(app, 1)
        assert await look(delivery, clock, 1), "at once"
        assert await answer(app, 100) == 1
    assert len(await messages(app)) == refused + 6
    assert (await status_of(app)).retry_at is None


async def test_a_burst_for_a_receiver_that_accepts_some_is_neither_stored_nor_logged_as_an_error(app: App) -> None:
    clock, session = HandClock(), await app.ledger.begin("deliverer")
    delivery = delivery_of(app, clock, session)
    await add_changes(app, 40)
    with capture_logs() as lines:
        while not await look(delivery, clock, 3):
            assert await answer(app, 1) == 1
    assert not [line for line in lines if line.get("log_level") == "warning"]
    assert (await status_of(app)).error is None


async def test_a_sink_that_stays_full_is_logged_once_and_stored_once_for_every_probe(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, session, stored = HandClock(), await app.ledger.begin("deliverer"), []
    delivery = delivery_of(app, clock, session)
    keep = app.sinks.failed

    async def counted(sink: str, error: str, **more: Any) -> None:
        stored.append(more["retry_in"])
        await keep(sink, error, **more)

    monkeypatch.setattr(app.sinks, "failed", counted)
    await add_changes(app, MOST + 5 * BATCH)
    with capture_logs() as lines:
        await look(delivery, clock, 100)
    assert [round(pause) for pause in stored] == [2, 4, 8]
    assert len([line for line in lines if line["log_level"] == "warning"]) == 1


async def test_a_full_sink_drops_what_waits_if_it_is_moved_and_its_job_cancelled(app: App) -> None:
    clock, session = HandClock(), await app.ledger.begin("deliverer")
    delivery = delivery_of(app, clock, session)
    await add_changes(app, 30)
    assert not await look(delivery, clock, 3)
    status = await status_of(app)
    await app.sinks.replay("hooks", status.cursor + status.behind)
    (job,) = (await app.reports.jobs(pipeline="deliveries")).items
    await app.ledger.cancel(job.id)
    assert await look(delivery, clock, 1)
    await add_changes(app, 1)
    assert await look(delivery, clock, 1)
    made = await messages(app)
    assert len(made) == MOST + 1, "of the changes that were skipped none was sent"
    assert await answer(app, 100) == 1, "and of the messages that were there, none is left"


async def test_a_process_is_not_idle_while_a_full_sink_has_got_room(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, session = HandClock(), await app.ledger.begin("deliverer")
    monkeypatch.setattr(type(app.worker), "session", session)
    monkeypatch.setattr(app, "deliveries", {"hooks": delivery_of(app, clock, session)})
    await add_changes(app, MOST + BATCH)
    has_work, answers = app.ledger.has_work, [1]

    async def accepted_meanwhile(*args: Any, **more: Any) -> bool:
        """The last message that was due is accepted between the look at the log and this question."""
        if answers:
            answers.pop()
            assert await answer(app, 1) == 1
            assert await answer(app, 100, TaskState.WAITING) == MOST - 1
        return await has_work(*args, **more)

    monkeypatch.setattr(app.ledger, "has_work", accepted_meanwhile)
    assert not await app.has_delivered(), "there was room, and the messages that it took are due"
    assert await answer(app, 100) == BATCH
    assert await app.has_delivered()
