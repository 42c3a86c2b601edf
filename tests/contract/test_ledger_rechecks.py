"""Rechecks: records whose time has come become tasks of a standing job, once each, and their due times are cleared."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from forager.core.errors import Conflict, NotFound
from forager.core.recheck import Dispatched
from forager.core.record import CLEAR
from forager.core.states import TaskState
from forager.core.task import Plan
from forager.ledger.rules import recheck
from forager.ledger.sqlite import SqliteLedger
from tests.support.rig import Rig, Worker, postgres_rig
from tests.support.rig_pipelines import RECHECK, Call, Item, SoleCall, calls
from tests.support.same_commit import writer_of

HOUR = 3_600.0
LATE = timedelta(seconds=-60)
BY_TITLE = replace(RECHECK, name="item.by_title", by="title")


async def find(rig: Rig, worker: Worker, *found: Item) -> None:
    """One job of one task that found these."""
    await rig.submit(calls(1))
    while leases := await worker.lease():
        for lease in leases:
            assert not (await worker.settle(lease, records=found)).fenced


async def items(rig: Rig, worker: Worker, count: int, after: timedelta = LATE, apart: float = 1, **more: Any) -> None:
    """`a0` has been due for longest; the others follow, `apart` seconds apart."""
    now = await rig.ledger.now()
    each = timedelta(seconds=apart)
    await find(rig, worker, *(Item(uid=f"a{n}", due=now + after + n * each, **more) for n in range(count)))


def due(rig: Rig) -> dict[str, int | None]:
    return {uid: row["due"] for uid, row in sorted(rig.rows(Item).items())}


def job_of(rig: Rig) -> Any:
    (row,) = rig.tables.read("SELECT j.* FROM idempotency i JOIN jobs j ON j.id = i.job_id")
    return row


def looks(rig: Rig) -> dict[str, str]:
    return rig.states(job_of(rig)["public_id"])


async def test_due_records_become_tasks_of_a_standing_job_and_their_due_times_are_cleared(
    rig: Rig, worker: Worker
) -> None:
    await items(rig, worker, 2)
    before = rig.rows(Item)
    done = await rig.dispatch()
    assert (done.records, done.tasks, done.more, done.next_due) == (2, 2, False, None)
    assert looks(rig) == {"look a0": "ready", "look a1": "ready"}
    job = job_of(rig)
    assert (job["pipeline"], job["state"], job["total"]) == ("rig", "queued", 2)
    assert due(rig) == {"a0": None, "a1": None}
    for uid, row in rig.rows(Item).items():
        assert {**row, "due": 0} == {**before[uid], "due": 0}, "a due time is cleared quietly"
    assert [c.kind for c in await rig.ledger.changes(rig.last_change() - 1, 100)] == ["job"]
    assert [lease.task for lease in await worker.lease()] == [Call(name="look a0"), Call(name="look a1")]


async def test_records_that_are_not_due_stay_and_the_first_due_time_is_returned(rig: Rig, worker: Worker) -> None:
    await items(rig, worker, 2, timedelta(seconds=HOUR), apart=HOUR)
    stored = due(rig)
    done = await rig.dispatch()
    assert (done.records, done.tasks, done.next_due) == (0, 0, stored["a0"])
    assert due(rig) == stored
    rig.pass_time(1.5 * HOUR)
    assert (await rig.dispatch()).records == 1
    assert looks(rig) == {"look a0": "ready"}


async def test_a_page_takes_those_that_have_been_due_for_longest(rig: Rig, worker: Worker) -> None:
    await items(rig, worker, 5)
    first = await rig.dispatch(2)
    assert (first.records, first.more) == (2, True)
    assert looks(rig) == {"look a0": "ready", "look a1": "ready"}
    second, third, fourth = [await rig.dispatch(2) for _ in range(3)]
    assert [(d.records, d.more) for d in (second, third, fourth)] == [(2, True), (1, False), (0, False)]
    assert len(looks(rig)) == 5


async def test_an_open_task_stays_as_it_is_and_one_that_has_ended_is_queued_again(rig: Rig, worker: Worker) -> None:
    await items(rig, worker, 2)
    await rig.dispatch()
    leases = {lease.key: lease for lease in await worker.lease()}
    await worker.settle(leases["look a0"], cost=1)
    await items(rig, worker, 2)  # leases nothing of the recheck: a0 has ended, a1 runs
    done = await rig.dispatch()
    assert (done.records, done.tasks) == (2, 1)
    assert looks(rig) == {"look a0": "ready", "look a1": "running"}
    assert not (await worker.settle(leases["look a1"])).fenced


async def test_a_rule_may_make_no_task_and_may_put_one_off(rig: Rig, worker: Worker) -> None:
    now = await rig.ledger.now()
    await find(rig, worker, Item(uid="n", title="nothing", due=now + LATE), Item(uid="l", title="later", due=now))
    done = await rig.dispatch()
    assert (done.records, done.tasks) == (2, 1)
    assert (due(rig), looks(rig)) == ({"n": None, "l": None}, {"look l": "waiting"})
    rig.pass_time(24 * HOUR + 1)
    assert [lease.key for lease in await worker.lease()] == ["look l"]


async def test_a_rule_that_raises_puts_its_record_off_and_stops_no_other(rig: Rig, worker: Worker) -> None:
    now = await rig.ledger.now()
    await find(rig, worker, Item(uid="b", title="breaks", due=now + 2 * LATE), Item(uid="w", due=now + LATE))
    done = await rig.dispatch(2)
    assert (done.records, done.tasks, done.postponed, done.more) == (1, 1, 1, True)
    left = due(rig)["b"]
    assert left is not None
    assert left > now.timestamp() * 1000 + HOUR * 999
    assert looks(rig) == {"look w": "ready"}
    (status,) = await rig.rechecks.statuses()
    assert (status.error, status.dispatched) == ("b: ZeroDivisionError: a defect of the rule", 1)
    assert status.error_at is not None
    rig.pass_time(HOUR + 1)
    assert await rig.dispatch(1) == Dispatched(postponed=1, more=True), "a page of these alone is no end"
    await find(rig, worker, Item(uid="b", title="mended", due=now))
    assert (await rig.dispatch()).tasks == 1
    assert (await rig.rechecks.status(RECHECK.name)).error is None


async def test_a_task_that_is_open_in_another_job_is_joined(rig: Rig, worker: Worker) -> None:
    await items(rig, worker, 1, title="sole")
    await rig.submit([Plan(SoleCall(name="look a0"))])
    assert (await rig.dispatch()).records == 1
    assert (looks(rig), due(rig)) == ({"look a0": "skipped"}, {"a0": None})


async def test_a_paused_recheck_does_nothing_and_its_records_wait(rig: Rig, worker: Worker) -> None:
    await items(rig, worker, 2)
    await rig.rechecks.pause(RECHECK.name, paused=True)
    before = rig.everything()
    done = await rig.dispatch()
    assert (done.records, done.next_due, done.more) == (0, None, False)
    assert rig.everything() == before
    status = await rig.rechecks.status(RECHECK.name)
    assert (status.paused, status.due, status.job) == (True, 2, None)
    await rig.rechecks.pause(RECHECK.name, paused=False)
    assert (await rig.dispatch()).records == 2
    with pytest.raises(NotFound):
        await rig.rechecks.pause("unknown", paused=True)


async def test_a_pause_between_the_read_and_the_transaction_holds(rig: Rig, worker: Worker) -> None:
    await items(rig, worker, 1)
    page = await read(rig)
    await rig.rechecks.pause(RECHECK.name, paused=True)
    assert (await rig.ledger.dispatch_page(page)).records == 0  # type: ignore[attr-defined]
    assert due(rig)["a0"] is not None


async def read(rig: Rig) -> recheck.RecheckPage:
    now = round((await rig.ledger.now()).timestamp() * 1000)
    return await recheck.read_page(rig.ledger.database, rig.catalog, "rig", RECHECK, now)


@pytest.mark.parametrize("news", [{"due": CLEAR}, {"title": "another"}], ids=["due", "version"])
async def test_a_record_that_changed_after_it_was_read_is_not_taken(
    rig: Rig, worker: Worker, news: dict[str, Any]
) -> None:
    await items(rig, worker, 2)
    page = await read(rig)
    await find(rig, worker, Item(uid="a0", **news))
    left = due(rig)["a0"]
    taken = await rig.ledger.dispatch_page(page)  # type: ignore[attr-defined]
    rig.check()
    assert (taken.records, looks(rig)) == (1, {"look a1": "ready"})
    assert due(rig) == {"a0": left, "a1": None}


async def test_many_who_dispatch_at_once_make_one_task_of_each_record(rig: Rig, worker: Worker) -> None:
    await items(rig, worker, 20)
    done = await asyncio.gather(*(rig.ledger.dispatch("rig", RECHECK, 7) for _ in range(6)))
    while (more := await rig.dispatch(7)).records:
        done.append(more)
    assert (sum(d.records for d in done), sum(d.tasks for d in done)) == (20, 20)
    assert len(await worker.drain()) == 20
    assert (await rig.rechecks.status(RECHECK.name)).dispatched == 20


async def test_nothing_is_taken_while_the_standing_job_is_being_cancelled(rig: Rig, worker: Worker) -> None:
    await items(rig, worker, 2)
    await rig.dispatch()
    (lease, _) = await worker.lease()
    await rig.ledger.cancel(job_of(rig)["public_id"])
    await items_while_cancelled(rig)
    before = rig.everything()
    with pytest.raises(Conflict):
        await rig.dispatch()
    assert rig.everything() == before
    await worker.settle(lease, TaskState.CANCELLED)


async def test_each_value_has_a_job_and_one_that_is_being_cancelled_stops_no_other(rig: Rig, worker: Worker) -> None:
    now = await rig.ledger.now()
    titles = [f"shop {n}" for n in range(12)]
    await find(rig, worker, *(Item(uid=title, title=title, due=now + LATE) for title in titles))
    commits = _count_commits(rig)
    done = await rig.ledger.dispatch("rig", BY_TITLE)
    assert (done.records, done.tasks) == (12, 12)
    assert commits is None or len(commits) <= 6, "one writer commits them together"
    jobs = _jobs_by_key(rig)
    assert len(jobs) == 12

    await worker.lease(12)
    stopped = BY_TITLE.job_key_of("shop 5")
    await rig.ledger.cancel(jobs[stopped])
    await items_while_cancelled(rig)
    assert (await rig.ledger.dispatch("rig", BY_TITLE)).records == 11
    assert [uid for uid, time in due(rig).items() if time is not None] == ["shop 5"]
    with pytest.raises(Conflict):
        await rig.ledger.dispatch("rig", BY_TITLE)
    rig.check()


def _jobs_by_key(rig: Rig) -> dict[str, Any]:
    rows = rig.tables.read("SELECT i.key, j.public_id FROM idempotency i JOIN jobs j ON j.id = i.job_id")
    return {row["key"]: row["public_id"] for row in rows}


def _count_commits(rig: Rig) -> list[int] | None:
    """Return a list that grows with every commit of the embedded store; None for PostgreSQL."""
    if not isinstance(rig.ledger, SqliteLedger):
        return None
    commits: list[int] = []
    writer = writer_of(rig.ledger)
    commit = writer._commit

    def counted() -> Any:
        done = commit()
        commits.append(len(done))
        return done

    writer._commit = counted  # type: ignore[method-assign]
    return commits


async def items_while_cancelled(rig: Rig) -> None:
    now = round((await rig.ledger.now()).timestamp() * 1000)
    rig.write(f"UPDATE rig_items SET due = {now - 1}")


async def test_a_status_counts_what_is_due_and_how_late_it_is(rig: Rig, worker: Worker) -> None:
    now = await rig.ledger.now()
    moments = {"a": now + 2 * LATE, "b": now + LATE, "c": now - 60 * LATE}
    await find(rig, worker, *(Item(uid=uid, due=moment) for uid, moment in moments.items()))
    (status,) = await rig.rechecks.statuses()
    assert (status.name, status.pipeline, status.record, status.due_field) == ("item.due", "rig", "item", "due")
    assert (status.oldest_due, status.next_due) == (moments["a"], moments["c"])
    assert (status.due, status.dispatched, status.last_at, status.job) == (2, 0, None, None)
    await rig.dispatch()
    status = await rig.rechecks.status(RECHECK.name)
    assert (status.due, status.oldest_due, status.dispatched) == (0, None, 2)
    assert status.last_at is not None
    assert str(status.job) == job_of(rig)["public_id"]


async def test_a_record_that_another_transaction_holds_stays_due_and_stops_no_other(postgres_url: str) -> None:
    """A settlement with a record may wait for a task that the dispatch has locked: waiting would be a deadlock."""
    rig = await postgres_rig(postgres_url)
    worker = await rig.worker()
    await items(rig, worker, 3)
    other = await asyncpg.connect(postgres_url)
    async with other.transaction():
        await other.execute("SELECT 1 FROM rig_items WHERE uid = 'a1' FOR NO KEY UPDATE")
        async with asyncio.timeout(60):
            done = await rig.dispatch()
        assert (done.records, done.tasks, looks(rig)) == (2, 2, {"look a0": "ready", "look a2": "ready"})
        now = (await rig.ledger.now()).timestamp() * 1000
        assert done.next_due is not None
        assert done.next_due <= now, "it looks again soon"
    assert (await rig.dispatch()).records == 1
    assert due(rig) == {"a0": None, "a1": None, "a2": None}
    await other.close()
    await rig.ledger.close()
    rig.tables.close()
