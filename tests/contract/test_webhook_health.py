"""A receiver that accepts no webhook is seen everywhere: API, command line, health, metrics, log. On either store."""

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from forager.cli.sandbox_upstreams import WEBHOOK_SECRET, Options, webhooks
from forager.sandbox.receiver import Mood, WebhookReceiver
from forager.sinks.webhook.receivers import log_receivers
from tests.support.api import KEY, PATIENCE, Front, open_front
from tests.support.deliveries import deliver_new
from tests.support.served import served

SECRET = "whk-CANARY-5f0b1c2d3e"
DRY = {"keyword": "bars", "zips": ["85001"], "dry_run": True}
"""A job that ends at once, with one change."""


@pytest.fixture
async def receiver() -> AsyncIterator[WebhookReceiver]:
    log_receivers._streaks.clear()  # of this process: tests before this one have let the default receiver fail
    async with WebhookReceiver([SECRET]) as opened:
        yield opened


@pytest.fixture(params=["sqlite", "postgres"])
async def front(request: pytest.FixtureRequest, tmp_path: Path, receiver: WebhookReceiver) -> AsyncIterator[Front]:
    url = None if request.param == "sqlite" else str(request.getfixturevalue("app_postgres_url"))
    settings = {"webhook_secret": SECRET, "default_webhook_url": receiver.url("/ends")}
    async with open_front(tmp_path, url, allow=(receiver.endpoint,), settings=settings) as opened:
        yield opened


async def add_hook(front: Front, receiver: WebhookReceiver) -> None:
    body = {"name": "hooks", "type": "webhook", "options": {"url": receiver.url("/changes")}}
    made = await front.client.post("/api/v1/sinks", json=body)
    assert made.status_code == 201, made.text


async def submit(front: Front, jobs: int) -> None:
    for _ in range(jobs):
        await front.app.submit("places", DRY)


async def shown(front: Front, name: str = "hooks") -> dict[str, Any]:
    status: dict[str, Any] = await front.data(f"/api/v1/sinks/{name}")
    return status


async def health(front: Front) -> tuple[int, dict[str, Any]]:
    answered = await front.client.get("/health")
    return answered.status_code, answered.json()["data"]


async def metric(front: Front, name: str, sink: str = "hooks") -> float:
    text = (await front.client.get("/metrics")).text
    found = re.search(rf'^forager_sink_{name}\{{sink="{sink}"\}} (\S+)$', text, re.MULTILINE)
    assert found is not None, text
    return float(found[1])


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    """Look until something holds; health and metrics are read once a second."""
    async with asyncio.timeout(PATIENCE):
        while not await holds():
            await asyncio.sleep(0.05)


async def let_pass(front: Front, seconds: int) -> None:
    """Let it be that much longer since the receivers began to fail."""
    await front.app.database.write(
        "UPDATE webhook_receivers SET failing_since = failing_since - CAST(:ms AS BIGINT)", {"ms": seconds * 1000}
    )


async def test_messages_that_were_not_tried_yet_are_not_delivered(front: Front, receiver: WebhookReceiver) -> None:
    await add_hook(front, receiver)
    await submit(front, 3)
    assert await deliver_new(front.app.ledger, front.app.deliveries["hooks"].sink, front.app.clock)
    status = await shown(front)
    assert (status["delivered"], status["waiting"]) == (0, 3), "handed over is not delivered"
    assert (status["failures"], status["error"], status["failing_since"]) == (0, None, None)


async def test_a_receiver_that_refuses_everything_is_seen_and_turns_green_when_it_recovers(
    front: Front, receiver: WebhookReceiver
) -> None:
    receiver.mood, answered = Mood.ERROR, f"{receiver.endpoint} answered 500."
    await add_hook(front, receiver)
    await submit(front, 3)

    async def has_failed() -> bool:
        return all([(await shown(front, name))["failures"] >= 3 for name in ("hooks", "webhook")])

    with capture_logs() as logged:
        async with front.app.engine(schedules=False):
            await eventually(has_failed)
            for name in ("hooks", "webhook"):
                status = await shown(front, name)
                assert (status["state"], status["delivered"], status["waiting"]) == ("failing", 0, 3)
                assert status["error"] == answered
                assert status["failing_since"] <= status["error_at"]
                assert status["retry_at"] is not None
                assert not status["stalled"], "five minutes have not passed"
                (listed,) = [each for each in await front.data("/api/v1/sinks") if each["name"] == name]
                # A retry may fail between the two requests, and then its counter and its times have moved on.
                moving = ("failures", "error_at", "retry_at", "lag_seconds")
                assert {**listed, **{key: status[key] for key in moving}} == status
            assert (await health(front))[0] == 200

            await let_pass(front, 301)
            await eventually(lambda: _is(front, 503))
            _, report = await health(front)
            assert (report["status"], report["stalled_sinks"]) == ("degraded", 2)
            assert report["stalled_sink_errors"]["hooks"] == answered
            assert (await metric(front, "failing"), await metric(front, "waiting")) == (1.0, 3.0)
            assert await metric(front, "failing_seconds") > 300
            assert await metric(front, "delivered_total") == 0
            listed = await shown(front)
            assert listed["stalled"]

            receiver.mood = Mood.UP
            await eventually(lambda: _delivered(front, 3))
            await eventually(lambda: _is(front, 200))
            status = await shown(front)
            assert (status["state"], status["failures"], status["failing_since"]) == ("delivering", 0, None)
            assert (status["waiting"], status["error"]) == (0, answered), "the last error is kept"
    events = [(line["event"], line["sink"]) for line in logged if str(line["event"]).startswith("webhook_")]
    for name in ("hooks", "webhook"):
        assert events.index(("webhook_failing", name)) < events.index(("webhook_accepted_again", name))
        lines = [line for line in logged if (line["event"], line.get("sink")) == ("webhook_failing", name)]
        design = [1, 10, 100, 1_000]
        assert [line["failures"] for line in lines] == design[: len(lines)], "not a line for each try"


async def test_doctor_names_a_failing_sink_of_a_running_forager_even_if_that_is_not_ready(
    front: Front, receiver: WebhookReceiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forager.api.health.nothing_to_fetch_with", lambda *_, **__: "no proxy is healthy")
    monkeypatch.setattr(front.app, "refused_keys", lambda: {"FORAGER_SOME_KEY": "The service refuses the key."})
    receiver.mood = Mood.ERROR
    await add_hook(front, receiver)
    await submit(front, 1)

    async def has_failed() -> bool:
        return bool((await shown(front))["failures"])

    async with front.app.engine(schedules=False), served(front.api) as url:
        await eventually(has_failed)
        checks, code = await _doctor(tmp_path, url)
    assert code == 1
    assert checks["running"]["message"] == f"{url} is not ready: no proxy is healthy"
    sink = checks["sink hooks"]
    assert sink["state"] == "problem"
    assert re.match(r"failing since [-\d]+ [:\d]+ UTC, 1 message waits\. Last error: ", sink["message"])
    assert sink["message"].endswith(f"{receiver.endpoint} answered 500.")
    assert "Start or correct the receiver" in sink["remedy"]
    refused = checks["FORAGER_SOME_KEY"]
    assert (refused["state"], refused["message"]) == ("problem", "The service refuses the key.")


async def _doctor(home: Path, url: str) -> tuple[dict[str, Any], int]:
    """Run `forager doctor` beside a Forager at this address. Returns its checks by name, and its exit code."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FORAGER_")}
    environment |= {"FORAGER_API_URL": url, "FORAGER_SERVICE_KEY": KEY, "FORAGER_HOME": str(home / "another")}
    words = (sys.executable, "-m", "forager", "doctor", "--json")
    process = await asyncio.create_subprocess_exec(*words, env=environment, cwd=home, stdout=asyncio.subprocess.PIPE)
    out, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    checks: dict[str, Any] = {}
    for each in json.loads(out)["checks"]:
        checks.setdefault(each["check"], each)  # `running` comes again, about the empty store in its own home
    return checks, process.returncode or 0


async def test_the_lines_of_deliveries_carry_the_request_that_submitted_the_reported_job(
    front: Front, receiver: WebhookReceiver
) -> None:
    receiver.mood = Mood.ERROR
    await add_hook(front, receiver)
    made = await front.client.post("/api/v1/places/jobs", json=DRY)
    request = made.json()["meta"]["request_id"]

    with capture_logs() as logged:

        async def has_logged() -> bool:
            return {("webhook_accepted_again", name) for name in ("hooks", "webhook")} <= lines().keys()

        def lines() -> dict[tuple[str, str], Any]:
            found = [line for line in logged if str(line["event"]).startswith("webhook_")]
            return {(line["event"], line["sink"]): line["request_id"] for line in found}

        async with front.app.engine(schedules=False):
            await asyncio.wait_for(receiver.arrived(2), PATIENCE)
            receiver.mood = Mood.UP
            await eventually(has_logged)
    assert len(lines()) == 4, "each sink began to fail, and was accepted again"
    assert set(lines().values()) == {request}


async def test_a_stalled_sink_is_shown_with_an_error_even_before_one_is_stored(
    front: Front, receiver: WebhookReceiver
) -> None:
    await add_hook(front, receiver)
    await submit(front, 1)
    assert await deliver_new(front.app.ledger, front.app.deliveries["hooks"].sink, front.app.clock)
    since = await front.app.ledger.now_ms() - 600_000
    await front.app.database.write(
        "UPDATE webhook_receivers SET failures = 3, failing_since = :since, error = NULL", {"since": since}
    )
    await eventually(lambda: _is_stalled(front))
    _, report = await health(front)
    error = report["stalled_sink_errors"]["hooks"]
    assert re.fullmatch(r"It accepts nothing since [-\d]+ [\d:]+ UTC\. See `forager sinks show hooks`\.", error)
    assert (await front.client.get("/health", headers={"Authorization": ""})).json()["data"]["stalled_sinks"] == 1


async def _is_stalled(front: Front) -> bool:
    return "hooks" in ((await health(front))[1]["stalled_sink_errors"] or {})


async def test_a_receiver_that_refuses_one_message_and_accepts_others_is_not_failing(
    front: Front, receiver: WebhookReceiver
) -> None:
    receiver.mood = Mood.ERROR
    await add_hook(front, receiver)
    await submit(front, 1)

    async def has_failed() -> bool:
        return bool((await shown(front))["failures"])

    async with front.app.engine(schedules=False):
        await eventually(has_failed)
        await let_pass(front, 3_600)
        receiver.mood = Mood.UP
        await submit(front, 1)
        await eventually(lambda: _delivered(front, 1))
        assert (await shown(front))["failing_since"] is None, "its last answer was a 2xx"


async def test_waiting_messages_of_a_receiver_with_status_410_are_visible(
    front: Front, receiver: WebhookReceiver
) -> None:
    receiver.mood = Mood.GONE
    await submit(front, 1)

    async def has_failed() -> bool:
        return bool((await shown(front, "webhook"))["failures"])

    async with front.app.engine(schedules=False):
        await eventually(has_failed)
    status = await shown(front, "webhook")
    assert "answered 410" in status["error"]
    assert (status["delivered"], status["waiting"]) == (0, 1)
    (job,) = (await front.app.reports.jobs(pipeline="deliveries")).items
    await front.app.ledger.cancel(job.id)
    dropped = await shown(front, "webhook")
    assert (dropped["waiting"], dropped["failing_since"]) == (0, None), "nothing waits for it any more"


async def test_the_receiver_of_the_sandbox_prints_the_changes_of_sinks_and_the_ends_of_jobs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers: dict[str, Any] = {each.name: 0 for each in fields(Options)}
    options = Options(**numbers)
    upstream = webhooks(options).server
    assert isinstance(upstream, WebhookReceiver)
    async with upstream as receiver:
        settings = {"webhook_secret": WEBHOOK_SECRET, "default_webhook_url": receiver.url("/ends")}
        async with open_front(tmp_path, None, allow=(receiver.endpoint,), settings=settings) as front:
            await add_hook(front, receiver)
            await front.app.submit("places", DRY)
            async with front.app.engine(schedules=False):
                await eventually(lambda: _delivered(front, 1))
                await asyncio.wait_for(receiver.arrived(2), PATIENCE)
    shown = capsys.readouterr().out
    assert re.search(r"^webhook hooks_1: job \S+ created$", shown, re.MULTILINE), shown
    assert re.search(r"^webhook job_\S+: completed \(0 total, 0 completed, 0 failed\)$", shown, re.MULTILINE), shown
    assert all(each.status == 200 for each in receiver.log)


async def _is(front: Front, code: int) -> bool:
    return (await health(front))[0] == code


async def _delivered(front: Front, messages: int) -> bool:
    return bool((await shown(front))["delivered"] >= messages)
