"""What the single process remembers between commands, beside the tables. Only the writer thread touches it, but for
`flows.grew` and `next_wake`, which the loop reads: at worst a waiter is woken in vain."""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field

from forager.ledger.catalog import Catalog
from forager.ledger.sqlite.flows import Flows


@dataclass(slots=True)
class Memory:
    catalog: Catalog
    now_ms: Callable[[], int]
    flows: Flows
    next_job: int
    next_task: int
    lanes: dict[str, int] = field(default_factory=dict)
    aliased: set[str] = field(default_factory=set)
    """Identities of which anything has a weaker name: of the others nobody need ask."""
    next_wake: int | None = None
    """The earliest moment to come at which a lane without an owner can be taken; at worst one that is over by now."""

    @classmethod
    def read(cls, db: sqlite3.Connection, catalog: Catalog, now_ms: Callable[[], int]) -> "Memory":
        job, task = (db.execute(_NEXT.format(table=table)).fetchone()[0] for table in ("job", "task"))
        identities = {table.record.identity for table in catalog.records.values() if table.record.identity}
        named = "SELECT 1 FROM aliases WHERE identity = ? LIMIT 1"
        aliased = {identity for identity in identities if db.execute(named, (identity,)).fetchone()}
        memory = cls(catalog, now_ms, Flows.read(db), job, task, aliased=aliased)
        memory.read_next_wake(db)
        return memory

    def lane_id(self, db: sqlite3.Connection, name: str) -> int:
        """The number of a lane, made on first mention. Checked again after a rollback could have undone it."""
        known = self.lanes.get(name)
        if known is None:
            db.execute("INSERT INTO lanes (name) VALUES (?) ON CONFLICT (name) DO NOTHING", (name,))
            (known,) = db.execute("SELECT id FROM lanes WHERE name = ?", (name,)).fetchone()
            self.lanes[name] = known
        return known

    def wakes(self, at: int) -> None:
        """A lane without an owner can be taken from `at` on: whoever waits for work hears of it, now or then."""
        if at <= self.now_ms():
            self.flows.grew = True
        elif self.next_wake is None or at < self.next_wake:
            self.next_wake = at

    def read_next_wake(self, db: sqlite3.Connection) -> None:
        (self.next_wake,) = db.execute(_NEXT_WAKE, (self.now_ms(),)).fetchone()


# What was removed had numbers, too, and none is given again.
_NEXT = "SELECT 1 + max(last_{table}, coalesce((SELECT max(id) FROM {table}s), 0)) FROM tail"
_WAKE = "UPDATE lanes SET wake_at = ?2 WHERE id = ?1 AND owner IS NULL AND (wake_at IS NULL OR wake_at > ?2)"
_NEXT_WAKE = "SELECT min(wake_at) FROM lanes WHERE owner IS NULL AND wake_at > ? AND NOT paused"


def wake(db: sqlite3.Connection, memory: Memory, lane: int, at: int) -> None:
    """A lane that nobody owns can be taken from `at` on; an owned one is looked at by its owner anyway."""
    if db.execute(_WAKE, (lane, at)).rowcount:
        memory.wakes(at)


def offer(db: sqlite3.Connection, memory: Memory, lane: int, job: int, turn: int) -> None:
    """A job has ready work in a lane: remember it, and wake the lane if nobody owns it."""
    if memory.flows.add(lane, job, turn):
        wake(db, memory, lane, memory.now_ms())


def sleep_until(db: sqlite3.Connection, memory: Memory, lane: int, due: int) -> None:
    """A task that just came waits for this moment: remember it, wake the lane then if nobody owns it, and let an
    owner look, which does not know of it."""
    if memory.flows.sleep_until(lane, due):
        memory.flows.grew = True
    wake(db, memory, lane, due)


def next_number(db: sqlite3.Connection, column: str, count: int = 1) -> int:
    """The first of `count` new numbers of the tail row: dense, in commit order, because this thread is alone."""
    (last,) = db.execute(f"UPDATE tail SET {column} = {column} + ? RETURNING {column}", (count,)).fetchone()
    return int(last) - count + 1
