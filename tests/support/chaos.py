"""Helpers of chaos tests: a job on a store, a sandbox to work against, and the verdict of an independent auditor."""

import asyncio
import random
import sys
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any
from uuid import UUID

from forager.core.states import TaskState
from forager.pipelines.places.records import Place, Sighting
from forager.sandbox import Band, SerperSandbox
from forager.sandbox.audit import audit as audit_log
from tests.support.auditor import PostgresTables, SqliteTables, Tables, audit
from tests.support.engine import TICK, open_postgres, open_sqlite, zip_codes
from tests.support.engine_process import Options, pipelines

PAGES = 2
DENSITY = (Band(0.8, 10, 10), Band(0.2, 20, 20))  # every first page is full, so a job of n tasks sends n requests
KEYWORD = "bars"


@dataclass
class Verdict:
    """The result from the raw tables and the sandbox's log."""

    broken: list[str]
    states: Counter[int]
    missing: int
    extra: int
    requests: int
    repeats: int
    attempts: set[int]
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def is_clean(self) -> bool:
        return not self.broken and not self.missing and not self.extra


def tables_of(store: str) -> Tables:
    return PostgresTables(store) if "://" in store else SqliteTables(Path(store) / "ledger.db")


async def submit(options: Options, tasks: int) -> UUID:
    """Create the store and a job of `tasks` queries in it."""
    if "://" in options.store:
        rig = await open_postgres(options.store, pipelines(options))
    else:
        rig = await open_sqlite(Path(options.store), pipelines(options))
    job = await rig.submit_places(zip_codes(tasks // PAGES), keyword=KEYWORD, pages=PAGES)
    await rig.close()
    return job


def judge(store: str, sandbox: SerperSandbox, tasks: int) -> Verdict:
    """0 lost, 0 duplicates, everything terminal, counters exact: from the tables, the log, and the world itself."""
    tables = tables_of(store)
    try:
        rows = tables.read(f"SELECT state, attempt FROM {tables.tasks} t")
        found = Counter(row["place_uid"] for row in tables.read(f"SELECT place_uid FROM {Sighting.table}"))
        expected: set[str] = set()
        for code in zip_codes(tasks // PAGES):
            expected |= sandbox.serper.world.reach(code, KEYWORD, PAGES).cids
        log = audit_log(sandbox.log)
        broken = audit(tables, (Place, Sighting))
        broken += [f"{uid}: {n} sightings" for uid, n in found.items() if n > 1]
        if len(rows) != tasks:
            broken.append(f"{len(rows)} tasks of {tasks}")
        return Verdict(
            broken=broken,
            states=Counter(row["state"] for row in rows),
            missing=len(expected - set(found)),
            extra=len(set(found) - expected),
            requests=log.requests,
            repeats=log.repeats,
            attempts={row["attempt"] for row in rows},
        )
    finally:
        tables.close()


def in_state(store: str, state: TaskState) -> int:
    """Return the number of tasks in this state; a kill at this moment takes the running ones with it."""
    tables = tables_of(store)
    try:
        return int(tables.read(f"SELECT count(*) AS n FROM {tables.tasks} t WHERE state = {int(state)}")[0]["n"])
    finally:
        tables.close()


class Dice:
    """Chance with a seed that is printed, so that a run can be repeated."""

    def __init__(self, seed: int | None = None) -> None:
        self.seed = random.randrange(2**32) if seed is None else seed
        self._random = random.Random(self.seed)
        sys.stdout.write(f"chaos seed: {self.seed}\n")

    def between(self, least: int, most: int) -> int:
        return self._random.randint(least, most)

    def seconds(self, most: float) -> float:
        return self._random.random() * most


async def gone(process: ForkServerProcess, patience: float) -> int | None:
    """Wait for the end of a process without holding up the loop that the sandbox runs on."""
    async with asyncio.timeout(patience):
        while process.exitcode is None:
            await asyncio.sleep(TICK)
    return process.exitcode


async def requests(sandbox: SerperSandbox, more: int, process: ForkServerProcess, patience: float = 30.0) -> bool:
    """Wait until `more` further requests have arrived; False if the process ended before."""
    target = sandbox.log.total + more
    async with asyncio.timeout(patience):
        while sandbox.log.total < target:
            if process.exitcode is not None:
                return False
            await asyncio.sleep(TICK / 2)
    return True
