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
from forager.core.errors import Busy, FieldError, ForagerError, Rejected, StoreError, StoreFull, StoreUnavailable
from forager.core.schedules import Schedule, Schedules

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
    def __init__(
        self,
        schedules: Schedules,
        create: CreateJob,
        now: Callable[[], Awaitable[datetime]],
        clock: Clock,
        *,
        longest_nap: float = LONGEST_NAP,
    ) -> None:
        """`now`: the store's time, by which schedules fire; `clock`: what naps are taken by."""
        self._schedules = schedules
        self._create = create
        self._now = now
        self._clock = clock
        self._longest_nap = longest_nap

    async def run(self) -> None:
        while True:
            try:
                nap = await self.fire_due()
            except StoreError as error:
                log.warning("schedules could not be read", error=error.message)
                nap = LONGEST_NAP
            except Exception:
                log.exception("the scheduler broke; it is tried again")
                nap = LONGEST_NAP
            await self._clock.sleep(nap)

    async def fire_due(self) -> float:
        """Fire what is due by the store's clock. Returns the seconds until the next firing, at most `longest_nap`: a
        schedule may be added meanwhile."""
        now = _milliseconds(await self._now())
        naps = [self._longest_nap]
        for schedule in await self._schedules.all():
            if schedule.paused or schedule.next_at is None:
                continue
            following = await self._fire(schedule, now) if schedule.next_at <= now else schedule.next_at
            if following is not None:
                naps.append((following - now) / 1000)
        return max(0.05, min(naps))

    async def fire_now(self, schedule: Schedule) -> UUID:
        """By hand, beside its own times: these stay as they are."""
        now, due = _milliseconds(await self._now()), schedule.next_at
        job = await self._create(schedule, f"schedule/{schedule.name}/by-hand/{now}")
        # If its own time came meanwhile, that firing is the last one, and this is not noted.
        try:
            await self._schedules.fired(schedule.name, at=now, next_at=due, job=job, error=None, expected=due)
        except StoreError as error:  # the job is there: whoever asked must not ask again
            log.warning("a firing by hand could not be noted", schedule=schedule.name, error=error.message)
        return job

    async def _fire(self, schedule: Schedule, now: int) -> int | None:
        """Create the job and note it; returns when to look at the schedule again. Whatever is wrong with one is
        written on it and stops no other. What may pass (a full queue, a transaction that others were in the way of)
        does not cost the firing: it is tried again soon."""
        job: UUID | None = None
        following: int | None = None
        error: str | None = None
        try:
            job = await self._create(schedule, f"schedule/{schedule.name}/{schedule.next_at}")
        except (StoreUnavailable, StoreFull):
            raise
        except (Busy, StoreError) as passing:
            log.warning("a schedule could not create its job yet", schedule=schedule.name, error=passing.message)
            await self._schedules.fired(
                schedule.name, at=now, next_at=schedule.next_at, job=None, error=passing.message,
                expected=schedule.next_at,
            )  # fmt: skip
            return now + round(LONGEST_NAP * 1000)
        except Exception as refused:
            error = refused.message if isinstance(refused, ForagerError) else f"{type(refused).__name__}: {refused}"
            log.exception("a schedule could not create its job", schedule=schedule.name)
        try:
            following = next_firing(schedule, now)
        except Rejected as never:
            error = never.message
        await self._schedules.fired(
            schedule.name, at=now, next_at=following, job=job, error=error, expected=schedule.next_at
        )
        return following


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _bad(field: str, message: str) -> Rejected:
    return Rejected(f"The schedule is not valid: {field}: {message}.", fields=[FieldError(field, message)])
