"""A pipeline is a value that describes one kind of data: its job parameters, steps, records and lanes."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel

from forager.core.errors import (
    Retry,  # part of a pipeline's declaration
    Unconfigured,
)
from forager.core.http import Fetch
from forager.core.outcome import Outcome
from forager.core.recheck import Recheck
from forager.core.record import Record
from forager.core.states import JobState, TaskState, require_words
from forager.core.table import Effect, TableRow
from forager.core.task import Plan, Task

# Hooks for each try of a task, and for the end of a task or a job, however it ends.
#
# A step's `on_end` and a pipeline's `on_job_end` are pure functions. The ledger calls them inside the transaction that
# ends the task or the job: after the last retry, when a wait was given up, when a worker died with the task, when the
# job was cancelled. So their results take effect exactly once per end, even after kill -9.
#
# A task that is skipped in the transaction that plans it (`joined`, or behind one that has failed) was never queued: no
# hook runs for it, nor for a job of which nothing else is left. A job without tasks, such as a dry run, has none
# either.


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """The end of a task."""

    state: TaskState
    """COMPLETED, FAILED, SKIPPED or CANCELLED."""
    reason: str | None
    """The reason, unless it is completed: `timed_out`, `budget` …"""
    error: str | None
    attempts: int
    at: datetime


@dataclass(frozen=True, slots=True)
class TaskTry:
    """The end of one try of a task."""

    state: TaskState
    """The state of the task after it: COMPLETED, WAITING for the next try, READY in a job that was paused, FAILED …"""
    error: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class Aftermath:
    """The result of a hook."""

    effects: Sequence[Effect] = ()
    """Changes of plain tables."""
    updates: Sequence[Record] = ()
    """Updates of stored records, as `Done.updates`: for example the next due time of a page that could not be read."""


@dataclass(frozen=True, slots=True)
class JobEnd:
    """The end of a job, with its counters."""

    job: UUID
    """Its public id."""
    state: JobState
    completed: int
    failed: int
    skipped: int
    cancelled: int
    records: int
    discoveries: int
    rejected: int
    spent: int
    at: datetime


OnEnd = Callable[[Any, TaskEnd], Aftermath | None]
"""`on_end(task, end)`. It must not raise; if it does, the task ends without its result, and the error is logged."""
OnTry = Callable[[Any, TaskTry], Sequence[Effect]]
"""`on_try(task, end)`: effects of the transaction that settles a try, whether the task ends or is tried again. Not
called for a task that was put back before it was tried. It must not raise; if it does, its effects are left out, and
the error is logged."""
OnJobEnd = Callable[[Any, JobEnd], Sequence[Effect]]
"""`on_job_end(params, end)`: effects of the transaction that ends a job. It must not raise; if it does, its effects are
left out, and the error is logged."""


@dataclass(frozen=True, slots=True)
class Hours:
    """Whole hours of the UTC day in which a lane may send: from `start` until `end`, also across midnight."""

    start: int
    end: int

    def open_at(self, moment: datetime) -> bool:
        """Return whether a moment is within these hours. With `start` = `end` the whole day is open."""
        if self.start < self.end:
            return self.start <= moment.hour < self.end
        return moment.hour >= self.start or moment.hour < self.end

    def opens_after(self, moment: datetime) -> datetime:
        """Return the first moment within these hours, at or after the given one."""
        if self.open_at(moment):
            return moment
        opening = moment.replace(hour=self.start % 24, minute=0, second=0, microsecond=0)
        return opening if opening > moment else opening + timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Breaker:
    """After `failures` among the last `window` calls nothing is sent for `cooldown` seconds; then one probe decides."""

    window: int = 10
    failures: int = 5
    cooldown: float = 120.0


LaneScope = Literal["all", "worker"]


@dataclass(frozen=True, slots=True)
class Lane:
    """A domain or an upstream API, with the limits for requests to it.

    At most `rate` starts in *any* window of `per` seconds, at most `burst` of them at once, `concurrency` in flight.
    """

    name: str
    """A name that ends with `:*` applies to a family: every lane whose name begins with the part before."""
    rate: float | None = 10
    """None means no limit. A rate below one means one start in a longer window."""
    per: float = 1.0
    burst: int = 1
    concurrency: int = 1_000
    retry: Retry = field(default_factory=Retry)
    slow_by: float = 0.2
    """After a 429 the rate falls by this share …"""
    slow_for: float = 30.0
    """… and is restored after this number of seconds without another."""
    cap_hour: int | None = None
    cap_day: int | None = None
    cap_month: int | None = None
    """Most units spent per UTC hour, day and month, over all jobs. When one is reached, tasks wait until its period
    ends, or are skipped (`Step.when_capped`)."""
    gap: float | None = None
    """Least number of seconds from one start to the next …"""
    delay: tuple[float, float] | None = None
    """… and a random number of seconds from this range. If both are None, a site's lane uses the policy file; zeros
    mean no pause. A crawl delay in robots.txt is obeyed in any case."""
    hours: Hours | None = None
    breaker: Breaker | None = None
    site: bool = False
    """True if the lane is a web site, not an API: robots.txt and proxies apply only to sites."""
    robots: bool = False
    """True if robots.txt is obeyed …"""
    crawl_delay: bool = True
    """… and whether its crawl-delay is a minimum for all of the above; only an operator's rule overrides it."""
    proxied: bool = False
    """True if proxies are used, if there are any …"""
    proxy_rest: float = 0.0
    """… and how long each of them rests between two requests to this lane: the limit per (domain, proxy)."""
    block: frozenset[str] = frozenset()
    """Resources that a browser does not load here: image, font, media, stylesheet."""
    via: bool = False
    """True if requests are sent through the unblocking service that the operator pays for."""
    queue: str | None = None
    """The queue that the lane belongs to: a worker can serve some queues only. None: the ledger's default. The lane of
    a site that several pipelines use belongs to the queue of the one that used it first."""
    scope: LaneScope = "all"
    """Whose limits these are. `all`: one worker at a time owns the lane, so the limits hold for all workers together.
    `worker`: every worker uses the lane at once, each with limits, slow-downs and breaker of its own, so N workers send
    N times the rate. An embedded store has one worker: there the two are the same. Caps on spending are of `all`."""

    def __post_init__(self) -> None:
        if self.scope == "worker" and (self.cap_hour or self.cap_day or self.cap_month):
            raise ValueError(f"The lane {self.name} has a cap on spending, which holds for all workers together.")


def family(name: str) -> str:
    """Return the family name for a lane's prefix."""
    return f"{name.partition(':')[0]}:*"


WhenOpen = Literal["snooze", "fail"]
WhenLate = Literal["retry", "fail"]
WhenCapped = Literal["wait", "skip"]
StepFunction = Callable[[Any, Fetch], Awaitable[Outcome]]


@dataclass(frozen=True, slots=True)
class Step:
    task: type[Task]
    run: StepFunction
    price: int = 0
    """Reserved before each attempt, in the lane's units, so that a budget holds before the answer is known."""
    timeout: float = 60.0
    retry: Retry | None = None
    """Overrides the lane's."""
    when_open: WhenOpen = "snooze"
    """While its lane's breaker is open, a task waits (`snooze`) or fails at once."""
    when_late: WhenLate = "retry"
    """A task that exceeds its time-out is retried like after any transient failure, or fails."""
    patience: float | None = None
    """Seconds that a task may wait without burning an attempt before it fails. None: the worker's default."""
    one_open: bool = False
    """At most one task per key is open at a time, over all jobs: a further one is skipped at once with the reason
    `joined`, and names the first."""
    when_capped: WhenCapped = "wait"
    """A task for which its lane's cap leaves no units waits until the cap's period ends, or is
    skipped with the reason `limit`."""
    attempts: bool = False
    """Log every attempt: when, how long, how it ended. Otherwise only failed attempts are logged."""
    on_end: OnEnd | None = None
    """`on_end(task, end)`: further effects of the transaction that ends a task, however it ends."""
    on_try: OnTry | None = None
    """`on_try(task, end)`: further effects of every try, also of one that is followed by another."""


def step(
    task: type[Task],
    run: StepFunction,
    *,
    price: int = 0,
    timeout: float = 60.0,
    retry: Retry | None = None,
    when_open: WhenOpen = "snooze",
    when_late: WhenLate = "retry",
    patience: float | None = None,
    one_open: bool = False,
    when_capped: WhenCapped = "wait",
    attempts: bool = False,
    on_end: OnEnd | None = None,
    on_try: OnTry | None = None,
) -> Step:
    """Declare the step that performs one kind of task. The parameters are those of `Step`."""
    return Step(
        task,
        run,
        price,
        timeout,
        retry,
        when_open,
        when_late,
        patience,
        one_open,
        when_capped,
        attempts,
        on_end,
        on_try,
    )


async def _unbound(task: Task, _: Fetch) -> Outcome:
    raise Unconfigured(f"Tasks of kind {task.kind!r} run inside the application only: its feature has no `app_steps`.")


def app_step(task: type[Task], **options: Any) -> Step:
    """Declare a step that reads the application's tables or creates jobs: the exception to "a step gets a task and
    `fetch`, nothing else" (decision 0052).

    The pipeline declares the step; its function is an edge, which `Feature.app_steps` binds once the application is
    open. The function has the signature of any step and writes only by its outcome. The options are those of `step`.
    """
    return step(task, _unbound, **options)


AGED_AFTER = 60.0
"""Seconds after which a job's `turn` becomes 0, so that no job waits for ever behind others."""


BULK_FROM = 101
"""A job of this number of tasks or more is bulk work: it is neither limited by `most_queued` nor counted in that
queue."""


@dataclass(frozen=True, slots=True)
class JobLimits:
    """Properties of a job that the ledger applies, besides its parameters."""

    max_cost: int | None = None
    batch_size: int | None = None
    concurrency: int | None = None
    turn: int = 0
    """Order between jobs of a lane: lower turns first, equal ones share fairly. An aged job (`AGED_AFTER`) has turn
    0."""
    most_queued: int | None = None
    """The job is refused as `Busy` if its pipeline would then have more waiting tasks than this."""
    most_waiting_jobs: int | None = None
    """The job is refused as `Busy` if this number of jobs of its pipeline wait, that is, have never had a task
    leased."""

    @property
    def bounds_queue(self) -> bool:
        """Return whether the pipeline's queue must be counted before the job is created."""
        return self.most_queued is not None or self.most_waiting_jobs is not None


@dataclass(frozen=True, slots=True)
class Parts:
    """Creation of jobs that are too big for one request: the job first, then its tasks in parts."""

    params: type[BaseModel]
    """The parameters of the job itself, without those that its parts bring."""
    plan: Callable[[Any, int], Iterable[Plan]]
    """`plan(part, first)`: one task for each entry of a part; `first` is the position of its first entry in the job. A
    part has the class `Pipeline.params`."""
    limits: Callable[[Any], JobLimits]
    """`limits(params)` of the job itself."""


@dataclass(frozen=True, slots=True)
class JobSecret:
    """A secret that every job of a pipeline is created with. It is deleted when the job ends."""

    name: str
    """As its steps name it: `SecretRef(name, of_job=True)`."""
    submit: str
    """The request that creates a job with it, for messages."""
    retry: str
    """The request that retries an ended job with a new one; `{job_id}` is filled in."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    name: str
    params: type[BaseModel]
    plan: Callable[..., Iterable[Plan]]
    """`plan(params, **needs)`: deterministic, so that an interrupted submission can be resumed."""
    steps: tuple[Step, ...]
    records: tuple[type[Record], ...] = ()
    lanes: tuple[Lane, ...] = ()
    limits: Callable[[Any], JobLimits] = lambda _: JobLimits()
    check: Callable[..., None] = lambda *_, **__: None
    """`check(params, **needs)`: raises `Rejected`, naming the fields, if a job does not fit the reference data."""
    needs: tuple[str, ...] = ()
    """Reference data by name, filled in by the composition root and passed to `check` and `plan`."""
    dry_run: Callable[[Any], bool] = lambda _: False
    reasons: frozenset[str] = frozenset()
    """The reasons for which its tasks fail or are skipped, besides the engine's own (`core.states.Reason`)."""
    rechecks: tuple[Recheck, ...] = ()
    """Rules that turn its records into tasks when their time has come."""
    internal: bool = False
    """Its jobs are created by Forager itself, not by a user: lists of jobs leave them out by default."""
    tables: tuple[type[TableRow], ...] = ()
    """Plain tables that it owns, besides those of its records."""
    logged_states: frozenset[TaskState] = frozenset()
    """The states of its tasks that are written to the change log, as changes of kind `task`: of COMPLETED, FAILED,
    SKIPPED and CANCELLED. The change is part of the transaction in which a task enters the state or, by a retry, leaves
    it again (`queued`). A task that is skipped in the transaction that plans it was never queued, and is not logged.
    READY: on PostgreSQL a new task that could run at once is reported (`queued`) and offered: for a minute it can only
    be leased by its number (`Want.tasks`), then by any lease. Tasks of jobs that are written in chunks, and those
    added to a standing job, are neither."""
    secrets: tuple[JobSecret, ...] = ()
    """Secrets that every job must be submitted with. An ended job is not retried without them."""
    needs_secrets: Callable[[Any], bool] = lambda _: True
    """`needs_secrets(params)`: False for a job that needs none, such as one that names a stored login."""
    parts: Parts | None = None
    """Set if its jobs can be created in parts."""
    on_job_end: OnJobEnd | None = None
    """`on_job_end(params, end)`: effects that are part of the transaction that ends a job, however it ends."""

    def __post_init__(self) -> None:
        require_words(self.reasons)


# The steps of all pipelines, by the kind of task that they perform.


UNKNOWN = ""


class StepTable:
    def __init__(self, pipelines: Sequence[Pipeline]) -> None:
        self._steps: dict[str, Step] = {}
        self._pipelines: dict[str, str] = {}
        for pipeline in pipelines:
            for step in pipeline.steps:
                for kind in (step.task.kind, *step.task.aliases):
                    self._steps[kind], self._pipelines[kind] = step, pipeline.name
        self.fail_fast = any(step.when_open == "fail" for step in self._steps.values())
        """True if some tasks fail at once, instead of waiting, when the breaker of their lane is open."""
        self.skippers = frozenset(self._pipelines[kind] for kind, s in self._steps.items() if s.when_capped == "skip")
        """Pipelines with tasks that are skipped, instead of waiting, when a cap of their lane is reached."""

    def get(self, kind: str) -> Step | None:
        return self._steps.get(kind)

    def bind(self, app_steps: Mapping[str, StepFunction]) -> None:
        """Set the functions of app steps, by kind of task. Raises `ValueError` for a kind that has no step, or one that
        was not declared with `app_step`: a feature cannot replace the function of a plain step."""
        for kind, run in app_steps.items():
            if kind not in self._steps:
                raise ValueError(f"`app_steps` has a function for {kind!r}, but no pipeline has a step of that kind.")
            if self._steps[kind].run is not _unbound:
                raise ValueError(
                    f"`app_steps` has a function for {kind!r}, whose step is not declared with `app_step`."
                )
            self._steps[kind] = replace(self._steps[kind], run=run)

    def pipeline_of(self, kind: str) -> str:
        return self._pipelines.get(kind, UNKNOWN)

    def kinds_of(self, pipeline: str) -> Sequence[str]:
        """Return the kinds of a pipeline's tasks, former ones included."""
        return [kind for kind, name in self._pipelines.items() if name == pipeline]
