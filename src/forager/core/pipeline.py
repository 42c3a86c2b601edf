"""A pipeline is a value: what we know about one kind of data. Its job parameters, steps, records and lanes."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from pydantic import BaseModel

from forager.core.ends import OnEnd, OnJobEnd, OnTry
from forager.core.errors import Unconfigured
from forager.core.http import Fetch
from forager.core.outcome import Outcome
from forager.core.reasons import require_words
from forager.core.record import Record
from forager.core.retry import Retry as Retry  # part of what a pipeline says
from forager.core.states import TaskState
from forager.core.table import TableRow
from forager.core.task import Plan, Task
from forager.core.watch import Watch


@dataclass(frozen=True, slots=True)
class Hours:
    """Whole hours of the UTC day in which a lane may be asked: from `start` until `end`, also across midnight."""

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
DEFAULT_QUEUE = "celery"
"""The queue of lanes that name none: the default queue of Celery, so that a plain Celery worker serves it."""


@dataclass(frozen=True, slots=True)
class Lane:
    """What politeness belongs to: a domain or an upstream API.

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
    """… and is restored after so many seconds without another."""
    cap_hour: int | None = None
    cap_day: int | None = None
    cap_month: int | None = None
    """Most units spent per UTC hour, day and month, over all jobs. When one is reached, tasks wait until its period
    ends, or are skipped (`Step.when_capped`)."""
    gap: float | None = None
    """At least so many seconds from one start to the next …"""
    delay: tuple[float, float] | None = None
    """… and a random number of seconds from this range. A site's lane that leaves these None takes what the policy file
    says; zeros ask for no pause at all. A robots.txt that asks for one is obeyed all the same."""
    hours: Hours | None = None
    breaker: Breaker | None = None
    site: bool = False
    """Whether the lane is a web site, not an API: robots.txt and proxies apply only to sites."""
    robots: bool = False
    """Whether robots.txt is obeyed …"""
    crawl_delay: bool = True
    """… and whether its crawl-delay is a minimum for all of the above; only an operator's rule overrides it."""
    proxied: bool = False
    """Whether proxies are used, if there are any …"""
    proxy_rest: float = 0.0
    """… and how long each of them rests between two requests to this lane: the limit per (domain, proxy)."""
    block: frozenset[str] = frozenset()
    """What a browser does not load here: image, font, media, stylesheet."""
    queue: str = DEFAULT_QUEUE
    """The queue that the lane belongs to: a worker can serve some queues only. The lane of a site that several
    pipelines use belongs to the queue of the one that used it first."""
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
    """What happens to a task while its lane's breaker is open: it waits, or fails at once."""
    when_late: WhenLate = "retry"
    """What happens to a task that exceeds its time-out: it is retried like after any transient failure, or fails."""
    patience: float | None = None
    """Seconds that a task may wait in vain without burning an attempt before it fails. None: the worker's default."""
    one_open: bool = False
    """At most one task per key is open at a time, over all jobs: a further one is skipped at once with the reason
    `joined`, and names the first."""
    when_capped: WhenCapped = "wait"
    """What happens to a task for which its lane's cap leaves no units: it waits until the cap's period ends, or is
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
    raise Unconfigured(f"Tasks of kind {task.kind!r} run inside the application only: its feature names no `duties`.")


def duty(task: type[Task], **options: Any) -> Step:
    """A step that needs the application beside the web: it reads plain tables, say, or creates jobs.

    What it does is an edge: `Feature.duties` gives the function once the application is there. It has the signature of
    any other step, and what it brings still becomes true by its outcome alone. The options are those of `step`.
    """
    return step(task, _unbound, **options)


AGED_AFTER = 60.0
"""Seconds after which a job's `turn` becomes 0, so that no job waits for ever behind others."""


BULK_FROM = 101
"""A job of so many tasks or more is bulk work: it is neither limited by `most_queued` nor counted in that queue."""


@dataclass(frozen=True, slots=True)
class JobLimits:
    """What the ledger needs to know about a job besides its parameters."""

    max_cost: int | None = None
    batch_size: int | None = None
    concurrency: int | None = None
    turn: int = 0
    """Order between jobs of a lane: lower turns first, equal ones share fairly. An aged job (`AGED_AFTER`) has turn
    0."""
    most_queued: int | None = None
    """The job is refused as `Busy` if its pipeline would then have more waiting tasks than this."""
    most_waiting_jobs: int | None = None
    """The job is refused as `Busy` if so many jobs of its pipeline wait already, that is, have never had a task
    leased."""

    @property
    def bounds_queue(self) -> bool:
        """Whether the pipeline's queue must be counted before the job is created."""
        return self.most_queued is not None or self.most_waiting_jobs is not None


@dataclass(frozen=True, slots=True)
class Parts:
    """How jobs are created that are too big for one request: the job first, then its tasks in parts."""

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
    """The reasons for which its tasks fail or are skipped, besides the engine's own (`core.reasons.Reason`)."""
    watches: tuple[Watch, ...] = ()
    """Rules that turn its records into tasks when their time has come."""
    internal: bool = False
    """Its jobs are created by Forager itself, not by a user: lists of jobs leave them out by default."""
    tables: tuple[type[TableRow], ...] = ()
    """Plain tables that it owns, beside those of its records."""
    tells: frozenset[TaskState] = frozenset()
    """The states of its tasks that are written to the change log, as changes of kind `task`: of COMPLETED, FAILED,
    SKIPPED and CANCELLED. The change is part of the transaction in which a task enters the state or, by a retry, leaves
    it again (`queued`). A task that is skipped in the transaction that plans it was never queued, and is not told.
    READY: on PostgreSQL a new task that could run at once is reported (`queued`) and offered: for a minute it can only
    be leased by its number (`Want.tasks`), then by any lease. Tasks of jobs that are written in chunks, and those
    added to a standing job, are neither."""
    secrets: tuple[JobSecret, ...] = ()
    """Without these a job is not created, and an ended one is not retried."""
    parts: Parts | None = None
    """Set if its jobs can be created in parts."""
    on_job_end: OnJobEnd | None = None
    """`on_job_end(params, end)`: effects that are part of the transaction that ends a job, however it ends."""

    def __post_init__(self) -> None:
        require_words(self.reasons)
