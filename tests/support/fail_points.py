"""A process that is killed at fail points, again and again, over one store, and what an auditor finds after.

`python -m tests.support.fail_points FOLDER TIMES SEED POINT[=URL]…` uses one store for each point: an embedded one that
it creates, or the empty PostgreSQL schema at the URL. It forks one worker per kill, reads the raw tables after each
kill, lets a last worker finish, and prints its findings as JSON, by point. The point `broken` is the negative control.
The process itself uses no threads, so that it can fork.
"""

import asyncio
import os
import random
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from forager.core.clock import Faults, NoFaults, SystemClock
from forager.core.ledger import Extras, Lease, Ledger, NewJob, Settlement, Want
from forager.core.outcome import Gone, Reject
from forager.core.states import TaskState
from forager.core.task import Plan
from forager.ledger.rules import jobs as rules_jobs
from forager.ledger.sqlite import SqliteLedger
from forager.ledger.sqlite import settle as sqlite_settle
from tests.support.auditor import PostgresTables, SqliteTables, Tables, audit
from tests.support.rig import create_store
from tests.support.rig_pipelines import RECORDS, Call, Item, Seen, Thing, calls, catalog, chain, count

POINTS = ("job-written", "chunk-written", "settled", "leased", "before-commit", "after-commit")
BROKEN = "broken"
BIG = 14
JOBS = 3
TASKS = BIG + 2 * 5 + 3
"""The work of one life: a big job, two small ones, and a child of each job's first task."""
OFTEN = {"job-written": 2, "chunk-written": 3, "settled": 6, "leased": 6, "before-commit": 14, "after-commit": 14}
"""Minimum number of times that a life passes a point."""


class KillAt:
    """SIGKILL to ourselves at the nth passing of a point."""

    def __init__(self, point: str, nth: int) -> None:
        self._point = point
        self._left = nth

    def at(self, point: str) -> None:
        if point == self._point:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class Findings:
    """The printed result. `fired` counts the faults that happened, `broken` the auditor's findings."""

    seed: int
    fired: int = 0
    broken: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    tasks: int = 0


class Acknowledged:
    """The ledger's confirmations to a worker, written to outlive the worker."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def say(self, what: str, *values: object) -> None:
        os.write(self._file, f"{what} {' '.join(map(str, values))}\n".encode())

    def read(self) -> list[list[str]]:
        return [line.split() for line in self.path.read_text().splitlines()]


class Embedded:
    def __init__(self, folder: Path) -> None:
        self._path = folder / "ledger.db"
        create_store(self._path)

    async def open(self, faults: Faults) -> Ledger:
        return await SqliteLedger.open(self._path, catalog(), clock=SystemClock(), faults=faults)

    def tables(self) -> Tables:
        return SqliteTables(self._path)

    def bury(self) -> None:
        """Nothing to do: the lock proves the death."""


class Served:
    def __init__(self, url: str) -> None:
        self._url = url

    async def open(self, faults: Faults) -> Ledger:
        from forager.ledger.postgres import PostgresLedger

        return await PostgresLedger.open(self._url, catalog(), faults=faults)

    def tables(self) -> PostgresTables:
        return PostgresTables(self._url)

    def bury(self) -> None:
        """Let the leases of the dead, on tasks and on a half-written job, end now instead of in a minute."""
        tables = self.tables()
        tables.read("UPDATE sessions SET lease_until = 0")
        tables.read("UPDATE jobs SET planning_until = 0 WHERE planning_until IS NOT NULL")
        tables.close()


Place = Embedded | Served


async def work(place: Place, faults: Faults, said: Acknowledged, life: int) -> None:
    """Submit this life's jobs and, as a client would, those of former lives again; then do all there is to do."""
    ledger = await place.open(faults)
    session = await ledger.begin("doomed")
    lanes: dict[int, None] = {}
    done: list[Settlement] = []
    for name in (f"{n}-{i}" for n in range(life + 1) for i in range(JOBS)):
        plans = calls(BIG) if name.endswith("0") else [*chain("p1", "p2"), *calls(3)]
        made = await ledger.submit(NewJob("rig", {"name": name}, idempotency_key=name), plans)
        said.say("job", made.job, made.total)
    while True:
        lanes |= dict.fromkeys(lane.id for lane in await ledger.take_lanes(session, 10))
        batch = await ledger.settle_and_lease(session, done, [Want(lane, 4) for lane in lanes])
        for settlement in done:
            if settlement.lease.task_id not in batch.fenced:
                said.say("task", settlement.lease.task_id)
        leases = batch.leases or await ledger.lease_suspects(session)
        if not leases and not done:
            break
        done = [_done(lease) for lease in leases]
    await ledger.end(session)
    await ledger.close()


def _done(lease: Lease) -> Settlement:
    name = f"{lease.job_id}-{lease.key}"
    found = [Seen(uid=name), Thing(uid=lease.key, size=lease.job_id), Item(uid=name)]
    children = [Plan(Call(name="child", where="site"), after="t0")] if lease.key == "t0" else []
    extras = Extras(
        gone=[Gone(Item(uid=name), "sold")],
        rejected=[Reject(Item, "no price", {}, key=name)],
        effects=[count("settled")],
    )
    return Settlement(lease, TaskState.COMPLETED, cost=1, records=found, tasks=children, extras=extras)


async def mend(place: Place) -> None:
    """Sweep after a death. No task may end as a dead letter by it: the killer is not among them, and no step has
    begun."""
    ledger = await place.open(NoFaults())
    while (await ledger.sweep()).more:
        pass
    await ledger.close()


def live_and_die(place: Place, faults: Faults, said: Acknowledged, life: int) -> bool:
    """True when the worker was killed."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            asyncio.run(work(place, faults, said, life))
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == 0, "the worker failed by itself"
    return False


def look(place: Place, said: Acknowledged, findings: Findings) -> None:
    """The raw tables after a death: whole, with everything that was acknowledged, and nothing twice."""
    tables = place.tables()
    findings.broken += audit(tables, RECORDS)
    jobs = {row["public_id"] for row in tables.read("SELECT public_id FROM jobs WHERE state <> 'planning'")}
    completed = {str(row["id"]) for row in tables.read("SELECT id FROM tasks WHERE state = 4")}
    for what, name, *_ in said.read():
        if name not in (jobs if what == "job" else completed):
            findings.lost.append(f"{what} {name}")
    seen = {row["uid"]: row["times_seen"] for row in tables.read("SELECT uid, times_seen FROM rig_seen")}
    findings.doubled += [uid for uid, times in seen.items() if times != 1]
    if len(seen) != len(completed):
        findings.broken.append(f"{len(completed)} tasks completed, {len(seen)} records found")
    gone = tables.read("SELECT key FROM changes WHERE kind = 'item' AND op = 'gone' AND version = 2")
    rejected = tables.read("SELECT key FROM rejected")
    tallies = {row["name"]: row["count"] for row in tables.read("SELECT name, count FROM rig_tallies")}
    if tallies.get("settled", 0) != len(completed):
        findings.broken.append(f"{len(completed)} tasks completed, {tallies} counted")
    ended = tables.read("SELECT 1 AS one FROM changes WHERE kind = 'job' AND op = 'ended'")
    if sum(number for name, number in tallies.items() if name.startswith("job ")) != len(ended):
        findings.broken.append(f"{len(ended)} jobs ended, {tallies} counted")
    for rows in (gone, rejected):
        if sorted(row["key"] for row in rows) != sorted(seen):
            findings.broken.append(f"{len(completed)} tasks completed, {len(gone)} gone, {len(rejected)} rejected")
    tables.close()


def run(place: Place, folder: Path, point: str, times: int, seed: int, *, earliest: int = 1) -> Findings:
    """Kill a worker at the given point this number of times, not before its `earliest` passing."""
    findings = Findings(seed)
    chance = random.Random(seed)
    said = Acknowledged(folder / "acknowledged")
    for life in range(times):
        findings.fired += live_and_die(place, KillAt(point, chance.randint(earliest, OFTEN[point])), said, life)
        look(place, said, findings)
        place.bury()
        asyncio.run(mend(place))
    live_and_die(place, NoFaults(), said, times)
    look(place, said, findings)
    tables = place.tables()
    findings.unfinished = [r["state"] for r in tables.read("SELECT state FROM jobs WHERE state <> 'completed'")]
    findings.tasks = len(tables.read("SELECT 1 FROM tasks"))
    tables.close()
    return findings


def break_the_embedded() -> None:
    """The negative control: task states are committed first, records and counters in a second transaction."""
    whole = vars(sqlite_settle)["store_in_order"]

    def store_in_order(db: Any, *rest: Any) -> Any:
        db.execute("COMMIT")
        db.execute("BEGIN IMMEDIATE")
        db.execute("SAVEPOINT command")
        return whole(db, *rest)

    vars(sqlite_settle)["store_in_order"] = store_in_order


def break_the_served() -> None:
    """The same on PostgreSQL."""
    from forager.ledger.postgres import settle as postgres_settle

    whole = vars(postgres_settle)["store_in_order"]

    async def store_in_order(db: Any, *rest: Any) -> Any:
        await db.execute("COMMIT")
        await db.execute("BEGIN")
        return await whole(db, *rest)

    vars(postgres_settle)["store_in_order"] = store_in_order


def main(folder: Path, times: int, seed: int, points: list[str]) -> dict[str, Findings]:
    found = {}
    for point, _, url in (word.partition("=") for word in points):
        if point == BROKEN:
            (break_the_served if url else break_the_embedded)()
        (folder / point).mkdir(parents=True)
        place = Served(url) if url else Embedded(folder / point)
        # The first passing settles nothing yet, so a kill there leaves no half effect, not even in a broken build.
        at, earliest = ("settled", 2) if point == BROKEN else (point, 1)
        found[point] = run(place, folder / point, at, times, seed, earliest=earliest)
    return found


def write_in_chunks() -> None:
    """A job is big here long before 20,000 tasks."""
    vars(rules_jobs).update(IN_ONE_GO=10, CHUNK=4)


if __name__ == "__main__":
    write_in_chunks()
    results = main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
    sys.stdout.write(orjson.dumps(results).decode())
