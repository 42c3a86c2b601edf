"""Several sessions and sweepers on one PostgreSQL: nothing held twice, nothing skipped, and what is done stays done."""

import asyncio
import collections
import random
import sys
from pathlib import Path

import pytest

from forager.core.ledger import NewJob, Settlement, Submitted
from forager.core.states import TaskState
from forager.core.task import Plan
from forager.ledger.postgres import settle
from tests.support.rig import Rig, Worker, postgres_rig
from tests.support.rig_pipelines import Call, calls

ROOT = Path(__file__).resolve().parents[2]
LANES = 40
PROCESSES = 8


@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("tasks", [100_000, pytest.param(1_000_000, marks=pytest.mark.chaos)])
async def test_eight_processes_that_pass_lanes_around_hold_no_task_twice_and_skip_none__R1(
    postgres_url: str, tmp_path: Path, tasks: int
) -> None:
    rig = await postgres_rig(postgres_url)
    plans = (Plan(Call(name=str(i), where=f"lane{i % LANES}")) for i in range(tasks))
    job = await rig.ledger.submit(NewJob("rig", {}), plans)
    command = ["-m", "tests.support.claim_process", postgres_url, str(tmp_path), str(PROCESSES)]
    claimers = await asyncio.create_subprocess_exec(sys.executable, *command, cwd=ROOT)
    failed = await claimers.wait()
    held = [(tmp_path / str(number)).read_text().split() for number in range(PROCESSES)]
    claimed = collections.Counter(task for tasks_held in held for task in tasks_held)

    assert failed == 0
    assert sum(bool(tasks_held) for tasks_held in held) >= 2, "only one process got work: nothing was shown"
    assert len(claimed) == tasks, "skipped"
    assert set(claimed.values()) == {1}, "held twice"
    assert rig.job(job.job)["state"] == "completed"
    rig.check()
    await _close(rig)


SESSIONS, EACH = 20, 5


@pytest.mark.timeout(900)
@pytest.mark.parametrize("races", [1_000, pytest.param(10_000, marks=pytest.mark.chaos)])
async def test_a_rescuer_that_races_completion_never_changes_a_completed_task__R5(
    postgres_url: str, races: int
) -> None:
    rigs = [await postgres_rig(postgres_url, create=first) for first in (True, False)]
    chance = random.Random(5)
    settled, fenced = await _race(rigs, chance, races // (SESSIONS * EACH))

    assert settled + fenced == races
    assert settled > 0
    assert fenced > 0, "no rescuer ever was first: nothing was shown"
    for rig in rigs:
        await _close(rig)


async def test_control_without_the_claim_a_late_settlement_takes_the_task_of_another(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settle, "_END", settle._END.replace("AND q.claim = x.claim", ""))
    rig = await postgres_rig(postgres_url)
    await rig.submit(calls(2))
    late = await rig.worker("late")
    leases = await late.lease()
    rig.pass_time(3600)
    await rig.ledger.sweep()

    batch = await rig.ledger.settle_and_lease(
        late.session, [Settlement(lease, TaskState.COMPLETED) for lease in leases], []
    )

    assert not batch.fenced, "the fence held although it was taken away: the race above shows nothing"
    await _close(rig)


async def test_callers_that_come_together_with_one_key_get_one_job__PL_3(postgres_url: str) -> None:
    rigs = [await postgres_rig(postgres_url, create=first) for first in (True, False)]
    new = NewJob("rig", {"name": "same"}, idempotency_key="the key")

    answers: list[Submitted] = await asyncio.gather(
        *(rig.ledger.submit(new, calls(50)) for _ in range(10) for rig in rigs)
    )

    assert len({answer.job for answer in answers}) == 1
    assert [answer.created for answer in answers].count(True) == 1
    assert {answer.total for answer in answers} == {50}
    assert rigs[0].tables.read("SELECT count(*) AS n FROM tasks")[0]["n"] == 50
    for rig in rigs:
        rig.check()
        await _close(rig)


async def test_a_budget_holds_although_several_sessions_lease_at_once__PL_11(postgres_url: str) -> None:
    rigs = [await postgres_rig(postgres_url, create=first) for first in (True, False, False)]
    plans = [Plan(Call(name=str(i), where=f"lane{i % 6}")) for i in range(60)]
    job = await rigs[0].submit(plans, max_cost=25)
    workers = [await _worker_with_lanes(rig, 2) for rig in rigs]

    batches = await asyncio.gather(*(worker.cycle(most=10) for worker in workers for _ in range(3)))

    leases = [lease for batch in batches for lease in batch.leases]
    assert len(leases) == 25
    assert rigs[0].job(job.job)["reserved"] == 25
    for rig in rigs:
        await _close(rig)


async def _worker_with_lanes(rig: Rig, most: int) -> Worker:
    worker = Worker(rig, await rig.ledger.begin("worker"))
    taken = await rig.ledger.take_lanes(worker.session, most)
    worker.lanes = {lane.name: lane.id for lane in taken}
    return worker


async def _race(rigs: list[Rig], chance: random.Random, rounds: int) -> tuple[int, int]:
    settled = fenced = 0
    for number in range(rounds):
        plans = [Plan(Call(name=str(i), where=f"lane{i % SESSIONS}")) for i in range(SESSIONS * EACH)]
        job = await rigs[0].ledger.submit(NewJob("rig", {"name": str(number)}), plans)
        workers = [await _worker_with_lanes(rigs[0], 1) for _ in range(SESSIONS)]
        leases = [(w, (await rigs[0].ledger.settle_and_lease(w.session, [], _wants(w))).leases) for w in workers]
        assert sum(len(got) for _, got in leases) == SESSIONS * EACH
        rigs[0].write("UPDATE sessions SET lease_until = 0")
        moves = [
            *(
                rigs[0].ledger.settle_and_lease(
                    w.session, [Settlement(lease, TaskState.COMPLETED) for lease in got], []
                )
                for w, got in leases
            ),
            *(rig.ledger.sweep() for rig in rigs for _ in range(2)),
        ]
        chance.shuffle(moves)
        batches = [t for t in await asyncio.gather(*moves) if hasattr(t, "fenced")]
        refused = {task for batch in batches for task in batch.fenced}
        done = {lease.task_id for _, got in leases for lease in got} - refused
        await rigs[1].ledger.sweep()
        states = {row["id"]: row["state"] for row in rigs[0].tasks(job.job).values()}
        assert {states[task] for task in done} <= {TaskState.COMPLETED}
        assert {states[task] for task in refused} <= {TaskState.SUSPECT}
        rigs[0].check()
        settled, fenced = settled + len(done), fenced + len(refused)
        if refused:  # otherwise the job has completed
            await rigs[0].ledger.cancel(job.job)
    return settled, fenced


def _wants(worker: Worker) -> list:  # type: ignore[type-arg]
    from forager.core.ledger import Want

    return [Want(lane, EACH) for lane in worker.lanes.values()]


async def _close(rig: Rig) -> None:
    await rig.ledger.close()
    rig.tables.close()
