"""What the ledger needs from the pipelines: the classes to which its rows decode. The composition root builds it
once."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from forager.core.ends import OnEnd
from forager.core.errors import Undecodable
from forager.core.ledger import Lease
from forager.core.pipeline import DEFAULT_QUEUE, Pipeline, family
from forager.core.states import TaskState
from forager.core.table import TableRow
from forager.core.task import Task
from forager.core.trusted import validated_json
from forager.ledger.schema.record_tables import RecordTable, record_tables
from forager.ledger.schema.watched import check_watches
from forager.ledger.shared.counting import Deltas
from forager.ledger.shared.evidence import DAY_MS, DAYS

LANES_REMEMBERED = 10_000
EVERY_SITE = "*"
"""The name of the lane that a pipeline declares for all of its sites."""


class Catalog:
    """Task classes by kind (and by their former kinds), prices by kind, record tables by kind."""

    def __init__(self, pipelines: Sequence[Pipeline], *, evidence_days: float = DAYS) -> None:
        self.evidence_ms = round(evidence_days * DAY_MS)
        """How long the page of a failure is kept."""
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
        self.tells: dict[str, frozenset[TaskState]] = {
            kind: p.tells
            for p in pipelines
            if p.tells
            for step in p.steps
            for kind in (step.task.kind, *step.task.aliases)
        }
        """By kind of task: the states that are written to the change log."""
        self.offered = frozenset(kind for kind, states in self.tells.items() if TaskState.READY in states)
        """Kinds of tasks that are reported when they are queued, and offered: a lease can name their numbers."""
        self._told_states = frozenset(state for states in self.tells.values() for state in states)
        self.on_job_end = frozenset(p.name for p in pipelines if p.on_job_end is not None)
        """The pipelines with an `on_job_end` hook."""
        check_watches(pipelines)
        self.queues = {lane.name: lane.queue for p in pipelines for lane in p.lanes if lane.name != EVERY_SITE}
        """Queues by the name of the declared lane or family."""
        self.shared = frozenset(lane.name for p in pipelines for lane in p.lanes if lane.scope == "worker")
        """Lanes and families whose limits are per worker, so that they have no owner."""
        self._site_queues = {
            kind: lane.queue
            for p in pipelines
            for lane in p.lanes
            if lane.name == EVERY_SITE
            for step in p.steps
            for kind in (step.task.kind, *step.task.aliases)
        }
        self.lane_of: Callable[[str], str] = str
        """Maps the lane that a task names to the lane that it gets: several hosts can share one domain's lane."""

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
        """For a new transaction. Tasks that end in it are noted only if some step or the change log wants to know."""
        return Deltas(note_ends=bool(self.on_end), tells=self._told_states)

    def leases(self, rows: Iterable[Iterable[Any]]) -> list[Lease]:
        """Decode leases from rows, whose columns are a lease's fields; the last is the body of the task."""
        decode, readers, leases = self.decode, self._readers, list[Lease]()
        for number, job, lane, claim, attempt, price, kind, key, retries, waited, body in rows:
            try:  # one call less for every task than by `decode`, which tells what is wrong with one
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
                f"No pipeline knows tasks of kind {kind!r}. Install the one that does, then retry the task."
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
