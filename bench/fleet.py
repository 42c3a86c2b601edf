"""A fleet on one PostgreSQL: 64 and 256 workers whose steps only wait, on an empty ledger and on a very large one.

Every worker has its own session, connections, leases, settlements and heartbeats. 100,000 sites are lanes with open
work. The large ledger holds 10,000,000 finished tasks and 1,000,000 records, with `--full` 100,000,000 and 10,000,000
(40 GB of disk, and about half an hour on two cores). docs/scale.md extrapolates from these figures.
"""

import contextlib
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import asyncpg
import orjson
import psutil
import uvloop

from bench.support.fleet_fill import finish_one, multiply, open_work, sizes
from bench.support.machine import Machine
from bench.support.options import Options, parse
from bench.support.peers import ROOT
from bench.support.stores import Store, Stores
from bench.support.verdict import Target, conclude, print_table

FLEETS = (64, 256)
PER_PROCESS = 32
CAPACITY = 16
TAKES_MS = 1_000
"""A worker so offers 16 tasks a second."""
SITES = 100_000
EACH = 4
JOBS = 20
SECONDS = 20.0
WARM = 15.0
FULL, USUAL, QUICK = 100_000_000, 10_000_000, 100_000
BYTES_PER_TASK = 450
"""With everything that belongs to it, and what the fill needs meanwhile."""
SETTINGS = {
    "max_connections": "1500",
    "shared_buffers": "2GB",
    "max_wal_size": "4GB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "checkpoint_timeout": "15min",
}
TARGETS = (
    Target("loss_64", at_most=0.2),
    Target("loss_256", at_most=0.2),
    Target("share_of_offer_64", at_least=0.9),
    Target("sessions_lost", at_most=0),
)


@dataclass(frozen=True)
class Run:
    """What a fleet did in the measured time."""

    workers: int
    tasks_per_s: float
    commits_per_s: float
    worker_ms: float
    """CPU time of the workers for each task …"""
    server_ms: float
    """… and of PostgreSQL."""
    connections: int
    lost: int
    """Sessions that did not live at the end."""
    times: dict[str, list[float]]
    waits: Counter[str]

    def ms(self, call: str, share: float) -> float:
        """Return the time in milliseconds within which this share of the calls ended."""
        taken = sorted(self.times.get(call, [0.0]))
        return 1000 * taken[min(len(taken) - 1, int(share * len(taken)))]


def main(options: Options) -> None:
    tasks = QUICK if options.quick else FULL if options.full else USUAL
    sites = SITES // 10 if options.quick else SITES
    print(f"fleet: {FLEETS} workers, {sites:,} sites with work, {tasks:,} finished tasks, {options.rounds} rounds")
    machine = Machine()
    runs: dict[tuple[str, int], list[Run]] = defaultdict(list)
    with Stores(("postgres",), SETTINGS) as stores:
        require_room(stores, tasks)
        empty, large = stores.new("postgres"), stores.new("postgres")
        for name, store in (("empty", empty), ("large", large)):
            uvloop.run(finish_one(store))
            if name == "large":
                took = uvloop.run(multiply(store, tasks))
                print(f"  {tasks:,} finished tasks made in {took:.0f} s", flush=True)
            began = time.perf_counter()
            uvloop.run(open_work(store, sites, EACH * options.rounds, TAKES_MS, JOBS))
            count = sites * EACH * options.rounds
            rate = count / (time.perf_counter() - began)
            print(f"  {name}: {count:,} tasks on {sites:,} sites submitted, {rate:,.0f}/s", flush=True)
        for number in range(1, options.rounds + 1):
            machine.sample()
            for workers in FLEETS:
                for name, store in (("empty", empty), ("large", large)):
                    run = measure(stores, store, workers, 5.0 if options.quick else SECONDS)
                    runs[name, workers].append(run)
                    print(f"  round {number}: {name:5} {described(run)}", flush=True)
        machine.sample()
        report_sizes(uvloop.run(sizes(large)))
    report(runs, machine)


def require_room(stores: Stores, tasks: int) -> None:
    free = shutil.disk_usage(stores.server.folder).free
    if free < tasks * BYTES_PER_TASK:
        raise SystemExit(
            f"fleet: {tasks:,} tasks need {tasks * BYTES_PER_TASK / 1e9:.0f} GB in {stores.server.folder}, where"
            f" {free / 1e9:.0f} GB are free. Set TMPDIR to a folder with more, or leave out --full."
        )


def measure(stores: Stores, store: Store, workers: int, seconds: float) -> Run:
    stores.settle()
    with fleet(store, workers) as processes:
        time.sleep(WARM)
        server = psutil.Process(stores.server.pid)
        before, commits, began = _cpu(server), uvloop.run(_commits(store)), time.perf_counter()
        waits: Counter[str] = Counter()
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(f"{seconds}\n")
            process.stdin.flush()
        connections = uvloop.run(_watch(store, waits, seconds))
        span = time.perf_counter() - began
        commits, used = uvloop.run(_commits(store)) - commits, _cpu(server) - before
        told = [orjson.loads(_line(process)) for process in processes]
    times: dict[str, list[float]] = defaultdict(list)
    for each in told:
        for call, taken in each["times"].items():
            times[call] += taken
    ended = sum(each["ended"] for each in told)
    per_s = sum(each["ended"] / each["seconds"] for each in told)
    cpu = sum(each["cpu"] for each in told)
    lost = workers - sum(each["alive"] for each in told)
    return Run(
        workers,
        per_s,
        commits / span,
        1000 * cpu / max(ended, 1),
        1000 * used / max(ended, 1),
        connections,
        lost,
        times,
        waits,
    )


@contextlib.contextmanager
def fleet(store: Store, workers: int) -> Iterator[list["subprocess.Popen[str]"]]:
    """Start the workers, some in each process, and wait until all sessions live. They end when they have reported."""
    assert store.url is not None
    processes = []
    try:
        for first in range(0, workers, PER_PROCESS):
            command = [sys.executable, "-m", "bench.support.fleet_worker", store.url]
            command += [str(first), str(min(PER_PROCESS, workers - first)), str(CAPACITY)]
            processes.append(
                subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
        for process in processes:
            if _line(process) != "ready":
                raise SystemExit("fleet: a process of workers did not start; its message is above.")
        yield processes
        for process in processes:
            process.wait(60)
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            process.wait()


def _line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


async def _commits(store: Store) -> int:
    db = await asyncpg.connect(store.url)
    try:
        count: int = await db.fetchval("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")
        return count
    finally:
        await db.close()


async def _watch(store: Store, waits: Counter[str], seconds: float) -> int:
    """Count four times a second what each busy backend waits for; return the number of connections."""
    db = await asyncpg.connect(store.url)
    try:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for row in await db.fetch(_BUSY):
                waits[row[0]] += row[1]
            await db.fetchval("SELECT pg_sleep(0.25)")
        count: int = await db.fetchval("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        return count - 1
    finally:
        await db.close()


_BUSY = """
SELECT coalesce(wait_event_type || ':' || wait_event, 'CPU'), count(*) FROM pg_stat_activity
WHERE datname = current_database() AND state <> 'idle' AND pid <> pg_backend_pid() GROUP BY 1
"""


def _cpu(server: psutil.Process) -> float:
    """Seconds of the server and its backends, those included that have ended."""
    ended = server.cpu_times()
    total = ended.children_user + ended.children_system
    for process in (server, *server.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def described(run: Run) -> str:
    return (
        f"{run.workers:3} workers {run.tasks_per_s:7,.0f} tasks/s, {run.commits_per_s:6,.0f} commits/s, settle and"
        f" lease {run.ms('settle_and_lease', 0.5):.1f} ms (p95 {run.ms('settle_and_lease', 0.95):.0f}), CPU a task"
        f" {run.worker_ms:.2f} + {run.server_ms:.2f} ms, {run.connections} connections"
    )


def report_sizes(found: dict[str, tuple[int, int, int]]) -> None:
    rows = []
    for table, (count, heap, indexes) in found.items():
        each = (heap + indexes) / count if count else 0
        rows.append((table, f"{count:,}", f"{heap / 1e6:,.0f}", f"{indexes / 1e6:,.0f}", f"{each:,.0f}"))
    print_table(("table", "rows", "MB of rows", "MB of indexes", "bytes a row"), rows)


def report(runs: dict[tuple[str, int], list[Run]], machine: Machine) -> None:
    rows: list[tuple[str, ...]] = []
    figures: dict[str, float] = {}
    for (name, workers), each in runs.items():
        waits: Counter[str] = sum((run.waits for run in each), Counter())
        total = max(sum(waits.values()), 1)
        top = ", ".join(f"{what} {count / total:.0%}" for what, count in waits.most_common(3))
        middle = _median
        rows.append(
            (
                f"{name}, {workers}",
                f"{middle(each, 'tasks_per_s'):,.0f}",
                f"{middle(each, 'commits_per_s'):,.0f}",
                *(
                    f"{statistics.median(run.ms('settle_and_lease', share) for run in each):.1f}"
                    for share in (0.5, 0.95, 0.99)
                ),
                f"{statistics.median(run.ms('take_lanes', 0.95) for run in each):.1f}",
                f"{statistics.median(run.ms('beat', 0.95) for run in each):.1f}",
                f"{middle(each, 'worker_ms'):.2f}",
                f"{middle(each, 'server_ms'):.2f}",
                f"{middle(each, 'connections'):.0f}",
                top,
            )
        )
        figures[f"{name}_{workers}_per_s"] = round(middle(each, "tasks_per_s"))
        figures[f"{name}_{workers}_lease_p95_ms"] = round(
            statistics.median(run.ms("settle_and_lease", 0.95) for run in each), 1
        )
    head = ("ledger, workers", "tasks/s", "commits/s", "lease p50", "p95", "p99", "take p95", "beat p95")
    print_table((*head, "worker ms", "server ms", "conns", "backends wait for"), rows)
    for workers in FLEETS:
        pairs = zip(runs["empty", workers], runs["large", workers], strict=True)
        loss = statistics.median(1 - large.tasks_per_s / empty.tasks_per_s for empty, large in pairs)
        figures[f"loss_{workers}"] = round(loss, 3)
        offered = workers * CAPACITY * 1000 / TAKES_MS
        figures[f"share_of_offer_{workers}"] = round(_median(runs["large", workers], "tasks_per_s") / offered, 3)
    figures["sessions_lost"] = sum(run.lost for each in runs.values() for run in each)
    conclude("fleet", figures, TARGETS, machine)


def _median(runs: list[Run], name: str) -> float:
    return statistics.median(float(getattr(run, name)) for run in runs)


if __name__ == "__main__":
    main(parse(__doc__))
