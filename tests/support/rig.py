"""A ledger under test with a small pipeline on it, and the few moves that every contract test makes.

Nothing here depends on the database behind the port, except the functions that open and age a store.
"""

import contextlib
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import orjson
import pytest

from forager.core.clock import Clock, Faults
from forager.core.ids import task_uuid
from forager.core.ledger import Lease, LeaseBatch, Ledger, NewJob, Session, Settlement, Submitted, Want
from forager.core.pipeline import JobLimits
from forager.core.recheck import Dispatched
from forager.core.record import Record
from forager.core.states import TaskState
from forager.core.task import Plan
from forager.ledger.catalog import Catalog
from forager.ledger.sqlite import SqliteLedger
from forager.ledger.tables.schedules import RecheckTable, ScheduleTable
from tests.support.auditor import PostgresTables, Row, SqliteTables, Tables, audit
from tests.support.clock import FakeClock
from tests.support.postgres import Postgres
from tests.support.recycled import Recycled
from tests.support.rig_pipelines import (
    PIPELINE,
    RECHECK,
    RECORDS,
    Item,
    Seen,
    SoleCall,
    Thing,
    catalog,
)
from tests.support.schema_templates import create_schema, create_store_file

LEASE = 30.0


class HandClock(FakeClock):
    """Time that moves only when a test advances it."""

    def __init__(self, start: datetime = datetime(2026, 3, 14, 12, tzinfo=UTC)) -> None:
        super().__init__(start, monotonic=0.0)

    def pass_(self, seconds: float) -> None:
        self.advance(seconds)


def end_in_pages_of(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `size` tasks the page in which a cancelled job is ended, so that small jobs have several pages."""
    monkeypatch.setattr("forager.ledger.sqlite.control.PAGE", size)
    for store in ("sqlite", "postgres"):
        for name in ("DRAIN_PER_TURN", "SWEEP_PAGE"):
            monkeypatch.setattr(f"forager.ledger.{store}.store.{name}", size)


@dataclass
class Worker:
    """A session with the lanes it owns."""

    rig: "Rig"
    session: Session
    lanes: dict[str, int] = field(default_factory=dict)

    async def take_lanes(self) -> list[str]:
        taken = await self.rig.ledger.take_lanes(self.session, 100)
        self.lanes.update({lane.name: lane.id for lane in taken})
        return [lane.name for lane in taken]

    async def cycle(self, settlements: Sequence[Settlement] = (), most: int = 0, lane: str | None = None) -> LeaseBatch:
        """Settle, and lease up to `most` of one lane or of each that this worker owns. Audited."""
        wants = [Want(n, most) for name, n in self.lanes.items() if most and lane in (None, name)]
        batch = await self.rig.ledger.settle_and_lease(self.session, list(settlements), wants)
        self.rig.check()
        return batch

    async def lease(self, most: int = 100, lane: str | None = None) -> list[Lease]:
        await self.take_lanes()
        return list((await self.cycle(most=most, lane=lane)).leases)

    async def begin_suspects(self, *, waits: bool = False) -> Sequence[Lease]:
        """Lease the next group of suspects; if it is one, its step begins (and waits for an answer)."""
        leases = await self.rig.ledger.lease_suspects(self.session)
        for lease in leases:
            if lease.alone:
                assert await self.rig.ledger.mark_step(self.session, lease, waits=waits)
        self.rig.check()
        return leases

    async def settle(self, lease: Lease, state: TaskState = TaskState.COMPLETED, **more: Any) -> LeaseBatch:
        return await self.cycle([Settlement(lease, state, **more)])

    async def complete(self, leases: Iterable[Lease]) -> None:
        done = [Settlement(lease, TaskState.COMPLETED, cost=lease.price) for lease in leases]
        assert not (await self.cycle(done)).fenced

    async def drain(self) -> list[str]:
        """Run everything that can be run, well; returns the keys in the order of their leases."""
        keys: list[str] = []
        while leases := await self.lease():
            keys.extend(lease.key for lease in leases)
            await self.complete(leases)
        return keys


@dataclass
class Rig:
    ledger: Ledger
    tables: Tables
    clock: HandClock | None
    """None where time is the database's own: then `pass_time` makes its rows older instead."""
    write: Callable[[str], Any]
    """Raw SQL, to damage a row as a fault would."""
    pruned: bool = False
    """True if old things were removed: then the log has gaps, and lanes have spent more than their tasks."""
    audited: bool = True
    """False if `check` does nothing: over a hundred thousand tasks it would take longer than the test."""

    async def submit(
        self, plans: Iterable[Plan], *, key: str | None = None, params: dict[str, Any] | None = None, **limits: Any
    ) -> Submitted:
        new = NewJob("rig", params or {"name": "job"}, JobLimits(**limits), idempotency_key=key)
        submitted = await self.ledger.submit(new, plans)
        self.check()
        return submitted

    async def worker(self, name: str = "worker") -> Worker:
        worker = Worker(self, await self.ledger.begin(name))
        await worker.take_lanes()
        return worker

    @property
    def catalog(self) -> Catalog:
        """Return the ledger's catalog of pipelines, which `forager.app` may change after it was opened."""
        return cast("SqliteLedger", self.ledger)._catalog  # both stores call it so

    async def dispatch(self, most: int = 1_000) -> Dispatched:
        """A page of the rig's recheck. Audited."""
        done = await self.ledger.dispatch("rig", RECHECK, most)
        self.check()
        return done

    @property
    def rechecks(self) -> RecheckTable:
        return RecheckTable(self.ledger.database, [PIPELINE], self.ledger.now)

    @property
    def schedules(self) -> ScheduleTable:
        return ScheduleTable(self.ledger.database)

    def last_change(self) -> int:
        return int(self.tables.read("SELECT change FROM tail")[0]["change"])

    def pass_time(self, seconds: float) -> None:
        if self.clock is not None:
            self.clock.pass_(seconds)
        else:
            _make_older(self.write, seconds)

    def spoil(self, task: int, body: bytes) -> None:
        blob = f"X'{body.hex()}'" if self.clock is not None else f"'\\x{body.hex()}'::bytea"
        self.write(f"UPDATE tasks SET body = {blob} WHERE id = {task}")

    def check(self) -> None:
        """The auditor's word after every step: counters, followers, lanes, log."""
        if not self.audited:
            return
        now = None if self.clock is None else round(self.clock.now().timestamp() * 1000)
        with self.tables.snapshot():
            broken = audit(self.tables, RECORDS, now, sole=[SoleCall.kind], pruned=self.pruned)
            if not self.pruned:
                broken += self._tallies()
        assert not broken, broken

    def _tallies(self) -> Iterator[str]:
        """Hooks have run once for each end: a completed or cancelled task never ends again, any other may."""
        stored = {row["name"]: row["count"] for row in self.tables.read("SELECT name, count FROM rig_tallies")}
        for state in (TaskState.COMPLETED, TaskState.FAILED, TaskState.SKIPPED, TaskState.CANCELLED):
            (row,) = self.tables.read(
                f"SELECT count(*) AS n FROM {self.tables.tasks} t WHERE kind = 'dear-call' AND state = {int(state)}"
            )
            told = stored.get(f"ended {state.name.lower()}", 0)
            final = state in (TaskState.COMPLETED, TaskState.CANCELLED)
            if told < row["n"] or (final and told != row["n"]):
                yield f"{row['n']} dear calls are {state.name}, hooks have counted {told}"
        (row,) = self.tables.read(
            "SELECT count(*) AS n FROM changes c JOIN jobs j ON j.id = c.job_id"
            " WHERE c.kind = 'job' AND c.op = 'ended' AND j.total > 0 AND j.pipeline = 'rig'"
        )
        told = sum(count for name, count in stored.items() if name.startswith("job "))
        # A job that ends as it is planned, because all it got was skipped at once, ends without a hook.
        unnoticed = self.tables.read("SELECT 1 AS one FROM tasks WHERE kind = 'sole-call' LIMIT 1") or self.tables.read(
            "SELECT 1 AS one FROM changes WHERE op = 'extended' LIMIT 1"
        )
        if told > row["n"] or (told < row["n"] and not unnoticed):
            yield f"{row['n']} ends of jobs, hooks have counted {told}"

    def job(self, job: UUID) -> Row:
        (row,) = self.tables.read(f"SELECT * FROM jobs WHERE public_id = '{job}'")
        return row

    def tasks(self, job: UUID) -> dict[str, Row]:
        rows = self.tables.read(
            f"SELECT t.* FROM {self.tables.tasks} t JOIN jobs j ON j.id = t.job_id WHERE j.public_id = '{job}'"
        )
        return {row["key"]: row for row in rows}

    def states(self, job: UUID) -> dict[str, str]:
        """Return states by key, in public words but for the kinds of waiting."""
        return {key: TaskState(row["state"]).name.lower() for key, row in sorted(self.tasks(job).items())}

    def task_id(self, job: UUID, key: str) -> UUID:
        row = self.tasks(job)[key]
        return task_uuid(row["job_id"], row["id"])

    @staticmethod
    def facts(task: Row) -> Any:
        said = task["facts"]
        return orjson.loads(said) if isinstance(said, str) else said

    def everything(self) -> dict[str, list[Row]]:
        """The whole ledger, to show that nothing has changed."""
        core = ("jobs", "tasks", "changes", "evidence", "spending", "aliases", "job_secrets", "rejected", "rig_tallies")
        names = (*core, *(r.table for r in RECORDS))
        return {name: self.tables.read(f"SELECT * FROM {name} ORDER BY 1, 2") for name in names}

    def rows(self, record: type[Record]) -> dict[str, Row]:
        return {row[record.key_field]: row for row in self.tables.read(f"SELECT * FROM {record.table}")}


def create_store(path: Path) -> None:
    create_store_file(path, catalog())


async def open_sqlite(path: Path, clock: Clock, faults: Faults | None = None, lease: float = LEASE) -> SqliteLedger:
    return await SqliteLedger.open(path, catalog(), clock=clock, lease_seconds=lease, faults=faults)


async def sqlite_rig(path: Path, clock: HandClock | None = None, faults: Faults | None = None) -> Rig:
    clock = clock or HandClock()
    return Rig(await open_sqlite(path, clock, faults), SqliteTables(path), clock, partial(_write_sqlite, path))


@contextlib.asynccontextmanager
async def embedded_rig(folder: Path) -> AsyncIterator[Rig]:
    """A new embedded store, checked and closed at the end."""
    create_store(folder / "ledger.db")
    made = await sqlite_rig(folder / "ledger.db")
    yield made
    made.check()
    await made.ledger.close()
    made.tables.close()


def _write_sqlite(path: Path, sql: str) -> None:
    with contextlib.closing(sqlite3.connect(path, timeout=10)) as db, db:
        db.execute(sql)


_asked: Counter[str] = Counter()
"""The auditor's queries on the rig's tables. After the first test of a process they are sent all at once."""


def recycled_databases(postgres: Postgres, template: str) -> Recycled:
    """Databases for `postgres_rig`, with the auditor's tables; `template` is one with the rig's schema."""
    return Recycled(postgres, template, _asked)


async def postgres_rig(
    url: str, faults: Faults | None = None, *, create: bool = True, tables: PostgresTables | None = None
) -> Rig:
    from forager.ledger.postgres import PostgresLedger

    if create:
        create_schema(url, catalog())
    tables = tables or PostgresTables(url, _asked)
    ledger = await PostgresLedger.open(url, catalog(), lease_seconds=LEASE, faults=faults)
    return Rig(ledger, tables, None, tables.read)


def _make_older(write: Callable[[str], Any], seconds: float) -> None:
    """Time there is the database's own, so it passes by moving every point in time into the past."""
    by = round(seconds * 1000)
    for table, column in (
        ("sessions", "lease_until"),
        ("queue", "due"),
        ("lanes", "wake_at"),
        ("idempotency", "expires_at"),
        ("evidence", "kept_until"),
        ("jobs", "planning_until"),
        ("jobs", "created_at"),
        ("jobs", "finished_at"),
        ("past_jobs", "finished_at"),
        ("tasks", "ended_at"),
        ("changes", "at"),
        ("rejected", "at"),
        *((record.table, column) for record in (Thing, Item) for column in ("changed_at", "gone_at", "last_seen_at")),
        (Seen.table, "first_seen_at"),
        (Item.table, "due"),
        ("tasks", "waited_until"),
        ("tasks", "due"),
    ):
        write(f"UPDATE {table} SET {column} = {column} - {by}")
