"""Prohibitions for a webhook: it never reaches the inside of a network, and never shows a secret."""

import asyncio
import io
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI
from pydantic import SecretStr

from forager.api import create_api
from forager.app.application import App
from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.core.clock import SystemClock
from forager.core.errors import ForagerError
from forager.fetch.guard import EgressGuard
from forager.fetch.http.fetcher import HttpFetcher
from forager.sandbox import FULL_DENSITY, SerperConfig, SerperSandbox
from forager.sandbox.receiver import Mood, WebhookReceiver
from forager.sinks.webhook import signing
from forager.sinks.webhook.pipeline import build as build_webhooks
from forager.sinks.webhook.receivers import WebhookDelivery
from tests.support.api import KEY, ONE_QUERY, ZIPS, client_of
from tests.support.engine import until
from tests.support.logs import logging_to
from tests.support.origin import Origin, reply
from tests.support.ssrf import forbidden_urls

SECRET = "whk-CANARY-5f0b1c2d3e"
TOKEN = "tok-CANARY-a1b2c3d4e5"
BACKEND_KEY = "bck-CANARY-0918273645"
CANARIES = (SECRET, TOKEN, BACKEND_KEY)


async def test_no_forbidden_url_is_dialled_as_a_webhooks_receiver__S1() -> None:
    async with Origin(lambda _: reply()) as canary:
        urls = forbidden_urls(canary.port)
        fetch = HttpFetcher(EgressGuard(), SystemClock(), lambda _: SECRET, sign=signing.sign)
        step = build_webhooks().steps[0]
        ends: dict[str, str] = {}
        for url in urls:
            task = WebhookDelivery(id="m", receiver=url, host="h", body="{}", at=0)
            try:
                ends[url] = str(await step.run(task, fetch))
            except ForagerError as error:
                ends[url] = type(error).__name__
        await fetch.close()
        assert len(urls) >= 400
        assert {url: end for url, end in ends.items() if end != "Refused"} == {}
        assert canary.connections == 0


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """The log as written in production, but without the redaction of these secrets."""
    with logging_to(io.StringIO()) as out:
        yield out


@asynccontextmanager
async def told(home: Path, receiver: WebhookReceiver) -> AsyncIterator[App]:
    (home / "zips.csv").write_text(ZIPS)
    async with SerperSandbox(SerperConfig(density=FULL_DENSITY, rate_limit=None)) as serper:
        settings = new_settings(
            home=home,
            zip_table=home / "zips.csv",
            serper_api_key=SecretStr(SerperConfig().key),
            serper_base_url=serper.url,
            egress_allow=(urlsplit(serper.url).netloc, receiver.endpoint),
            webhook_secret=SecretStr(SECRET),
            default_webhook_url=SecretStr(receiver.url(f"/{TOKEN}?t={TOKEN}")),
            backend_api_url="http://127.0.0.1:9",
            backend_service_key=SecretStr(BACKEND_KEY),
        )
        async with open_app(settings) as app:
            yield app


def api(app: App) -> FastAPI:
    return create_api(app, key=KEY)


async def test_no_secret_of_a_webhook_is_in_the_log_the_api_the_metrics_or_the_files__S8(
    tmp_path: Path, lines: io.StringIO
) -> None:
    shown: list[str] = []
    async with WebhookReceiver([SECRET]) as receiver, told(tmp_path, receiver) as app:
        async with client_of(api(app)) as client, app.engine():
            for mood, count in ((Mood.ERROR, 2), (Mood.FORGETFUL, 3), (Mood.UP, 4), (Mood.GONE, 5)):
                receiver.mood = mood
                if mood in (Mood.ERROR, Mood.GONE):
                    await app.submit("places", {**ONE_QUERY, "keyword": mood})
                async with asyncio.timeout(60):
                    await receiver.arrived(count)
                shown += [(await client.get("/api/v1/jobs")).text, (await client.get("/metrics")).text]
            jobs = (await client.get("/api/v1/jobs", params={"pipeline": "deliveries"})).json()["data"]
            assert len(jobs) == 1
            for path in ("", "/tasks"):
                answer = await client.get(f"/api/v1/jobs/{jobs[0]['id']}{path}")
                assert answer.status_code == 200
                shown.append(answer.text)
            tasks = (await client.get(f"/api/v1/jobs/{jobs[0]['id']}/tasks")).json()["data"]
            for path in ("/api/v1/dead", "/api/v1/lanes", "/health", "/openapi.json"):
                shown.append((await client.get(path)).text)
            assert len(tasks) == 2
        assert {TOKEN in each.path for each in receiver.log} == {True}
    shown.append(lines.getvalue())
    files = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for canary in CANARIES:
        assert [text for text in shown if canary in text] == []
        assert canary.encode() not in files


async def test_a_job_of_deliveries_cannot_be_made_by_hand(tmp_path: Path) -> None:
    async with WebhookReceiver([SECRET]) as receiver, told(tmp_path, receiver) as app, client_of(api(app)) as client:
        asked = {"pipeline": "deliveries", "params": {"receiver": "default"}}
        answer = await client.post("/api/v1/jobs", json=asked)
        assert answer.status_code == 422
        assert "callback_url" in answer.json()["error"]


async def test_a_webhook_is_sent_within_moments_of_the_end_of_a_job__SC_13(tmp_path: Path) -> None:
    async with WebhookReceiver([SECRET]) as receiver, told(tmp_path, receiver) as app, app.engine():
        job = (await app.submit("places", dict(ONE_QUERY))).job
        await until(lambda: receiver.taken)
        assert list(receiver.taken) == [f"job_{job.hex}_2"]


async def test_forager_is_idle_when_every_end_was_sent_and_a_dead_receiver_does_not_keep_it_busy(
    tmp_path: Path,
) -> None:
    async with WebhookReceiver([SECRET]) as receiver, told(tmp_path, receiver) as app:
        receiver.mood = Mood.ERROR
        await app.submit("places", dict(ONE_QUERY))
        assert await app.left_over() is None
        async with app.engine(schedules=False), asyncio.timeout(60):
            while await app.left_over() is None:
                await asyncio.sleep(0.01)
        assert len(receiver.log) == 1
        assert await app.ledger.has_work()
        assert not await app.ledger.has_work(but=["deliveries"])
