"""kill -9 between a job's end and its webhook: after a restart every job is reported once by id."""

import asyncio
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from forager.sandbox import FULL_DENSITY, SerperConfig, SerperSandbox
from forager.sandbox.receiver import WebhookReceiver
from forager.sinks.webhook.pipeline import WEBHOOK_LANES
from tests.support.chaos import Dice, gone
from tests.support.webhook_process import Death, Options, start, submit
from tests.support.webhooks import SECRET

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]

JOBS = 12
KILLED = -9
CONFIG = SerperConfig(density=FULL_DENSITY, rate_limit=None)


def delivered(home: Path) -> set[str]:
    return _deliveries(home, "state = 4")


def _deliveries(home: Path, which: str) -> set[str]:
    with sqlite3.connect(f"file:{home / 'ledger.db'}?mode=ro", uri=True) as db:
        return {key for (key,) in db.execute(f"SELECT key FROM tasks WHERE kind = 'webhook' AND {which}")}


@pytest.mark.parametrize("death", ["before the messages are written", "before the cursor moves"])
async def test_a_kill_between_a_jobs_end_and_its_webhook_costs_and_doubles_nothing__SC_13(
    tmp_path: Path, death: Death
) -> None:
    async with SerperSandbox(CONFIG) as serper, WebhookReceiver([SECRET]) as receiver:
        options = Options(str(tmp_path), serper.url, CONFIG.key, receiver.url("/hook"))
        jobs = await submit(options, JOBS)
        for _ in range(2):
            assert await gone(start(replace(options, death=death)), 60) == KILLED
        assert await gone(start(options), 60) == 0
        assert sorted(receiver.taken) == sorted(f"job_{job}_2" for job in jobs)
        assert len(delivered(tmp_path)) == JOBS
        assert {each.problem for each in receiver.log} == {None}


async def test_a_build_that_moves_the_cursor_first_loses_webhooks(tmp_path: Path) -> None:
    """The negative control of the test above."""
    async with SerperSandbox(CONFIG) as serper, WebhookReceiver([SECRET]) as receiver:
        options = Options(str(tmp_path), serper.url, CONFIG.key, receiver.url("/hook"), broken=True)
        await submit(options, JOBS)
        assert await gone(start(replace(options, death="before the messages are written")), 60) == KILLED
        assert await gone(start(options), 60) == 0
        assert len(receiver.taken) < JOBS


async def test_kills_among_the_deliveries_lose_no_webhook_and_none_counts_twice__SC_13(tmp_path: Path) -> None:
    dice = Dice()
    async with SerperSandbox(CONFIG) as serper, WebhookReceiver([SECRET]) as receiver:
        options = Options(str(tmp_path), serper.url, CONFIG.key, receiver.url("/hook"))
        jobs = await submit(options, JOBS)
        kills = 0
        while len(receiver.taken) < JOBS - 2:
            process = start(options)
            async with asyncio.timeout(60):
                await receiver.arrived(len(receiver.log) + dice.between(1, 3))
            await asyncio.sleep(dice.seconds(0.02))
            process.kill()
            kills += await gone(process, 60) == KILLED
        for _ in range(5):  # a delivery whose try failed waits on disk, and a run does not stay up for it
            assert await gone(start(options), 60) == 0
            if len(delivered(tmp_path)) == JOBS:
                break
            await asyncio.sleep(2.5)
        assert kills >= 2
        messages = {f"job_{job}_2" for job in jobs}
        assert delivered(tmp_path) == messages, "a kill made a dead letter of a message"
        assert set(receiver.taken) == messages
        assert len(receiver.taken) <= len(receiver.log) <= JOBS + kills * WEBHOOK_LANES.concurrency
