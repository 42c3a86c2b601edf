"""Near duplicates of homes: quality and cost.

Quality on labelled pairs made from real addresses (`FORAGER_DATA`, else `../shared/data`). Cost: 10,000 listings come
in batches of 100, half of them homes that are stored under another key, against 10,000 and 1,000,000 stored homes. Each
batch is resolved and stored; for comparison, a batch of the same size is stored by its exact keys alone.
"""

import contextlib
import os
import statistics
import time
from collections import Counter, defaultdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import uvloop
from pydantic import BaseModel

from bench.support.filled import filled_store
from bench.support.home_pairs import pairs, real_addresses
from bench.support.machine import Machine
from bench.support.options import Options, StoreKind, parse
from bench.support.stores import Store, Stores, open_ledger
from bench.support.verdict import Target, conclude, print_table
from forager.core.http import Fetch
from forager.core.ledger import Ledger, NewJob, Session, Settlement, Want
from forager.core.outcome import Done, Outcome
from forager.core.pipeline import Lane, Pipeline, step
from forager.core.record import Record
from forager.core.states import TaskState
from forager.core.task import Plan, Task
from forager.ledger.catalog import Catalog
from forager.pipelines.listings.apify import Apify
from forager.pipelines.listings.app_steps.scrape import ItemsStep
from forager.pipelines.listings.matching import Thresholds, judge
from forager.pipelines.listings.parse import ListingFound
from forager.pipelines.listings.records import (
    Listing,
    ListingMerge,
    ListingSource,
    ListingSplit,
    cell_block,
    nearby_cells,
    zip_block,
)

FEW, MANY, QUICK_MANY = 10_000, 1_000_000, 100_000
BATCH, BATCHES, QUICK_BATCHES = 100, 100, 20
PAIRS, SEED = 2_400, 16
NOW = datetime(2026, 3, 1, tzinfo=UTC)
TARGETS = (
    Target("precision", at_least=0.99),
    Target("recall", at_least=0.90),
    Target("cost_ratio", at_most=4.0),
    Target("growth", at_most=2.0),
)


class Keep(Task):
    kind: ClassVar[str] = "bench.store"
    number: int

    def key(self) -> str:
        return str(self.number)

    def lane(self) -> str:
        return "bench"


class BenchJob(BaseModel):
    pass


async def nothing(task: Keep, fetch: Fetch) -> Outcome:
    return Done()


PIPELINE = Pipeline(
    name="homes",
    params=BenchJob,
    plan=lambda _: (),
    steps=(step(Keep, nothing),),
    records=(Listing, ListingSource),
    tables=(ListingMerge, ListingSplit),
    lanes=(Lane("bench", rate=None),),
)


def main(options: Options) -> None:
    machine = Machine()
    figures = quality()
    sizes = (FEW, QUICK_MANY if options.quick else MANY)
    batches = QUICK_BATCHES if options.quick else BATCHES
    ratio: dict[StoreKind, list[float]] = defaultdict(list)
    growth: dict[StoreKind, list[float]] = defaultdict(list)
    with Stores(options.stores) as stores:
        for kind in stores.kinds:
            # Analysed, as by autovacuum and the daily maintenance.
            fill = partial(filled_store, stores, kind, PIPELINE, "listings", rows=_rows, analyse=True)
            filled = {size: fill(size=size) for size in sizes}
            for number in range(options.rounds):
                machine.sample()
                took = uvloop.run(measure(filled, number, batches))
                resolved = {size: statistics.median(found["resolved"]) for size, found in took.items()}
                exact = statistics.median(took[sizes[1]]["exact"])
                ratio[kind].append(resolved[sizes[1]] / exact)
                growth[kind].append(resolved[sizes[1]] / resolved[sizes[0]])
                said = ", ".join(f"{resolved[size]:.1f} ms among {size:,}" for size in sizes)
                print(f"  round {number + 1}: {kind:9} a batch of {BATCH}: {said}; by keys {exact:.1f} ms", flush=True)
            for store in filled.values():
                stores.drop(store)
        machine.sample()
    figures["cost_ratio"] = round(max(statistics.median(each) for each in ratio.values()), 3)
    figures["growth"] = round(max(statistics.median(each) for each in growth.values()), 3)
    print_table(("figure", "median"), [(key, f"{value:g}") for key, value in figures.items()])
    conclude("dedup", figures, TARGETS, machine)


def quality() -> dict[str, Any]:
    data = Path(os.environ.get("FORAGER_DATA") or Path(__file__).parents[2] / "shared" / "data") / "locations"
    made = pairs(real_addresses(data), PAIRS, SEED)
    print(f"quality: {len(made):,} pairs from real addresses, seed {SEED}, cases {dict(Counter(p.case for p in made))}")
    said = [(pair, meet(pair.one, pair.two) and judge(pair.one, pair.two, Thresholds()).same) for pair in made]
    right = sum(pair.same and found for pair, found in said)
    for pair, found in said:
        if found and not pair.same:
            print(f"  wrong: {pair.case}: {pair.one.address} / {pair.two.address}")
    missed = Counter(pair.case for pair, found in said if pair.same and not found)
    print(f"  missed: {dict(missed)}")
    return {
        "pairs": len(made),
        "precision": round(right / max(1, sum(found for _, found in said)), 4),
        "recall": round(right / sum(pair.same for pair, _ in said), 4),
    }


def meet(one: Listing, two: Listing) -> bool:
    """Return whether the stored home is among the candidates of the other."""
    stored = {zip_block(one.address, one.zip), cell_block(one.address, one.latitude, one.longitude)} - {None}
    return bool(stored & {zip_block(two.address, two.zip), *nearby_cells(two.address, two.latitude, two.longitude)})


def home(source: str, k: int) -> ListingFound:
    """The home number `k`, as `_fill` stores it: no other has its place."""
    listing = Listing(
        listing_key=f"{source}:{k}", market_id="m", title=f"Home {k}", address=f"{k % 900 + 10} Street{k // 900} Road",
        zip=f"{k % 50_000:05}", latitude=30.001 + (k % 5_000) * 0.003, longitude=-70.001 - (k // 5_000) * 0.003,
        rent_min=1_500, rent_max=1_900, beds_min=1, beds_max=2, baths_min=1, baths_max=1,
        confidence_base=100, confidence_updated_at=NOW, decay_rate=1,
    )  # fmt: skip
    key = listing.listing_key
    return ListingFound(
        listing,
        ListingSource(
            source_key=key, listing_key=key, market_id="m", source=source, source_id=str(k), url="https://x/"
        ),
    )


def _rows(kind: StoreKind) -> tuple[str, str]:
    code = "printf('%05d', k % 50000)" if kind == "sqlite" else "lpad((k % 50000)::text, 5, '0')"
    number = "(k % 900 + 10)"
    columns = (
        "listing_key, market_id, title, address, zip, latitude, longitude, rent_min, rent_max, beds_min, beds_max,"
        " baths_min, baths_max, block_zip, block_cell, version, first_seen_at, last_seen_at, changed_at, times_seen"
    )
    values = (
        f"'a:' || k, 'm', 'Home ' || k, {number} || ' Street' || (k / 900) || ' Road', {code},"
        " 30.001 + (k % 5000) * 0.003, -70.001 - (k / 5000) * 0.003, 1500, 1900, 1, 2, 1, 1,"
        f" {code} || ':' || {number}, (10000 + k % 5000) || ':' || (-23334 - k / 5000) || ':' || {number},"
        " 1, 1, 1, 1, 1"
    )
    return columns, values


async def measure(filled: dict[int, Store], round_: int, batches: int) -> dict[int, dict[str, list[float]]]:
    took: dict[int, dict[str, list[float]]] = {size: {"resolved": [], "exact": []} for size in filled}
    async with contextlib.AsyncExitStack() as stack:
        feeds = {
            size: await Feed.open(
                await stack.enter_async_context(open_ledger(filled[size], Catalog([PIPELINE]))), 2 * batches
            )
            for size in filled
        }
        for number in range(batches):
            for size, feed in feeds.items():
                await feed.beat()
                came = arriving(size, f"r{round_}", number)
                began = time.perf_counter()
                found = await feed.items.resolve(came, "Boston")
                assert len(found.merges) == BATCH // 2, (len(found.merges), size)
                await feed.store([*found.listings.values(), *found.sources])
                took[size]["resolved"].append((time.perf_counter() - began) * 1000)
                alone = arriving(size, f"e{round_}", number)
                began = time.perf_counter()
                await feed.store([record for each in alone for record in (each.listing, each.source)])
                took[size]["exact"].append((time.perf_counter() - began) * 1000)
        for feed in feeds.values():
            await feed.close()
    return took


def arriving(size: int, source: str, number: int) -> list[ListingFound]:
    """Half are stored homes under another key, spread over the table; half are new, far away from all others."""
    stored = [home(source, 1 + (number * 7 + n * (size // BATCH)) % size) for n in range(BATCH // 2)]
    at = 3_000_000 + number * BATCH + (500_000 if source.startswith("e") else 0) + int(source[1:]) * 50_000
    return stored + [home(source, at + n) for n in range(BATCH // 2)]


class Feed:
    """Stores batches by settlements, as a worker does."""

    def __init__(self, ledger: Ledger, session: Session, lane: int) -> None:
        self.items = ItemsStep(ledger.database, Apify(), Thresholds())
        self._ledger, self._session, self._lane = ledger, session, lane

    @classmethod
    async def open(cls, ledger: Ledger, tasks: int) -> "Feed":
        await ledger.submit(NewJob("homes", {}), [Plan(Keep(number=n)) for n in range(tasks)])
        session = await ledger.begin("bench")
        (lane,) = await ledger.take_lanes(session, 10)
        return cls(ledger, session, lane.id)

    async def close(self) -> None:
        await self._ledger.end(self._session)

    async def beat(self) -> None:
        """Keep the session, and with it the lane."""
        await self._ledger.beat(self._session, {})

    async def store(self, records: list[Record]) -> None:
        turn = await self._ledger.settle_and_lease(self._session, [], [Want(self._lane, 1)])
        (lease,) = turn.leases
        done = Settlement(lease, TaskState.COMPLETED, records=records)
        await self._ledger.settle_and_lease(self._session, [done], [])


if __name__ == "__main__":
    main(parse(__doc__ or ""))
