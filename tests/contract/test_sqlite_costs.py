"""The cost of a query on the embedded store does not grow with history: SQLite's instructions are counted."""

from collections.abc import AsyncIterator, Awaitable
from pathlib import Path

import pytest

from forager.core.ledger import NewJob
from forager.core.task import Plan
from forager.ledger.sqlite import SqliteLedger, control
from tests.support.rig import Rig, embedded_rig
from tests.support.rig_pipelines import SoleCall, calls
from tests.support.same_commit import writer_of

EVERY = 10


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with embedded_rig(tmp_path) as made:
        yield made


async def steps(rig: Rig, work: Awaitable[object]) -> int:
    """Return the number of SQLite's instructions, in tens."""
    count = 0

    def tick() -> None:
        nonlocal count
        count += 1

    writer = writer_of(rig.ledger)
    await writer.run(lambda db: db.set_progress_handler(tick, EVERY))
    await work
    await writer.run(lambda db: db.set_progress_handler(None, EVERY))
    return count


async def test_a_page_of_a_cancelled_job_costs_the_same_however_much_of_it_has_ended(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(rig.ledger, SqliteLedger)
    job = (await rig.submit(calls(1_500))).job
    rig.audited = False
    worker = await rig.worker()
    for _ in range(3):
        await worker.complete(await worker.lease(300))
    monkeypatch.setattr(control, "PAGE", 50)
    await rig.ledger.cancel(job)
    drain, memory, costs = control.drain, rig.ledger._memory, []
    while memory.flows.draining:
        costs.append(await steps(rig, rig.ledger._writer.run(lambda db: drain(db, memory, 50))))
    assert rig.job(job)["cancelled"] == 600
    assert rig.job(job)["state"] == "cancelled"
    assert max(costs) <= 2 * max(costs[:3])
    rig.audited = True


async def test_a_sweep_costs_the_same_however_many_lanes_are_idle(rig: Rig) -> None:
    await rig.submit(calls(1))
    few = await steps(rig, rig.ledger.sweep())
    rig.write(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)"
        " INSERT INTO lanes (name) SELECT 'idle' || i FROM n"
    )
    assert await steps(rig, rig.ledger.sweep()) <= 2 * few


async def test_tasks_are_added_at_the_same_cost_however_many_the_job_has(rig: Rig) -> None:
    """Statements for kinds with one open task per key, whose tasks are compared with the open ones."""
    job = NewJob("rig", {"name": "standing"}, idempotency_key="standing", standing=True)

    def more(first: int, count: int) -> Awaitable[object]:
        return rig.ledger.append(job, [Plan(SoleCall(name=f"call {first + n}")) for n in range(count)], again=True)

    await more(0, 100)
    few = await steps(rig, more(100, 100))
    await more(200, 3_000)
    assert await steps(rig, more(4_000, 100)) <= 1.5 * few
