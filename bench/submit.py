"""Creating work: a places job of 100,000 tasks on SQLite, and one-task jobs through the API.

The API runs under uvicorn in a process of its own, its 64 clients in another. The same API without the store is loaded
in turn, a slice of the jobs at a time, because the speed of a shared machine changes within seconds. The share is what
durability leaves of the route's speed.
"""

import contextlib
import statistics
import sys
import time
from collections import defaultdict

import uvloop

from bench.support.machine import Machine
from bench.support.options import Options, parse
from bench.support.places import places_app, zip_codes
from bench.support.pressed_api import CLIENTS, WITHOUT, api, press_in_turn
from bench.support.stores import Stores
from bench.support.verdict import Target, conclude, print_table
from forager.cli.process import SWITCH_INTERVAL

TASKS, PAGES = 100_000, 4
JOBS = 8_000
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
            for name, seconds_taken in press_in_turn(stores, urls, jobs).items():
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
    if "sqlite" in rates:  # the default store decides, as for the big job; PostgreSQL's share is also reported
        figures["api_share"] = figures.pop("sqlite_api_share")
    conclude("submit", figures, TARGETS, machine)


if __name__ == "__main__":
    main(parse(__doc__))
