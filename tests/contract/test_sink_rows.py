"""Sinks as rows: one delivery for each, in every process, while it runs. On either store."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from forager.app import sinks
from forager.app.application import App
from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.core.errors import Conflict
from forager.core.ids import sink_lane
from forager.core.sink import SinkRow, SinkStatus
from forager.sandbox.receiver import Mood, WebhookReceiver
from forager.sinks.webhook.pipeline import NAME as DELIVERIES
from tests.support.engine import until

JOB = {"keyword": "bars", "zips": ["85001"], "dry_run": True}
SECRET = "a secret, or deliveries would be paused at once"


@pytest.fixture(params=["sqlite", "postgres"])
async def app(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[App]:
    url = None if request.param == "sqlite" else str(request.getfixturevalue("app_postgres_url"))
    async with open_app(new_settings(home=tmp_path, database_url=url, webhook_secret=SECRET)) as opened:
        yield opened


def hook(name: str, **more: Any) -> SinkRow:
    return SinkRow(name, "webhook", options={"url": f"https://receiver.example/{name}"}, **more)


async def messages(app: App, name: str) -> list[str]:
    rows = await app.database.fetch(
        "SELECT t.key FROM tasks t JOIN jobs j ON j.id = t.job_id WHERE j.pipeline = :p ORDER BY t.id",
        {"p": DELIVERIES},
    )
    return [row["key"] for row in rows if row["key"].startswith(f"{name}_")]


async def delivered(app: App, name: str) -> bool:
    at = await app.sinks.position(name)
    return at.cursor == at.last


async def test_a_row_that_is_added_while_the_engine_runs_is_delivered_and_removed(app: App) -> None:
    await app.submit("places", JOB)
    async with asyncio.timeout(60), app.engine(schedules=False):
        await app.roster.add(hook("all"))
        await app.roster.add(hook("new"), after=(await app.sinks.position("new")).last)
        await app.roster.add(hook("reviews", pipelines=frozenset({"reviews"})))
        await app.submit("places", JOB)
        while not all([await delivered(app, name) for name in ("all", "new", "reviews")]):
            await asyncio.sleep(0.02)
        numbers = [change.id for change in await app.ledger.changes(0, 100) if change.pipeline == "places"]
        assert await messages(app, "all") == [f"all_{number}" for number in numbers]
        assert await messages(app, "new") == [f"new_{number}" for number in numbers[len(numbers) // 2 :]]
        assert await messages(app, "reviews") == [], "its pipeline caused no change"
        await app.roster.remove("all")
        assert "all" not in app.deliveries
        assert "all" not in {each.name for each in await app.sinks.statuses(app.roster.names)}
        await app.submit("places", JOB)
        while not await delivered(app, "new"):
            await asyncio.sleep(0.02)
        assert len(await messages(app, "all")) == len(numbers)


async def test_a_sink_that_is_added_again_starts_from_the_first_change(app: App) -> None:
    await app.submit("places", JOB)
    await app.roster.add(hook("all"))
    await app.sinks.advance("all", 1)
    await app.roster.remove("all")
    await app.roster.add(hook("all"))
    at = await app.sinks.position("all")
    assert (at.cursor, at.paused) == (0, False)


async def test_a_delivery_under_way_does_not_bring_a_removed_position_back(app: App) -> None:
    await app.sinks.advance("gone", 1)
    await app.sinks.forget("gone")
    assert not await app.sinks.advance("gone", 2, expected=1)
    assert (await app.sinks.position("gone")).cursor == 0


async def test_a_removed_sink_leaves_nothing_behind_however_its_first_batch_ends(app: App) -> None:
    session = await app.ledger.begin("deliveries")
    await app.roster.add(hook("first"))
    await app.ledger.take_lane(session, sink_lane("first"))
    await app.roster.remove("first")
    assert not await app.sinks.advance("first", 5, expected=0, session=session.id)
    await app.sinks.failed("first", "It does not answer.", failures=1, retry_in=1)
    assert "first" not in {each.name for each in await app.sinks.statuses()}


async def test_of_two_who_add_one_name_the_second_moves_nothing(app: App) -> None:
    await app.submit("places", JOB)
    await app.roster.add(hook("all"))
    with pytest.raises(Conflict, match="already"):
        await app.roster._rows.add(hook("all"), after=1)  # as one does who looked before the other's row was there
    at = await app.sinks.position("all")
    assert (at.cursor, at.paused) == (0, False)


async def test_a_sink_that_the_settings_of_another_process_configure_is_left_alone(app: App) -> None:
    with pytest.raises(Conflict, match="settings configure"):
        await app.roster.add(hook("kafka"))
    session = await app.ledger.begin("another process")
    await app.ledger.take_lane(session, sink_lane("kafka"))
    await app.sinks.advance("kafka", 0)
    with pytest.raises(Conflict, match="Another process"):
        await app.roster.remove("kafka")
    await app.ledger.end(session)
    await app.roster.remove("kafka")


async def test_another_process_follows_within_seconds(
    tmp_path: Path, app_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks, "LOOK_EVERY", 0.05)
    async with AsyncExitStack() as stack:
        one, other = [
            await stack.enter_async_context(open_app(new_settings(home=tmp_path / name, database_url=app_postgres_url)))
            for name in ("one", "other")
        ]
        await stack.enter_async_context(other.engine(schedules=False))
        await one.roster.add(hook("all"))
        await until(lambda: "all" in other.deliveries)
        await one.roster.remove("all")
        await until(lambda: "all" not in other.deliveries)


async def test_a_row_that_this_process_cannot_build_is_reported_and_left_alone(app: App) -> None:
    await app.database.write(
        "INSERT INTO sinks (name, type, options, created_at) VALUES ('fax', 'fax', '{}', 0), ('k', 'kafka', '{}', 0)"
    )
    await app.database.write(
        "INSERT INTO sinks (name, type, options, created_at)"
        """ VALUES ('w', 'webhook', '{"url": "https://receiver.example/?token=canary", "more": "canary"}', 0)"""
    )
    await app.roster.refresh()
    assert set(app.deliveries) == {"search", "webhook"}
    assert app.roster.names == ["fax", "k", "search", "w", "webhook"]
    assert "options.more" in app.roster.problems["w"]
    assert "canary" not in app.roster.problems["w"]
    assert "no type of sink 'fax'" in app.roster.problems["fax"]
    assert "FORAGER_KAFKA_BROKERS" in app.roster.problems["k"]


async def test_changes_reach_the_receiver_of_a_row_signed_with_both_secrets_and_a_410_stops_it__SC_13(
    tmp_path: Path,
) -> None:
    async with WebhookReceiver([SECRET]) as receiver:
        settings = new_settings(
            home=tmp_path,
            egress_allow=(receiver.endpoint,),
            webhook_secret="the one before",
            webhook_next_secret=SECRET,
        )
        async with open_app(settings) as app, app.engine(schedules=False):
            await app.roster.add(
                SinkRow("jobs", "webhook", kinds=frozenset({"job"}), options={"url": receiver.url("/changes")})
            )
            await app.submit("places", JOB)
            await until(lambda: receiver.taken)
            told = json.loads(receiver.taken["jobs_1"])
            assert (told["kind"], told["op"], told["pipeline"]) == ("job", "created", "places")
            receiver.mood = Mood.GONE
            await app.submit("places", JOB)
            await until(lambda: any(each.status == 410 for each in receiver.log))
            await app.submit("places", JOB)
            async with asyncio.timeout(60):
                while "refuses webhooks (410)" not in ((await _status(app, "jobs")).error or ""):
                    await asyncio.sleep(0.05)


async def _status(app: App, name: str) -> SinkStatus:
    return next(each for each in await app.sinks.statuses(app.roster.names) if each.name == name)
