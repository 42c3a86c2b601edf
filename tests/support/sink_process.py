"""A sink in a process of its own, to be killed: the real delivery on a real store, with the death that the options
choose."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from forager.core.change import Change
from forager.core.sink import Sink
from forager.engine.deliver import DeliveryTiming, SinkDelivery
from forager.engine.upkeep import sweep_forever, sweep_interval
from forager.ledger.tables.sinks import SinkTable
from tests.support.deliveries import sink_table
from tests.support.fail_points import KillAt
from tests.support.forked import start_forked
from tests.support.sink_suite import member, open_store

PACE = DeliveryTiming(batch=7, look_every=0.02, first_pause=0.05, longest_pause=0.2, between_tries=(0.01,) * 4)


@dataclass(frozen=True)
class Options:
    store: str
    member: str
    folder: str
    death: str = ""
    """`half`: half of a batch has arrived; `all`: all of it, and the cursor has not moved; else a fail point."""
    nth: int = 1
    """At which batch, or at which passing of the fail point."""
    forever: bool = False
    """Go on until killed, instead of until everything is delivered."""
    lease: float = 30.0
    broken: bool = False
    """Negative control: the cursor moves before the batch is delivered."""
    log: str = ""
    """A file that gets a line for every batch: when it began and ended, by the machine's clock, and who wrote it."""


class Dying:
    """The real sink, and the death of the options."""

    def __init__(self, real: Sink, cursors: SinkTable, options: Options) -> None:
        self.name, self.kinds = real.name, real.kinds
        self._real = real
        self._cursors = cursors
        self._options = options
        self._left = options.nth

    async def write(self, batch: Sequence[Change]) -> bool | None:
        began = time.monotonic()
        self._left -= 1
        dies = self._left == 0
        if self._options.broken:
            await self._cursors.advance(self.name, batch[-1].id)
        if dies and self._options.death == "half":
            await self._real.write(batch[: max(1, len(batch) // 2)])
            os.kill(os.getpid(), signal.SIGKILL)
        taken = await self._real.write(batch)
        if dies and self._options.death == "all":
            os.kill(os.getpid(), signal.SIGKILL)
        if self._options.log:
            await asyncio.sleep(0.02)  # long enough that two who write at once would be seen
            line = json.dumps([os.getpid(), began, time.monotonic(), [change.id for change in batch]])
            with open(self._options.log, "a") as log:  # noqa: PTH123
                log.write(f"{line}\n")
        return taken


async def deliver(options: Options) -> None:
    engine = await open_store(options.store, create=False, lease=options.lease)
    ledger = engine.ledger
    session = await ledger.begin(f"process {os.getpid()}")
    chosen = member(options.member)
    faults = KillAt(options.death, options.nth)
    sink = Dying(chosen.open(ledger, Path(options.folder), faults), sink_table(ledger), options)
    delivery = SinkDelivery(ledger, sink_table(ledger), sink, engine.clock, lambda: session, PACE)

    async def beat() -> None:
        while await ledger.beat(session, {}):
            await asyncio.sleep(options.lease / 6)
        raise AssertionError("the session was lost")

    beside = [
        asyncio.create_task(beat()),
        asyncio.create_task(sweep_forever(ledger, engine.clock, sweep_interval(options.lease))),
    ]
    if options.forever:
        await delivery.run()
    while not await delivery.deliver_new():
        await asyncio.sleep(0.02)
    for task in beside:
        task.cancel()
    await ledger.end(session)
    await engine.close()


def start(options: Options) -> ForkServerProcess:
    return start_forked(deliver, options)
