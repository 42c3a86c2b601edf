"""Dispatches rechecks: creates tasks from records that are due. Time is injected.

A look costs a few short queries per recheck. The next look is at the earliest due time that is known, as soon as a task
of this process has written an earlier one, and otherwise after `look_every` seconds, because another process may have
written one.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import structlog

from forager.core.clock import Clock, arrives
from forager.core.errors import Conflict, StoreError
from forager.core.ledger import Ledger, Settlement
from forager.core.pipeline import Pipeline
from forager.core.recheck import Recheck
from forager.core.record import Record

log = structlog.get_logger("forager.engine")

LOOK_EVERY = 5.0
LEAST_NAP = 0.2
"""Minimum seconds between two checks, however often it is woken."""


class Rechecker:
    """Dispatches all rechecks of these pipelines. `run` it as a task in parallel with the worker."""

    def __init__(
        self, ledger: Ledger, pipelines: Sequence[Pipeline], clock: Clock, *, look_every: float = LOOK_EVERY
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._look_every = look_every
        self._rechecks = [(pipeline.name, recheck) for pipeline in pipelines for recheck in pipeline.rechecks]
        self._fields: defaultdict[type[Record], list[str]] = defaultdict(list)
        for _, recheck in self._rechecks:
            self._fields[recheck.record].append(recheck.due)
        self._writers = frozenset(
            kind
            for pipeline in pipelines
            if not self._fields.keys().isdisjoint(pipeline.records)
            for step in pipeline.steps
            for kind in (step.task.kind, *step.task.aliases)
        )
        """The kinds of tasks that can write a rechecked record: the records of all others need no look."""
        self._sleeps_until = datetime.min.replace(tzinfo=UTC)
        self._news = asyncio.Event()

    def __bool__(self) -> bool:
        """Return whether there is any recheck."""
        return bool(self._rechecks)

    async def run(self) -> None:
        """Check for due records repeatedly until cancelled. Returns at once if no recheck is declared."""
        while self._rechecks:
            nap = max(LEAST_NAP, await self.look())
            self._sleeps_until = await self._ledger.now() + timedelta(seconds=nap)
            await self._clock.sleep(LEAST_NAP)
            await arrives(self._news, self._clock, nap - LEAST_NAP)

    async def look(self) -> float:
        """Dispatch everything that is due now. Returns the seconds until the next look."""
        self._news.clear()
        return min([self._look_every, *[await self._dispatch(name, recheck) for name, recheck in self._rechecks]])

    def note_settled(self, settled: Sequence[Settlement]) -> None:
        """Call this with every group that was settled: it looks earlier if the group has written an earlier due time.

        A record that shows no due time counts as well, because the field may be derived."""
        for each in settled:
            if each.lease.kind not in self._writers:
                continue
            for record in each.records if each.extras is None else (*each.records, *each.extras.updates):
                for name in self._fields.get(type(record), ()):
                    due = getattr(record, name)
                    if not isinstance(due, datetime) or due < self._sleeps_until:
                        self._news.set()
                        return

    async def _dispatch(self, pipeline: str, recheck: Recheck) -> float:
        """Dispatch all pages of one recheck. Returns the seconds until its next due time, at most `look_every`."""
        try:
            while (done := await self._ledger.dispatch(pipeline, recheck)).more:
                await self._clock.sleep(0)
            if done.next_due is None:
                return self._look_every
            return max(0.0, done.next_due / 1000 - (await self._ledger.now()).timestamp())
        except Conflict as cancelled:
            log.warning("recheck_job_cancelled", recheck=recheck.name, error=cancelled.message)
        except StoreError as error:
            log.warning("recheck_failed", recheck=recheck.name, error=error.message)
        return self._look_every
