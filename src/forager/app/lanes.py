"""Works out why jobs and lanes wait, for API, command line, doctor and metrics.

It joins the ledger's data (pauses, states of lanes, due times), the rules in force (hours) and, for lanes that this
process owns, the worker's current state. Read only.
"""

import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from forager.core.errors import FieldError, Rejected
from forager.core.hosts import checked_host
from forager.core.ids import SINK_LANES, no_such
from forager.core.pipeline import Lane
from forager.core.states import Reason, TaskState
from forager.core.waiting import Waiting, WaitReason, when
from forager.engine.lanes.rules.rulebook import Rulebook
from forager.engine.lanes.rules.standing import Standing, lane_waiting, slowed
from forager.engine.work.worker import Worker
from forager.ledger.reports import JobReport, LaneReport, LedgerReports, QueuedTask, TaskDetail
from forager.ledger.tables.domains import checked_name

if TYPE_CHECKING:
    from forager.app.application import App


PACING = frozenset({WaitReason.RATE, WaitReason.RETRY_AFTER, WaitReason.BREAKER})
"""Waits that are part of a lane's ordinary work, and pass by themselves."""
OPEN = frozenset({"queued", "running"})
SOON = timedelta(minutes=1)
"""A worker with `--until-idle` waits for nothing that takes longer."""
MOST_COUNTED = 100_000
"""Failures are counted by reason for ended jobs of at most this number of tasks."""
MOST_JOBS = 100
"""Number of jobs in a list whose reason for waiting is computed; the others are shown without one."""


class Waits:
    """Works out why jobs, lanes and tasks wait."""

    def __init__(
        self, reports: LedgerReports, rules: Rulebook, worker: Worker, now: Callable[[], Awaitable[datetime]]
    ) -> None:
        self._reports = reports
        self._rules = rules
        self._worker = worker
        self._now = now

    async def lane(self, report: LaneReport) -> LaneReport:
        """Return the report with why the lane sends nothing now, if it does not."""
        return (await self.lanes([report]))[0]

    async def lanes(self, reports: Sequence[LaneReport]) -> list[LaneReport]:
        """Return the reports, each with why its lane sends nothing now, if it does not."""
        now = await self._now()
        return [each.model_copy(update={"waiting": self._of_lane(each, now)}) for each in reports]

    async def job(self, report: JobReport) -> JobReport:
        """Return the report with why none of the job's tasks runs, if none does, and how fast its lanes let it run. A
        job that has ended has the reasons of its failures instead."""
        (seen,) = await self.jobs([report])
        if report.finished_at is not None and report.failed and report.total <= MOST_COUNTED:
            return seen.model_copy(update={"failures": await self._reports.job_failures(report.id)})
        if report.state not in OPEN or not report.queued:
            return seen
        return seen.model_copy(update={"lane_rate": await self._rate(report)})

    async def jobs(self, reports: Iterable[JobReport]) -> list[JobReport]:
        """Return the reports, each open one with why none of its tasks runs, if none does."""
        told, known = [], _Known(self._reports, self._of_lane, self._slowed, await self._now())
        for report in reports:
            idle = report.state in OPEN and report.queued > 0 and report.running == 0
            waits = await self._of_job(report, known) if idle and known.asked < MOST_JOBS else None
            if report.state in OPEN and (trouble := self._worker.stats.trouble) is not None:
                waits = Waiting(reason=WaitReason.STORE, message=trouble)  # also of what is in flight
            told.append(report.model_copy(update={"waiting": waits}) if waits else report)
        return told

    async def running_task(self, task: TaskDetail) -> Waiting | None:
        """Return why a running task has not got further: it was put off before, or its lane was slowed down. None if
        nothing but the request itself is waited for.

        A task waits for its turn inside of its attempt if that is a few seconds away, so it may run without sending.
        """
        report, now = await self._reports.lane(task.lane), await self._now()
        standing = self.standing(report, task.lane, now)
        if late := slowed(task.lane, standing, now).removeprefix("; "):
            return Waiting(reason=Reason.RATE_LIMITED, message=late, lane=task.lane)
        if task.reason is None or not task.error:
            return None
        return Waiting(reason=task.reason, message=task.error, lane=task.lane)

    async def stuck(self, hidden: Collection[str] = ()) -> list[JobReport] | None:
        """Return the open jobs if none of them can move within a minute; None if one can. Paused jobs do not count.

        `hidden` are pipelines whose jobs do not count either. Without open jobs the list is empty.
        """
        jobs = [job for state in sorted(OPEN) for job in (await self._reports.jobs(state=state, hidden=hidden)).items]
        now, told = await self._now(), await self.jobs(jobs)
        return None if any(_moves_soon(job.waiting, now) for job in told) else told

    async def parked(self, pipeline: str, *, but: Collection[str] = ()) -> int:
        """Count the queued tasks of a pipeline that only wait: for a later try, or in a lane that sends nothing. Those
        in the lanes `but` do not count."""
        known = _Known(self._reports, self._of_lane, self._slowed, await self._now())
        counted = [each for each in await self._reports.queued_by_lane(pipeline) if each[0] not in but]
        return sum([tasks for lane, state, tasks in counted if state is TaskState.WAITING or await known.is_shut(lane)])

    async def shut(self, lanes: Iterable[str]) -> Waiting | None:
        """Return why a task in these lanes could only wait, if one of them sends nothing for long; else None."""
        known = _Known(self._reports, self._of_lane, self._slowed, await self._now())
        for lane in lanes:
            if await known.is_shut(lane):
                return await known.lane(lane)
        return None

    def standing(self, report: LaneReport | None, name: str, now: datetime) -> Standing:
        """Return a lane's state: from our worker if it owns the lane, else as last stored."""
        ours = self._worker.lane_state(name)
        if ours is not None:
            return Standing.read(ours, now)
        return Standing.read(report.state if report else {}, now, wake_at=report.wake_at if report else None)

    def _of_lane(self, report: LaneReport, now: datetime) -> Waiting | None:
        politeness = self._rules.politeness
        paused = report.paused or report.name in politeness.inactive
        standing = self.standing(report, report.name, now)
        rules = politeness.lane_for(report.name, standing.used_by)
        return lane_waiting(report.name, rules, standing, now, paused=paused)

    def _slowed(self, report: LaneReport, now: datetime) -> str:
        return slowed(report.name, self.standing(report, report.name, now), now)

    async def _rate(self, report: JobReport) -> float | None:
        lanes = {task.lane for task in await self._reports.queued_tasks(report.id)}
        rates = [starts_per_second(self._rules.lane_for(name)) for name in sorted(lanes)]
        limited = [rate for rate in rates if rate is not None]
        return round(sum(limited), 6) if limited and len(limited) == len(rates) else None

    async def _of_job(self, report: JobReport, known: "_Known") -> Waiting | None:
        known.asked += 1
        if not await known.has_worker():
            return Waiting(reason=WaitReason.NO_WORKER, message="no worker is running")
        waits = [await self._of_task(task, known) for task in await self._reports.queued_tasks(report.id)]
        # One task that may run is enough. So is a sample without a waiting task, in a job too long to examine whole.
        if not waits or None in waits:
            return None
        return min((each for each in waits if each is not None), key=_soonest)

    async def _of_task(self, task: QueuedTask, known: "_Known") -> Waiting | None:
        lane, now = await known.lane(task.lane), known.now
        if task.state is TaskState.HELD:
            return Waiting(reason=WaitReason.PREDECESSOR, message="another task must be completed first")
        if lane is not None and lane.reason not in PACING:
            return lane  # takes precedence over the task's own reason
        if task.state is TaskState.WAITING and task.due_at is not None and task.due_at > now:
            reason, message = task.reason or _usual_reason(task), due_message(task, when(task.due_at, now))
            if reason == WaitReason.RATE:
                message += await known.slowed(task.lane)
            return Waiting(reason=reason, message=message, lane=task.lane, until=task.due_at)
        if task.state is TaskState.SUSPECT and lane is None:
            message = "retrying tasks that were in flight at the crash"
            return Waiting(reason=WaitReason.CRASH, message=message, lane=task.lane)
        return lane


def starts_per_second(lane: Lane) -> float | None:
    """Return how many requests a second a lane starts in the long run; None if it has no limit."""
    by_rate = lane.per / lane.rate if lane.rate else 0.0
    by_pause = (lane.gap or 0.0) + (sum(lane.delay) / 2 if lane.delay else 0.0)
    between = max(by_rate, by_pause)
    return 1 / between if between > 0 else None


def due_message(task: QueuedTask, due: str) -> str:
    """Return why a task waits for its due time, such as `in 8 s`, as a sentence."""
    if task.is_offered:
        return f"offered to Kafka workers; any worker takes it {due}"
    if task.reason == WaitReason.RATE:
        return f"next request to {task.lane} {due}"
    return f"{task.error.rstrip('.')}; next try {due}" if task.error else f"its next step is due {due}"


def _usual_reason(task: QueuedTask) -> WaitReason:
    return WaitReason.OFFERED if task.is_offered else WaitReason.RETRY


class _Known:
    """A cache for one request: each lane is looked up once, and whether a worker runs."""

    def __init__(
        self,
        reports: LedgerReports,
        of_lane: Callable[[LaneReport, datetime], Waiting | None],
        slowed: Callable[[LaneReport, datetime], str],
        now: datetime,
    ) -> None:
        self.now = now
        self.asked = 0
        self._reports = reports
        self._of_lane = of_lane
        self._slowed_of = slowed
        self._lanes: dict[str, Waiting | None] = {}
        self._slowed: dict[str, str] = {}
        self._worker: bool | None = None

    async def lane(self, name: str) -> Waiting | None:
        if name not in self._lanes:
            report = await self._reports.lane(name)
            self._lanes[name] = self._of_lane(report, self.now) if report else None
            self._slowed[name] = self._slowed_of(report, self.now) if report else ""
        return self._lanes[name]

    async def slowed(self, name: str) -> str:
        """Return why the lane is slower than its rules, to be added to a sentence; empty if it is not."""
        await self.lane(name)
        return self._slowed[name]

    async def is_shut(self, name: str) -> bool:
        """Return whether the lane sends nothing, for another reason than its ordinary pace."""
        waits = await self.lane(name)
        return waits is not None and waits.reason not in PACING

    async def has_worker(self) -> bool:
        if self._worker is None:
            sessions = await self._reports.sessions()
            self._worker = any(each.lease_until > self.now for each in sessions)
        return self._worker


def _moves_soon(waits: Waiting | None, now: datetime) -> bool:
    """Return whether a wait ends soon. An unavailable store counts as soon, because the engine keeps trying it."""
    if waits is None or waits.reason == WaitReason.STORE:
        return True
    return waits.until is not None and waits.until - now <= SOON


def _soonest(waits: Waiting) -> float:
    return waits.until.timestamp() if waits.until else float("inf")


# Pauses and resumes lanes. A paused lane sends nothing new, whatever its rules. Part of the composition root.


async def switch_lane(app: "App", lane: str, *, active: bool) -> str:
    """Pause or resume a lane and return its name. Raises `Rejected` for a host that belongs to another lane."""
    name = await _itself(app, lane)
    if active:
        if await app.reports.lane(name) is not None:
            await app.ledger.pause_lane(name, paused=False)
        await _note(app, name, active=True)
    else:
        await _note(app, name, active=False)
        await app.ledger.pause_lane(name, paused=True)
    return name


async def require_known(app: "App", lane: str, *, new: bool | None = None, command: str = "pause") -> None:
    """Raise `NotFound` for a lane that no job has used and no source has rules for: most likely a typing mistake. With
    `new`, a host may be named before its first request; None: this is no choice of the caller. `command`: the command
    of `forager lanes` that the message shows."""
    await app.rules.refresh()
    name = await belongs_to(app, lane)
    if new or name in app.rules.politeness.names() or await app.reports.lane(name) is not None:
        return
    if await app.domains.get(name) is not None:
        return
    remedy = "See `forager lanes list`."
    if new is not None:
        rest = " …" if command == "set" else ""
        again = f"forager lanes {command} {lane} --new{rest}"
        remedy += f" For a site that no job has used yet: {again} (`?new=true` in the API)."
    raise no_such("lane", lane, await _known_lanes(app), remedy)


async def require_host(app: "App", lane: str) -> None:
    """Raise `NotFound` for a name that is no lane and no host on the web either, such as a mistyped API."""
    if not any(sign in lane for sign in ".:") and lane != "localhost":
        await require_known(app, lane)


async def _known_lanes(app: "App") -> set[str]:
    rows = await app.database.fetch("SELECT name FROM lanes ORDER BY name LIMIT 10000")
    used = {row["name"] for row in rows if not row["name"].startswith(SINK_LANES)}
    return used | app.rules.politeness.names()


async def belongs_to(app: "App", lane: str) -> str:
    """Return the name of an existing lane, else of the lane that a host of this name belongs to."""
    if await app.reports.lane(lane) is not None or app.rules.politeness.is_api(lane):
        return lane
    return app.rules.politeness.lane_name(checked_name(lane))


async def _itself(app: "App", lane: str) -> str:
    """Refuse a host that belongs to another lane: pausing it would either do nothing or stop other hosts as well."""
    await app.rules.refresh()
    name = await belongs_to(app, lane)
    if name not in (lane, _spelled(lane)):
        problem = FieldError("lane", f"belongs to the lane {name}; name that one")
        raise Rejected(f"{lane!r} {problem.message}, or give {lane} rules of its own first.", fields=[problem])
    return name


async def _note(app: "App", name: str, *, active: bool) -> None:
    """Record the switch in the table of domains as well, unless the lane is an API's: its name is not a domain."""
    with contextlib.suppress(ValueError):
        if checked_host(name) == name:
            await app.domains.switch(name, active=active)
            await app.rules.refresh()


def _spelled(lane: str) -> str:
    try:
        return checked_host(lane)
    except ValueError:
        return lane
