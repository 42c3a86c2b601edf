"""The classes of all pipelines to which rows of the ledger decode. The composition root builds it once."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from forager.core.errors import Evidence, Undecodable
from forager.core.ledger import Lease
from forager.core.pipeline import OnEnd, Pipeline, family
from forager.core.record import validated_json
from forager.core.states import TaskState
from forager.core.table import TableRow
from forager.core.task import Task
from forager.ledger.rules.changes import Deltas
from forager.ledger.schema.record_tables import RecordTable, check_rechecks, record_tables

DEFAULT_QUEUE = "celery"
"""The queue of lanes that declare none. Celery's own default, so that a plain Celery worker serves it."""

# Limits of the evidence that both ledgers keep of a failed page: its size and its age.


DAYS = 7.0
DAY_MS = 24 * 3600 * 1000
EVIDENCE_BYTES = 256 * 1024
SCREENSHOT_BYTES = 2 * 1024 * 1024


def body_of(evidence: Evidence) -> bytes:
    """Return the body to keep: only the beginning of a very long answer."""
    return evidence.body[:EVIDENCE_BYTES]


def screenshot_of(evidence: Evidence) -> bytes | None:
    """Return the screenshot, or None if it is too big: it is never truncated."""
    shot = evidence.screenshot
    return shot if shot is not None and len(shot) <= SCREENSHOT_BYTES else None


LANES_REMEMBERED = 10_000
EVERY_SITE = "*"
"""The name of the lane that a pipeline declares for all of its sites."""


class Catalog:
    """Task classes by kind (and by their former kinds), prices by kind, record tables by kind."""

    def __init__(self, pipelines: Sequence[Pipeline], *, evidence_days: float = DAYS) -> None:
        self.evidence_ms = round(evidence_days * DAY_MS)
        """Milliseconds for which the page of a failure is kept."""
        self.pipelines = {p.name: p for p in pipelines}
        self.tasks: dict[str, type[Task]] = {}
        self.prices: dict[str, int] = {}
        self.one_open = frozenset(step.task.kind for p in pipelines for step in p.steps if step.one_open)
        """Kinds with at most one open task per key, over all jobs."""
        self.with_attempts = frozenset(step.task.kind for p in pipelines for step in p.steps if step.attempts)
        """Kinds of which every attempt is logged."""
        for pipeline in pipelines:
            for step in pipeline.steps:
                self.prices[step.task.kind] = step.price
                for kind in (step.task.kind, *step.task.aliases):
                    self.tasks[kind] = step.task
        self._readers = {kind: validated_json(task) for kind, task in self.tasks.items()}
        self.records: dict[str, RecordTable] = record_tables(r for p in pipelines for r in p.records)
        self.tables: dict[type[TableRow], str] = {row: p.name for p in pipelines for row in p.tables}
        """Plain tables, each with the pipeline that owns it."""
        self.on_end: dict[str, OnEnd] = {
            kind: step.on_end
            for p in pipelines
            for step in p.steps
            if step.on_end is not None
            for kind in (step.task.kind, *step.task.aliases)
        }
        """`on_end` hooks by kind of task."""
        self.logged_states: dict[str, frozenset[TaskState]] = {
            kind: p.logged_states
            for p in pipelines
            if p.logged_states
            for step in p.steps
            for kind in (step.task.kind, *step.task.aliases)
        }
        """Maps a kind of task to the states that are written to the change log."""
        self.offered = frozenset(kind for kind, states in self.logged_states.items() if TaskState.READY in states)
        """Kinds of tasks that are reported when they are queued, and offered: a lease can name their numbers."""
        self.pipeline_of = {
            kind: p.name for p in pipelines for step in p.steps for kind in (step.task.kind, *step.task.aliases)
        }
        self._logged_states = frozenset(state for states in self.logged_states.values() for state in states)
        self.on_job_end = frozenset(p.name for p in pipelines if p.on_job_end is not None)
        """The pipelines with an `on_job_end` hook."""
        check_rechecks(pipelines)
        self.queues = {
            lane.name: lane.queue or DEFAULT_QUEUE for p in pipelines for lane in p.lanes if lane.name != EVERY_SITE
        }
        """Queues by the name of the declared lane or family."""
        self.shared = frozenset(lane.name for p in pipelines for lane in p.lanes if lane.scope == "worker")
        """Lanes and families whose limits are per worker, so that they have no owner."""
        self._site_queues = {
            kind: lane.queue or DEFAULT_QUEUE
            for p in pipelines
            for lane in p.lanes
            if lane.name == EVERY_SITE
            for step in p.steps
            for kind in (step.task.kind, *step.task.aliases)
        }
        self.lane_of: Callable[[str], str] = str
        """Maps the lane in a task's declaration to the lane that is used: several hosts can share the lane of one
        domain."""

    def queue_of(self, lane: str, kind: str | None = None) -> str:
        """Return the queue of a new lane: the one that a pipeline declares for it, or else the one of all sites of the
        pipeline with this kind of task."""
        declared = self.queues.get(lane) or self.queues.get(family(lane))
        return declared or self._site_queues.get(kind or "", DEFAULT_QUEUE)

    def is_shared(self, lane: str) -> bool:
        """Return whether the limits of this lane are per worker."""
        return lane in self.shared or family(lane) in self.shared

    def name_lanes_by(self, rule: Callable[[str], str]) -> None:
        """Set the function that maps lanes. It is called for every task, so its answers are cached: call this again
        when rules change."""
        self.lane_of = lru_cache(maxsize=LANES_REMEMBERED)(rule)

    def deltas(self) -> Deltas:
        """Return empty counters for a new transaction. Ended tasks are noted only if a step has a hook, or the change
        log records them."""
        return Deltas(note_ends=bool(self.on_end), logged_states=self._logged_states)

    def leases(self, rows: Iterable[Iterable[Any]]) -> list[Lease]:
        """Decode leases from rows, whose columns are a lease's fields; the last is the body of the task."""
        decode, readers, leases = self.decode, self._readers, list[Lease]()
        for number, job, lane, claim, attempt, price, kind, key, retries, waited, body in rows:
            try:  # faster than `decode`, which is called only to raise the precise error
                task: Task | Undecodable = readers[kind](body)
            except Exception:  # noqa: BLE001
                task = decode(kind, body)
            leases.append(Lease(number, job, lane, claim, attempt, price, kind, key, task, retries, waited))
        return leases

    def decode(self, kind: str, body: bytes) -> Task | Undecodable:
        """Return a row's task, or the error that makes it a dead letter: one bad row must never stop a worker."""
        read = self._readers.get(kind)
        if read is None:
            return Undecodable(
                f"No pipeline has tasks of kind {kind!r}. Install the one that does, then retry the task."
            )
        try:
            return read(body)
        except ValidationError as error:
            return Undecodable(f"The stored task does not fit {kind!r} any more: {_first(error)}")
        except Exception as error:  # noqa: BLE001 - whatever a class's own validator raises, only this row is bad
            return Undecodable(f"The stored task does not fit {kind!r} any more: {error!r}")


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'body'}: {first['msg']}"
