"""What the single process remembers between commands, beside the tables. Only the writer thread touches it, but for
`flows.grew`, which the loop reads: at worst somebody is woken in vain."""

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

    @classmethod
    def read(cls, db: sqlite3.Connection, catalog: Catalog, now_ms: Callable[[], int]) -> "Memory":
        (job,) = db.execute("SELECT coalesce(max(id), 0) + 1 FROM jobs").fetchone()
        (task,) = db.execute("SELECT coalesce(max(id), 0) + 1 FROM tasks").fetchone()
        identities = {table.record.identity for table in catalog.records.values() if table.record.identity}
        named = "SELECT 1 FROM aliases WHERE identity = ? LIMIT 1"
        aliased = {identity for identity in identities if db.execute(named, (identity,)).fetchone()}
        return cls(catalog, now_ms, Flows.read(db), job, task, aliased=aliased)

    def lane_id(self, db: sqlite3.Connection, name: str) -> int:
        """The number of a lane, made on first mention. Checked again after a rollback could have undone it."""
        known = self.lanes.get(name)
        if known is None:
            db.execute("INSERT INTO lanes (name) VALUES (?) ON CONFLICT (name) DO NOTHING", (name,))
            (known,) = db.execute("SELECT id FROM lanes WHERE name = ?", (name,)).fetchone()
            self.lanes[name] = known
        return known


def wake(db: sqlite3.Connection, lane: int, at: int) -> None:
    """A lane that nobody owns can be taken from `at` on; an owned one is looked at by its owner anyway."""
    db.execute(
        "UPDATE lanes SET wake_at = ?2 WHERE id = ?1 AND owner IS NULL AND (wake_at IS NULL OR wake_at > ?2)",
        (lane, at),
    )


def offer(db: sqlite3.Connection, memory: Memory, lane: int, job: int, turn: int) -> None:
    """A job has ready work in a lane: remember it, and wake the lane if nobody owns it."""
    if memory.flows.add(lane, job, turn):
        wake(db, lane, memory.now_ms())


def next_number(db: sqlite3.Connection, column: str, count: int = 1) -> int:
    """The first of `count` new numbers of the tail row: dense, in commit order, because this thread is alone."""
    (last,) = db.execute(f"UPDATE tail SET {column} = {column} + ? RETURNING {column}", (count,)).fetchone()
    return int(last) - count + 1
