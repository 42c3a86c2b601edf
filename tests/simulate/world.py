"""The world of one seed: its time, its chance, its faults and its trace. It outlives the processes that die in it.

All randomness is drawn from here, and every purpose has a stream of its own, so that leaving out a fault (shrinking)
does not change the draws of another purpose.
"""

import asyncio
import hashlib
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from tests.simulate.plan import Fault, Plan

START = datetime(2026, 3, 2, 6, tzinfo=UTC)
MOST_STEPS = 1_500_000
"""Steps of one seed; more are a loop that never waits."""


class ProcessDied(BaseException):
    """Raised at a fail point when the process is to die there."""


class Stuck(Exception):
    """The simulation cannot go on: nothing waits, or a loop never waits."""


class World:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.now = 0.0
        """Simulated seconds since the beginning."""
        self.wall_ahead = 0.0
        """Seconds by which the wall clock of the present process is ahead: a restart may have set it."""
        self.steps = 0
        self.life = 0
        self.is_dead = False
        self.is_calm = False
        """True once no further fault may happen, so that everything can come to an end."""
        self.lines: list[str] = []
        self.defects: list[str] = []
        """Errors of loops that are not ours: nobody expects them."""
        self.fired: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        """Number of events of each kind until now: a fault happens at the n-th."""
        self.disk_full_until = self.partition_until = 0.0
        self.is_without_poison = False
        self._streams: dict[str, Random] = {}
        self._hash = hashlib.sha256()
        self._mixed = bytearray()
        self._by_event: dict[str, dict[int, Fault]] = {}
        for fault in plan.faults:
            self._by_event.setdefault(fault.event, {})[fault.nth] = fault

    # ── chance ──

    def stream(self, purpose: str) -> Random:
        made = self._streams.get(purpose)
        if made is None:
            made = self._streams[purpose] = Random(f"{self.plan.seed}/{purpose}")
        return made

    def random_bytes(self, count: int) -> bytes:
        return self.stream("bytes").randbytes(count)

    # ── time ──

    def wall(self) -> datetime:
        return START + timedelta(seconds=self.now + self.wall_ahead)

    # ── trace ──

    def tell(self, what: str, *more: object) -> None:
        """Write a line to the trace. Never with an address or an object's name that differs between processes."""
        line = f"{self.now:12.4f} {self.life:2d} {what} {' '.join(map(str, more))}".rstrip()
        self.lines.append(line)
        self._hash.update(self._mixed)
        self._mixed.clear()
        self._hash.update(line.encode())

    def mix(self, number: int) -> None:
        """Add a decision to the hash without a line of its own."""
        self._mixed.append(number & 0xFF)

    @property
    def digest(self) -> str:
        self._hash.update(self._mixed)
        self._mixed.clear()
        return self._hash.hexdigest()

    # ── faults ──

    def fault(self, event: str) -> Fault | None:
        """Count an event, and return the fault that the plan has for it."""
        if self.is_calm:
            return None
        self.counts[event] += 1
        planned = self._by_event.get(event)
        found = None if planned is None else planned.get(self.counts[event])
        if found is not None:
            self.fired[found.kind] += 1
            self.tell("FAULT", found.kind, f"at {event} {found.nth}", f"{found.seconds:g} s" if found.seconds else "")
        return found

    def disk_is_full(self) -> bool:
        return self.now < self.disk_full_until and not self.is_calm

    def is_partitioned(self) -> bool:
        return self.now < self.partition_until and not self.is_calm

    def die(self) -> None:
        """The process ends here: nothing of it runs any more. Raises `ProcessDied`."""
        self.is_dead = True
        raise ProcessDied

    @contextmanager
    def living(self) -> Iterator[None]:
        """One process, from its start to its end."""
        self.life += 1
        self.is_dead = False
        yield


class SimulatedClock:
    """Implements `core.clock.Clock` on the time of the world. The running loop has the timers."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now(self) -> datetime:
        return self._world.wall()

    def monotonic(self) -> float:
        return 1_000.0 + self._world.now

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, act: Any) -> Any:
        return asyncio.get_running_loop().call_later(seconds, act)


class SimulatedFaults:
    """Implements `core.clock.Faults`: the process dies, or the disk is full, at the commit that the plan names."""

    def __init__(self, world: World) -> None:
        self._world = world

    def at(self, point: str) -> None:
        world = self._world
        if world.is_dead:
            raise ProcessDied
        world.mix(len(point))
        fault = world.fault(point)
        if fault is not None and fault.kind == "disk-full":
            world.disk_full_until = world.now + fault.seconds
        if point == "before-commit" and world.disk_is_full():
            full = sqlite3.OperationalError("database or disk is full")
            full.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise full
        if fault is not None and fault.kind == "death":
            world.die()
