"""Deliveries for tests: with a session of their own, and sinks with the failures of real ones."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from forager.core.change import Change
from forager.core.clock import Clock
from forager.core.errors import Permanent, Transient
from forager.core.ids import sink_lane
from forager.core.sink import Cursors, Sink
from forager.engine.deliver import DeliveryTiming, SinkDelivery
from forager.ledger.tables.sinks import SinkTable

QUICK = DeliveryTiming(look_every=0.01, first_pause=0.02, longest_pause=0.1, between_tries=(0.01,) * 4)
"""The same rules with pauses that a test can wait for."""


def sink_table(ledger: Any) -> SinkTable:
    return SinkTable(ledger.database, ledger.now_ms)


async def deliver_new(
    ledger: Any, sink: Sink, clock: Clock, *, cursors: Cursors | None = None, pace: DeliveryTiming | None = None
) -> bool:
    """Deliver the new changes, in a session that takes the sink's lane and gives it back."""
    session = await ledger.begin("deliveries")
    try:
        made = SinkDelivery(ledger, cursors or sink_table(ledger), sink, clock, lambda: session, pace)
        return await made.deliver_new()
    finally:
        await ledger.end(session)


@dataclass
class Faulty:
    """A real sink behind faults: before its effect, after it, and for single changes."""

    real: Sink
    down: bool = False
    """It cannot be reached: nothing arrives."""
    answers_lost: int = 0
    """Number of batches that arrive although their answer is lost."""
    loses: Callable[[], bool] = lambda: True
    """Return whether the answer of a batch is one of these."""
    poison: set[int] = field(default_factory=set)
    """Changes that it refuses; a batch with one of them has no effect."""
    slow: float = 0.0
    batches: list[list[int]] = field(default_factory=list)
    """The changes of every batch that was handed over, also of those that failed."""

    @property
    def name(self) -> str:
        return self.real.name

    @property
    def kinds(self) -> frozenset[str] | None:
        return self.real.kinds

    async def write(self, batch: Sequence[Change]) -> bool | None:
        self.batches.append([change.id for change in batch])
        await asyncio.sleep(self.slow)
        if self.down:
            raise Transient("It does not answer.")
        if bad := self.poison & {change.id for change in batch}:
            raise Permanent(f"It refuses {sorted(bad)}.")
        taken = await self.real.write(batch)
        if self.answers_lost and self.loses():
            self.answers_lost -= 1
            raise Transient("Its answer was lost.")
        return taken


class Kept:
    """The smallest sink: a list in memory, once by id."""

    def __init__(self, name: str = "kept", kinds: frozenset[str] | None = None) -> None:
        self.name, self.kinds = name, kinds
        self.changes: list[Change] = []

    async def write(self, batch: Sequence[Change]) -> None:
        known = {change.id for change in self.changes}
        self.changes += [change for change in batch if change.id not in known]

    @property
    def ids(self) -> list[int]:
        return [change.id for change in self.changes]


async def pause(ledger: Any, sink: Sink, *, paused: bool = True) -> None:
    await ledger.pause_lane(sink_lane(sink.name), paused=paused)
