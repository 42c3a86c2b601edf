"""Retention on either store: what goes, what stays, and that nothing is ever half-removed."""

from typing import Any, cast
from uuid import UUID

import pytest

from forager.core.errors import Evidence, NotFound
from forager.core.ledger import Extras, NewJob, Settlement, Tried
from forager.core.outcome import Reject
from forager.core.states import TaskState
from forager.core.upkeep import Keep, Pruned
from forager.engine.upkeep import LANE, prune_once
from forager.ledger.postgres import upkeep as postgres_upkeep
from forager.ledger.reports import LedgerReports
from forager.ledger.rules import upkeep as rules_upkeep
from forager.ledger.sqlite import upkeep as sqlite_upkeep
from forager.ledger.tables.sinks import SinkTable
from tests.support.deliveries import sink_table
from tests.support.retention_process import with_small_pages
from tests.support.rig import Rig, Worker
from tests.support.rig_pipelines import Seen, Thing, calls, catalog

DAY = 86_400.0
KEEP = Keep(jobs=10 * DAY)
EVERYTHING = Keep(jobs=10 * DAY, messages=DAY, rejected=DAY, changes=10 * DAY, records=10 * DAY)


@pytest.fixture
async def worker(rig: Rig) -> Worker:
    rig.pruned = True
    return await rig.worker()


@pytest.fixture
def sinks(rig: Rig) -> SinkTable:
    return sink_table(rig.ledger)


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of four rows, so that a few jobs take several of them."""
    _pages_of(4, monkeypatch)


def _pages_of(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (rules_upkeep, sqlite_upkeep, postgres_upkeep):
        for name, value in vars(module).copy().items():
            monkeypatch.setattr(module, name, value)  # as it is now, again after the test
    with_small_pages(size)


async def run_job(rig: Rig, worker: Worker, tasks: int = 3, *, found: bool = True) -> UUID:
    """A job that has ended: every task has found a thing and a sighting, the last has failed with its page."""
    job = (await rig.submit(calls(tasks))).job
    leases = await worker.lease()
    records = [[Thing(uid=f"{lease.key}"), Seen(uid=lease.key, note=str(job))] if found else [] for lease in leases]
    ended = [
        Settlement(lease, TaskState.COMPLETED, cost=1, records=own)
        for lease, own in zip(leases[:-1], records, strict=False)
    ]
    tried = Tried(started_at=round((await rig.ledger.now()).timestamp() * 1000))
    ended.append(Settlement(leases[-1], TaskState.FAILED, error="no", evidence=Evidence(b"page"), tried=tried))
    await worker.cycle(ended)
    return job


async def later(rig: Rig) -> None:
    """Eleven days on: whoever worked then is long gone."""
    rig.pass_time(11 * DAY)
    await rig.ledger.sweep()


async def deliver_all(rig: Rig, sinks: SinkTable) -> None:
    await sinks.advance("webhook", rig.last_change())


async def prune(rig: Rig, keep: Keep = KEEP, names: tuple[str, ...] = ("webhook",)) -> Pruned:
    """To the end; the auditor looks after every page."""
    sum_ = Pruned(more=True)
    while sum_.more:
        sum_ += await rig.ledger.prune(keep, names)
        rig.check()
    return sum_


def count(rig: Rig, table: str) -> int:
    return int(rig.tables.read(f"SELECT count(*) AS n FROM {table}")[0]["n"])


async def test_an_old_job_goes_with_its_tasks_and_its_records_and_changes_stay(
    rig: Rig, worker: Worker, sinks: SinkTable
) -> None:
    old = await run_job(rig, worker)
    await later(rig)
    worker = await rig.worker()
    young = await run_job(rig, worker)
    await deliver_all(rig, sinks)
    before = [(c.id, c.kind, c.key, c.job, c.pipeline, c.body) for c in await rig.ledger.changes(0, 100)]
    would = await rig.ledger.prunable(KEEP, ["webhook"])
    assert (would.jobs, would.tasks, would.changes, would.records) == (1, 3, 0, 0)
    done = await prune(rig)
    assert (done.jobs, done.tasks) == (1, 3)
    assert [row["public_id"] for row in rig.tables.read("SELECT public_id FROM jobs")] == [str(young)]
    assert (count(rig, "tasks"), count(rig, "evidence"), count(rig, "rig_seen"), count(rig, "rig_things")) == (
        3,
        1,
        4,
        2,
    )
    after = [(c.id, c.kind, c.key, c.job, c.pipeline, c.body) for c in await rig.ledger.changes(0, 100)]
    assert after == before, "every change is whole still, with the public id of the job that is gone"
    assert await prune(rig) == Pruned()
    reports = LedgerReports(cast("Any", rig.ledger).database, catalog())
    with pytest.raises(NotFound):
        await reports.job(old)
    assert {item["note"] for item in (await reports.export_page("seen", job=old)).items} == {str(old)}
    assert {item["job"] for item in (await reports.export_page("seen")).items} == {old, young}


async def test_what_is_not_old_not_finished_or_standing_stays(rig: Rig, worker: Worker, sinks: SinkTable) -> None:
    open_job = (await rig.submit(calls(2))).job
    standing = NewJob("rig", {"name": "standing"}, idempotency_key=" standing", standing=True)
    await rig.ledger.append(standing, [])
    await later(rig)
    await rig.submit([])  # ends at once, and is young
    await deliver_all(rig, sinks)
    assert (await rig.ledger.prunable(KEEP, ["webhook"])).jobs == 0
    assert await prune(rig) == Pruned()
    assert count(rig, "jobs") == 3
    assert rig.job(open_job)["total"] == 2


async def test_a_job_whose_end_a_sink_has_not_passed_stays(rig: Rig, worker: Worker, sinks: SinkTable) -> None:
    """The sink may look the job up, or read the bodies of its records."""
    await run_job(rig, worker)
    await later(rig)
    for cursor in (0, 3):
        await sinks.advance("webhook", cursor)
        assert (await rig.ledger.prunable(EVERYTHING, ["webhook"])).jobs == 0
        assert (await prune(rig, EVERYTHING)).jobs == 0
    await deliver_all(rig, sinks)
    assert (await prune(rig, EVERYTHING, ("webhook", "new"))).jobs == 0, "a sink that is configured and has not begun"
    assert (await prune(rig, EVERYTHING)).jobs == 1


@pytest.mark.usefixtures("small_pages")
async def test_a_big_job_disappears_in_one_step_and_its_tasks_in_pages(
    rig: Rig, worker: Worker, sinks: SinkTable
) -> None:
    job = await run_job(rig, worker, 11)
    await later(rig)
    await deliver_all(rig, sinks)
    left: list[tuple[int, int]] = []
    more = True
    while more:
        more = (await rig.ledger.prune(KEEP, ["webhook"])).more
        rig.check()
        left.append((count(rig, "jobs"), count(rig, "tasks")))
    assert left[0] == (0, 11)
    assert [tasks for _, tasks in left if tasks] == [11, 7, 3]
    assert left[-1] == (0, 0)
    assert count(rig, "evidence") == 0
    assert rig.tables.read("SELECT public_id, clearing FROM past_jobs") == [
        {"public_id": str(job), "clearing": False if rig.clock is None else 0}
    ]


@pytest.mark.usefixtures("small_pages")
async def test_many_small_jobs_go_page_by_page(rig: Rig, worker: Worker, sinks: SinkTable) -> None:
    for _ in range(9):
        await run_job(rig, worker, 1)
    await later(rig)
    await deliver_all(rig, sinks)
    pages = []
    more = True
    while more:
        page = await rig.ledger.prune(KEEP, ["webhook"])
        rig.check()
        pages.append(page.jobs)
        more = page.more
    assert sum(pages) == 9
    assert max(pages) == 3
    assert count(rig, "tasks") == 0


async def test_a_dead_letter_of_a_job_that_is_being_cleared_cannot_be_retried(
    rig: Rig, worker: Worker, sinks: SinkTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    _pages_of(4, monkeypatch)
    job = await run_job(rig, worker, 6)
    letter = next(rig.task_id(job, key) for key, row in rig.tasks(job).items() if row["state"] == 5)
    await later(rig)
    await deliver_all(rig, sinks)
    await rig.ledger.prune(KEEP, ["webhook"])
    assert count(rig, "tasks") == 6
    with pytest.raises(NotFound):
        await rig.ledger.retry_tasks([letter])
    with pytest.raises(NotFound):
        await rig.ledger.discard(letter)
    await prune(rig)


async def test_numbers_of_removed_jobs_and_tasks_are_not_given_again(
    rig: Rig, worker: Worker, sinks: SinkTable
) -> None:
    job = await run_job(rig, worker)
    numbers = rig.job(job)["id"], max(row["id"] for row in rig.tasks(job).values())
    await later(rig)
    await deliver_all(rig, sinks)
    await prune(rig)
    if rig.clock is not None:  # after a restart: SQLite counts on from the highest number that it finds
        cast("Any", rig.ledger)._read_memory_again(cast("Any", rig.ledger)._writer.db)
        cast("Any", rig.ledger)._memory = type(cast("Any", rig.ledger)._memory).read(
            cast("Any", rig.ledger)._writer.db, catalog(), cast("Any", rig.ledger)._now_ms
        )
    again = await rig.submit(calls(1))
    assert rig.job(again.job)["id"] > numbers[0]
    assert min(row["id"] for row in rig.tasks(again.job).values()) > numbers[1]


async def test_changes_go_when_every_sink_has_passed_them_and_the_last_of_a_living_job_stays(
    rig: Rig, worker: Worker, sinks: SinkTable
) -> None:
    done, living = await run_job(rig, worker), (await rig.submit(calls(1))).job
    await rig.ledger.pause(living)
    await later(rig)
    keep = Keep(changes=10 * DAY)
    last = rig.last_change()
    await sinks.advance("webhook", last)
    await sinks.advance("files", 2)
    assert (await prune(rig, keep)).changes == 2
    await sinks.advance("files", last)
    await sinks.set_aside("files", 4, tries=5, error="no")
    await prune(rig, keep)
    left = [(c.id, c.kind, c.op) for c in await rig.ledger.changes(0, 100)]
    assert [(kind, op) for number, kind, op in left if number != 4] == [("job", "ended"), ("job", "paused")]
    assert 4 in [number for number, _, _ in left]
    await rig.ledger.resume(living)
    versions = [c.version for c in await rig.ledger.changes(0, 100, job=living)]
    assert versions == [2, 3], "the versions of a job go on"
    assert rig.job(done)["state"] == "partially_completed"


async def test_records_of_removed_jobs_are_removed_on_request_and_then_nothing_names_the_job(
    rig: Rig, worker: Worker, sinks: SinkTable
) -> None:
    await run_job(rig, worker)
    await later(rig)
    await deliver_all(rig, sinks)
    would = await rig.ledger.prunable(EVERYTHING, ["webhook"])
    done = await prune(rig, EVERYTHING)
    assert (would.jobs, would.tasks, would.changes) == (done.jobs, done.tasks, done.changes) == (1, 3, 6)
    assert done.records == 2
    assert (count(rig, "rig_seen"), count(rig, "changes"), count(rig, "past_jobs")) == (0, 0, 0)
    assert count(rig, "rig_things") == 2, "records of world scope stay"


async def test_rows_that_failed_validation_go_by_their_own_age_and_with_their_job(
    rig: Rig, worker: Worker, sinks: SinkTable
) -> None:
    async def reject() -> None:
        await rig.submit(calls(1))
        (lease,) = await worker.lease()
        bad = Reject(Thing, "no uid", {"title": "x"})
        await worker.settle(lease, extras=Extras(rejected=[bad]))

    await reject()
    rig.pass_time(2 * DAY)
    await rig.ledger.sweep()
    worker = await rig.worker()
    await reject()
    assert (await rig.ledger.prunable(Keep(rejected=DAY), ["webhook"])).rejected == 1
    assert (await prune(rig, Keep(rejected=DAY))).rejected == 1
    assert count(rig, "rejected") == 1
    await later(rig)
    await deliver_all(rig, sinks)
    await prune(rig, KEEP)
    assert (count(rig, "jobs"), count(rig, "rejected")) == (0, 0)


async def test_attempts_go_by_their_own_age_and_with_their_task(rig: Rig, worker: Worker, sinks: SinkTable) -> None:
    await run_job(rig, worker)
    assert count(rig, "attempts") == 1, "the failed one"
    rig.write("UPDATE attempts SET started_at = started_at - 172800000")
    assert (await rig.ledger.prunable(Keep(attempts=DAY), ["webhook"])).attempts == 1
    assert (await prune(rig, Keep(attempts=DAY))).attempts == 1
    await run_job(rig, worker)
    await later(rig)
    await deliver_all(rig, sinks)
    await prune(rig)
    assert (count(rig, "tasks"), count(rig, "attempts")) == (0, 0)


async def test_one_process_at_a_time_prunes(rig: Rig, worker: Worker, sinks: SinkTable) -> None:
    await run_job(rig, worker)
    await later(rig)
    await deliver_all(rig, sinks)
    mine, other = await rig.ledger.begin("mine"), await rig.ledger.begin("other")
    clock: Any = Instant()
    await rig.ledger.take_lane(other, LANE)
    assert await prune_once(rig.ledger, KEEP, ["webhook"], clock, lambda: mine) == Pruned()
    await rig.ledger.end(other)
    assert (await prune_once(rig.ledger, KEEP, ["webhook"], clock, lambda: mine)).jobs == 1
    assert rig.tables.read(f"SELECT owner, wake_at FROM lanes WHERE name = '{LANE}'") == [
        {"owner": None, "wake_at": None}
    ]


class Instant:
    """A clock whose naps take no time."""

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        pass
