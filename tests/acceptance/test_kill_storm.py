"""kill -9 over all five pipelines with sinks, also right after a claim appears in the ledger (R2, R14): nothing is lost
or doubled, no innocent task becomes a dead letter, and the tasks that kill their process are found."""

import asyncio
import json
import os
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest

from forager.app.config import new_settings
from forager.app.features import all_features
from forager.app.wiring import build_pipelines
from forager.core.record import Record
from forager.sinks.files.manifest import all_manifests
from forager.storage.folder import Folder
from tests.support.auditor import PostgresTables, SqliteTables, Tables, audit
from tests.support.chaos import Dice, gone
from tests.support.kill_storm import KINDS, POISON, Options, StormJob, Upstreams, start
from tests.support.schema_templates import prepare_store

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(3_600)]

RESUBMITTED = 5
"""Lives that submit the same job: a client without an answer repeats its request."""
FIRST_POISON, EVERY_POISON = 3, 60
"""The first job with a page that kills its process, and the distance to the next one."""
MOMENTS = ("claim", "claim", "requests", "moment")
"""Times of a kill: right after a claim appears, after some requests, or at a random moment."""


@dataclass
class Storm:
    """The living workers on one store, and what happened to them."""

    up: Upstreams
    options: Options
    tables: Tables
    workers: int
    dice: Dice
    alive: dict[int, ForkServerProcess] = field(default_factory=dict)
    kills: Counter[str] = field(default_factory=Counter)
    hits: int = 0
    """Kills while tasks were in flight."""
    poison_deaths: int = 0
    jobs: list[StormJob] = field(default_factory=list)
    claim: int = 0
    """The newest claim at the last kill."""

    async def rage(self, kills: int) -> None:
        while self.kills.total() < kills:
            number = len(self.jobs)
            self.jobs.append(self.up.job(number, poison=number % EVERY_POISON == FIRST_POISON))
            self._refill()
            how, victim = await self._moment()
            if victim is None:
                continue  # poison was faster
            os.kill(victim, signal.SIGKILL)
            await gone(self.alive.pop(victim), 60)
            self.kills[how] += 1
            self.hits += self._newest()[0] > 0
            self.claim = max(self.claim, self._newest()[0])

    async def calm(self) -> None:
        """Let everything end: no kills but those of poison."""
        self.options = replace(self.options, until_done=True, jobs=tuple(self.jobs))
        for process in self.alive.values():
            process.kill()
            await gone(process, 60)
        self.alive.clear()
        for _ in range(100):
            ended = await gone(start(self.options), 600)
            if ended == 0:
                return
            assert ended == -signal.SIGKILL, "the worker failed by itself"
            self.poison_deaths += 1
        raise AssertionError("poison was not found in a hundred deaths")

    def _refill(self) -> None:
        for pid, process in list(self.alive.items()):
            if process.exitcode is not None:
                assert process.exitcode == -signal.SIGKILL, "a worker failed by itself"
                self.poison_deaths += 1
                del self.alive[pid]
        while len(self.alive) < self.workers:
            process = start(replace(self.options, jobs=tuple(self.jobs[-RESUBMITTED:])))
            assert process.pid is not None
            self.alive[process.pid] = process

    async def _moment(self) -> tuple[str, int | None]:
        """Wait for the moment of the next kill. Returns its kind, and whom it hits; None if all have died."""
        how = MOMENTS[self.dice.between(0, len(MOMENTS) - 1)]
        sent, wanted = self.up.requests, self.dice.between(1, 12)
        end = time.monotonic() + (self.dice.seconds(2.5) if how == "moment" else 10.0)
        while time.monotonic() < end and not any(p.exitcode is not None for p in self.alive.values()):
            claim, owner = self._newest()
            if how == "claim" and claim > self.claim and owner in self.alive:
                await asyncio.sleep(self.dice.seconds(0.01))
                return how, self._living(owner)
            if how == "requests" and self.up.requests - sent >= wanted:
                break
            await asyncio.sleep(0.002)
        await asyncio.sleep(self.dice.seconds(0.05))
        return how, self._living(list(self.alive)[self.dice.between(0, len(self.alive) - 1)])

    def _living(self, pid: int | None) -> int | None:
        return pid if pid is not None and self.alive[pid].exitcode is None else None

    def _newest(self) -> tuple[int, int | None]:
        """The newest claim of a running task (0: none runs), and the process that has it."""
        if isinstance(self.tables, SqliteTables):
            (row,) = self.tables.read("SELECT coalesce(max(claim), 0) AS claim FROM tasks WHERE state = 3")
            return row["claim"], next(iter(self.alive), None)
        rows = self.tables.read(
            "SELECT q.claim, s.name FROM queue q JOIN sessions s ON s.id = q.session_id WHERE q.state = 3"
            " ORDER BY q.claim DESC LIMIT 1"
        )
        return (rows[0]["claim"], int(rows[0]["name"].rpartition(":")[2])) if rows else (0, None)


@dataclass
class Found:
    """The contents of a store, from the raw tables."""

    records: dict[str, Counter[str]]
    """Keys by kind; the same key may be in several jobs."""
    news: Counter[str]
    """Changes of new records by kind. Other changes depend on the order in which the same place is found twice."""
    jobs: dict[str, tuple[Any, ...]]
    """State and counters, by idempotency key."""
    failed: dict[str, str]
    """The error of each dead letter, by its kind, key and body."""
    broken: list[str]
    changes: set[int]
    hooked: set[int]
    """Changes that the receiver `hook` must have."""


def tables_of(settings: dict[str, Any]) -> Tables:
    url = settings["database_url"]
    return PostgresTables(url) if url else SqliteTables(settings["home"] / "ledger.db")


def records_of(settings: dict[str, Any]) -> list[type[Record]]:
    pipelines = build_pipelines(new_settings(**settings), all_features())
    return [record for pipeline in pipelines for record in pipeline.records]


def look(settings: dict[str, Any]) -> Found:
    tables = tables_of(settings)
    try:
        records = records_of(settings)
        stored = {
            r.kind: Counter(str(row["key"]) for row in tables.read(f"SELECT {r.key_field} AS key FROM {r.table}"))
            for r in records
        }
        changes = tables.read("SELECT id, kind, op FROM changes")
        jobs = tables.read(
            "SELECT i.key, j.state, j.total, j.completed, j.failed, j.skipped, j.cancelled FROM idempotency i"
            " JOIN jobs j ON j.id = i.job_id WHERE i.key LIKE '%storm-%'"
        )
        failed = tables.read(f"SELECT kind, key, body, error FROM {tables.tasks} t WHERE state = 5")
        return Found(
            stored,
            Counter(row["kind"] for row in changes if row["kind"] in stored and row["op"] == "new"),
            {row.pop("key"): tuple(row.values()) for row in jobs},
            {f"{row['kind']} {row['key']} {bytes(row['body']).decode()}": row["error"] for row in failed},
            audit(tables, records, may_rest=True),
            {row["id"] for row in changes},
            {row["id"] for row in changes if row["kind"] in KINDS},
        )
    finally:
        tables.close()


def delivered_to_files(home: Path) -> Counter[int]:
    place = Folder(home / "files" / "lake")
    parts = [part for manifest in all_manifests(place) for part in manifest.parts]
    return Counter(json.loads(line)["id"] for part in parts for line in place.get(part.path).splitlines())


async def without_kills(up: Upstreams, home: Path, jobs: list[StormJob]) -> Found:
    """Return the results of the same jobs when nothing goes wrong and no page is poison."""
    settings = up.settings(home, None)
    prepare_store(new_settings(**settings))
    calm = tuple(up.job(job.number, poison=False) for job in jobs)
    assert await gone(start(Options(settings, up.hook.url("/hook"), calm, until_done=True)), 900) == 0
    return look(settings)


async def storm(database_url: str | None, folder: Path, *, kills: int, workers: int) -> None:
    async with Upstreams.running() as up:
        settings = up.settings(folder / "home", database_url)
        prepare_store(new_settings(**settings))
        tables, began = tables_of(settings), time.monotonic()
        run = Storm(up, Options(settings, up.hook.url("/hook")), tables, workers, Dice())
        await run.rage(kills)
        await run.calm()
        tables.close()
        seconds = time.monotonic() - began
        hooked, ended = Counter(each.id for each in up.hook.log), set(up.ends.taken)
        taken = {json.loads(body)["id"] for body in up.hook.taken.values()}
        found, files = look(settings), delivered_to_files(folder / "home")
        calm = await without_kills(up, folder / "calm", run.jobs)
        _report(run, found, files, hooked, seconds)
        poison = {f"storm-{job.number}" for job in run.jobs if POISON in str(job.params)}
        assert poison
        assert found.broken == []
        assert {each: why for each, why in found.failed.items() if POISON not in each} == {}, "innocent dead letters"
        assert len(found.failed) == len(poison), "poison that was not found"
        assert all("died" in error for error in found.failed.values())
        assert found.records == calm.records
        assert found.news == calm.news
        assert found.jobs.keys() == calm.jobs.keys()
        for key, (state, total, completed, *rest) in calm.jobs.items():
            more = (key.rpartition("/")[2] in poison) or key in poison
            expected = ("partially_completed", total + 1, completed, 1, *rest[1:]) if more else calm.jobs[key]
            assert found.jobs[key] == expected, key
            assert state == "completed"
        assert taken == found.hooked, "the receiver has each change, once in effect"
        assert files == Counter(found.changes), "the files have each change once"
        assert len(ended) == len(run.jobs)


def _report(run: Storm, found: Found, files: Counter[int], hooked: Counter[str], seconds: float) -> None:
    by_job = Counter(job.pipeline for job in run.jobs)
    innocent = [each for each in found.failed if POISON not in each]
    lines = {
        "kills": f"{run.kills.total()} in {seconds:.0f} s ({', '.join(f'{n} {how}' for how, n in run.kills.items())})",
        "workers at once": run.workers,
        "kills while tasks were in flight": run.hits,
        "deaths by poison": run.poison_deaths,
        "jobs": ", ".join(f"{n} {name}" for name, n in by_job.items()),
        "records": ", ".join(f"{keys.total()} {kind}" for kind, keys in found.records.items() if keys),
        "dead letters: poison, innocent": f"{len(found.failed) - len(innocent)}, {len(innocent)}",
        "changes: in the log, in files": f"{len(found.changes)}, {len(files)}",
        "webhooks: messages, requests": f"{len(hooked)}, {hooked.total()}",
        "auditor": found.broken or "nothing",
    }
    sys.stdout.write("".join(f"{name:>34}  {value}\n" for name, value in lines.items()))


@pytest.mark.parametrize("kills", [10, pytest.param(200, marks=pytest.mark.chaos)])
async def test_kills_of_all_pipelines_with_sinks_make_no_innocent_dead_letter__R14(tmp_path: Path, kills: int) -> None:
    await storm(None, tmp_path, kills=kills, workers=1)


@pytest.mark.parametrize("kills", [10, pytest.param(200, marks=pytest.mark.chaos)])
async def test_kills_of_several_workers_on_postgres_make_no_innocent_dead_letter__R14(
    app_postgres_url: str, tmp_path: Path, kills: int
) -> None:
    await storm(app_postgres_url, tmp_path, kills=kills, workers=3)
