"""Deliveries: the cost of sinks for the engine, the speed at which one catches up, and the memory of a long backlog.

`share_with_dead_sink`: a reviews job at half of the engine's speed, with three sinks, one of which cannot be reached,
against none. `catch_up`: changes per second that a files sink takes after an outage, against the engine's own.
`memory_growth`: the peak of a process that delivers a long backlog, against one with a short one. `tells_cost`: CPU per
places task while every end of a query is a change, as BigQuery's mirror needs it, against without. `per_s`, by sink,
has no target: Kafka is the client library's mock cluster, ClickHouse the engine of chdb behind an HTTP front of the
tests, PostgreSQL a server of the tests that does not wait for the disk.
"""

import json
import statistics
import subprocess
import sys
from collections import defaultdict
from typing import Any

from bench.reviews import MANY
from bench.support.deliver_run import DEAD, DeliverRun
from bench.support.engine_run import EngineRun
from bench.support.machine import Machine
from bench.support.options import Options, parse
from bench.support.peers import ROOT
from bench.support.reviews import Hosts, google
from bench.support.stores import Stores
from bench.support.upstream import Upstream, upstream
from bench.support.verdict import Target, conclude, print_table
from tests.support.clickhouse import clickhouse
from tests.support.kafka import mock_cluster
from tests.support.postgres_target import server

REVIEWS_A_PAGE = 50
PER_S = "per_s: "
MIRRORED = {"bigquery_project_id": "bench-project"}
"""With a project, places tells every end of a query; without a row there is no sink that would take part."""
TARGETS = (
    Target("share_with_dead_sink", at_least=0.9),
    Target("tells_cost", at_most=1.15),
    Target("catch_up", at_least=2.0),
    Target("memory_growth", at_most=1.2),
)


def main(options: Options) -> None:
    machine = Machine()
    found: dict[str, list[float]] = defaultdict(list)
    print(f"deliver: {options.rounds} rounds on {options.stores[0]}; the dead sink is {DEAD}")
    with Stores(options.stores[:1]) as stores:
        for number in range(1, options.rounds + 1):
            machine.sample()
            figures = {**engine(stores, options), **tells(stores, options), **memory(stores, options)}
            figures |= each(stores, options)
            for name, value in figures.items():
                found[name].append(value)
            told = ", ".join(f"{name} {value:,.3g}" for name, value in figures.items())
            print(f"  round {number}: {told}", flush=True)
        machine.sample()
    medians = {name: round(statistics.median(values), 3) for name, values in found.items()}
    print_table(("figure", "median"), [(name, f"{value:,g}") for name, value in sorted(medians.items())])
    per_s = {name.removeprefix(PER_S): medians.pop(name) for name in list(medians) if name.startswith(PER_S)}
    conclude("deliver", {**medians, "per_s": per_s}, TARGETS, machine)


def engine(stores: Stores, options: Options) -> dict[str, float]:
    world: dict[str, Any] = {**MANY, "locations": 60 if options.quick else MANY["locations"]}
    with google(default=world) as hosts:
        full = measure(stores, hosts=hosts, sinks=False)
        half = full.changes / full.seconds / REVIEWS_A_PAGE / 2
        bare, told = (measure(stores, hosts=hosts, sinks=sinks, rate=half) for sinks in (False, True))
    made, taken = full.changes / full.seconds, full.changes / full.caught_up
    return {
        "share_with_dead_sink": bare.seconds / told.seconds,
        "catch_up": taken / made,
        "changes_per_s": made,
        "files_per_s": taken,
    }


def tells(stores: Stores, options: Options) -> dict[str, float]:
    """CPU per places task with a change for every end of a query, against without. Three pairs, interleaved."""
    tasks, costs = 2_000 if options.quick else 10_000, []
    with upstream(latency_ms=0, per_zip=5) as serper:
        for _ in range(3):
            bare, told = (engine_cpu(stores, serper, tasks, settings) for settings in ({}, MIRRORED))
            costs.append(told / bare)
    return {"tells_cost": statistics.median(costs)}


def engine_cpu(stores: Stores, serper: Upstream, tasks: int, settings: dict[str, Any]) -> float:
    """CPU milliseconds per task of a places job in a process of its own."""
    store = stores.new(stores.kinds[0])
    stores.settle()
    serper.reset()
    asked: dict[str, Any] = {"kind": store.kind, "home": str(store.home), "url": store.url, "settings": settings}
    asked |= {"upstream": serper.url, "tasks": tasks, "pages": 1}
    command = [sys.executable, "-m", "bench.support.engine_run", json.dumps(asked)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    stores.drop(store)
    return EngineRun(**json.loads(done.stdout.splitlines()[-1])).cpu_ms


def each(stores: Stores, options: Options) -> dict[str, float]:
    """Changes per second, by sink."""
    database = server().create_database()
    targets: dict[str, Any] = {"brokers": mock_cluster().brokers, "clickhouse": clickhouse().url, "postgres": database}
    run = measure(stores, each=5_000 if options.quick else 50_000, **targets)
    server().drop_database(database)
    return {f"{PER_S}{name}": value for name, value in run.per_s.items()}


def memory(stores: Stores, options: Options) -> dict[str, float]:
    """Deliver a backlog of this number of changes, for comparison with one that fits into a few batches."""
    few, many = (measure(stores, behind=count) for count in (20_000, 100_000 if options.quick else 1_000_000))
    return {"memory_growth": many.peak_mb / few.peak_mb, "peak_mb": many.peak_mb}


def measure(stores: Stores, *, hosts: Hosts | None = None, **request: Any) -> DeliverRun:
    store = stores.new(stores.kinds[0])
    stores.settle()
    asked = {"kind": store.kind, "home": str(store.home), "url": store.url, **request}
    if hosts is not None:
        asked["hosts"] = dict(hosts)
    command = [sys.executable, "-m", "bench.support.deliver_run", json.dumps(asked)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    stores.drop(store)
    return DeliverRun(**json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    main(parse(__doc__))
