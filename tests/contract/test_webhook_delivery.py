"""From a job's end to its message: sent once, whatever happens in between, on either store."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from forager.core.database import Row
from forager.core.task import Plan
from forager.ledger.catalog import Catalog
from forager.ledger.reports import LedgerReports
from forager.sandbox.receiver import Mood, WebhookReceiver
from forager.sinks.webhook.outbox import webhook_sink
from forager.sinks.webhook.pipeline import WEBHOOK_LANES
from tests.support.acts import Act, many
from tests.support.deliveries import deliver_new, sink_table
from tests.support.webhooks import SECRET, Outbox, failing, open_outbox


@pytest.fixture(params=["sqlite", "postgres"])
async def outbox(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Outbox]:
    where: Path | str = tmp_path if request.param == "sqlite" else request.getfixturevalue("unmade_postgres_url")
    async with open_outbox(where) as made:
        yield made


def message(outbox: Outbox, job: UUID) -> dict[str, Any]:
    (body,) = [body for key, body in outbox.receiver.taken.items() if job.hex in key]
    read: dict[str, Any] = json.loads(body)
    return read


async def test_every_end_of_a_job_is_sent_once_with_its_summary__SC_13(outbox: Outbox) -> None:
    well = await outbox.end_job(many(3))
    partly = await outbox.end_job([*many(2, prefix="p"), *failing(1)])
    badly = await outbox.end_job(failing(2))
    async with outbox.working():
        await outbox.until(lambda: outbox.ended(well, partly, badly))
        await outbox.tell()
        await outbox.receiver.arrived(3)
        await outbox.until(lambda: all(row["state"] == 4 for row in outbox.deliveries()))
        await outbox.tell()  # the end of the deliveries' own job is reported to no receiver
    told = {str(job): message(outbox, job) for job in (well, partly, badly)}
    assert {job: (m["job_id"], m["status"], m["summary"]) for job, m in told.items()} == {
        str(well): (str(well), "completed", {"total": 3, "completed": 3, "failed": 0}),
        str(partly): (str(partly), "partially_completed", {"total": 3, "completed": 2, "failed": 1}),
        str(badly): (str(badly), "failed", {"total": 2, "completed": 0, "failed": 2}),
    }
    assert [r["status"] for r in told[str(partly)]["results"]] == ["failed", "completed", "completed"]
    assert [each.problem for each in outbox.receiver.log] == [None] * 3
    assert len(outbox.deliveries()) == 3
    assert len(outbox.standing_jobs()) == 1
    outbox.engine.check()


async def test_a_crash_between_submitting_and_moving_the_cursor_sends_nothing_twice__SC_13(outbox: Outbox) -> None:
    class Killed(BaseException):
        pass

    class Dies:
        """The cursors up to the moment before one would move."""

        def __init__(self) -> None:
            self.fired = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(sink_table(outbox.engine.ledger), name)

        async def advance(self, sink: str, cursor: int, **_: Any) -> bool:
            self.fired += 1
            raise Killed

    job = await outbox.end_job()
    async with outbox.working():
        await outbox.until(lambda: outbox.ended(job))
        dying: Any = Dies()
        for _ in range(3):
            with pytest.raises(Killed):
                await deliver_new(outbox.engine.ledger, outbox.sink, outbox.engine.clock, cursors=dying)
            await outbox.until(lambda: all(row["state"] == 4 for row in outbox.deliveries()))
        await outbox.tell()
        await outbox.tell()
    assert dying.fired == 3
    assert len(outbox.deliveries()) == 1
    assert len(outbox.receiver.log) == 1


async def test_two_who_read_the_log_at_once_make_one_delivery(outbox: Outbox) -> None:
    jobs = [await outbox.end_job(many(1, prefix=f"{n}-")) for n in range(5)]
    async with outbox.working():
        await outbox.until(lambda: outbox.ended(*jobs))
        await asyncio.gather(*(outbox.tell() for _ in range(4)))
        await outbox.receiver.arrived(5)
    assert len(outbox.deliveries()) == 5
    assert sorted(outbox.receiver.taken) == sorted(f"job_{job.hex}_2" for job in jobs)
    outbox.engine.check()


async def test_a_cancelled_job_is_reported_once_when_its_last_running_task_has_ended__SC_13(outbox: Outbox) -> None:
    job = await outbox.end_job([Plan(Act(name="slow", how="well", seconds=0.4)), *many(500)])
    async with outbox.working():
        await outbox.until(lambda: outbox.engine.job(job)["running"] > 0)
        await outbox.engine.ledger.cancel(job)
        await outbox.tell()
        assert outbox.ended(job) or outbox.deliveries() == []
        await outbox.until(lambda: outbox.ended(job))
        await outbox.tell()
        await outbox.receiver.arrived(1)
        await outbox.tell()
    assert message(outbox, job)["status"] == "cancelled"
    assert len(outbox.deliveries()) == 1


async def test_a_retried_job_has_another_end_and_another_id(outbox: Outbox) -> None:
    job = await outbox.end_job(failing(1))
    async with outbox.working():
        await outbox.until(lambda: outbox.ended(job))
        await outbox.tell()
        await outbox.engine.ledger.retry(job)
        await outbox.until(lambda: outbox.ended(job))
        await outbox.tell()
        await outbox.receiver.arrived(2)
    first, second = (each.id for each in outbox.receiver.log)
    assert first != second
    assert job.hex in first
    assert job.hex in second


async def test_a_receiver_that_is_gone_gets_nothing_more_until_its_job_is_resumed__SC_13(outbox: Outbox) -> None:
    outbox.receiver.mood = Mood.GONE
    first = await outbox.end_job()
    async with outbox.working():
        await outbox.until(lambda: outbox.ended(first))
        await outbox.tell()
        await outbox.until(lambda: outbox.standing_jobs() and outbox.standing_jobs()[0]["state"] == "paused")
        (standing,) = outbox.standing_jobs()
        assert "410" in standing["reason"]
        outbox.receiver.mood = Mood.UP
        second = await outbox.end_job(many(1, prefix="s"))
        await outbox.until(lambda: outbox.ended(second))
        await outbox.tell()
        assert len(outbox.deliveries()) == 2
        assert len(outbox.receiver.log) == 1
        await outbox.engine.ledger.resume(UUID(standing["public_id"]))
        await outbox.until(lambda: len(outbox.receiver.taken) == 2)
    assert {row["attempt"] for row in outbox.deliveries()} == {1}


async def test_an_answer_that_is_lost_repeats_the_same_message_and_it_counts_once__SC_13(outbox: Outbox) -> None:
    outbox.receiver.mood = Mood.FORGETFUL
    job = await outbox.end_job()
    async with outbox.working():
        await outbox.until(lambda: outbox.ended(job))
        await outbox.tell()
        await outbox.receiver.arrived(1)
        outbox.receiver.mood = Mood.UP
        await outbox.receiver.arrived(2)
        await outbox.until(lambda: outbox.deliveries()[0]["state"] == 4)
    first, again = outbox.receiver.log
    assert (first.id, first.body) == (again.id, again.body)
    assert first.headers["webhook-signature"] != again.headers["webhook-signature"]
    assert len(outbox.receiver.taken) == 1


async def test_a_redirect_is_not_followed_and_the_signed_message_goes_nowhere_else__S7(tmp_path: Path) -> None:
    async with WebhookReceiver([SECRET]) as elsewhere, open_outbox(tmp_path, allow=[elsewhere.endpoint]) as outbox:
        outbox.receiver.mood = Mood.MOVED
        outbox.receiver.moved_to = elsewhere.url("/stolen")
        job = await outbox.end_job()
        async with outbox.working():
            await outbox.until(lambda: outbox.ended(job))
            await outbox.tell()
            await outbox.receiver.arrived(1)
            await outbox.until(lambda: outbox.deliveries()[0]["state"] == 1)
        assert elsewhere.log == []
        assert "answered 302" in outbox.deliveries()[0]["error"]


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest",
        "http://127.0.0.1:1/",
        "http://[::1]:9/x",
        "http://[::1",
        "http://a:b@c:99999/",
        "file:///etc/passwd",
        "nonsense",
    ],
)
async def test_a_callback_to_an_address_that_is_not_public_is_refused_and_kept_as_a_dead_letter__S1(
    tmp_path: Path, url: str
) -> None:
    async with open_outbox(tmp_path) as outbox:
        job = await outbox.end_job(callback=url)
        async with outbox.working():
            await outbox.until(lambda: outbox.ended(job))
            await outbox.tell()
            await outbox.until(lambda: outbox.deliveries() and outbox.deliveries()[0]["state"] == 5)
        assert outbox.receiver.log == []


async def test_without_a_secret_nothing_is_sent_and_the_job_names_the_remedy(tmp_path: Path) -> None:
    async with open_outbox(tmp_path, secret=None) as outbox:
        job = await outbox.end_job()
        async with outbox.working():
            await outbox.until(lambda: outbox.ended(job))
            await outbox.tell()
            await outbox.until(lambda: outbox.standing_jobs() and outbox.standing_jobs()[0]["state"] == "paused")
        assert "FORAGER_WEBHOOK_SECRET is not set" in outbox.standing_jobs()[0]["reason"]
        assert outbox.receiver.log == []


async def test_one_dead_receiver_holds_up_no_other__SC_13(tmp_path: Path) -> None:
    async with WebhookReceiver([SECRET]) as dead, open_outbox(tmp_path, allow=[dead.endpoint]) as outbox:
        dead.mood = Mood.SILENT
        jobs = [await outbox.end_job(many(1, prefix=f"d{n}-"), callback=dead.url("/x")) for n in range(8)]
        fine = await outbox.end_job()
        async with outbox.working():
            await outbox.until(lambda: outbox.ended(fine, *jobs))
            await outbox.tell()
            await outbox.receiver.arrived(1)
        assert list(outbox.receiver.taken) == [f"job_{fine.hex}_2"]
        assert len(dead.log) <= WEBHOOK_LANES.concurrency
        assert len(outbox.standing_jobs()) == 2


async def test_a_429_of_a_receiver_is_obeyed_without_burning_an_attempt(tmp_path: Path) -> None:
    async with open_outbox(tmp_path) as outbox:
        outbox.receiver.mood, outbox.receiver.retry_after = Mood.BUSY, 1
        job = await outbox.end_job()
        async with outbox.working():
            await outbox.until(lambda: outbox.ended(job))
            await outbox.tell()
            await outbox.receiver.arrived(1)
            outbox.receiver.mood = Mood.UP
            await outbox.until(lambda: outbox.deliveries()[0]["state"] == 4)
        first, second = outbox.receiver.log
        assert (second.at - first.at).total_seconds() >= 1.0
        assert outbox.deliveries()[0]["attempt"] == 1


async def test_a_job_whose_results_cannot_be_sent_holds_up_no_other__SC_13(tmp_path: Path) -> None:
    async def broken(job: UUID) -> list[dict[str, Any]]:
        raise KeyError("targets")

    async def odd(job: UUID) -> list[dict[str, Any]]:
        return [{"half": "\ud800", "big": 10**40, "when": datetime(2026, 1, 1, tzinfo=UTC)}]

    async with open_outbox(tmp_path) as outbox:
        ledger = outbox.engine.ledger
        reports = LedgerReports(ledger.database, Catalog(outbox.engine.pipelines))
        told: list[Any] = []
        async with outbox.working():
            for results in (broken, odd):
                job = await outbox.end_job()
                await outbox.until(lambda job=job: outbox.ended(job))
                sink = webhook_sink(ledger, reports, outbox.receiver.url(), {"acts": results})
                await deliver_new(ledger, sink, outbox.engine.clock)
                await outbox.until(lambda job=job: any(job.hex in key for key in outbox.receiver.taken))
                told.append(message(outbox, job)["results"])
    assert [each["status"] for each in told[0]] == ["completed", "completed"]
    assert told[1] == [{"half": "\ud800", "big": 10**40, "when": "2026-01-01 00:00:00+00:00"}]


async def test_ends_without_a_receiver_cost_one_query_for_all_of_them(tmp_path: Path) -> None:
    async with open_outbox(tmp_path, default=False) as outbox:
        jobs = [await outbox.end_job() for _ in range(40)]
        async with outbox.working():
            await outbox.until(lambda: outbox.ended(*jobs))
        database, looks = outbox.engine.ledger.database, []
        fetch = database.fetch

        async def counted(sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
            looks.append(sql)
            rows: Sequence[Row] = await fetch(sql, values)
            return rows

        database.fetch = counted
        await outbox.tell()
        assert len([sql for sql in looks if "FROM jobs" in sql]) == 1
        assert outbox.deliveries() == []
