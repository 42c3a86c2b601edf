"""Creating work: a places job of 100,000 tasks on SQLite, and one-task jobs through the API.

The API runs under uvicorn in a process of its own, its 64 clients in another; beside it runs the same API without the
store, loaded in turn, a slice of the jobs at a time: the speed of a shared machine changes within seconds. The share is
what durability leaves of the route's speed.
"""

import contextlib
import json
import secrets
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping

import uvloop

from bench.support.machine import Machine
from bench.support.options import Options, parse
from bench.support.peers import ROOT
from bench.support.places import places_app, zip_codes
from bench.support.stores import Store, Stores
from bench.support.verdict import Target, conclude, print_table
from forager.cli.process import SWITCH_INTERVAL

TASKS, PAGES = 100_000, 4
CLIENTS = 64
JOBS, SLICES = 8_000, 8
KEY = secrets.token_urlsafe(32)
WITHOUT = "without the store"
TARGETS = (Target("seconds_100k", at_most=1.5, quiet_only=True), Target("api_share", at_least=0.7))


def main(options: Options) -> None:
    tasks, jobs = (TASKS // 10, JOBS // 8) if options.quick else (TASKS, JOBS)
    print(f"submit: a job of {tasks:,} tasks; {jobs:,} one-task jobs by {CLIENTS} clients; {options.rounds} rounds")
    sys.setswitchinterval(SWITCH_INTERVAL)  # as `forager up` does
    machine = Machine()
    seconds: list[float] = []
    rates: dict[str, list[float]] = defaultdict(list)
    with Stores(options.stores) as stores, contextlib.ExitStack() as stack:
        urls: dict[str, str] = {kind: stack.enter_context(api(stores.new(kind))) for kind in stores.kinds}
        urls[WITHOUT] = stack.enter_context(api(stores.new("sqlite"), with_store=False))
        for number in range(1, options.rounds + 1):
            machine.sample()
            if "sqlite" in stores.kinds:
                seconds.append(create_big(stores, tasks))
                print(f"  round {number}: sqlite, {tasks:,} tasks in {seconds[-1]:.3f} s", flush=True)
            for name, seconds_taken in create_small(stores, urls, jobs).items():
                rates[name].append(jobs / seconds_taken)
                print(f"  round {number}: API, {name:17} {rates[name][-1]:7,.0f} jobs/s", flush=True)
        machine.sample()
    report(seconds, rates, tasks, machine)


def create_big(stores: Stores, tasks: int) -> float:
    store = stores.new("sqlite")

    async def run() -> float:
        codes = zip_codes(tasks // PAGES)
        async with places_app(store) as app:
            started = time.perf_counter()
            submitted = await app.submit("places", {"keyword": "bars", "zips": codes, "pages": PAGES})
            taken = time.perf_counter() - started
            assert submitted.total == tasks, submitted
        return taken

    try:
        return uvloop.run(run())
    finally:
        stores.drop(store)


@contextlib.contextmanager
def api(store: Store, *, with_store: bool = True) -> Iterator[str]:
    request = {"kind": store.kind, "home": str(store.home), "url": store.url, "key": KEY, "with_store": with_store}
    command = [sys.executable, "-m", "bench.support.api_server", json.dumps(request)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        if not url:
            raise RuntimeError("the API did not start; what it said is above")
        yield url  # leaving the block closes its standard input, which ends it


def create_small(stores: Stores, urls: Mapping[str, str], jobs: int) -> dict[str, float]:
    """Seconds that each API takes to create so many jobs."""
    taken = dict.fromkeys(urls, 0.0)
    for _ in range(SLICES):
        for name, url in urls.items():
            stores.settle()
            taken[name] += press(url, jobs // SLICES)
    return taken


def press(url: str, jobs: int) -> float:
    command = [sys.executable, "-m", "bench.support.load", url, KEY, str(CLIENTS), str(jobs)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    return float(json.loads(done.stdout)["seconds"])


def report(seconds: list[float], rates: dict[str, list[float]], tasks: int, machine: Machine) -> None:
    figures: dict[str, float] = {}
    rows = []
    if seconds:
        figures["seconds_100k"] = round(statistics.median(seconds) * TASKS / tasks, 3)
        rows.append((f"sqlite, seconds for {tasks:,} tasks", f"{statistics.median(seconds):.3f}", ""))
    for name, each in rates.items():
        share = statistics.median(mine / bare for mine, bare in zip(each, rates[WITHOUT], strict=True))
        rows.append((f"API jobs/s, {name}", f"{statistics.median(each):,.0f}", f"{share:.2f}"))
        if name != WITHOUT:
            figures |= {f"{name}_api_share": round(share, 3), f"{name}_api_per_s": round(statistics.median(each))}
    print_table(("what", "median", "share"), rows)
    if "sqlite" in rates:  # the default store decides, as for the big job; PostgreSQL's share is told beside it
        figures["api_share"] = figures.pop("sqlite_api_share")
    conclude("submit", figures, TARGETS, machine)


if __name__ == "__main__":
    main(parse(__doc__))
