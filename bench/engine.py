"""The whole engine on an upstream without latency: lease, HTTP, parse, settle, records, changes.

Every answer is a full page of 10 places, each of which is a place and a sighting: 20 rows and their changes. CPU time
and memory are those of our process alone, a fresh one for each run; the sandbox has its own.
"""

import json
import statistics
import subprocess
import sys
from collections import defaultdict

from bench.support.engine_run import POLICY, EngineRun
from bench.support.machine import Machine
from bench.support.options import Options, StoreKind, parse
from bench.support.peers import ROOT
from bench.support.stores import Stores
from bench.support.upstream import Upstream, upstream
from bench.support.verdict import Target, conclude, print_table

TASKS = 10_000
BIG = 100_000
TARGETS = (Target("cpu_ms_per_task", at_most=1.0), Target("peak_mb", at_most=200))


def main(options: Options) -> None:
    tasks, big = (2_000, 10_000) if options.quick else (TASKS, BIG)
    print(f"engine: {tasks:,} tasks, {options.rounds} rounds, then {big:,} tasks for memory; lane: {POLICY}")
    machine = Machine()
    runs: dict[StoreKind, list[EngineRun]] = defaultdict(list)
    peaks: dict[StoreKind, EngineRun] = {}
    with Stores(options.stores) as stores, upstream(latency_ms=0) as serper:
        for number in range(1, options.rounds + 1):
            machine.sample()
            for kind in stores.kinds:
                runs[kind].append(measure(stores, serper, kind, tasks))
                print(f"  round {number}: {kind:9} {describe(runs[kind][-1])}", flush=True)
        for kind in stores.kinds:
            peaks[kind] = measure(stores, serper, kind, big)
            print(f"  memory:  {kind:9} {describe(peaks[kind])}", flush=True)
        machine.sample()
    report(runs, peaks, machine)


def measure(stores: Stores, serper: Upstream, kind: StoreKind, tasks: int) -> EngineRun:
    store = stores.new(kind)
    stores.settle()
    serper.reset()
    request = {"kind": kind, "home": str(store.home), "url": store.url, "upstream": serper.url, "tasks": tasks}
    command = [sys.executable, "-m", "bench.support.engine_run", json.dumps(request)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    stores.drop(store)
    stats = serper.stats()
    assert (stats["requests"], stats["resent"]) == (tasks, 0), stats
    run = EngineRun(**json.loads(done.stdout.splitlines()[-1]))
    assert run.records >= 9 * tasks, f"{run.records} records of {tasks} full pages"
    return run


def describe(run: EngineRun) -> str:
    return f"{run.per_s:7,.0f}/s  {run.cpu_ms:.3f} ms CPU a task  {run.peak_mb:5.0f} MB  ({run.tasks:,} tasks)"


def report(runs: dict[StoreKind, list[EngineRun]], peaks: dict[StoreKind, EngineRun], machine: Machine) -> None:
    figures: dict[str, float] = {}
    rows = []
    for kind, each in runs.items():
        per_s = statistics.median(run.per_s for run in each)
        cpu = statistics.median(run.cpu_ms for run in each)
        rows.append((kind, f"{per_s:,.0f}", f"{cpu:.3f}", f"{peaks[kind].peak_mb:.0f}"))
        figures |= {f"{kind}_tasks_per_s": round(per_s), f"{kind}_cpu_ms_per_task": round(cpu, 3)}
        figures[f"{kind}_peak_mb"] = round(peaks[kind].peak_mb)
    print_table(("store", "tasks/s", "CPU ms/task", "peak MB"), rows)
    worst = {
        "tasks_per_s": min(figures[f"{kind}_tasks_per_s"] for kind in runs),
        "cpu_ms_per_task": max(figures[f"{kind}_cpu_ms_per_task"] for kind in runs),
        "peak_mb": max(figures[f"{kind}_peak_mb"] for kind in runs),
    }
    conclude("engine", worst | figures, TARGETS, machine)


if __name__ == "__main__":
    main(parse(__doc__))
