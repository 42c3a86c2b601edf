"""Many workers on one PostgreSQL: what each further worker adds, what Celery costs, and what the change log costs.

Every figure is a ratio of two measurements of the same round, in processes of their own.
"""

import statistics
from collections import defaultdict
from collections.abc import Mapping

import uvloop

from bench.support.machine import Machine
from bench.support.noop import noop_catalog, push
from bench.support.options import Options, parse
from bench.support.scale_celery import plain_celery, redis, run_places
from bench.support.scale_joins import CAPACITY, LANES, TAKES_MS, WORKERS, WRITERS, joining, paced, writing
from bench.support.stores import Stores, open_ledger
from bench.support.upstream import upstream
from bench.support.verdict import Target, conclude, print_table
from tests.support.brokers import Redis

QUERIES = 21_000
"""At 300 a second a little more than a shift, so that the change of shifts is in it."""
WRITTEN = 24_000
NOOPS = 100_000
PLAIN_NOOPS = 10_000
SERPER_MS = 200.0
TARGETS = (
    Target("efficiency", at_least=0.8),
    Target("celery_share", at_least=0.8),
    Target("messages_per_task", at_most=0.05),
    Target("vs_celery", at_least=10),
    Target("writers", at_least=0.9),
    Target("slow_commits", at_least=0.9),
)


def main(options: Options) -> None:
    print(
        f"scale: {WORKERS} workers of capacity {CAPACITY} join one by one on {LANES} lanes of concurrency 4 and"
        f" {TAKES_MS} ms; Celery on Redis; {WRITERS} writers; {options.rounds} rounds"
    )
    machine = Machine()
    rounds: dict[str, list[float]] = defaultdict(list)
    with Stores(("postgres",)) as stores, redis() as broker:
        for number in range(1, options.rounds + 1):
            machine.sample()
            for measure in (join, slow_commits, write, beside_celery):
                for name, figure in measure(stores, broker, options.quick).items():
                    rounds[name].append(figure)
            through = plain(stores, broker, options.quick)
            rounds["vs_celery"].append(through["ours_per_s"] / through["celery_per_s"])
            for name, figure in through.items():
                rounds[name].append(figure)
            print(f"  round {number} is over", flush=True)
        machine.sample()
    figures = {name: round(statistics.median(values), 4) for name, values in rounds.items()}
    print_table(("figure", "median", "rounds"), [(k, f"{v:g}", _all(rounds[k])) for k, v in figures.items()])
    conclude("scale", figures, TARGETS, machine)


def join(stores: Stores, broker: Redis, quick: bool) -> Mapping[str, float]:
    speeds = uvloop.run(joining(stores, 2 if quick else WORKERS))
    for count, speed in enumerate(speeds, 1):
        cpu = f"CPU a task: workers {speed.worker_ms:.2f} ms, server {speed.server_ms:.2f} ms"
        _tell(f"{count} workers", f"{speed.per_s:,.0f}/s; {cpu}")
    first, last = speeds[0], speeds[-1]
    return {
        "efficiency": min(speed.per_s / (first.per_s * count) for count, speed in enumerate(speeds, 1)),
        "one_worker_per_s": first.per_s,
        "all_workers_per_s": last.per_s,
        "cpu_ms_one": first.worker_ms + first.server_ms,
        "cpu_ms_all": last.worker_ms + last.server_ms,
    }


def slow_commits(stores: Stores, broker: Redis, quick: bool) -> Mapping[str, float]:
    usual, slowed = (uvloop.run(paced(stores, slow_commits=slow)) for slow in (False, True))
    _tell("commits of 10 ms", f"{slowed:.3f} of the lanes' rate, else {usual:.3f}")
    return {"slow_commits": slowed / usual, "share_of_rate": slowed}


def write(stores: Stores, broker: Redis, quick: bool) -> Mapping[str, float]:
    tasks = WRITTEN // 10 if quick else WRITTEN
    one, many = (uvloop.run(writing(stores, writers, tasks)) for writers in (1, WRITERS))
    _tell("tasks with records", f"1 writer {one:,.0f}/s, {WRITERS} writers {many:,.0f}/s")
    return {"writers": many / one, "one_writer_per_s": one}


def beside_celery(stores: Stores, broker: Redis, quick: bool) -> Mapping[str, float]:
    tasks = QUERIES // 10 if quick else QUERIES
    with upstream(latency_ms=SERPER_MS) as serper:
        direct = uvloop.run(run_places(stores, serper, tasks, None))
        shifts = uvloop.run(run_places(stores, serper, tasks, broker))
    _tell("places", f"workers {direct.seconds:.1f} s, Celery {shifts.seconds:.1f} s with {shifts.messages} messages")
    return {"celery_share": direct.seconds / shifts.seconds, "messages_per_task": shifts.messages / shifts.tasks}


def plain(stores: Stores, broker: Redis, quick: bool) -> Mapping[str, float]:
    """No-op tasks: ours as in `ledger`, in one process; Celery's in two children."""
    part = 10 if quick else 1
    theirs = plain_celery(broker, PLAIN_NOOPS // part)
    store = stores.new("postgres")
    stores.settle()

    async def run() -> float:
        async with open_ledger(store, noop_catalog()) as ledger:
            return (await push(ledger, jobs=100, tasks_each=NOOPS // 100 // part)).per_s

    try:
        ours = uvloop.run(run())
    finally:
        stores.drop(store)
    _tell("no-op tasks", f"ours {ours:,.0f}/s, Celery {theirs:,.0f}/s")
    return {"ours_per_s": ours, "celery_per_s": theirs}


def _tell(what: str, figures: str) -> None:
    print(f"    {what:20} {figures}", flush=True)


def _all(values: list[float]) -> str:
    return " ".join(f"{value:.3g}" for value in values)


if __name__ == "__main__":
    main(parse(__doc__))
