"""Cost of ageing: an hourly look with 100 listings that cross 40, among 10,000 listings and among 1,000,000.

A look is what the schedule `decay_and_verify` and the recheck do: the due listings become verifications, and listings
that reached 0 are searched. For comparison, one statement rewrites a column of all listings, as a job that ages rows
would. Rows are those that SQLite itself counts as written, in all tables.
"""

import contextlib
import statistics
import time
from collections import defaultdict
from typing import Any

import uvloop

from bench.support.filled import filled_store
from bench.support.machine import Machine
from bench.support.options import Options, StoreKind, parse
from bench.support.stores import Store, Stores, open_ledger, run_sql
from bench.support.verdict import Target, conclude, print_table
from forager.core.ledger import Ledger
from forager.ledger.catalog import Catalog
from forager.pipelines.listings.apify import Apify
from forager.pipelines.listings.app_steps.upkeep import PAGE, ZERO
from forager.pipelines.listings.pipeline import build

FEW, MANY, QUICK_MANY = 10_000, 1_000_000, 100_000
CROSSING = 100
LOOKS = 10
"""Looks of each store in a round."""
LATER = 4_102_444_800_000
"""The year 2100."""
PIPELINE = build(Apify())
(RECHECK,) = PIPELINE.rechecks
TARGETS = (
    Target("rows", at_most=4 * CROSSING + 20),
    Target("share_of_rewrite", at_most=0.02),
    Target("growth", at_most=2.0),
)


def main(options: Options) -> None:
    sizes = (FEW, QUICK_MANY if options.quick else MANY)
    print(f"freshness: {CROSSING} crossings among {sizes[0]:,} and {sizes[1]:,} listings, {options.rounds} rounds")
    machine = Machine()
    growth: dict[StoreKind, list[float]] = defaultdict(list)
    share: dict[StoreKind, list[float]] = defaultdict(list)
    figures: dict[str, Any] = {}
    with Stores(options.stores) as stores:
        for kind in stores.kinds:
            filled = {size: filled_store(stores, kind, PIPELINE, "listings", size, _rows) for size in sizes}
            for number in range(options.rounds):
                machine.sample()
                looks, rows = uvloop.run(measure(filled, number))
                if rows is not None:
                    figures["rows"] = max(rows, figures.get("rows", 0))
                rewrite = uvloop.run(rewritten(filled[sizes[1]]))
                median = {size: statistics.median(each) for size, each in looks.items()}
                growth[kind].append(median[sizes[1]] / median[sizes[0]])
                share[kind].append(median[sizes[1]] / rewrite)
                said = ", ".join(f"{median[size]:.1f} ms among {size:,}" for size in sizes)
                print(f"  round {number + 1}: {kind:9} {said}; a rewrite of all takes {rewrite:,.0f} ms", flush=True)
            for store in filled.values():
                stores.drop(store)
        machine.sample()
    figures["growth"] = round(max(statistics.median(each) for each in growth.values()), 3)
    figures["share_of_rewrite"] = round(max(statistics.median(each) for each in share.values()), 4)
    print_table(("figure", "median"), [(key, f"{value:g}") for key, value in figures.items()])
    conclude("freshness", figures, TARGETS, machine)


def _rows(_: StoreKind) -> tuple[str, str]:
    columns = (
        "listing_key, market_id, title, address, source_url, area_max, confidence_base, confidence_updated_at,"
        " decay_rate, zero_at, verify_at, version, first_seen_at, last_seen_at, changed_at, times_seen"
    )
    values = (
        "'a:' || k, 'm' || (k % 19), 'Home ' || k, k || ' Mill Road', 'https://homes.example/' || k, 700, 100,"
        f" {LATER} + k, 1 + k % 3, {LATER} + k, {LATER} + k, 1, 1, 1, 1, 1"
    )
    return columns, values


async def measure(filled: dict[int, Store], round_: int) -> tuple[dict[int, list[float]], int | None]:
    """Milliseconds of each look, by size, and the rows that one wrote in the bigger store."""
    took: dict[int, list[float]] = {size: [] for size in filled}
    written: int | None = None
    async with contextlib.AsyncExitStack() as stack:
        ledgers = {s: await stack.enter_async_context(open_ledger(filled[s], Catalog([PIPELINE]))) for s in filled}
        for number in range(LOOKS):
            for size, ledger in ledgers.items():
                await cross(ledger, size, round_ * LOOKS + number)
                before = rows_of(ledger)
                began = time.perf_counter()
                done = await ledger.dispatch(PIPELINE.name, RECHECK)
                now = await ledger.now_ms()
                at_zero = await ledger.database.fetch(ZERO, {"now": now, "most": PAGE})
                took[size].append((time.perf_counter() - began) * 1000)
                assert (done.records, len(at_zero)) == (CROSSING, 0), done
                if before is not None:
                    written = max(written or 0, (rows_of(ledger) or 0) - before)
    return took, written


def rows_of(ledger: Ledger) -> int | None:
    """Return the rows that SQLite has written since it was opened; None on PostgreSQL."""
    writer = getattr(ledger, "_writer", None)
    return None if writer is None else int(writer.db.total_changes)


async def cross(ledger: Ledger, size: int, page: int) -> None:
    """Other listings for each look, spread over the whole table."""
    apart = size // CROSSING
    ids = ", ".join(str(page + 1 + number * apart) for number in range(CROSSING))
    await ledger.database.write(f"UPDATE listings SET verify_at = 1 WHERE id IN ({ids})")


async def rewritten(store: Store) -> float:
    """Milliseconds that a rewrite of one column of all listings takes: past the ledger, whose commands end sooner."""
    began = time.perf_counter()
    await run_sql(store, lambda _: ["UPDATE listings SET area_max = area_max + 1"])
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    main(parse(__doc__ or ""))
