"""The log of jobs: one line for every start, end, pause and resume of a job, and for the first failure of each reason.

Failures that repeat are counted, and a summary of them is logged every minute and when their job ends. A task that
succeeds leaves no line, unless its pipeline has lines of its own. Lines are written in a task of their own, so neither
a settlement nor a request waits for them; the ids of a job are read once and kept.
"""

import asyncio
import contextlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

import structlog

from forager.core.clock import Clock
from forager.core.database import Row
from forager.core.errors import StoreError
from forager.core.ids import task_uuid
from forager.core.ledger import JobNews, LogLine, Settlement
from forager.core.pipeline import Pipeline, StepTable
from forager.core.states import Reason, TaskState
from forager.core.task import Task

log = structlog.get_logger("forager.jobs")

GATHER_SECONDS = 0.05
"""Seconds for which lines are collected, so that one read of the jobs serves them all."""
SUMMARY_EVERY = 60.0
"""Seconds between two summaries of the failures of a job that repeat."""
MOST_KNOWN = 10_000
"""Jobs whose ids and failures are kept in memory."""
MOST_COUNTED = 100_000
"""Up to this number of tasks, the failures of an ended job are counted in the store by reason."""
LONGEST_ERROR = 300
_URL_FIELDS = ("url", "target_url", "page_url", "receiver")
_PACED = frozenset({Reason.RATE, Reason.LIMIT})

OwnLog = Callable[[Settlement], LogLine | None]


class JobRows(Protocol):
    """Reads of the store what a line needs."""

    async def jobs_for_log(self, numbers: Sequence[int]) -> Sequence[Row]:
        """Return the rows of jobs, by number; `standing` is added to their columns."""
        ...

    async def failures_of(self, number: int) -> Mapping[str, int]:
        """Count a job's failed tasks by reason."""
        ...


@dataclass(slots=True)
class _Failures:
    """Failures of one job in this process."""

    seen: set[tuple[str, str]] = field(default_factory=set)
    """(event, reason) pairs that have had their line."""
    repeated: Counter[str] = field(default_factory=Counter)
    """Failures after the first, counted by reason since the last summary."""


class JobLog:
    def __init__(
        self,
        rows: JobRows,
        clock: Clock,
        pipelines: Sequence[Pipeline],
        own: Mapping[str, OwnLog],
        *,
        by_task: Iterable[str] = (),
    ) -> None:
        """`own`: the pipelines' own lines about tasks, by pipeline; `by_task`: those that log every task, so that a job
        of one task needs no line. Jobs of internal pipelines start and end without a line."""
        self._rows = rows
        self._clock = clock
        steps = StepTable(pipelines)
        self._pipeline_of = steps.pipeline_of
        self._own = {kind: line for name, line in own.items() for kind in steps.kinds_of(name)}
        """The pipelines' own lines, by kind of task."""
        self._by_task = frozenset(by_task)
        self._silent = frozenset(each.name for each in pipelines if each.internal)
        self._jobs: OrderedDict[int, Row] = OrderedDict()
        self._failures: OrderedDict[int, _Failures] = OrderedDict()
        self._waiting: list[JobNews | tuple[Settlement, LogLine]] = []
        self._arrived = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._write_for_ever(), name="job-log")

    async def close(self) -> None:
        """Write what is left, with the summaries."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._write()
        await self._summarise(list(self._failures))

    # ── what is to be logged ──

    def changed(self, news: Sequence[JobNews]) -> None:
        """Take news of jobs, as `Ledger.when_jobs_change` reports them."""
        self._waiting.extend(news)
        self._arrived.set()

    def settled(self, settlements: Sequence[Settlement]) -> None:
        """Take attempts that were settled, as `Worker.when_settled` reports them."""
        before = len(self._waiting)
        for settlement in settlements:
            own = self._own.get(settlement.lease.kind)
            if own is not None and (line := own(settlement)) is not None:
                self._waiting.append((settlement, line))
            elif settlement.error is not None or settlement.reason is not None:
                self._failed(settlement)
        if len(self._waiting) > before:
            self._arrived.set()

    def _failed(self, settlement: Settlement) -> None:
        event = _event_of(settlement)
        if event is None:
            return
        reason, job = reason_of(settlement), settlement.lease.job_id
        failures = self._failures.get(job)
        if failures is None:
            failures = self._failures[job] = _Failures()
            if len(self._failures) > MOST_KNOWN:
                self._failures.popitem(last=False)
        if (event, reason) in failures.seen:
            failures.repeated[reason] += 1
            return
        failures.seen.add((event, reason))
        self._waiting.append((settlement, self._line(settlement, event)))

    def _line(self, settlement: Settlement, event: str) -> LogLine:
        fields: dict[str, Any] = {
            "kind": settlement.lease.kind,
            "item": settlement.lease.key,  # a field named `key` would be removed as a secret
            "attempt": settlement.lease.attempt,
            "reason": reason_of(settlement),
            "error_type": settlement.error_type,
        }
        if settlement.lease.kind not in self._own:  # a message may quote a page
            fields["error"] = (settlement.error or "")[:LONGEST_ERROR]
        if settlement.state is TaskState.WAITING:
            fields["retry_in_seconds"] = round(settlement.wait, 1)
        return LogLine("info" if event == "task_skipped" else "warning", event, fields)

    # ── writing ──

    async def _write_for_ever(self) -> None:
        next_summary = self._clock.monotonic() + SUMMARY_EVERY
        while True:
            with contextlib.suppress(TimeoutError):
                # Not `asyncio.wait_for`: in Python 3.11 it loses a cancellation that comes with the event, and the
                # process would wait for this task for ever when it closes.
                # At least a moment: this timer runs in real time, and a clock that stands just before the summary would
                # otherwise keep the loop turning without end.
                async with asyncio.timeout(max(GATHER_SECONDS, next_summary - self._clock.monotonic())):
                    await self._arrived.wait()
                    # The ledger reports the end of a job before the worker reports the last attempts of it.
                    await asyncio.sleep(GATHER_SECONDS)
            self._arrived.clear()
            try:
                await self._write()
                if self._clock.monotonic() >= next_summary:
                    next_summary = self._clock.monotonic() + SUMMARY_EVERY
                    await self._summarise([job for job, each in self._failures.items() if each.repeated])
            except Exception:  # a line that cannot be written must not end the log
                log.exception("job_log_failed")

    async def _write(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if isinstance(each, JobNews) and each.new is not None:
                self._jobs[each.job] = dict(each.new)
        jobs = await self._read({_job_of(each) for each in waiting})
        # A page that ends has a line of its own in this batch; one whose job was cancelled before it ran has none.
        ended = {each.job for each in waiting if isinstance(each, JobNews) and each.op == "ended"}
        quiet = {job for job in ended if (row := jobs.get(job)) and self._has_task_lines(row)}
        jobs |= await self._read(
            quiet - {_job_of(each) for each in waiting if not isinstance(each, JobNews)}, again=True
        )
        shown = [each for each in waiting if isinstance(each, JobNews) and self._is_shown(each.op, jobs.get(each.job))]
        jobs |= await self._read({each.job for each in shown if each.new is None}, again=True)
        for each in _attempts_before_ends(waiting):
            if isinstance(each, JobNews):
                await self._log_job(each, jobs.get(each.job))
            else:
                settlement, line = each
                # A line may name the request itself: a delivery belongs to a standing job, which no request submitted.
                getattr(log, line.level)(line.event, **{**self._ids(settlement, jobs), **line.fields})

    def _ids(self, settlement: Settlement, jobs: Mapping[int, Row]) -> dict[str, Any]:
        lease = settlement.lease
        job = jobs.get(lease.job_id)
        return {
            "job_id": job and job["public_id"],
            "task_id": str(task_uuid(lease.job_id, lease.task_id)),
            "pipeline": self._pipeline_of(lease.kind),
            "request_id": job and job["request_id"],
            "url": url_of(lease.task),
        }

    async def _read(self, jobs: set[int], *, again: bool = False) -> dict[int, Row]:
        """Return the rows of jobs, as they were when first read; with `again`, as they are now. A store that does not
        answer leaves some out."""
        missing = sorted(jobs if again else {job for job in jobs if job not in self._jobs})
        if missing:
            with contextlib.suppress(StoreError):
                self._jobs.update((row["id"], row) for row in await self._rows.jobs_for_log(missing))
        rows = {job: self._jobs[job] for job in jobs if job in self._jobs}
        while len(self._jobs) > MOST_KNOWN:
            self._jobs.popitem(last=False)
        return rows

    async def _log_job(self, news: JobNews, job: Row | None) -> None:
        if news.op in ("ended", "paused"):
            await self._summarise([news.job])
            self._failures.pop(news.job, None)
        if job is None or not self._is_shown(news.op, job):
            return
        ids = _ids_of(job)
        match news.op:
            case "ended":
                await self._log_end(ids, job)
            case "paused" if "state" in job:
                log.warning("job_paused", **ids, reason=job["reason"], **_counts(job))
            case "created":
                log.info("job_created", **ids, tasks=job["total"], max_cost=job["max_cost"], schedule=job["schedule"])
            case _:
                log.info(f"job_{news.op}", **ids, tasks=job["total"])

    def _is_shown(self, op: str, job: Row | None) -> bool:
        """Return whether an event of a job gets a line. A job of one task whose pipeline logs each task needs none, and
        a job that stands for ever begins and ends with every task that is added to it."""
        if job is None or op == "extended":
            return False
        if op in ("paused", "resumed", "cancelling"):
            return True
        if job["standing"] or job["pipeline"] in self._silent:
            return False
        return not self._has_task_lines(job) or (op == "ended" and job.get("state") == "cancelled")

    def _has_task_lines(self, job: Row) -> bool:
        return job["total"] == 1 and job["pipeline"] in self._by_task

    async def _log_end(self, ids: Mapping[str, Any], job: Row) -> None:
        if "state" not in job:  # its row could not be read again: it was removed, or the store is closing
            log.info("job_ended", **ids)
            return
        if job["finished_at"] is None:  # a retry has reopened it meanwhile: the counts of its end are gone
            log.info("job_ended", **ids, retried=True)
            return
        level = {"completed": log.info, "cancelled": log.info, "failed": log.error}.get(job["state"], log.warning)
        seconds = (job["finished_at"] - (job["started_at"] or job["finished_at"])) / 1000
        level(
            "job_ended",
            **ids,
            state=job["state"],
            reason=job["reason"],
            **_counts(job),
            cost=job["spent"],
            records=job["records"] + job["discoveries"],
            rejected=job["rejected"],
            seconds=round(seconds, 3),
            failures=await self._reasons(job) if job["failed"] else {},
        )

    async def _reasons(self, job: Row) -> Mapping[str, int]:
        if job["total"] > MOST_COUNTED:
            return {}
        try:
            return await self._rows.failures_of(job["id"])
        except StoreError:
            return {}

    async def _summarise(self, jobs: Sequence[int]) -> None:
        """Log how often failures have repeated since the last summary."""
        repeated = {job: each.repeated for job in jobs if (each := self._failures.get(job)) and each.repeated}
        rows = await self._read(set(repeated)) if repeated else {}
        for job, counts in repeated.items():
            self._failures[job].repeated = Counter()
            ids = _ids_of(rows[job]) if job in rows else {"job_id": None}
            log.warning("failures_repeated", **ids, failures=dict(counts), total=counts.total())


def _attempts_before_ends(
    waiting: Sequence[JobNews | tuple[Settlement, LogLine]],
) -> Iterator[JobNews | tuple[Settlement, LogLine]]:
    """Yield the lines in their order, but those of a job's attempts before the end or pause that they led to."""
    attempts: dict[int, list[tuple[Settlement, LogLine]]] = {}
    for each in waiting:
        if not isinstance(each, JobNews):
            attempts.setdefault(_job_of(each), []).append(each)
    for each in waiting:
        if not isinstance(each, JobNews) or each.op in ("ended", "paused"):
            yield from attempts.pop(_job_of(each), ())
        if isinstance(each, JobNews):
            yield each


def reason_of(settlement: Settlement) -> str:
    """Return the word for a failure: its reason, else the status of the refusal, such as `http_501`."""
    status = (settlement.facts or {}).get("api_status", 0)
    return settlement.reason or (f"http_{status}" if status >= 400 else "other")


def url_of(task: object) -> str | None:
    """Return the address that a task is about, without user, query and fragment; None if it has none."""
    if not isinstance(task, Task):
        return None
    url = next((value for name in _URL_FIELDS if isinstance(value := getattr(task, name, None), str)), None)
    if url is None or "://" not in url:
        return None
    try:
        parts = urlsplit(url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    except ValueError:
        return None


def _event_of(settlement: Settlement) -> str | None:
    """Return the event of an attempt that did not succeed; None for a task that only waits for its turn."""
    match settlement.state:
        case TaskState.FAILED:
            return "task_failed"
        case TaskState.SKIPPED:
            return "task_skipped"
        case TaskState.WAITING | TaskState.READY if settlement.halt is not None:
            return "task_halted"
        case TaskState.WAITING if settlement.burned:
            return "attempt_failed"
        case TaskState.WAITING if settlement.patience is not None and settlement.reason not in _PACED:
            return "task_waits"
    return None


def _job_of(each: JobNews | tuple[Settlement, LogLine]) -> int:
    return each.job if isinstance(each, JobNews) else each[0].lease.job_id


def _ids_of(job: Row) -> dict[str, Any]:
    """Return the ids of a line about a job. Such a line is about no task, and no page."""
    return {
        "job_id": job["public_id"],
        "task_id": None,
        "pipeline": job["pipeline"],
        "request_id": job["request_id"],
        "url": None,
    }


def _counts(job: Row) -> dict[str, int]:
    names = ("total", "queued", "completed", "failed", "skipped", "cancelled", "retries")
    return {("tasks" if name == "total" else name): job[name] for name in names}
