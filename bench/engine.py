"""The whole engine on an upstream without latency: lease, HTTP, parse, settle, records, changes.

A place that is found is two records: the place, once in the world, and its sighting, once per job. So a page of five
places is the contract's task of ten records; a full page of ten places is twenty, and is reported without a target. CPU
time and memory are those of our process alone, a fresh one for each run; the sandbox has its own.
"""

import contextlib
import json
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Load:
    """The answer to a query: the number of pages, and of places on each of them."""

    serper: Upstream
    places: int
    pages: int

    @property
    def records(self) -> int:
        return 2 * self.places


@contextlib.contextmanager
def loads() -> Iterator[tuple[Load, Load]]:
    """The contract's, and the page that a busy ZIP gives."""
    with upstream(latency_ms=0, per_zip=5) as thin, upstream(latency_ms=0) as full:
        yield Load(thin, places=5, pages=1), Load(full, places=10, pages=4)


def main(options: Options) -> None:
    tasks, big = (2_000, 10_000) if options.quick else (TASKS, BIG)
    print(f"engine: {tasks:,} tasks, {options.rounds} rounds, then {big:,} tasks for memory; lane: {POLICY}")
    machine = Machine()
    runs: dict[tuple[StoreKind, int], list[EngineRun]] = defaultdict(list)
    peaks: dict[StoreKind, EngineRun] = {}
    with Stores(options.stores) as stores, loads() as (ten, twenty):
        for number in range(1, options.rounds + 1):
            machine.sample()
            for kind in stores.kinds:
                for load in (ten, twenty):
                    runs[kind, load.records].append(measure(stores, load, kind, tasks))
                    said = describe(runs[kind, load.records][-1])
                    print(f"  round {number}: {kind:9} {load.records} records a task  {said}", flush=True)
        for kind in stores.kinds:
            peaks[kind] = measure(stores, twenty, kind, big)
            print(f"  memory:  {kind:9} {twenty.records} records a task  {describe(peaks[kind])}", flush=True)
        machine.sample()
    report(runs, peaks, machine, contract=ten.records, beside=twenty.records)


def measure(stores: Stores, load: Load, kind: StoreKind, tasks: int) -> EngineRun:
    store = stores.new(kind)
    stores.settle()
    load.serper.reset()
    at = {"kind": kind, "home": str(store.home), "url": store.url}
    request = {**at, "upstream": load.serper.url, "tasks": tasks, "pages": load.pages}
    command = [sys.executable, "-m", "bench.support.engine_run", json.dumps(request)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    stores.drop(store)
    stats = load.serper.stats()
    assert (stats["requests"], stats["resent"]) == (tasks, 0), stats
    run = EngineRun(**json.loads(done.stdout.splitlines()[-1]))
    # A few places are on more than one page: they are seen, but not recorded a second time.
    assert run.sightings >= 0.9 * load.places * tasks, f"{run.sightings} sightings on {tasks} pages"
    return run


def describe(run: EngineRun) -> str:
    return f"{run.per_s:7,.0f}/s  {run.cpu_ms:.3f} ms CPU a task  {run.peak_mb:5.0f} MB  ({run.tasks:,} tasks)"


def report(
    runs: dict[tuple[StoreKind, int], list[EngineRun]],
    peaks: dict[StoreKind, EngineRun],
    machine: Machine,
    *,
    contract: int,
    beside: int,
) -> None:
    figures: dict[str, float] = {}
    rows = []
    for kind, peak in peaks.items():
        per_s = statistics.median(run.per_s for run in runs[kind, contract])
        cpu = statistics.median(run.cpu_ms for run in runs[kind, contract])
        more = statistics.median(run.cpu_ms for run in runs[kind, beside])
        rows.append((kind, f"{per_s:,.0f}", f"{cpu:.3f}", f"{more:.3f}", f"{peak.peak_mb:.0f}"))
        figures |= {f"{kind}_tasks_per_s": round(per_s), f"{kind}_cpu_ms_per_task": round(cpu, 3)}
        figures |= {f"{kind}_cpu_ms_{beside}_records": round(more, 3), f"{kind}_peak_mb": round(peak.peak_mb)}
    print_table(("store", "tasks/s", "CPU ms/task", f"with {beside} records", "peak MB"), rows)
    worst = {
        "tasks_per_s": min(figures[f"{kind}_tasks_per_s"] for kind in peaks),
        "cpu_ms_per_task": max(figures[f"{kind}_cpu_ms_per_task"] for kind in peaks),
        f"cpu_ms_{beside}_records": max(figures[f"{kind}_cpu_ms_{beside}_records"] for kind in peaks),
        "peak_mb": max(figures[f"{kind}_peak_mb"] for kind in peaks),
    }
    conclude("engine", worst | figures, TARGETS, machine)


if __name__ == "__main__":
    main(parse(__doc__))
