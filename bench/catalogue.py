"""Cost of a large catalogue: lists with filters, search, and a recrawl without changes, on 1,000,000 products.

The products are made by SQL and indexed by the code of the rebuild command. `list_ratio`: the p95 of filtered lists
against that of the list without a filter. `search_ratio`: the p95 of searches of two or three words against reading
5,000 products by id. Both are measured in turns; the worse store decides.
"""

import random
import statistics
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import uvloop

from bench.support.catalogue import KINDS, LOOKS, statements
from bench.support.machine import Machine
from bench.support.options import Options, parse
from bench.support.stores import Store, Stores, open_ledger, run_sql, vacuum
from bench.support.verdict import Target, conclude, print_table
from forager.core.ledger import NewJob, Settlement, Want
from forager.core.states import TaskState
from forager.core.task import Plan
from forager.extract.text.urls import url_hash
from forager.ledger.catalog import Catalog
from forager.pipelines.products.pipeline import build
from forager.pipelines.products.records import Product
from forager.pipelines.products.reports.catalogue import ProductConditions, ProductFilter, find_products
from forager.pipelines.products.reports.search import search_products
from forager.pipelines.products.tasks import Crawl
from forager.pipelines.products.wiring import parsers
from forager.sdk.search import index_of

PRODUCTS, QUICK = 1_000_000, 50_000
READ = 5_000
CALLS = 40
SEEN_AGAIN = 1_000
TARGETS = (
    Target("unchanged_changes", at_most=0),
    Target("list_ratio", at_most=5.0),
    Target("search_ratio", at_most=2.0),
)
Call = Callable[[], Awaitable[Any]]


def main(options: Options) -> None:
    products = QUICK if options.quick else PRODUCTS
    print(f"catalogue: {products:,} products, {CALLS} calls of each kind, {options.rounds} rounds")
    machine = Machine()
    figures: dict[str, Any] = {"unchanged_changes": 0, "list_ratio": 0.0, "search_ratio": 0.0}
    rows: list[tuple[str, ...]] = []
    with Stores(options.stores) as stores:
        for kind in stores.kinds:
            store = stores.new(kind)
            machine.sample()
            found = uvloop.run(measure(store, products, options.rounds))
            for key in ("unchanged_changes", "list_ratio", "search_ratio"):
                figures[key] = max(figures[key], found[key])
            figures |= {f"{kind}_{name}_ms": ms for name, ms in found["p95"].items()}
            rows += [(kind, name, f"{ms:,.1f}") for name, ms in found["p95"].items()]
            rows.append((kind, "rebuild", f"{found['rebuild']:,.1f} s"))
        machine.sample()
    print_table(("store", "call", "p95 ms"), rows)
    conclude("catalogue", figures, TARGETS, machine)


async def measure(store: Store, products: int, rounds: int) -> dict[str, Any]:
    catalog = Catalog([build(parsers())])
    async with open_ledger(store, catalog) as ledger:
        await ledger.database.fetch("SELECT 1 AS one")
    began = time.perf_counter()
    await run_sql(store, lambda kind: statements(kind, products))
    await vacuum(store)
    print(f"  {store.kind}: filled in {time.perf_counter() - began:.0f} s", flush=True)
    async with open_ledger(store, catalog) as ledger:
        index = index_of(Product, ledger.database)
        began = time.perf_counter()
        await index.rebuild(2 * products)
        rebuild = time.perf_counter() - began
        await vacuum(store)
        print(f"  {store.kind}: indexed in {rebuild:.0f} s", flush=True)
        p95 = await slow(calls(ledger, index, products), rounds)
        changes = await seen_again(ledger)
    filtered = max(ms for name, ms in p95.items() if name.startswith("list by"))
    return {
        "p95": p95,
        "rebuild": rebuild,
        "unchanged_changes": changes,
        "list_ratio": round(filtered / p95["list"], 2),
        "search_ratio": round(p95["search"] / p95["read 5,000 by id"], 2),
    }


def calls(ledger: Any, index: Any, products: int) -> dict[str, Callable[[random.Random], Awaitable[Any]]]:
    """Each kind of call, given a source of randomness."""
    database = ledger.database

    def listed(make: Callable[[random.Random], dict[str, Any]]) -> Callable[[random.Random], Awaitable[Any]]:
        return lambda draw: find_products(database, ProductFilter(**make(draw)))

    async def read(draw: random.Random) -> Any:
        values = {f"id{n}": number for n, number in enumerate(draw.sample(range(1, products + 1), READ))}
        return await database.fetch(f"SELECT * FROM items WHERE id IN ({', '.join(f':{m}' for m in values)})", values)

    async def search(draw: random.Random) -> Any:
        words = [draw.choice(LOOKS), draw.choice(KINDS), *(["collection"] if draw.random() < 0.5 else [])]
        return await search_products(database, index, " ".join(words), ProductConditions())

    return {
        "list": listed(lambda draw: {}),
        "list by brand": listed(lambda draw: {"brand": f"Brand {draw.randrange(5_000)}"}),
        "list by category": listed(lambda draw: {"category": f"Category {draw.randrange(400)}", "min_rating": 3}),
        "list by domain": listed(lambda draw: {"domain": f"shop-{draw.randrange(200)}.example"}),
        "list by price": listed(lambda draw: {"min_price": 500, "max_price": 900, "availability": "in_stock"}),
        "read 5,000 by id": read,
        "search": search,
    }


async def slow(kinds: Mapping[str, Callable[[random.Random], Awaitable[Any]]], rounds: int) -> dict[str, float]:
    """The p95 of each kind of call in milliseconds; the median of the rounds. The kinds take turns call by call, so
    that all of them meet the same machine."""
    figures: dict[str, list[float]] = defaultdict(list)
    for number in range(rounds):
        draws = {name: random.Random(number) for name in kinds}
        spent: dict[str, list[float]] = defaultdict(list)
        for _ in range(CALLS):
            for name, call in kinds.items():
                began = time.perf_counter()
                await call(draws[name])
                spent[name].append((time.perf_counter() - began) * 1_000)
        for name, each in spent.items():
            figures[name].append(sorted(each)[round(CALLS * 0.95) - 1])
    return {name: round(statistics.median(each), 2) for name, each in figures.items()}


async def seen_again(ledger: Any) -> int:
    """Settle products that were seen before, unchanged. Returns the changes and moved times that this wrote."""
    found = [
        Product(url_hash=url_hash(url), url=url, domain="again.example", product_name=f"Seen again {n}", price=n)
        for n in range(SEEN_AGAIN)
        for url in (f"https://again.example/p/{n}",)
    ]
    await settle(ledger, "first", found)
    asked = "SELECT count(*) AS number, sum(changed_at) AS at FROM items WHERE domain = 'again.example'"
    (before,), last = await ledger.database.fetch(asked), await ledger.changes(0, 1_000_000)
    await settle(ledger, "second", found)
    (after,), now = await ledger.database.fetch(asked), await ledger.changes(0, 1_000_000)
    told = [change for change in now[len(last) :] if change.kind == "product"]
    return len(told) + int(before != after)


async def settle(ledger: Any, name: str, records: list[Product]) -> None:
    await ledger.submit(NewJob("products", {"urls": [name]}), [Plan(Crawl(url=f"https://again.example/{name}"))])
    session = await ledger.begin("bench")
    lanes = [lane.id for lane in await ledger.take_lanes(session, 100)]
    (lease,) = (await ledger.settle_and_lease(session, [], [Want(lane, 1) for lane in lanes])).leases
    await ledger.settle_and_lease(session, [Settlement(lease, TaskState.COMPLETED, records=tuple(records))], [])
    await ledger.end(session)


if __name__ == "__main__":
    main(parse(__doc__ or ""))
