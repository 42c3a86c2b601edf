"""A receiver that is down for a day, or for longer than anybody waits: days pass in a second, by a clock of our own."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from uuid import UUID

import pytest

from forager.core.ids import task_uuid
from forager.sandbox.receiver import Mood
from forager.sinks.webhook.pipeline import RETRY
from tests.support.auditor import Row
from tests.support.clock import FakeClock
from tests.support.webhooks import SECRET, Outbox, open_outbox

DAY = 86_400.0
WAITING, COMPLETED, FAILED = 1, 4, 5


@dataclass
class Patience:
    outbox: Outbox
    clock: FakeClock

    @property
    def task(self) -> Row:
        (row,) = self.outbox.deliveries()
        return row

    def passed(self, job: UUID) -> float:
        ended = self.outbox.engine.job(job)["finished_at"]
        return float(self.clock.now().timestamp() - ended / 1000)

    async def next_try(self) -> None:
        """Let time pass until the message is due, and wait until that try is over."""
        row = self.task
        assert row["state"] == WAITING
        self.clock.advance(max(0.0, row["due"] / 1000 - self.clock.now().timestamp()) + 0.001)
        await self.outbox.until(lambda: self._goes_on() and self._moment() != (WAITING, row["due"]))
        await self.settled()

    def _moment(self) -> tuple[int, int | None]:
        row = self.task
        return row["state"], row["due"]

    def _goes_on(self) -> bool:
        """Let a little time pass with every look: the worker itself may have to wait for some milliseconds."""
        self.clock.advance(0.01)
        return True

    async def settled(self) -> None:
        await self.outbox.until(lambda: self.outbox.deliveries() and self.task["state"] in (WAITING, COMPLETED, FAILED))

    async def tries_until(self, holds: Callable[[], bool]) -> int:
        count = 0
        while self.task["state"] == WAITING and not holds():
            await self.next_try()
            count += 1
        return count


async def test_a_receiver_that_was_down_for_a_day_gets_the_message_once_the_same_and_freshly_signed__R16(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    async with open_outbox(tmp_path, clock=clock) as outbox:
        patience = Patience(outbox, clock)
        job = await outbox.end_job()
        await outbox.receiver.stop()
        async with outbox.working():
            await outbox.until(lambda: outbox.ended(job))
            await outbox.tell()
            await patience.settled()
            body = patience.task["body"]
            assert await patience.tries_until(lambda: patience.passed(job) > DAY / 100) >= 5  # nobody listens
            assert outbox.receiver.log == []
            outbox.receiver.mood = Mood.ERROR
            await outbox.receiver.start()
            assert await patience.tries_until(lambda: patience.passed(job) > DAY * 0.8) >= 2  # 500
            outbox.receiver.mood = Mood.UP
            await patience.tries_until(lambda: False)
            await outbox.tell()
            await outbox.tell()
        assert patience.task["state"] == COMPLETED
        assert patience.task["body"] == body
        assert patience.passed(job) >= DAY
    seen = outbox.receiver.log
    assert [each.status for each in seen] == [500] * (len(seen) - 1) + [200]
    assert len(seen) >= 3
    assert len({(each.id, each.body) for each in seen}) == 1
    assert len({each.headers["webhook-signature"] for each in seen}) == len(seen)
    assert [each.headers["webhook-timestamp"] for each in seen] == [str(int(each.at.timestamp())) for each in seen]
    assert [each.problem for each in seen] == [None] * len(seen)
    assert list(outbox.receiver.taken) == [seen[0].id]


async def test_tries_follow_the_table_and_after_a_week_it_is_a_dead_letter_that_can_be_sent_again__SC_13(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    async with open_outbox(tmp_path, clock=clock) as outbox:
        patience = Patience(outbox, clock)
        outbox.receiver.mood = Mood.ERROR
        job = await outbox.end_job()
        async with outbox.working():
            await outbox.until(lambda: outbox.ended(job))
            await outbox.tell()
            await patience.settled()
            await patience.tries_until(lambda: False)
            assert patience.task["state"] == FAILED
            assert "answered 500" in patience.task["error"]
            await asyncio.sleep(0)
            waits = [(b.at - a.at).total_seconds() for a, b in pairwise(outbox.receiver.log)]
            tabled = RETRY.delays
            assert tabled is not None
            assert len(waits) == len(tabled) == 15
            assert all(least <= wait <= least * 1.1 + 0.5 for least, wait in zip(tabled, waits, strict=True))
            assert tabled[:10] == (2, 4, 8, 60, 300, 1_800, 7_200, 18_000, 36_000, 86_400)
            assert timedelta(days=6) < timedelta(seconds=sum(tabled)) < timedelta(days=7)
            outbox.receiver.mood = Mood.UP
            letter = patience.task
            await outbox.engine.ledger.retry_tasks([task_uuid(letter["job_id"], letter["id"])])
            await outbox.until(lambda: patience.task["state"] == COMPLETED)
    assert len({each.id for each in outbox.receiver.log}) == 1
    assert len(outbox.receiver.taken) == 1


async def test_a_receiver_that_is_always_busy_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    """A 429 burns no attempt: only time ends it."""
    clock = FakeClock()
    async with open_outbox(tmp_path, clock=clock) as outbox:
        patience = Patience(outbox, clock)
        outbox.receiver.mood, outbox.receiver.retry_after = Mood.BUSY, 3_600
        job = await outbox.end_job()
        async with outbox.working():
            await outbox.until(lambda: outbox.ended(job))
            await outbox.tell()
            await patience.settled()
            await patience.next_try()
            assert patience.task["attempt"] == 0
            clock.advance(7 * DAY)
            await patience.next_try()
            assert patience.task["attempt"] == 1


async def test_no_secret_is_in_the_database_however_a_delivery_ends__S8(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = "token-CANARY-a1b2c3d4"
    clock = FakeClock()
    async with open_outbox(tmp_path, clock=clock, path=f"/hook/{token}?sig={token}") as outbox:
        patience = Patience(outbox, clock)
        job = await outbox.end_job()
        moods = [Mood.ERROR, Mood.MOVED, Mood.FORGETFUL, Mood.UP]
        async with outbox.working():
            await outbox.until(lambda: outbox.ended(job))
            await outbox.receiver.stop()
            await outbox.tell()
            await patience.settled()
            assert "no connection" in patience.task["error"]
            await outbox.receiver.start()
            for mood in moods:
                outbox.receiver.mood = mood
                await patience.next_try()
            outbox.receiver.mood = Mood.GONE
            second = await outbox.end_job()
            await outbox.until(lambda: outbox.ended(second))
            await outbox.tell()
            await outbox.until(lambda: outbox.standing_jobs()[0]["state"] == "paused")
        assert len(outbox.receiver.log) == 5
        assert all(token in each.path for each in outbox.receiver.log)
    files = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"job_id" in files
    for canary in (SECRET, token):
        assert canary.encode() not in files
        assert canary not in caplog.text
