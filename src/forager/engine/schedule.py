"""Fires schedules: creates jobs repeatedly, by cron expression (in its time zone) or interval. Time is injected.

If several runs were missed while Forager was not running, one job is created for all of them. Each run has its own
idempotency key, so that two schedulers, or a crash between creating and recording, still create one job.
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import ROUND_HALF_UP, Decimal
from itertools import chain
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import structlog
from cronsim import CronSim, CronSimError

from forager.core.clock import Clock
from forager.core.errors import Busy, FieldError, ForagerError, Rejected, StoreError, StoreFull, StoreUnavailable
from forager.core.schedules import Charge, Schedule, Schedules

log = structlog.get_logger("forager.engine")

LONGEST_NAP = 30.0
EARLY_MS = 10_000
"""Milliseconds by which the clock of another scheduler, such as Celery beat, may be ahead; at most a tenth of an
interval, so that a second message for the same time does not fire the next one."""

MONTH = timedelta(hours=730)
MOST_COUNTED = 3_000
"""Firings of a cron expression that an estimate counts one by one."""

CreateJob = Callable[[Schedule, str], Awaitable[UUID]]
"""(schedule, idempotency key) → the job."""


def next_firing(schedule: Schedule, after: int) -> int:
    """Return the first moment after `after` (both Unix milliseconds) at which the schedule fires. Raises `Rejected` if
    it never does."""
    if schedule.cron is not None:
        return round(next(_moments(schedule, after)).timestamp() * 1000)
    if schedule.every is None or schedule.every < 1:
        raise _bad("every", "give `cron`, or `every` as at least one second")
    every = round(schedule.every * 1000)
    last = schedule.next_at if schedule.next_at is not None else after
    missed = max(0, (after - last) // every)
    return last + (missed + 1) * every if last <= after else last


def firings(schedule: Schedule, after: int, within: timedelta) -> float:
    """Return how often the schedule fires in this time. A cron expression with more than `MOST_COUNTED` firings is
    counted up to that number and extrapolated. Raises `Rejected` if it never fires."""
    if schedule.cron is None:
        return within.total_seconds() / (schedule.every or next_firing(schedule, after))
    start = datetime.fromtimestamp(after / 1000, UTC)
    count, last = 0, start
    for moment in _moments(schedule, after):
        if moment - start > within:
            return count
        count, last = count + 1, moment
        if count == MOST_COUNTED:
            break
    return count * (within / (last - start))


def _moments(schedule: Schedule, after: int) -> Iterator[datetime]:
    """Yield the moments of a cron expression after this one. Raises `Rejected` if it cannot be read or never fires."""
    wrong: list[FieldError] = []
    zone: tzinfo = UTC
    try:
        zone = ZoneInfo(schedule.timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        example = "write a name such as UTC, America/New_York or Europe/Berlin"
        wrong.append(FieldError("timezone", f"{schedule.timezone!r} is not a known time zone; {example}"))
    try:
        moments = CronSim(schedule.cron or "", datetime.fromtimestamp(after / 1000, zone))
        first = next(moments)
    except (CronSimError, StopIteration) as error:
        why = str(error) or "it never fires"
        example = "write minute, hour, day, month and weekday, such as 0 6 * * 1"
        wrong.append(FieldError("cron", f"{schedule.cron!r} cannot be used: {why.rstrip('.')}; {example}"))
    if wrong:
        raise Rejected(" ".join(f"{each.field}: {each.message}." for each in wrong), fields=wrong)
    return chain([first], moments)


@dataclass(frozen=True, slots=True)
class MonthlyCost:
    """The cost of a schedule in a month, in USD."""

    jobs: int
    expected_usd: Decimal
    worst_usd: Decimal
    has_budget: bool
    warning: str | None = None
    """Why its budget may not be what was meant."""

    def in_words(self) -> str:
        """`about $12.50 a month for 30 jobs, at most $40.00`"""
        jobs = "1 job" if self.jobs == 1 else f"{self.jobs:,} jobs"
        return f"about ${self.expected_usd:,.2f} a month for {jobs}, at most ${self.worst_usd:,.2f}"


def monthly_cost(schedule: Schedule, charge: Charge, now: int) -> MonthlyCost:
    """Return the cost of a month, given that of one job. Raises `Rejected` if the schedule never fires."""
    often = Decimal(str(round(firings(schedule, now, MONTH), 4)))
    expected, worst = charge.month or (charge.expected_usd * often, charge.worst_usd * often)
    cents = Decimal("0.01")
    return MonthlyCost(
        round(often),
        expected.quantize(cents, ROUND_HALF_UP),
        worst.quantize(cents, ROUND_HALF_UP),
        charge.has_budget,
        charge.warning,
    )


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
        """`now` returns the store's time, by which schedules fire; `clock` measures the naps."""
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
                log.warning("schedules_unreadable", error=error.message)
                nap = LONGEST_NAP
            except Exception:
                log.exception("scheduler_failed")
                nap = LONGEST_NAP
            await self._clock.sleep(nap)

    async def fire_due(self) -> float:
        """Fire everything that is due by the store's clock. Returns the seconds until the next firing, at most
        `longest_nap`, because a schedule may be added meanwhile."""
        now = _milliseconds(await self._now())
        naps = [self._longest_nap]
        for schedule in await self._schedules.all():
            if schedule.paused or schedule.next_at is None:
                continue
            following = await self._fire(schedule, now) if schedule.next_at <= now else schedule.next_at
            if following is not None:
                naps.append((following - now) / 1000)
        return max(0.05, min(naps))

    async def fire(self, schedule: Schedule) -> bool:
        """Fire one schedule if it is due, or will be within a moment: the caller's clock may be ahead of the store's.
        Returns whether it was due. A paused schedule never is."""
        now = _milliseconds(await self._now())
        early = EARLY_MS if schedule.every is None else min(EARLY_MS, round(schedule.every * 100))
        if schedule.paused or schedule.next_at is None or schedule.next_at > now + early:
            return False
        await self._fire(schedule, max(now, schedule.next_at))
        return True

    async def fire_now(self, schedule: Schedule) -> UUID:
        """Fire a schedule on request, in addition to its own times, which do not change."""
        now, due = _milliseconds(await self._now()), schedule.next_at
        job = await self._create(schedule, f"schedule/{schedule.name}/by-hand/{now}")
        # If it fired by itself meanwhile, that firing is the newer one, and this one is not recorded.
        try:
            await self._schedules.fired(schedule.name, at=now, next_at=due, job=job, error=None, expected=due)
        except StoreError as error:  # the job was created, so the caller must not repeat the request
            log.warning("schedule_firing_not_recorded", schedule=schedule.name, error=error.message)
        return job

    async def _fire(self, schedule: Schedule, now: int) -> int | None:
        """Create the job and record it. Returns when to look at the schedule again. An error is stored with the
        schedule and stops no other one. After an error that may pass (a full queue, a conflicting transaction), the
        firing is tried again soon."""
        job: UUID | None = None
        following: int | None = None
        error: str | None = None
        try:
            job = await self._create(schedule, f"schedule/{schedule.name}/{schedule.next_at}")
        except (StoreUnavailable, StoreFull):
            raise
        except (Busy, StoreError) as passing:
            log.warning("schedule_job_delayed", schedule=schedule.name, error=passing.message)
            await self._schedules.fired(
                schedule.name, at=now, next_at=schedule.next_at, job=None, error=passing.message,
                expected=schedule.next_at,
            )  # fmt: skip
            return now + round(LONGEST_NAP * 1000)
        except Exception as refused:
            error = refused.message if isinstance(refused, ForagerError) else f"{type(refused).__name__}: {refused}"
            log.exception("schedule_job_failed", schedule=schedule.name)
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
    return Rejected(f"{field}: {message}.", fields=[FieldError(field, message)])
