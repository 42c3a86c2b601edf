"""Traps that have no other home: a big job beside those who work (8), and numbers that sort as text (12)."""

import asyncio

from forager.core.ledger import NewJob, Settlement
from forager.core.states import TaskState
from tests.support.rig import Rig, Worker
from tests.support.rig_pipelines import calls

BIG = 40_000
PARTS = 3


async def test_turns_continue_while_a_big_job_is_written_trap_8(rig: Rig, worker: Worker) -> None:
    """It is written in chunks, with turns committed between them; nothing of it is leased meanwhile."""
    rig.audited = False
    await rig.submit(calls(5_000, prefix="small"))
    await worker.take_lanes()
    big = asyncio.create_task(rig.ledger.submit(NewJob("rig", {"name": "big"}), calls(BIG, prefix="big")))
    done: list[Settlement] = []
    written: set[int] = set()
    while not big.done():
        leases = (await worker.cycle(done, most=10)).leases
        assert all(lease.key.startswith("small") for lease in leases) or big.done()
        done = [Settlement(lease, TaskState.COMPLETED, cost=1) for lease in leases]
        (row,) = rig.tables.read("SELECT count(*) AS n FROM tasks WHERE key LIKE 'big%'")
        written.add(row["n"])
    assert (await big).total == BIG
    assert len(written - {0, BIG}) >= PARTS, f"between two turns it grew to {sorted(written)}"
    await worker.cycle(done)
    rig.audited = True


async def test_what_was_spent_sorts_and_sums_as_a_number_trap_12(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(3))).job
    for lease, cost in zip(await worker.lease(), (100, 9, 10), strict=True):
        await worker.settle(lease, cost=cost)
    assert [row["cost"] for row in rig.tables.read("SELECT cost FROM tasks ORDER BY cost")] == [9, 10, 100]
    as_text = rig.tables.read("SELECT cost FROM tasks ORDER BY CAST(cost AS TEXT)")
    assert [row["cost"] for row in as_text] == [10, 100, 9], "the control must sort wrongly"
    assert rig.job(job)["spent"] == 119
    (spent,) = rig.tables.read("SELECT spent FROM spending")
    assert spent["spent"] == 119
    kept = [rig.job(job)[name] for name in ("spent", "reserved", "guessed")] + [spent["spent"]]
    assert {type(amount) for amount in kept} == {int}, "money is a whole number of its smallest part"
