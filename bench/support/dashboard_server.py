"""Forager with a simulated upstream and a large store on a free port: `python -m bench.support.dashboard_server HOME
ZIPS JOBS`.

The store holds JOBS finished jobs of 1,000 tasks each, and 1,000 places for each of them: one real job, multiplied by
SQL. Prints its URL, then works until its input ends.
"""

import asyncio
import sqlite3
import sys
from pathlib import Path

import uvloop

from forager.api.serve import running
from forager.cli.process import SWITCH_INTERVAL
from forager.ledger.schema.core_tables import jobs, tasks
from tests.support.api import open_front

EACH = 1_000
"""Tasks of a finished job, and places for each of them."""


async def main(home: Path, zips: int, finished: int) -> None:
    table = "zip,state,city\n" + "".join(f"{10_000 + n},AZ,Phoenix\n" for n in range(zips))
    if finished:
        async with open_front(home, table=table) as front:
            await front.create(keyword="cafes", zips=[str(10_000 + n) for n in range(EACH)], pages=1)
            await front.work()
        multiply(home / "ledger.db", finished - 1)
    async with (
        open_front(home, table=table, latency_ms=100) as front,
        running(front.api, host="127.0.0.1", port=0) as url,
        front.app.engine(),
    ):
        print(url, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def multiply(ledger: Path, copies: int) -> None:
    """Copy the one job, its tasks and the first 1,000 places under new numbers and names."""
    with sqlite3.connect(ledger) as store:
        places = [row[1] for row in store.execute("PRAGMA table_info(places)")]
        last = store.execute("SELECT max(id) FROM places").fetchone()[0]
        named = {"public_id": "substr(t.public_id, 1, 24) || printf('%012x', s.k)"}
        _copy(store, copies, "jobs", [each.name for each in jobs.columns], {"id": "t.id + s.k", **named})
        of_job = {"id": f"t.id + s.k * {EACH}", "job_id": "t.job_id + s.k"}
        _copy(store, copies, "tasks", [each.name for each in tasks.columns], of_job)
        copied = {"id": f"{last} + t.id + (s.k - 1) * {EACH}", "place_uid": "t.place_uid || '-' || s.k"}
        _copy(store, copies, "places", places, copied, f"WHERE t.id <= {EACH}")
    store.close()


def _copy(
    store: sqlite3.Connection, copies: int, table: str, columns: list[str], changed: dict[str, str], which: str = ""
) -> None:
    series = f"(WITH RECURSIVE s(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM s WHERE k < {copies}) SELECT k FROM s)"
    names = ", ".join(f'"{column}"' for column in columns)
    values = ", ".join(changed.get(column, f't."{column}"') for column in columns)
    store.execute(f"INSERT INTO {table} ({names}) SELECT {values} FROM {series} s CROSS JOIN {table} t {which}")


if __name__ == "__main__":
    sys.setswitchinterval(SWITCH_INTERVAL)
    uvloop.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
