"""What both ledgers agree on when a job is created: how it is cut, how long a key is remembered, what is the same."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from forager.core.errors import Busy, Conflict
from forager.core.ledger import NewJob
from forager.core.states import JobState

CHUNK = 5_000
"""Tasks per transaction of a big job: short enough that leases and settlements pass between two of them."""
IN_ONE_GO = 20_000
PLANNING_LEASE_MS = 60_000
IDEMPOTENT_MS = 24 * 3600 * 1000
UNTIL_END_MS = 30 * 24 * 3600 * 1000
"""How long a key is remembered that names its job until the job's end."""
FOR_EVER_MS = 1000 * 365 * 24 * 3600 * 1000
BEING_WRITTEN = 0.05
"""Seconds between two looks at the same job while another caller writes it."""


JOB_VALUES = "pipeline, params, estimate, schedule, turn, batch_size, concurrency, max_cost, request_id"


SPARED = """
SELECT 1 FROM jobs j WHERE j.id = {job} AND ({succeeded} AND j.completed > 0
  OR EXISTS (SELECT 1 FROM idempotency i WHERE i.job_id = j.id AND i.key LIKE ' %'))
"""
"""Finds a job that a halt spares (`Settlement.spares`). Keys that begin with a space are those of standing jobs."""


def job_values(job: NewJob) -> tuple[Any, ...]:
    """What a job's row takes from its order: the columns `JOB_VALUES`."""
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
    """Of a job of so many tasks: none (a dry run) ends it here, None says that they are still to be planned."""
    return JobState.PLANNING if total is None else JobState.QUEUED if total else JobState.COMPLETED


class NotTogether(Exception):
    """One of these jobs may be the repeat of another, so one must be written before the other is looked at."""


def require_different_keys(jobs: Iterable[NewJob]) -> None:
    keys = [job.idempotency_key for job in jobs if job.idempotency_key is not None]
    if len(set(keys)) < len(keys):
        raise NotTogether


def fingerprint(job: NewJob) -> str:
    body = orjson.dumps([job.pipeline, job.params], option=orjson.OPT_SORT_KEYS, default=str)
    return hashlib.sha256(body).hexdigest()


def remembered_ms(job: NewJob) -> int:
    """How long its key stands for it."""
    return FOR_EVER_MS if job.standing else UNTIL_END_MS if job.until_end else IDEMPOTENT_MS


def being_cancelled(job: str) -> Conflict:
    return Conflict(f"Job {job} is being cancelled. What is to be added to it can be added in a moment.")


def stood_still() -> Conflict:
    return Conflict("Writing this job stood still for too long, so it was given up. Submit it again.")


def not_in_order(job: UUID, expected: int, first: int) -> Conflict:
    return Conflict(f"Job {job} has {expected:,} tasks so far; this part begins at {first:,}. Send from {expected:,}.")


def sent_whole(job: UUID, total: int) -> Conflict:
    return Conflict(f"Job {job} was sent whole, with {total:,} tasks, and takes no more. Create another job.")


def require_same(job: NewJob, used_for: str) -> None:
    if used_for != fingerprint(job):
        raise Conflict(
            f"Idempotency-Key {job.idempotency_key!r} was used for a job with other parameters in the last 24 hours. "
            "Send the same body, or a new key."
        )


class Limits(NamedTuple):
    """Of a pipeline's queue, as its jobs bring them; None: none."""

    tasks: int | None
    jobs: int | None


class Queue(NamedTuple):
    """What waits of a pipeline, as the transaction sees it that would add to it. 0 where there is no limit."""

    tasks: int
    jobs: int
    """Of which no task was ever leased; counted no further than the limit."""


def limited_queues(jobs: Iterable[tuple[NewJob, int]]) -> dict[str, Limits]:
    """The pipelines among them whose queue has a limit, always in the same order, and the highest of these limits."""
    limits: dict[str, Limits] = {}
    for job, _ in jobs:
        if job.limits.bounds_queue:
            tasks, waiting = limits.get(job.pipeline, Limits(None, None))
            most, most_jobs = job.limits.most_queued, job.limits.most_waiting_jobs
            limits[job.pipeline] = Limits(
                tasks if most is None else max(most, tasks or 0),
                waiting if most_jobs is None else max(most_jobs, waiting or 0),
            )
    return dict(sorted(limits.items()))


def require_room(jobs: Iterable[tuple[NewJob, int]], waiting: Mapping[str, Queue]) -> None:
    """Raise `Busy` if one of these, with so many tasks each, would be too much for its pipeline's queue.

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
                f" and this job has {more:,}. Nothing of it was kept; ask again when some have ended."
            )
        if more and most_jobs is not None and waiting[name].jobs + queued[name] >= most_jobs:
            raise Busy(
                f"{most_jobs:,} jobs of {name} wait already, and no more may."
                " Nothing of this one was kept; ask again when some have begun."
            )
        tasks[name] += more
        queued[name] += 1 if more else 0
