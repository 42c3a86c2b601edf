"""The overview, figures over time, the newest changes, the system, and the live stream, over both stores."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from forager.api.live import MOST_TOPICS, checked_topics
from forager.api.overview_report import OverviewReport, PipelineBrief, SeriesReport, SystemReport, ToldChange
from forager.api.serve import running
from forager.api.system import HIDDEN, settings_in_force
from forager.app import series as series_module
from forager.app.config import new_settings
from forager.core.errors import Rejected, StoreUnavailable
from forager.engine.work.stats import WorkStats
from tests.support.api import JOB, KEY, Front, open_front
from tests.support.clock import FakeClock

HOST = "127.0.0.1"


async def test_the_overview_shows_jobs_failures_and_changes(front: Front) -> None:
    empty = OverviewReport.model_validate(await front.data("/api/v1/overview"))
    assert (empty.running, empty.changed, empty.counts.open_jobs) == ([], [], 0)
    await front.create(**JOB)
    await front.work()
    paused = await front.create()
    await front.client.post(f"/api/v1/jobs/{paused}/pause", json={"reason": "credits are being topped up"})
    await asyncio.sleep(1.1)  # the overview is computed at most once a second
    now = OverviewReport.model_validate(await front.data("/api/v1/overview"))
    assert [str(job.id) for job in now.running] == [paused]
    assert now.counts.open_jobs == 1
    assert now.counts.dead_letters == 1
    assert now.counts.changes_today > 0
    assert {change.kind for change in now.changed} == {"place"}
    looks = {each.kind: each for each in now.attention}
    assert looks["dead"].title == "1 task failed permanently"
    assert looks["job"].detail == "credits are being topped up"
    assert looks["job"].action is not None
    assert (await front.client.post(looks["job"].action.path, json={})).status_code == 200


async def test_a_store_that_is_away_leaves_the_last_overview_with_its_state(
    simple: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    await simple.create()
    before = await simple.data("/api/v1/overview")
    assert len(before["running"]) == 1

    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("The store does not answer.")

    monkeypatch.setattr(simple.app.reports, "health", away)
    await asyncio.sleep(1.1)
    after = await simple.data("/api/v1/overview")
    assert after["health"]["store"] == "unavailable"
    assert after["health"]["status"] == "red"
    assert after["running"] == before["running"]


async def test_figures_are_added_up_by_minute_and_hour(front: Front) -> None:
    series = front.app.series
    await series.add()
    await front.create(**JOB)
    await front.work()
    await series.add()
    counted = sum(front.app.worker.stats.by_kind.values())
    for span, name in ((timedelta(hours=1), "1h"), (timedelta(days=7), "7d")):
        told = SeriesReport.model_validate(await front.data("/api/v1/series", range=name))
        lists = (told.times, told.completed, told.failed, told.skipped, told.cost, told.changes)
        assert len({len(each) for each in lists}) == 1
        assert told.times == sorted(told.times)
        minutes = told.step_seconds / 60
        ended = sum(told.completed) + sum(told.failed) + sum(told.skipped)
        assert round(ended * minutes) == counted, span
        assert sum(told.changes) == sum(told.changes_by_part) > 0
    await series.add()
    again = await front.data("/api/v1/series", range="1h")
    assert sum(again["completed"]) == sum((await front.data("/api/v1/series", range="1h"))["completed"])
    assert (await front.client.get("/api/v1/series", params={"range": "1y"})).status_code == 422


async def test_changes_and_growth_are_counted_once_by_several_processes(front: Front) -> None:
    app, size = front.app, 1_000_000

    async def measured() -> int:
        return size

    def process() -> series_module.Series:
        return series_module.Series(app.database, app.clock, WorkStats(), {}, app.reports.last_change, measured)

    first, second = process(), process()
    await asyncio.gather(first.add(), second.add())
    await front.create(**JOB)
    await front.work()
    size += 4_096
    await asyncio.gather(first.add(), second.add())
    await process().add()  # one that starts later
    told = await first.read(timedelta(hours=1))
    assert sum(told["changes"]) == await app.reports.last_change() > 0
    for each in (first, second):
        each._sized = None  # a minute later
    size -= 1_024
    await asyncio.gather(first.add(), second.add())
    assert await first.grown(timedelta(days=1)) == await second.grown(timedelta(days=7)) == 3_072


async def test_the_overview_has_lanes_that_wait_and_every_sink(front: Front) -> None:
    await front.create()
    await front.client.post("/api/v1/lanes/serper/pause")
    now = OverviewReport.model_validate(await front.data("/api/v1/overview"))
    assert [(each.name, each.reason, each.until) for each in now.waiting] == [("serper", "paused", None)]
    assert now.waiting[0].message == "serper is paused by an operator"
    assert len(now.sinks.all) == now.sinks.count > 0
    assert {each.state for each in now.sinks.all} <= {"up_to_date", "behind"}


async def test_a_lane_that_was_resumed_waits_no_longer_on_the_overview(simple: Front) -> None:
    await simple.create()
    await simple.client.post("/api/v1/lanes/serper/pause")
    assert [each["name"] for each in (await simple.data("/api/v1/overview"))["waiting"]] == ["serper"]
    assert (await simple.client.post("/api/v1/lanes/serper/resume")).status_code == 200
    await asyncio.sleep(1.1)  # the overview is computed at most once a second, its slow parts every ten
    assert (await simple.data("/api/v1/overview"))["waiting"] == []


async def test_figures_older_than_they_are_kept_are_removed(front: Front) -> None:
    hour = 500_000 * 3600
    clock = front.app.series._clock = FakeClock(datetime.fromtimestamp(hour + 600, UTC))
    await front.app.series.add()
    row: dict[str, Any] = {"pipeline": "places", "name": "completed", "value": 1}
    kept = {step: int(keep.total_seconds()) for step, keep in series_module.KEPT.items()}
    for step, seconds in kept.items():
        for at in (hour - seconds, hour - seconds + 2 * 3600):
            await front.app.database.write(series_module.ADD, {"step": step, "at": at, **row})
    await front.app.series.add()
    count = "SELECT count(*) AS n FROM series WHERE name = 'completed'"
    assert (await front.app.database.fetch(count))[0]["n"] == 4, "they are removed once in an hour"
    clock.advance(3_000)
    await front.app.series.add()
    assert (await front.app.database.fetch(count))[0]["n"] == 2


async def test_the_newest_changes_are_shown_in_words(front: Front) -> None:
    await front.create(**JOB)
    await front.work()
    told = [ToldChange.model_validate(each) for each in await front.data("/api/v1/changes/latest", limit=5)]
    assert 0 < len(told) <= 5
    assert [each.id for each in told] == sorted((each.id for each in told), reverse=True)
    assert all(each.title and each.title != each.key for each in told), "a place is named by its title"
    assert await front.data("/api/v1/changes/latest", kinds="product") == []
    assert (await front.client.get("/api/v1/changes/latest", params={"limit": 501})).status_code == 422
    assert (await front.client.get("/api/v1/changes/latest", params={"kind": "place"})).status_code == 422


async def test_the_system_shows_the_store_and_every_setting(front: Front) -> None:
    told = SystemReport.model_validate(await front.data("/api/v1/system"))
    settings = {each.name: each for each in told.settings}
    assert settings["FORAGER_MAX_RETRIES_PER_QUERY"].value == "0"
    assert settings["FORAGER_SERPER_API_KEY"].value == HIDDEN
    assert told.store.kind == ("PostgreSQL" if front.app.settings.database_url else "SQLite")
    assert told.store.bytes > 100_000


def test_a_setting_that_may_hold_a_password_is_hidden__S8(tmp_path: Path) -> None:
    secret = "canary-3f9a"
    settings = new_settings(
        home=tmp_path, database_url=f"postgresql://u:{secret}@h/db", proxy_endpoints=(f"http://u:{secret}@h:1",)
    )
    told = settings_in_force(settings, {"FORAGER_PORT": "9000"}, tmp_path)
    assert secret not in str(told)
    origins = {each.name: each.origin for each in told}
    assert origins["FORAGER_PORT"] == "the environment"
    assert origins["FORAGER_DATABASE_URL"] == "command"
    assert origins["FORAGER_HOST"] == "default"


async def test_pipelines_come_with_what_a_form_needs(simple: Front) -> None:
    told = {each["name"]: PipelineBrief.model_validate(each) for each in await simple.data("/api/v1/pipelines")}
    assert set(told) >= {"places", "products", "listings", "scrape", "reviews"}
    assert told["places"].paid
    assert "keyword" in told["places"].params["properties"]
    assert not set(told) & set(simple.app.internal)


@pytest.mark.parametrize("text", ["jobs", "job:", "job:1", "overview;", "overview,x", "job:x" * 10])
def test_an_unknown_topic_is_refused_by_name(text: str) -> None:
    with pytest.raises(Rejected) as refused:
        checked_topics(text)
    assert refused.value.fields[0].field == "topics"


def test_topics_are_limited() -> None:
    some = [f"job:00000000-0000-0000-0000-{number:012}" for number in range(MOST_TOPICS + 1)]
    assert len(checked_topics(",".join(some[:-1]))) == MOST_TOPICS
    with pytest.raises(Rejected):
        checked_topics(",".join(some))


async def test_a_stream_shows_each_topic_at_once_and_each_change_of_it(front: Front) -> None:
    job = await front.create(**JOB)
    async with (
        running(front.api, host=HOST, port=0) as url,
        httpx.AsyncClient(base_url=url, headers={"X-Service-Key": KEY}, timeout=30) as client,
        client.stream("GET", "/api/v1/live", params={"topics": f"overview,changes,job:{job}"}) as stream,
    ):
        messages = _messages(stream)
        first: dict[str, Any] = {}
        while len(first) < 3:
            message = await anext(messages)
            first[message["topic"]] = message["data"]
        assert first[f"job:{job}"]["state"] in ("queued", "running")
        assert "params" not in first[f"job:{job}"]
        working = asyncio.create_task(front.work())
        async with asyncio.timeout(30):
            while (message := await anext(messages))["topic"] != f"job:{job}" or not message["data"]["finished_at"]:
                pass
        await working
        front.api.state.service_key.replace("another-key-from-now-on")
        async with asyncio.timeout(30):
            async for _ in messages:
                pass  # until the new key has ended the stream


async def test_a_stream_of_another_site_or_without_topics_is_refused(simple: Front) -> None:
    assert (await simple.client.get("/api/v1/live")).status_code == 422
    assert (await simple.client.get("/api/v1/live", params={"topics": ""})).status_code == 422
    foreign = await simple.client.get(
        "/api/v1/live", params={"topics": "overview"}, headers={"Origin": "https://evil.example"}
    )
    assert (foreign.status_code, foreign.json()["meta"]["code"]) == (403, "foreign_origin")


async def _messages(stream: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    async for line in stream.aiter_lines():
        if line.startswith("data: "):
            yield json.loads(line[6:])


async def test_changes_are_shown_with_the_values_before_and_after(front: Front) -> None:
    await front.create(**JOB)
    await front.work()
    (place, *_) = await front.data("/api/v1/changes/latest", kinds="place", limit=1)
    assert (place["op"], place["text"], place["fields"]) == ("new", "new", [])
    (row,) = await front.app.database.fetch("SELECT body FROM changes WHERE id = :id", {"id": place["id"]})
    body = json.loads(row["body"]) if isinstance(row["body"], str) else row["body"]
    later = {**body, "title": "Still, under new management", "last_seen_at": "2026-03-14T12:00:00Z"}
    last = (await front.app.database.fetch("SELECT change FROM tail"))[0]["change"]
    await front.app.database.write(
        "INSERT INTO changes (id, kind, key, op, version, at, body) SELECT :id, kind, key, 'changed', version + 1, at,"
        " CAST(:body AS JSON) FROM changes WHERE id = :of"
        if front.app.settings.database_url
        else "INSERT INTO changes (id, kind, key, op, version, at, body) SELECT :id, kind, key, 'changed', version + 1,"
        " at, :body FROM changes WHERE id = :of",
        {"id": last + 1, "body": json.dumps(later), "of": place["id"]},
    )
    await front.app.database.write("UPDATE tail SET change = :last", {"last": last + 1})
    (told, *_) = await front.data("/api/v1/changes/latest", kinds="place", limit=1)
    assert told["fields"] == [{"name": "title", "before": body["title"], "after": later["title"]}]
    assert told["text"] == f"title {body['title']} → Still, under new management"


async def test_the_overview_counts_the_money_of_today_and_this_month(tmp_path: Path) -> None:
    settings = {"serper_price_per_1000": "2", "serper_max_credits_day": 1_000}
    async with open_front(tmp_path, settings=settings) as front:
        await front.create(**JOB)
        await front.work()
        job = (await front.data("/api/v1/jobs"))[0]
        now = OverviewReport.model_validate(await front.data("/api/v1/overview"))
        assert job["spent"] > 0
        assert now.spend.today_usd == pytest.approx(job["spent"] * 0.002)
        assert now.spend.month_usd == pytest.approx(job["spent"] * 0.002)
        assert now.spend.budget_usd == 2.0
        fresh = {each.pipeline: each.last_change_at for each in now.freshness}
        assert fresh["places"] is not None
        assert fresh["products"] is None


async def test_a_feature_that_fails_does_not_take_the_overview_down(
    simple: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_: object) -> None:
        raise RuntimeError("a defect of another package")

    monkeypatch.setattr("forager.pipelines.products.reports.health.concerns", broken)
    assert (await simple.client.get("/api/v1/overview")).status_code == 200


async def test_values_that_are_held_back_need_a_look(simple: Front) -> None:
    await simple.app.database.write(
        "INSERT INTO quarantines (domain, parser, parser_version, field, state, rate, mean, pages, since)"
        " VALUES ('shop.example', 'generic', 1, 'price', 'open', 0.59, 0.99, 82, 0)"
    )
    now = OverviewReport.model_validate(await simple.data("/api/v1/overview"))
    (look,) = [each for each in now.attention if each.kind == "parser"]
    assert look.title == "shop.example: price is missing"
    assert "59% of 82 pages, 99% expected" in look.detail
