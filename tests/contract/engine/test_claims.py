"""A worker with the numbers of offered tasks claims them within the limits of their lane, each to its end."""

from collections.abc import Collection
from dataclasses import replace

import pytest

from forager.core.pipeline import Lane, Pipeline
from forager.core.states import TaskState
from forager.engine.work import worker as engine_worker
from forager.engine.work.worker import Worker
from tests.contract.engine.conftest import OpenRig
from tests.contract.engine.test_moving_lanes import at_work
from tests.support.acts import QUICK, acts, many
from tests.support.engine import EngineRig, until

on_postgres = pytest.mark.parametrize("open_rig", ["postgres"], indirect=True)


def offered(lane: Lane) -> Pipeline:
    return replace(acts(lane), logged_states=frozenset({TaskState.READY}))


def numbers(rig: EngineRig) -> list[int]:
    return [row["id"] for row in rig.tables.read("SELECT id FROM tasks ORDER BY id")]


def listening(worker: Worker) -> list[int]:
    """The tasks that are over, in the order of their ends."""
    over: list[int] = []

    def note(tasks: Collection[int]) -> None:
        over.extend(tasks)

    worker.claims.when_over(note)
    return over


@on_postgres
@pytest.mark.parametrize("scope", ["all", "worker"])
async def test_named_tasks_are_claimed_at_once_and_each_is_over_once__RV_4(open_rig: OpenRig, scope: str) -> None:
    lane = Lane("acts", rate=None, concurrency=20, retry=QUICK, scope=scope)  # type: ignore[arg-type]
    rig = await open_rig(offered(lane))
    job = await rig.submit(many(200, seconds=0.001))
    worker = rig.worker()
    over = listening(worker)
    async with at_work(worker):
        worker.claims.add("acts", numbers(rig))
        worker.claims.add("acts", numbers(rig)[:10])  # repeated messages
        await until(lambda: rig.job(job)["completed"] == 200)
        await until(lambda: len(over) == 210)
        assert not worker.claims.waiting
    assert set(over) == set(numbers(rig))
    assert {row["attempt"] for row in rig.tables.read("SELECT attempt FROM tasks")} == {1}


@on_postgres
async def test_of_two_workers_that_are_named_the_same_tasks_one_claims_each(open_rig: OpenRig) -> None:
    rig = await open_rig(offered(Lane("acts", rate=None, retry=QUICK, scope="worker")))
    job = await rig.submit(many(300, seconds=0.01))
    workers = [rig.worker(capacity=20), rig.worker(capacity=20)]
    ends = [listening(worker) for worker in workers]
    async with at_work(*workers):
        workers[0].claims.add("acts", numbers(rig))
        workers[1].claims.add("acts", reversed(numbers(rig)))
        await until(lambda: rig.job(job)["completed"] == 300)
        await until(lambda: [len(over) for over in ends] == [300, 300])
    assert sum(worker.stats.started for worker in workers) == 300


@on_postgres
async def test_if_another_worker_owns_the_lane_the_tasks_are_left_to_it_at_once(open_rig: OpenRig) -> None:
    rig = await open_rig(offered(Lane("acts", rate=None, retry=QUICK)))
    owner = await rig.ledger.begin("owner")
    await rig.ledger.take_lane(owner, "acts")
    job = await rig.submit(many(5))
    consumer = rig.worker()
    over = listening(consumer)
    async with at_work(consumer):
        consumer.claims.add("acts", numbers(rig))
        await until(lambda: len(over) == 5)
        assert rig.job(job)["running"] == 0
        await rig.ledger.end(owner)
        await until(lambda: rig.job(job)["completed"] == 5)


@on_postgres
async def test_retries_get_their_turn_among_any_number_of_messages(
    open_rig: OpenRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_worker, "PLAIN_EVERY", 0.1)
    rig = await open_rig(offered(Lane("acts", rate=None, concurrency=1, retry=QUICK, scope="worker")))
    late = await rig.submit(many(1, prefix="late", where="acts"))
    await rig.ledger.end_offers(numbers(rig))  # ready for any lease
    job = await rig.submit(many(2_000, seconds=0.01))
    worker = rig.worker()
    async with at_work(worker):
        worker.claims.add("acts", [number for number in numbers(rig) if number != min(numbers(rig))])
        await until(lambda: rig.job(late)["completed"] == 1)
        assert rig.job(job)["completed"] < 2_000
        worker.claims.forget(numbers(rig))
        assert not worker.claims.waiting


@on_postgres
async def test_a_lost_session_ends_its_claims_and_the_waiting_ones_go_to_the_next(open_rig: OpenRig) -> None:
    rig = await open_rig(offered(Lane("acts", rate=None, concurrency=2, retry=QUICK, scope="worker")), lease=3.0)
    job = await rig.submit(many(4, seconds=1.0))
    worker = rig.worker()
    over = listening(worker)
    async with rig.working(worker):
        worker.claims.add("acts", numbers(rig))
        await until(lambda: worker.in_flight == 2)
        session = worker.session
        assert session is not None
        await rig.ledger.end(session)
        await until(lambda: len(over) >= 2)
        await until(lambda: rig.job(job)["completed"] == 4)
        await until(lambda: len(over) == 4)
    assert sorted(over) == numbers(rig)
