"""Schedules: jobs that are created again and again, by cron or by interval, in UTC. Time is injected.

A firing that was missed while nothing ran is made up for once, not once for each. The job of a firing has an
idempotency key of its own, so that two schedulers, or a crash between creating and recording, still make one job.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from uuid import UUID

import structlog
from cronsim import CronSim, CronSimError

from forager.core.clock import Clock
from forager.core.errors import FieldError, ForagerError, Rejected, StoreError
from forager.core.ledger import Ledger, Schedule

log = structlog.get_logger("forager.engine")

LONGEST_NAP = 30.0

CreateJob = Callable[[Schedule, str], Awaitable[UUID]]
"""(schedule, idempotency key) → the job."""


def next_firing(schedule: Schedule, after: int) -> int:
    """The first moment after `after` (both Unix milliseconds) at which the schedule fires."""
    if schedule.cron is not None:
        try:
            moment = next(CronSim(schedule.cron, datetime.fromtimestamp(after / 1000, UTC)))
        except (CronSimError, StopIteration) as error:
            raise _bad("cron", f"{schedule.cron!r} never fires or is not a cron expression: {error}") from error
        return round(moment.timestamp() * 1000)
    if schedule.every is None or schedule.every < 1:
        raise _bad("every", "give `cron`, or `every` as at least one second")
    every = round(schedule.every * 1000)
    last = schedule.next_at if schedule.next_at is not None else after
    missed = max(0, (after - last) // every)
    return last + (missed + 1) * every if last <= after else last


class Scheduler:
    def __init__(self, ledger: Ledger, create: CreateJob, clock: Clock) -> None:
        self._ledger = ledger
        self._create = create
        self._clock = clock

    async def run(self) -> None:
        while True:
            try:
                await self._clock.sleep(await self.fire_due())
            except StoreError as error:
                log.warning("schedules could not be read", error=error.message)
                await self._clock.sleep(LONGEST_NAP)

    async def fire_due(self) -> float:
        """Fire what is due; returns how long nothing will be, at most half a minute (a schedule may be added)."""
        now = round(self._clock.now().timestamp() * 1000)
        naps = [LONGEST_NAP]
        for schedule in await self._ledger.schedules():
            if schedule.paused or schedule.next_at is None:
                continue
            if schedule.next_at <= now:
                naps.append((await self._fire(schedule, now) - now) / 1000)
            else:
                naps.append((schedule.next_at - now) / 1000)
        return max(0.05, min(naps))

    async def fire_now(self, schedule: Schedule) -> UUID:
        """By hand, beside its own times."""
        now = round(self._clock.now().timestamp() * 1000)
        return await self._create(schedule, f"schedule/{schedule.name}/by-hand/{now}")

    async def _fire(self, schedule: Schedule, now: int) -> int:
        job: UUID | None = None
        error: str | None = None
        try:
            job = await self._create(schedule, f"schedule/{schedule.name}/{schedule.next_at}")
        except StoreError:
            raise
        except ForagerError as refused:
            error = refused.message
            log.error("a schedule could not create its job", schedule=schedule.name, error=error)
        following = next_firing(schedule, now)
        await self._ledger.fired(
            schedule.name, at=now, next_at=following, job=job, error=error, expected=schedule.next_at
        )
        return following


def _bad(field: str, message: str) -> Rejected:
    return Rejected(f"The schedule is not valid: {field}: {message}.", fields=[FieldError(field, message)])
