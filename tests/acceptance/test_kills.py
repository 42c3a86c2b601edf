"""kill -9, again and again, and SIGSTOP past the lease (R2), or of the database (R8): nothing is lost, nothing happens
twice."""

import asyncio
import os
import signal
import statistics
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from forager.core.ledger import Settlement, Want
from forager.core.states import TaskState
from forager.engine.upkeep import sweep_interval
from forager.sandbox import SerperConfig, SerperSandbox
from tests.support.acts import many
from tests.support.auditor import Tables
from tests.support.chaos import DENSITY, Dice, Verdict, gone, in_state, judge, requests, submit, tables_of
from tests.support.engine import TICK, open_postgres, until
from tests.support.engine_process import OWED, Options, pipelines, start
from tests.support.forked import start_forked
from tests.support.postgres import PostgresServer

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]

CONFIG = SerperConfig(density=DENSITY, rate_limit=None, latency_ms=25, latency_sigma=0.5)
COMPLETED = int(TaskState.COMPLETED)
LEASE = 0.8
WORKERS = 4


async def kill_loop(
    options: Options, sandbox: SerperSandbox, *, kills: int, tasks: int, settled: int = 0
) -> tuple[int, Verdict]:
    """Kill the one worker after this number of requests (and `settled` further tasks), at a random moment.

    Returns the kills that hit work in flight.
    """
    await submit(options, tasks)
    dice, hits, mean = Dice(), 0, tasks * 8 // 10 // kills
    for _ in range(kills):
        enough = in_state(options.store, TaskState.COMPLETED) + settled
        process = start(options)
        assert await requests(sandbox, dice.between(max(2, mean // 4), mean), process), "the work ended too early"
        async with asyncio.timeout(60):
            while in_state(options.store, TaskState.COMPLETED) < enough:
                await asyncio.sleep(TICK)
        await asyncio.sleep(dice.seconds(0.03))
        process.kill()
        await gone(process, 60)
        hits += in_state(options.store, TaskState.RUNNING) > 0
    assert await gone(start(options), 300) == 0
    return hits, judge(options.store, sandbox, tasks)


async def on_sqlite(folder: Path, *, kills: int, tasks: int) -> None:
    async with SerperSandbox(CONFIG) as sandbox:
        hits, verdict = await kill_loop(Options(str(folder), sandbox.url), sandbox, kills=kills, tasks=tasks)
        sys.stdout.write(f"{kills} kills, {hits} hit work in flight; {verdict}\n")
        assert verdict.is_clean, verdict
        assert verdict.states == {COMPLETED: tasks}
        assert hits >= kills * 2 // 3
        assert verdict.attempts == {1}, "a kill burns no attempt"
        assert 0 < verdict.repeats <= kills * 33


async def test_a_job_survives_twelve_kills_and_nothing_is_lost_or_doubled__R2(tmp_path: Path) -> None:
    await on_sqlite(tmp_path, kills=12, tasks=800)


SENT = 16
"""First pages, all in flight at once; the second pages are held until theirs are completed."""


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_every_credit_of_two_kills_is_counted_the_second_while_suspects_run__R2(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Requests are sent and unanswered at the first kill, and half of them again at the second. The upstream charges
    for all of that, and the ledger counts exactly as much, task by task."""
    where = request.getfixturevalue("postgres_url") if store == "postgres" else str(tmp_path)
    async with SerperSandbox(SerperConfig(density=DENSITY, rate_limit=None, latency_ms=600_000)) as sandbox:
        options = Options(where, sandbox.url, lease=3.0, concurrency=SENT)
        await submit(options, 2 * SENT)
        for sent, suspects in ((SENT, 0), (SENT // 2, SENT // 2)):
            process = start(options)
            before = sandbox.log.total
            assert await requests(sandbox, sent, process, 60), "the worker has ended"
            process.kill()
            await gone(process, 60)
            await sandbox.log.ended(before + sent)
            assert in_state(where, TaskState.SUSPECT) == suspects
            assert in_state(where, TaskState.RUNNING) > sent // 2
        sandbox.serper.adopt({"latency_ms": 5})
        assert await gone(start(options), 300) == 0
        verdict = judge(where, sandbox, 2 * SENT)
        assert verdict.is_clean, verdict
        assert verdict.states == {COMPLETED: 2 * SENT}
        tables = tables_of(where)
        (job,) = tables.read("SELECT spent, guessed, reserved FROM jobs")
        costs = Counter(row["cost"] for row in tables.read("SELECT cost FROM tasks"))
        tables.close()
        charged: Counter[tuple[str, int]] = Counter()
        for entry in sandbox.log:
            charged[entry.zip, entry.page] += entry.credits
        assert (job["spent"], job["reserved"]) == (charged.total(), 0)
        assert job["guessed"] == charged.total() - 2 * SENT >= SENT * 3 // 2
        assert costs == Counter(charged.values())


@pytest.mark.chaos
async def test_a_job_survives_two_hundred_kills__R2(tmp_path: Path) -> None:
    await on_sqlite(tmp_path, kills=200, tasks=10_000)


async def test_the_auditor_detects_a_build_that_stores_its_records_too_late__R2(tmp_path: Path) -> None:
    """The negative control: state and records in two transactions, and only five kills.

    Each kill comes after enough was settled that the build must owe records of something: a worker that is killed
    before its first commit loses nothing, however broken it is.
    """
    async with SerperSandbox(CONFIG) as sandbox:
        options = Options(str(tmp_path), sandbox.url, broken=True)
        hits, verdict = await kill_loop(options, sandbox, kills=5, tasks=600, settled=2 * OWED)
        sys.stdout.write(f"{hits} of 5 kills hit work in flight; {verdict}\n")
        assert hits > 0
        assert verdict.missing > 0
        assert not verdict.is_clean


async def on_postgres(
    url: str, *, kills: int, stops: int, tasks: int, lease: float, log: Path, concurrency: int = 32
) -> None:
    """Four workers. The one that owns the lane is killed or stopped past its lease; another takes over."""
    async with SerperSandbox(CONFIG) as sandbox:
        options = Options(url, sandbox.url, lease, concurrency, deaf=True, fenced_log=str(log), until_idle=False)
        await submit(options, tasks)
        tables, dice, hits = tables_of(url), Dice(), 0
        workers = {p.pid: p for p in [start(options) for _ in range(WORKERS)]}
        mean = tasks * 4 // 10 // (kills + stops)  # another worker continues during a stop: keep work for the last deed
        deeds = ["kill"] * kills + ["stop"] * stops
        for _ in range(kills + stops):
            deed = deeds.pop(dice.between(0, len(deeds) - 1))
            await requests(sandbox, dice.between(max(2, mean // 4), mean), next(iter(workers.values())), 60)
            owners = tables.read("SELECT s.name FROM lanes l JOIN sessions s ON s.id = l.owner")
            pid = int(owners[0]["name"].partition(":")[2]) if owners else next(iter(workers))
            assert pid is not None
            hits += in_state(url, TaskState.RUNNING) > 0
            if deed == "stop":
                os.kill(pid, signal.SIGSTOP)
                await asyncio.sleep(lease * 1.6 + 0.5)  # past its lease and a sweep, by the one clock that counts here
                os.kill(pid, signal.SIGCONT)
            else:
                victim = workers.pop(pid)
                victim.kill()
                await gone(victim, 60)
                fresh = start(options)
                workers[fresh.pid] = fresh
        await _finished(tables, 300)
        for process in workers.values():
            process.terminate()
        assert [await gone(process, 60) for process in workers.values()] == [0] * WORKERS
        tables.close()
        verdict = judge(url, sandbox, tasks)
        fenced = len(log.read_text().split()) if log.exists() else 0
        sys.stdout.write(f"{kills} kills, {stops} stops, {hits} hit work; {fenced} stale commits fenced; {verdict}\n")
        assert verdict.is_clean, verdict
        assert verdict.states == {COMPLETED: tasks}
        assert hits >= (kills + stops) // 2
        assert fenced >= (25 if stops >= 4 else 1)


async def test_four_workers_survive_twelve_kills_and_stops__R2(postgres_url: str, tmp_path: Path) -> None:
    await on_postgres(postgres_url, kills=8, stops=4, tasks=2_400, lease=LEASE, log=tmp_path / "fenced")


@pytest.mark.chaos
async def test_four_workers_survive_two_hundred_kills_and_stops__R2(postgres_url: str, tmp_path: Path) -> None:
    # Two in flight: during forty stops the others must not do all that the kills are meant for.
    await on_postgres(
        postgres_url, kills=160, stops=40, tasks=10_000, lease=1.0, log=tmp_path / "fenced", concurrency=2
    )


@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.chaos)])
async def test_two_workers_continue_without_help_when_a_killed_postgres_is_back__R8(
    postgres_server: PostgresServer, kills: int
) -> None:
    """The server dies in the middle of a job. No worker ends or is restarted, and no attempt is burned."""
    url, tasks = postgres_server.create_database(), 200 * kills
    async with SerperSandbox(CONFIG) as sandbox:
        options = Options(url, sandbox.url, lease=60.0, concurrency=8, until_idle=False)
        await submit(options, tasks)
        workers, dice, pauses = [start(options), start(options)], Dice(), []
        for _ in range(kills):
            assert await requests(sandbox, dice.between(20, 80), workers[0], 60)
            await asyncio.to_thread(postgres_server.kill)
            await asyncio.to_thread(postgres_server.start)
            back = time.monotonic()
            assert await requests(sandbox, 20, workers[0], 60), "a worker has ended"
            pauses.append(time.monotonic() - back)
        tables = tables_of(url)
        await _finished(tables, 300)
        tables.close()
        for process in workers:
            process.terminate()
        assert [await gone(process, 60) for process in workers] == [0, 0]
        verdict = judge(url, sandbox, tasks)
        sys.stdout.write(f"seconds until 20 more requests: {[round(each, 1) for each in pauses]}; {verdict}\n")
        assert verdict.is_clean, verdict
        assert verdict.states == {COMPLETED: tasks}
        assert verdict.attempts == {1}
        assert kills < 10 or statistics.median(pauses) <= 10.0


async def _finished(tables: Tables, patience: float) -> None:
    async with asyncio.timeout(patience):
        while tables.read("SELECT 1 AS one FROM jobs WHERE finished_at IS NULL"):
            await asyncio.sleep(0.05)


class StopsItself:
    """SIGSTOP to this process inside its nth transaction."""

    def __init__(self, nth: int) -> None:
        self._left = nth

    def at(self, point: str) -> None:
        if point == "before-commit":
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGSTOP)


async def lease_and_stop(url: str, lease: float) -> None:
    """Lease everything, and stop inside the transaction that settles it: it holds the row of its session."""
    faults = StopsItself(4)
    rig = await open_postgres(url, pipelines(Options(url)), lease=lease, create=False, faults=faults)
    session = await rig.ledger.begin("stopped")
    (lane,) = await rig.ledger.take_lanes(session, 10)
    batch = await rig.ledger.settle_and_lease(session, [], [Want(lane.id, 10)])
    ended = [Settlement(each, TaskState.COMPLETED) for each in batch.leases]
    await rig.ledger.settle_and_lease(session, ended, [])
    raise AssertionError("a stopped process goes on")


def is_stopped(pid: int | None) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


async def test_a_worker_stopped_inside_a_transaction_is_rescued_within_its_lease_and_5_s__R2(postgres_url: str) -> None:
    lease = 4.0
    rig = await open_postgres(postgres_url, pipelines(Options(postgres_url)), lease=lease)
    await rig.submit(many(3))
    process = start_forked(lease_and_stop, postgres_url, lease)
    try:
        await until(lambda: is_stopped(process.pid))
        stopped = time.monotonic()
        async with asyncio.timeout(60):
            while (await rig.ledger.sweep()).rescued == 0:
                await asyncio.sleep(sweep_interval(lease))
        assert time.monotonic() - stopped <= lease + 5.0
        assert {row["state"] for row in rig.tables.read("SELECT state FROM queue")} == {int(TaskState.SUSPECT)}
    finally:
        process.kill()
        await gone(process, 60)
        await rig.close()
