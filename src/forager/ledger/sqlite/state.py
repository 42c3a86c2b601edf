"""In-memory state of the single process, kept between commands. Only the writer thread uses it, except for `flows.grew`
and `next_wake`, which the loop reads: at worst, a waiter is woken for nothing."""

import sqlite3
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Container, Set
from dataclasses import dataclass, field
from itertools import islice

from forager.ledger.catalog import DEFAULT_QUEUE, Catalog
from forager.ledger.rules.scheduling import has_no_task

# Flows: the jobs with ready work in each lane. An in-memory index of the single process, rebuilt at start and after a
# rollback.
#
# It may list a job that has nothing left (a lease then finds nothing and removes the entry), but it never misses one
# that has: entries are added when work becomes ready, and removed only when a lease returned fewer tasks than wanted.


FROM_THE_START = ("", "")
MOST_JOBS = 16
"""Maximum jobs that share one lease; the others come in the next one. Tasks of one job are adjacent, and a lease costs
by the pages it touches: with twice as many jobs, a lease of 500 tasks takes a tenth longer."""


class Flows:
    def __init__(self) -> None:
        self._lanes: defaultdict[int, dict[int, OrderedDict[int, None]]] = defaultdict(dict)
        self._where: defaultdict[int, dict[int, int]] = defaultdict(dict)
        """The lanes of each job, with its turn in each: the reverse index, so that no lookup scans all lanes."""
        self._parked: dict[int, set[tuple[int, int]]] = {}
        self.next_due: dict[int, int] = {}
        self.draining: dict[int, tuple[str, str]] = {}
        """Jobs whose queued tasks are being ended page by page, with the (kind, key) that was reached."""
        self.grew = False

    def add(self, lane: int, job: int, turn: int) -> bool:
        """Note that a job has ready work in a lane. Returns False if the job is parked, so that no lease is needed
        yet."""
        if job in self._parked:
            self._parked[job].add((lane, turn))
            return False
        known = self._where[job].get(lane)
        if known is not None and known != turn:
            self.drop(lane, job)
        self._where[job][lane] = turn
        self._lanes[lane].setdefault(turn, OrderedDict())[job] = None
        self.grew = True
        return True

    def drop(self, lane: int, job: int) -> None:
        turn = self._where[job].pop(lane, None)
        if not self._where[job]:
            del self._where[job]
        if turn is None:
            return
        turns = self._lanes[lane]
        del turns[turn][job]
        if not turns[turn]:
            del turns[turn]
        if not turns:
            del self._lanes[lane]

    def park(self, job: int) -> None:
        """Stop offering a paused job; it keeps its entries. Also used for jobs whose tasks are still being written."""
        parked = self._parked.setdefault(job, set())
        for lane, turn in list(self._where.get(job, {}).items()):
            parked.add((lane, turn))
            self.drop(lane, job)

    def unpark(self, job: int) -> set[int]:
        """Offer a job's work again. Returns its lanes."""
        parked = self._parked.pop(job, set())
        for lane, turn in parked:
            self.add(lane, job, turn)
        return {lane for lane, _ in parked}

    def turn_to(self, job: int, turn: int) -> None:
        """Give a job another turn in every lane in which it has work."""
        if job in self._parked:
            self._parked[job] = {(lane, turn) for lane, _ in self._parked[job]}
            return
        for lane in list(self._where.get(job, {})):
            self.add(lane, job, turn)

    def forget(self, job: int) -> None:
        self.park(job)
        self._parked.pop(job, None)

    def next_jobs(self, lane: int, but: Container[int] = ()) -> list[int]:
        """Return the jobs to serve next: lowest `turn` first; within one turn, those served longest ago."""
        turns = self._lanes.get(lane, {})
        for turn in sorted(turns):
            jobs = turns[turn]
            chosen = list(islice((job for job in jobs if job not in but), MOST_JOBS))
            if chosen:
                return chosen
        return []

    def offers(self, lane: int, job: int) -> bool:
        """Return whether a job may have ready work in a lane."""
        return lane in self._where.get(job, ())

    def served(self, lane: int, job: int) -> None:
        """Move a job behind those that have not been served yet."""
        turn = self._where.get(job, {}).get(lane)
        if turn is not None:
            self._lanes[lane][turn].move_to_end(job)

    def sleep_until(self, lane: int, due: int) -> bool:
        """Note when a task of a lane is due. Returns whether it is the first of the lane."""
        known = self.next_due.get(lane)
        first = known is None or due < known
        if first:
            self.next_due[lane] = due
        return first

    def has_work(self, lane: int) -> bool:
        return lane in self._lanes

    def with_work(self) -> Set[int]:
        """Return lanes with ready or waiting tasks."""
        return self._lanes.keys() | self.next_due.keys()

    def drain(self, job: int) -> None:
        """Start ending a job's queued tasks, from the beginning."""
        self.draining[job] = FROM_THE_START

    def lowest_turn(self, lane: int) -> int | None:
        turns = self._lanes.get(lane)
        return min(turns) if turns else None

    @classmethod
    def read(cls, db: sqlite3.Connection) -> "Flows":
        flows = cls()
        turns = {}
        for job, turn, state, drain in db.execute("SELECT id, turn, state, drain FROM jobs WHERE finished_at IS NULL"):
            turns[job] = turn
            if state in ("paused", "planning") or drain is not None:
                flows.park(job)
            if drain is not None:
                flows.drain(job)
        for lane, job in db.execute(_DISTINCT_READY):
            flows.add(lane, job, turns.get(job, 0))
        flows.next_due.update(db.execute(_NEXT_DUE))
        return flows


# A loose scan of ix_tasks_ready: one probe per (lane, job), not one per ready task.
_DISTINCT_READY = """
WITH RECURSIVE seen(lane_id, job_id) AS (
  SELECT * FROM (SELECT lane_id, job_id FROM tasks WHERE state = 0 ORDER BY lane_id, job_id LIMIT 1)
  UNION ALL
  SELECT n.lane_id, n.job_id FROM seen s JOIN tasks n ON n.id = (
    SELECT t.id FROM tasks t WHERE t.state = 0 AND (t.lane_id, t.job_id) > (s.lane_id, s.job_id)
    ORDER BY t.lane_id, t.job_id LIMIT 1)
)
SELECT lane_id, job_id FROM seen
"""
# The same for ix_tasks_waiting: one probe per lane, however many tasks wait there.
_NEXT_DUE = """
WITH RECURSIVE seen(lane_id, due) AS (
  SELECT * FROM (SELECT lane_id, due FROM tasks WHERE state = 1 ORDER BY lane_id, due LIMIT 1)
  UNION ALL
  SELECT n.lane_id, n.due FROM seen s JOIN tasks n ON n.id = (
    SELECT t.id FROM tasks t WHERE t.state = 1 AND t.lane_id > s.lane_id ORDER BY t.lane_id, t.due LIMIT 1)
)
SELECT lane_id, due FROM seen
"""


@dataclass(slots=True)
class Memory:
    catalog: Catalog
    now_ms: Callable[[], int]
    flows: Flows
    next_job: int
    next_task: int
    lanes: dict[str, int] = field(default_factory=dict)
    """Lanes that were requested for a task, so that their queues are decided …"""
    without_task: dict[str, int] = field(default_factory=dict)
    """… and lanes that were requested without a task."""
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
        """Return the number of a lane, creating the lane at its first mention. Checked again after a rollback, which
        may have removed it. `kind`: the kind of the task; it may decide the queue of a lane that is new or has had no
        task."""
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
    """Note that a new task waits until `due`: wake the lane then if it has no owner, and let an owner check now,
    because the task is new to it."""
    if memory.flows.sleep_until(lane, due):
        memory.flows.grew = True
    wake(db, memory, lane, due)


def next_number(db: sqlite3.Connection, column: str, count: int = 1) -> int:
    """Return the first of `count` new change numbers: dense and in commit order, because there is only this writer."""
    (last,) = db.execute(f"UPDATE tail SET {column} = {column} + ? RETURNING {column}", (count,)).fetchone()
    return int(last) - count + 1
