"""Cost of a recheck: 100 due records become tasks, among 10,000 records and among 1,000,000.

Every other record also has a due time, which is still to come, so that the index of due times has an entry for each.
Nothing is analysed after the fill. Both sizes are dispatched in turn. Rows are those that the store itself counts as
written, in all tables: records, tasks, queue, job, lanes and log.
"""

import asyncio
import contextlib
import sqlite3
import statistics
import time
from collections import defaultdict
from datetime import datetime
from typing import Any, ClassVar

import asyncpg
import uvloop
from pydantic import BaseModel

from bench.support.filled import filled_store
from bench.support.machine import Machine
from bench.support.options import Options, StoreKind, parse
from bench.support.stores import Store, Stores, open_ledger
from bench.support.verdict import Target, conclude, print_table
from forager.core.http import Fetch
from forager.core.outcome import Done, Outcome
from forager.core.pipeline import Lane, Pipeline, step
from forager.core.recheck import recheck
from forager.core.record import Clear, Index, Record
from forager.core.task import Task
from forager.ledger.catalog import Catalog

FEW, MANY = 10_000, 1_000_000
QUICK_MANY = 100_000
DUE = 100
PAGES = 20
"""Dispatches of each store in a round."""
NEVER_ANALYSE = {"autovacuum_analyze_threshold": "2000000000"}
TARGETS = (Target("growth", at_most=2.0), Target("rows_per_due", at_most=4.0))
LATER = 4_102_444_800_000
"""The year 2100."""


class Look(Task):
    kind: ClassVar[str] = "look"
    number: int

    def key(self) -> str:
        return str(self.number)

    def lane(self) -> str:
        return "bench"


class Rechecked(Record):
    kind: ClassVar[str] = "rechecked"
    table: ClassVar[str] = "bench_rechecked"
    key_field: ClassVar[str] = "name"
    quiet: ClassVar[frozenset[str]] = frozenset({"next_at"})
    indexes: ClassVar[tuple[Index, ...]] = (Index(("next_at",), where="next_at IS NOT NULL"),)
    name: str
    number: int
    title: str | None = None
    next_at: datetime | Clear | None = None


class RecheckedJob(BaseModel):
    pass


async def look(task: Look, fetch: Fetch) -> Outcome:
    return Done()


RECHECK = recheck(Rechecked, due="next_at", task=lambda record: Look(number=record.number))
PIPELINE = Pipeline(
    name="rechecked",
    params=RecheckedJob,
    plan=lambda _: (),
    steps=(step(Look, look),),
    records=(Rechecked,),
    rechecks=(RECHECK,),
    lanes=(Lane("bench", rate=None),),
)


def main(options: Options) -> None:
    sizes = (FEW, QUICK_MANY if options.quick else MANY)
    print(f"rechecks: {DUE} due among {sizes[0]:,} and {sizes[1]:,} records, {options.rounds} rounds of {PAGES} pages")
    machine = Machine()
    ms: dict[tuple[StoreKind, int], list[float]] = defaultdict(list)
    growth: dict[StoreKind, list[float]] = defaultdict(list)
    rows: dict[StoreKind, float] = {}
    with Stores(options.stores, NEVER_ANALYSE) as stores:
        for kind in stores.kinds:
            filled = {size: filled_store(stores, kind, PIPELINE, "bench_rechecked", size, _rows) for size in sizes}
            for number in range(1, options.rounds + 1):
                machine.sample()
                took = uvloop.run(measure(filled, number))
                medians = {size: statistics.median(found) for size, found in took.items()}
                for size, found in took.items():
                    ms[kind, size] += found
                growth[kind].append(medians[sizes[1]] / medians[sizes[0]])
                said = ", ".join(f"{medians[size]:.2f} ms among {size:,}" for size in sizes)
                print(f"  round {number}: {kind:9} {said}", flush=True)
            rows[kind] = uvloop.run(rows_written(filled[sizes[1]], PAGES * (options.rounds + 1))) / DUE
            for store in filled.values():
                stores.drop(store)
        machine.sample()
    figures: dict[str, Any] = {"growth": round(max(statistics.median(each) for each in growth.values()), 3)}
    figures["rows_per_due"] = round(max(rows.values()), 2)
    for kind in growth:
        figures[f"{kind}_growth"] = round(statistics.median(growth[kind]), 3)
        figures[f"{kind}_rows_per_due"] = round(rows[kind], 2)
        figures[f"{kind}_us_per_due"] = round(statistics.median(ms[kind, sizes[1]]) * 1000 / DUE, 1)
    print_table(("figure", "median"), [(key, f"{value:g}") for key, value in figures.items()])
    conclude("rechecks", figures, TARGETS, machine)


def _rows(_: StoreKind) -> tuple[str, str]:
    columns = "name, number, title, next_at, version, first_seen_at, last_seen_at, changed_at, times_seen"
    values = f"'record ' || k, k, 'title of record ' || k, {LATER} + k, 1, 1, 1, 1, 1"
    return columns, values


async def measure(filled: dict[int, Store], round_: int) -> dict[int, list[float]]:
    """Milliseconds of each dispatch, by size."""
    took: dict[int, list[float]] = {size: [] for size in filled}
    async with contextlib.AsyncExitStack() as stack:
        ledgers = {s: await stack.enter_async_context(open_ledger(filled[s], Catalog([PIPELINE]))) for s in filled}
        for page in range(PAGES):
            for size, ledger in ledgers.items():
                await make_due(ledger, size, round_ * PAGES + page)
                began = time.perf_counter()
                done = await ledger.dispatch(PIPELINE.name, RECHECK)
                took[size].append((time.perf_counter() - began) * 1000)
                assert (done.records, done.tasks) == (DUE, DUE), done
    return took


async def make_due(ledger: Any, size: int, page: int) -> None:
    """Other records for each page, spread over the whole table: `page` is at most 99."""
    step = size // DUE
    ids = ", ".join(str(page + 1 + number * step) for number in range(DUE))
    sql = f"UPDATE bench_rechecked SET next_at = number WHERE id IN ({ids})"
    await ledger.database.write(sql)


async def rows_written(store: Store, page: int) -> float:
    """Rows that the store counts as written by a dispatch of `DUE` records, of which none was dispatched before."""
    if store.url is None:
        async with open_ledger(store, Catalog([PIPELINE])) as ledger:
            with contextlib.closing(sqlite3.connect(store.path)) as db:
                size = db.execute("SELECT count(*) FROM bench_rechecked").fetchone()[0]
            await make_due(ledger, size, page)
            writer: Any = ledger
            before = writer._writer.db.total_changes
            await ledger.dispatch(PIPELINE.name, RECHECK)
            return float(writer._writer.db.total_changes - before)
    admin = await asyncpg.connect(store.url)
    try:
        size = await admin.fetchval("SELECT count(*) FROM bench_rechecked")
        async with open_ledger(store, Catalog([PIPELINE])) as ledger:
            await make_due(ledger, size, page)
        idle = await _counted(store, admin, dispatch=False)
        return await _counted(store, admin, dispatch=True) - idle
    finally:
        await admin.close()


async def _counted(store: Store, admin: asyncpg.Connection, *, dispatch: bool) -> float:
    """A connection tells the server what it wrote when it ends."""
    before = await _settled(admin)
    async with open_ledger(store, Catalog([PIPELINE])) as ledger:
        if dispatch:
            await ledger.dispatch(PIPELINE.name, RECHECK)
    return await _settled(admin) - before


async def _settled(admin: asyncpg.Connection) -> float:
    """The server's count of rows written, once it stands still."""
    sql = "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables"
    last = -1.0
    while (now := float(await admin.fetchval(sql))) != last:
        last = now
        await asyncio.sleep(1.5)
    return now


if __name__ == "__main__":
    main(parse(__doc__ or ""))
