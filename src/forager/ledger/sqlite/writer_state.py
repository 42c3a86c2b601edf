"""In-memory state of the single process, kept between commands. Only the writer thread uses it, except for `flows.grew`
and `next_wake`, which the loop reads: at worst, a waiter is woken for nothing."""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field

from forager.core.pipeline import DEFAULT_QUEUE
from forager.ledger.catalog import Catalog
from forager.ledger.shared.lane_without_task import has_no_task
from forager.ledger.sqlite.flows import Flows


@dataclass(slots=True)
class Memory:
    catalog: Catalog
    now_ms: Callable[[], int]
    flows: Flows
    next_job: int
    next_task: int
    lanes: dict[str, int] = field(default_factory=dict)
    """Lanes that were asked for on behalf of a task, so that their queues are decided …"""
    without_task: dict[str, int] = field(default_factory=dict)
    """… and lanes that were asked for otherwise."""
    aliased: set[str] = field(default_factory=set)
    """Identities with aliases; the others need no lookup."""
    archived: set[str] = field(default_factory=set)
    """Kinds with archived records; the others need no lookup."""
    next_wake: int | None = None
    """The earliest future moment at which a lane without an owner can be taken; at worst one that has passed by now."""

    @classmethod
    def read(cls, db: sqlite3.Connection, catalog: Catalog, now_ms: Callable[[], int]) -> "Memory":
        job, task = (db.execute(_NEXT.format(table=table)).fetchone()[0] for table in ("job", "task"))
        identities = {table.record.identity for table in catalog.records.values() if table.record.identity}
        named = "SELECT 1 FROM aliases WHERE identity = ? LIMIT 1"
        aliased = {identity for identity in identities if db.execute(named, (identity,)).fetchone()}
        there = "SELECT 1 FROM archived WHERE kind = ? LIMIT 1"
        archived = {kind for kind in catalog.records if db.execute(there, (kind,)).fetchone()}
        memory = cls(catalog, now_ms, Flows.read(db), job, task, aliased=aliased, archived=archived)
        memory.read_next_wake(db)
        return memory

    def lane_id(self, db: sqlite3.Connection, name: str, kind: str | None = None) -> int:
        """Return the number of a lane, which is created at its first mention. Checked again after a rollback, which may
        have removed it. `kind`: of the task that needs it, which may decide on the queue of a lane that is new or
        has had no task."""
        known = self.lanes.get(name) or (self.without_task.get(name) if kind is None else None)
        if known is None:
            wanted = self.catalog.queue_of(name, kind)
            db.execute("INSERT INTO lanes (name, queue) VALUES (?, ?) ON CONFLICT (name) DO NOTHING", (name, wanted))
            known, queue = db.execute("SELECT id, queue FROM lanes WHERE name = ?", (name,)).fetchone()
            if queue == DEFAULT_QUEUE != wanted:
                db.execute(_DECIDE_QUEUE, (wanted, known))
            (self.without_task if kind is None else self.lanes)[name] = known
        return int(known)

    def wakes(self, at: int) -> None:
        """Note that a lane without an owner can be taken from `at` on, and wake waiting workers then."""
        if at <= self.now_ms():
            self.flows.grew = True
        elif self.next_wake is None or at < self.next_wake:
            self.next_wake = at

    def read_next_wake(self, db: sqlite3.Connection) -> None:
        (self.next_wake,) = db.execute(_NEXT_WAKE, (self.now_ms(),)).fetchone()


# Numbers of removed jobs are never reused.
_NEXT = "SELECT 1 + max(last_{table}, coalesce((SELECT max(id) FROM {table}s), 0)) FROM tail"
_WAKE = "UPDATE lanes SET wake_at = ?2 WHERE id = ?1 AND owner IS NULL AND (wake_at IS NULL OR wake_at > ?2)"
_DECIDE_QUEUE = f"UPDATE lanes AS l SET queue = ? WHERE id = ? AND {has_no_task('tasks')}"
_NEXT_WAKE = "SELECT min(wake_at) FROM lanes WHERE owner IS NULL AND wake_at > ? AND NOT paused"


def wake(db: sqlite3.Connection, memory: Memory, lane: int, at: int) -> None:
    """Let a lane without an owner be taken from `at` on. An owned lane is checked by its owner anyway."""
    if db.execute(_WAKE, (lane, at)).rowcount:
        memory.wakes(at)


def offer(db: sqlite3.Connection, memory: Memory, lane: int, job: int, turn: int) -> None:
    """Note that a job has ready work in a lane, and wake the lane if it has no owner."""
    if memory.flows.add(lane, job, turn):
        wake(db, memory, lane, memory.now_ms())


def sleep_until(db: sqlite3.Connection, memory: Memory, lane: int, due: int) -> None:
    """Note that a new task waits for this moment: wake the lane then if it has no owner, and let an owner check now,
    because it does not know the task."""
    if memory.flows.sleep_until(lane, due):
        memory.flows.grew = True
    wake(db, memory, lane, due)


def next_number(db: sqlite3.Connection, column: str, count: int = 1) -> int:
    """Return the first of `count` new change numbers: dense and in commit order, because there is only this writer."""
    (last,) = db.execute(f"UPDATE tail SET {column} = {column} + ? RETURNING {column}", (count,)).fetchone()
    return int(last) - count + 1
