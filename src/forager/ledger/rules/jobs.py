"""Rules of creating a job that both ledgers share: how it is split, how long its key is remembered, when two are
equal."""

import asyncio
import hashlib
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import chain, islice
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from forager.core.errors import Busy, Conflict
from forager.core.ids import task_uuid
from forager.core.ledger import NewJob
from forager.core.states import JobState, Reason, TaskState
from forager.core.task import Plan
from forager.ledger.catalog import Catalog
from forager.ledger.rules.records import clean

CHUNK = 5_000
"""Tasks per transaction of a big job: short enough that leases and settlements pass between two of them."""
IN_ONE_GO = 20_000
PLANNING_LEASE_MS = 60_000
IDEMPOTENT_MS = 24 * 3600 * 1000
UNTIL_END_MS = 30 * 24 * 3600 * 1000
"""Milliseconds for which the key of a job that ended is remembered, if the key was valid until the job's end."""
FOR_EVER_MS = 1000 * 365 * 24 * 3600 * 1000
BEING_WRITTEN = 0.05
"""Seconds between two checks of the same job while another caller writes it."""


JOB_VALUES = "pipeline, params, estimate, schedule, turn, batch_size, concurrency, max_cost, request_id"


SPARED = """
SELECT 1 FROM jobs j WHERE j.id = {job} AND ({succeeded} AND j.completed > 0
  OR EXISTS (SELECT 1 FROM idempotency i WHERE i.job_id = j.id AND i.key LIKE ' %'))
"""
"""Finds a job that a halt spares (`Settlement.spares`). Keys that begin with a space are those of standing jobs."""

CUT_OFF = f"""
SELECT t.id FROM jobs j JOIN tasks t ON t.job_id = j.id
WHERE j.id = {{job}} AND j.reason IS NOT NULL AND j.completed = 0 AND j.failed > 0
  AND t.state = {TaskState.FAILED.value} AND t.reason = '{Reason.UNREACHABLE.value}'
"""
"""Finds the tasks of a paused job without any success that failed for lack of a connection, as those before the attempt
that paused it did: a resume tries them again. A job that an operator paused has no reason, and is left as it is."""


def job_values(job: NewJob) -> tuple[Any, ...]:
    """Return the columns `JOB_VALUES` of a job's row."""
    limits = job.limits
    return (
        job.pipeline,
        orjson.dumps(job.params, default=str).decode(),
        None if job.estimate is None else orjson.dumps(job.estimate, default=str).decode(),
        job.schedule,
        limits.turn,
        limits.batch_size,
        limits.concurrency,
        limits.max_cost,
        job.request_id,
    )


def first_state(total: int | None) -> JobState:
    """Return the first state of a job. One without tasks (a dry run) ends at once; None means that its tasks are not
    planned yet."""
    return JobState.PLANNING if total is None else JobState.QUEUED if total else JobState.COMPLETED


class NotTogether(Exception):
    """One of these jobs may be the repeat of another, so one must be written before the other is checked."""


def require_different_keys(jobs: Iterable[NewJob]) -> None:
    keys = [job.idempotency_key for job in jobs if job.idempotency_key is not None]
    if len(set(keys)) < len(keys):
        raise NotTogether


def fingerprint(job: NewJob) -> str:
    """Return the digest of a request, by which a repeat under the same idempotency key is recognised."""
    params = job.params if job.requested is None else job.requested
    body = orjson.dumps([job.pipeline, params], option=orjson.OPT_SORT_KEYS, default=str)
    return hashlib.sha256(body).hexdigest()


def remembered_ms(job: NewJob) -> int:
    """Return for how many milliseconds the job's key is remembered."""
    return FOR_EVER_MS if job.standing else UNTIL_END_MS if job.until_end else IDEMPOTENT_MS


def being_cancelled(job: str) -> Conflict:
    return Conflict(f"Job {job} is being cancelled. What is to be added to it can be added in a moment.")


def stood_still() -> Conflict:
    return Conflict("Writing this job stood still for too long, so it was given up. Submit it again.")


def not_in_order(job: UUID, expected: int, first: int) -> Conflict:
    return Conflict(f"Job {job} has {expected:,} tasks; this part begins at {first:,}. Send from {expected:,}.")


def sent_whole(job: UUID, total: int) -> Conflict:
    return Conflict(f"Job {job} was sent whole, with {total:,} tasks, and takes no more. Create another job.")


def require_same(job: NewJob, used_for: str) -> None:
    if used_for != fingerprint(job):
        raise Conflict(
            f"Idempotency-Key {job.idempotency_key!r} was used for a job with other parameters in the last 24 hours. "
            "Send the same body, or a new key."
        )


class QueueLimits(NamedTuple):
    """Limits of a pipeline's queue, as its jobs declare them; None is unlimited."""

    tasks: int | None
    jobs: int | None


class Queue(NamedTuple):
    """The waiting work of a pipeline, as seen by the transaction that would add to it. 0 where there is no limit."""

    tasks: int
    jobs: int
    """Jobs of which no task was ever leased; counted up to the limit."""


def limited_queues(jobs: Iterable[tuple[NewJob, int]]) -> dict[str, QueueLimits]:
    """Map each pipeline with a limited queue to the highest limits of its new jobs, always in the same order."""
    limits: dict[str, QueueLimits] = {}
    for job, _ in jobs:
        if job.limits.bounds_queue:
            tasks, waiting = limits.get(job.pipeline, QueueLimits(None, None))
            most, most_jobs = job.limits.most_queued, job.limits.most_waiting_jobs
            limits[job.pipeline] = QueueLimits(
                tasks if most is None else max(most, tasks or 0),
                waiting if most_jobs is None else max(most_jobs, waiting or 0),
            )
    return dict(sorted(limits.items()))


def require_room(jobs: Iterable[tuple[NewJob, int]], waiting: Mapping[str, Queue]) -> None:
    """Raise `Busy` if one of these jobs, given with its number of tasks, would exceed its pipeline's queue limit.

    `waiting`: what waits in each limited queue already.
    """
    tasks: Counter[str] = Counter()
    queued: Counter[str] = Counter()
    for job, more in jobs:
        name, limits = job.pipeline, job.limits
        most, most_jobs = limits.most_queued, limits.most_waiting_jobs
        if most is not None and (left := most - waiting[name].tasks - tasks[name]) < more:
            raise Busy(
                f"The queue of {name} has room for {max(0, left):,} of at most {most:,} tasks,"
                f" and this job has {more:,}. Nothing of it was stored; submit it again when some have ended."
            )
        if more and most_jobs is not None and waiting[name].jobs + queued[name] >= most_jobs:
            raise Busy(
                f"{most_jobs:,} jobs of {name} wait already, and no more may."
                " Nothing of this one was stored; submit it again when some have begun."
            )
        tasks[name] += more
        queued[name] += 1 if more else 0


# Reads and encodes plans before a transaction begins.
#
# Plans are encoded before the transaction, which then holds its locks (on SQLite, the one writer) no longer than the
# database needs. A big job is read in a thread, so that it does not block the heartbeat. Only the few children of a
# task are encoded during its settlement.


SMALL = 200
"""Plans up to this number are encoded faster than a thread would start."""


class Encoded(NamedTuple):
    """A plan in the form of its row."""

    kind: str
    key: str
    lane: str
    rank: int
    after: str | None
    price: int
    body: bytes
    due: int | None
    """Unix milliseconds; None: at once."""
    retries: int | None


class Whole(NamedTuple):
    """A job that one transaction can write."""

    job: NewJob
    plans: Sequence[Encoded]
    """Without duplicates."""


class PlanPart(NamedTuple):
    """Consecutive tasks of a job that is sent in parts, as `Ledger.add_part` takes them."""

    job: UUID
    first: int
    plans: Sequence[Encoded]
    more: bool

    def missing(self, total: int) -> Sequence[Encoded]:
        """Return the plans that an open job with this number of tasks may lack. Raises `Conflict` if they do not
        continue it.

        Some of them may be equal to tasks of earlier parts, which do not count again. So positions cannot show whether
        a started job has a part: that is looked up by kind and key.
        """
        if self.first > total:
            raise not_in_order(self.job, total, self.first)
        return self.plans[total - self.first :]


async def encode_all(plan: Iterable[Plan], catalog: Catalog) -> list[Encoded]:
    """Encode all plans at once: many of them in a thread, in which they are also made if `plan` is a generator."""
    rest = iter(plan)
    few = list(islice(rest, SMALL + 1))
    if len(few) <= SMALL:
        return encode(few, catalog)
    return await asyncio.to_thread(encode, chain(few, rest), catalog)


def encode(plans: Iterable[Plan], catalog: Catalog) -> list[Encoded]:
    """Encode the first plan of each (kind, key)."""
    encoded: dict[tuple[str, str], Encoded] = {}
    lanes: dict[str, str] = {}
    prices, lane_of, new = catalog.prices, catalog.lane_of, tuple.__new__  # a quarter of the time of `Encoded(…)`
    for plan in plans:
        task, after = plan.task, plan.after
        name = kind, key = task.kind, clean(task.key())
        if name in encoded:
            continue
        named = task.lane()
        lane = lanes.get(named)
        if lane is None:
            lane = lanes[named] = clean(lane_of(named))
        body = task.__pydantic_serializer__.to_json(task, exclude_defaults=True)
        after = None if after is None else clean(after)
        due = None if plan.due is None else _ms(plan.due)
        encoded[name] = new(Encoded, (kind, key, lane, plan.rank, after, prices.get(kind, 0), body, due, plan.retries))
    return list(encoded.values())


def _ms(due: datetime) -> int:
    if due.tzinfo is None:
        raise ValueError("`due` of a plan needs a time zone: datetime.now(UTC) + …")
    return round(due.timestamp() * 1000)


class Planned:
    """The plans of one submission. Use `await Planned.read(…)`."""

    def __init__(self, plan: Iterable[Plan], catalog: Catalog) -> None:
        self._plans = iter(plan)
        self._catalog = catalog
        self.first: list[Encoded] = []
        self.whole = True
        """True if `first` is everything: then one transaction can write it."""

    @classmethod
    async def read(cls, plan: Iterable[Plan], catalog: Catalog) -> "Planned":
        planned = cls(plan, catalog)
        if isinstance(plan, list) and len(plan) <= SMALL:
            planned._begin()
        else:
            await asyncio.to_thread(planned._begin)
        return planned

    async def chunks(self) -> AsyncGenerator[list[Encoded]]:
        """Yield all plans in chunks, once; the next chunk is read while one is written. Close it if you stop early:
        that waits for the read in progress, because a thread cannot be stopped."""
        first, self.first = self.first, []
        ready = deque(first[start : start + CHUNK] for start in range(0, len(first), CHUNK))
        while ready:
            ahead = asyncio.create_task(asyncio.to_thread(self._next, CHUNK))
            try:
                yield ready.popleft()
            except GeneratorExit:
                with suppress(Exception):  # the reason for closing is the more useful error
                    await ahead
                raise
            if more := await ahead:
                ready.append(more)

    def _begin(self) -> None:
        self.first = self._next(IN_ONE_GO)
        one_more = list(islice(self._plans, 1))
        self.whole = not one_more
        self._plans = chain(one_more, self._plans)

    def _next(self, most: int) -> list[Encoded]:
        """Return the distinct plans among the next ones; empty at the end."""
        return encode(islice(self._plans, most), self._catalog)


# Commands that wait for one transaction, and which of them one call can do.
#
# A group of commands shares a commit, which saves syncs to disk. Adjacent commands that do the same for different items
# may also share their statements. Each gets its own result, as if it had come alone.


class QueuedCommand(NamedTuple):
    command: Callable[..., Any]
    items: tuple[Any, ...]
    """Its argument besides the database: none, or one item of those that it handles together."""
    future: asyncio.Future[Any]
    followed: bool = False
    """The command causes another one to be sent at once."""

    def goes_with(self, other: "QueuedCommand") -> bool:
        return bool(self.items and other.items) and self.command == other.command


def take_step(waiting: deque[QueuedCommand], most: int) -> list[QueuedCommand]:
    """Take from the front the commands that one call handles: a single one, or up to `most` adjacent ones of a kind."""
    step = [waiting.popleft()]
    while waiting and len(step) < most and waiting[0].goes_with(step[0]):
        step.append(waiting.popleft())
    return step


# The error of a task that is skipped because another one with the same key is open, in any job.


def joined(job: int, task: int) -> tuple[str, str]:
    """Error and facts, by the numbers of the task that is open."""
    name = str(task_uuid(job, task))
    return f"Task {name} is open for the same key.", orjson.dumps({"joined": name}).decode()
