"""The loop of a sink on the rig: changes to deliver, a delivery of a session, and a sink that chooses what it wants."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from forager.core.change import Change
from forager.core.ledger import Session
from forager.engine.deliver import DeliveryTiming, SinkDelivery
from tests.support.deliveries import QUICK, sink_table
from tests.support.rig import HandClock, Rig, Worker
from tests.support.rig_pipelines import Thing, calls


async def grow(rig: Rig, worker: Worker, count: int = 3) -> None:
    """Run a job that finds `count` things: `count` changes and the two of the job."""
    await rig.submit(calls(1))
    (lease,) = await worker.lease()
    await worker.settle(lease, records=[Thing(uid=f"{lease.task_id}-{n}") for n in range(count)])


def deliver(
    rig: Rig, sink: Any, session: Session | None, pace: DeliveryTiming = QUICK, clock: Any = None
) -> SinkDelivery:
    """The loop that delivers to this sink, by this session; its clock stands still unless a test brings another."""
    return SinkDelivery(rig.ledger, sink_table(rig.ledger), sink, clock or HandClock(), lambda: session, pace)


async def everything(rig: Rig) -> list[int]:
    """The numbers of all changes in the log."""
    return list(range(1, rig.last_change() + 1))


@asynccontextmanager
async def running(*deliveries: SinkDelivery) -> AsyncIterator[None]:
    """These deliveries at work beside the test; stopped at the end."""
    tasks = [asyncio.create_task(each.run()) for each in deliveries]
    try:
        async with asyncio.timeout(60):
            yield
    finally:
        for each in deliveries:
            each.stop()
        await asyncio.wait_for(asyncio.gather(*tasks), 60)


class Picky:
    """A sink that wants something, or not; it keeps what it is given, also what comes again."""

    name, kinds = "picky", frozenset({"job", "thing"})

    def __init__(self, *, wants: bool = False) -> None:
        self.wants = wants
        self.seen: list[int] = []

    async def write(self, batch: Sequence[Change]) -> bool:
        self.seen += [change.id for change in batch]
        return self.wants
