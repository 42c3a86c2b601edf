"""No-op tasks through submit → lease → settle in one process, on both stores and through three peers on PostgreSQL.

One lane, 100 jobs, every feature on. One caller creates all jobs, then does all tasks, turn by turn; the peers do the
same on the same server, each with a database of its own. Then the same where each task finds a record: ours is stored
in the settlement, awa's by the handler. Also reported: two callers, each of which continues while the other waits for
its commit. An engine is one caller; two are what the store itself can take.
"""

import statistics
from collections import defaultdict

import uvloop

from bench.support import peers
from bench.support.machine import Machine
from bench.support.noop import GROUP, noop_catalog, push
from bench.support.options import Options, StoreKind, parse
from bench.support.stores import Stores, open_ledger
from bench.support.verdict import Target, conclude, print_table

JOBS = 100
TASKS_EACH = 1_000
PEERS = {
    "pgqueuer": ("pgqueuer", 50_000, ()),
    "pgqueuer_fastest": ("pgqueuer", 50_000, ("500",)),
    "procrastinate": ("procrastinate", 5_000, ()),
    "awa": ("awa", 50_000, ()),
    "awa_records": ("awa", 50_000, ("records",)),
}
"""Maps the name of a figure to the peer, its tasks and its own arguments."""
TARGETS = (
    Target("sqlite_per_s", at_least=30_000, quiet_only=True),
    Target("postgres_per_s", at_least=13_000, quiet_only=True),
    Target("vs_pgqueuer", at_least=2.5),
    Target("vs_procrastinate", at_least=20),
    Target("vs_awa", at_least=1),
    Target("vs_awa_records", at_least=1),
)


def main(options: Options) -> None:
    tasks_each = TASKS_EACH // 10 if options.quick else TASKS_EACH
    print(f"ledger: 1 lane, {JOBS} jobs of {tasks_each:,} no-op tasks, groups of {GROUP}, {options.rounds} rounds")
    machine = Machine()
    rates: dict[str, list[float]] = defaultdict(list)
    with Stores(options.stores) as stores:
        if "postgres" in options.stores:
            peers.prepare()
        for number in range(1, options.rounds + 1):
            machine.sample()
            for kind in options.stores:
                rates[kind].append(ours(stores, kind, tasks_each, number))
                rates[f"{kind}_two_callers"].append(ours(stores, kind, tasks_each, number, callers=2))
                rates[f"{kind}_records"].append(ours(stores, kind, tasks_each // 2, number, records=True))
            for name in PEERS if "postgres" in options.stores else ():
                rates[name].append(theirs(stores, name, number, quick=options.quick))
        machine.sample()
    report(rates, machine)


def ours(
    stores: Stores, kind: StoreKind, tasks_each: int, number: int, *, callers: int = 1, records: bool = False
) -> float:
    store = stores.new(kind)
    stores.settle()

    async def run() -> float:
        async with open_ledger(store, noop_catalog()) as ledger:
            timing = await push(ledger, jobs=JOBS, tasks_each=tasks_each, callers=callers, records=records)
        parts = (
            f"submit {timing.submit:.2f} s, lease + settle {timing.work:.2f} s; our CPU {timing.cpu_us:.1f} µs a task"
        )
        who = f"{kind}_records" if records else kind if callers == 1 else f"{kind}_two_callers"
        print(f"  round {number}: {who:20} {timing.per_s:9,.0f}/s  ({parts})", flush=True)
        return timing.per_s

    try:
        return uvloop.run(run())
    finally:
        stores.drop(store)


def theirs(stores: Stores, name: str, number: int, *, quick: bool) -> float:
    peer, count, arguments = PEERS[name]
    count = count // 10 if quick else count
    url = stores.new_database()
    stores.settle()
    rate = peers.run(peer, url, count, *arguments)
    stores.server.drop_database(url)
    print(f"  round {number}: {name:20} {rate:9,.0f}/s  ({count:,} jobs)", flush=True)
    return rate


def report(rates: dict[str, list[float]], machine: Machine) -> None:
    median = {name: statistics.median(values) for name, values in rates.items()}
    spread = [(n, f"{median[n]:,.0f}", f"{min(v):,.0f}", f"{max(v):,.0f}") for n, v in rates.items()]
    print_table(("tasks/s", "median", "least", "most"), spread)
    figures: dict[str, float] = {f"{name}_per_s": round(median[name]) for name in rates if name not in PEERS}
    for peer in PEERS:
        if peer in rates:
            same = "postgres_records" if peer.endswith("_records") else "postgres"
            pairs = zip(rates[same], rates[peer], strict=True)
            figures[f"vs_{peer}"] = round(statistics.median(mine / its for mine, its in pairs), 2)
            figures[f"{peer}_per_s"] = round(median[peer])
    conclude("ledger", figures, TARGETS, machine)


if __name__ == "__main__":
    main(parse(__doc__))
