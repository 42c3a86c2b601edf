"""The processes of the claim test. Each takes lanes, claims and completes, gives lanes away meanwhile, and writes what
it held to a file named after its number. They are forks of one process, so that the program is imported once."""

import asyncio
import os
import random
import sys
from pathlib import Path

from forager.core.ledger import GivenLane, Settlement, Want
from forager.core.states import TaskState
from forager.ledger.postgres import PostgresLedger
from tests.support.rig_pipelines import catalog

BATCH = 100


async def claim(url: str, seed: int, held: Path) -> None:
    claimed: list[int] = []
    chance = random.Random(seed)
    ledger = await PostgresLedger.open(url, catalog())
    session = await ledger.begin(f"claimer {seed}")
    lanes: set[int] = set()
    done: list[Settlement] = []
    while done or await ledger.has_work():
        lanes |= {lane.id for lane in await ledger.take_lanes(session, 4)}
        batch = await ledger.settle_and_lease(session, done, [Want(lane, BATCH) for lane in lanes])
        claimed += [lease.task_id for lease in batch.leases]
        done = [Settlement(lease, TaskState.COMPLETED, cost=lease.price) for lease in batch.leases]
        given = {lane for lane in lanes if lane in batch.next_due or chance.random() < 0.2}
        await ledger.give_lanes(session, {lane: GivenLane() for lane in given})
        lanes -= given
        if not batch.leases and not lanes:
            await ledger.work_arrived(0.05)
    await ledger.end(session)
    await ledger.close()
    held.write_text(" ".join(map(str, claimed)))


def main(url: str, folder: Path, processes: int) -> int:
    """Run `processes` processes, and return how many of them failed."""
    children = []
    for seed in range(processes):
        if (child := os.fork()) == 0:
            asyncio.run(claim(url, seed, folder / str(seed)))
            os._exit(0)
        children.append(child)
    return sum(os.waitpid(child, 0)[1] != 0 for child in children)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
