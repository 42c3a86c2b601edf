"""One process of the claim test: takes lanes, claims and completes, gives lanes away meanwhile; prints what it held."""

import asyncio
import random
import sys

from forager.core.ledger import GivenLane, Settlement, Want
from forager.core.states import TaskState
from forager.ledger.postgres import PostgresLedger
from tests.support.rig import catalog

BATCH = 50


async def main(url: str, seed: int) -> None:
    chance = random.Random(seed)
    ledger = await PostgresLedger.open(url, catalog())
    session = await ledger.begin(f"claimer {seed}")
    lanes: set[int] = set()
    done: list[Settlement] = []
    while done or await ledger.has_work():
        lanes |= {lane.id for lane in await ledger.take_lanes(session, 4)}
        batch = await ledger.settle_and_lease(session, done, [Want(lane, BATCH) for lane in lanes])
        for lease in batch.leases:
            sys.stdout.write(f"{lease.task_id} ")
        done = [Settlement(lease, TaskState.COMPLETED, cost=lease.price) for lease in batch.leases]
        given = {lane for lane in lanes if lane in batch.next_due or chance.random() < 0.2}
        await ledger.give_lanes(session, {lane: GivenLane() for lane in given})
        lanes -= given
        if not batch.leases and not lanes:
            await ledger.work_arrived(0.05)
    await ledger.end(session)
    await ledger.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
