"""PL-17: 1,232 queries to an upstream with 1 s latency and a limit of 300 a second, durably, on both stores.

Two shapes: 308 ZIPs with 4 full pages each, which wait for one another, and 1,232 ZIPs with one. The bound is
n / rate + latency. The clock runs from the moment the job exists (creating it is what PL-2 and `submit` measure) to the
commit of its last task; the lane is owned before. Starts are counted by the sandbox in its own process, which enforces
no limit here.
"""

import asyncio
import statistics
import time
from collections import defaultdict
from dataclasses import dataclass

import uvloop

from bench.support.machine import Machine
from bench.support.options import Options, StoreKind, parse
from bench.support.places import completed, ended, places_app, zip_codes
from bench.support.stores import Store, Stores
from bench.support.upstream import Upstream, upstream
from bench.support.verdict import Target, conclude, print_table

RATE = 300
LATENCY = 1.0
QUERIES = 1_232
SHAPES = {"308 ZIPs × 4": (308, 4), "1,232 ZIPs × 1": (1_232, 1)}
BOUND = QUERIES / RATE + LATENCY
TARGETS = (Target("ratio_to_bound", at_least=0.95), Target("max_starts_per_second", at_most=RATE))


@dataclass(frozen=True, slots=True)
class Pull:
    seconds: float
    most_starts: int
    most_undisturbed: int
    stalls: int
    longest_stall_ms: float

    @property
    def ratio(self) -> float:
        return BOUND / self.seconds

    @property
    def starts(self) -> int:
        """Return the most starts in a second, without bursts in windows in which the sandbox itself stood still.

        Such a burst was not really sent. Without a whole undisturbed second to judge by, every window counts.
        """
        judged = self.most_starts > RATE and self.most_undisturbed >= 0.9 * RATE
        return self.most_undisturbed if judged else self.most_starts


def main(options: Options) -> None:
    print(f"pull: {QUERIES:,} queries, {LATENCY:g} s latency, ≤ {RATE}/s; bound {BOUND:.3f} s; {options.rounds} rounds")
    machine = Machine()
    pulls: dict[tuple[StoreKind, str], list[Pull]] = defaultdict(list)
    with Stores(options.stores) as stores, upstream(latency_ms=LATENCY * 1000) as serper:
        for number in range(1, options.rounds + 1):
            machine.sample()
            for shape, (zips, pages) in SHAPES.items():
                for kind in stores.kinds:
                    store = stores.new(kind)
                    stores.settle()
                    pull = uvloop.run(measure(store, serper, zips, pages))
                    stores.drop(store)
                    pulls[kind, shape].append(pull)
                    print(f"  round {number}: {kind:9} {shape:15} {describe(pull)}", flush=True)
        machine.sample()
    report(pulls, machine)


async def measure(store: Store, serper: Upstream, zips: int, pages: int) -> Pull:
    codes = zip_codes(zips + 1)
    async with places_app(store, serper) as app, app.engine():
        await app.submit("places", {"keyword": "cafes", "zips": codes[-1:], "pages": 1})
        await ended(app, 1)  # the lane is ours now
        await asyncio.to_thread(serper.reset)
        submitted = await app.submit("places", {"keyword": "bars", "zips": codes[:-1], "pages": pages})
        started = time.perf_counter()
        await ended(app, 1 + QUERIES)
        seconds = time.perf_counter() - started
        await completed(app, submitted.job)
    stats = serper.stats()
    assert (stats["requests"], stats["resent"]) == (QUERIES, 0), stats
    return Pull(
        seconds,
        stats["max_starts_per_second"],
        stats["max_starts_per_second_undisturbed"],
        stats["stalls"],
        stats["largest_stall_ms"],
    )


def describe(pull: Pull) -> str:
    flagged = f", {pull.stalls} stalls up to {pull.longest_stall_ms:.0f} ms" if pull.stalls else ""
    return (
        f"{pull.seconds:.3f} s, {pull.ratio:.3f} of the bound, {QUERIES / pull.seconds * 60:,.0f}/min, "
        f"most starts in a second {pull.most_starts} ({pull.most_undisturbed} undisturbed{flagged})"
    )


def report(pulls: dict[tuple[StoreKind, str], list[Pull]], machine: Machine) -> None:
    ratios = {case: statistics.median(pull.ratio for pull in runs) for case, runs in pulls.items()}
    starts = {case: max(pull.starts for pull in runs) for case, runs in pulls.items()}
    rows = [
        (f"{case[0]}, {case[1]}", f"{BOUND / ratios[case]:.3f}", f"{ratios[case]:.3f}", starts[case]) for case in pulls
    ]
    print_table(("median of each case", "seconds", "ratio", "most starts/s"), rows)
    every = [pull for runs in pulls.values() for pull in runs]
    figures = {
        "ratio_to_bound": round(min(ratios.values()), 4),
        "max_starts_per_second": max(starts.values()),
        "max_starts_with_stalls": max(pull.most_starts for pull in every),
        "stalls": sum(pull.stalls for pull in every),
        "queries_per_minute": round(min(ratios.values()) * QUERIES / BOUND * 60),
    }
    for kind in dict.fromkeys(kind for kind, _ in pulls):
        figures[f"{kind}_ratio"] = round(min(ratio for case, ratio in ratios.items() if case[0] == kind), 4)
    conclude("pull", figures, TARGETS, machine)


if __name__ == "__main__":
    main(parse(__doc__))
