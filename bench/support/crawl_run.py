"""One crawl through the whole of Forager in a process of its own: `python -m bench.support.crawl_run REQUEST`.

The request is a JSON object; the answer is one JSON line. Time and CPU are taken from the submission to the commit of
the last page; memory is the most that the process ever had.
"""

import json
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import uvloop

from bench.support.engine_run import _cpu, peak_mb
from bench.support.places import completed, ended
from forager.app.application import App
from forager.app.compose import open_app
from forager.app.config import load_settings
from forager.ledger.sqlite import connection, store
from forager.logging import configure_logs
from forager.pipelines.products.cli.crawl import MOST_URLS
from forager.sandbox.shop import ShopConfig, ShopSandbox

IN_FLIGHT = 64
POLICY = f"no pause (100,000/s at once), {IN_FLIGHT} in flight, under the shop's own domain"


async def run(
    base: str, pages: int, *, fsync: bool = True, readers: int = 0, urls: Sequence[str] = ()
) -> dict[str, Any]:
    """Crawl the shop's first pages, or these pages: then some of them may be no product."""
    with tempfile.TemporaryDirectory(prefix="forager-crawl-") as folder:
        home = Path(folder)
        rules = home / "policies.yaml"
        address = urlsplit(base).netloc
        rules.write_text(
            f'domains:\n  "{address}":\n    tokens_per_interval: 100000\n    interval_seconds: 1\n'
            f"    max_concurrent_requests: {IN_FLIGHT}\n"
        )
        overrides = {
            "home": home,
            "log_level": "ERROR",
            "egress_allow": [address],
            "domain_policies_path": rules,
            "product_images_max": 0,
        }
        loaded = load_settings(overrides, env={}, cwd=home)
        configure_logs(loaded.log_level, loaded.log_format, loaded.secrets())
        if not fsync:
            _without_fsync()
        if readers:
            loaded = loaded.model_copy(update={"readers": readers})
        async with open_app(loaded) as app:
            started, used = time.perf_counter(), _cpu()
            job = await submit(app, list(urls) or addresses(base, pages), pages)
            async with app.engine(schedules=False):
                await ended(app, pages)
                readers_now: list[int] = app.offload.readers  # type: ignore[attr-defined]
                read = sum(map(cpu_of, readers_now))
                seconds, used = time.perf_counter() - started, _cpu() - used
            if not urls:
                await completed(app, job)
            (row,) = await app.database.fetch("SELECT count(*) AS items FROM items WHERE price IS NOT NULL")
    return {
        "seconds": seconds,
        "cpu": used + read,
        "cpu_readers": read,
        "peak_mb": peak_mb(),
        "items": row["items"],
    }


def cpu_of(pid: int) -> float:
    """CPU seconds of another process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def submit(app: App, addresses: Iterable[str], pages: int) -> UUID:
    """Submit a list as `forager crawl --file` does: read and sent in parts."""
    about, urls = {"recrawl": False}, iter(addresses)
    part = min(MOST_URLS, pages // 2)
    opened = await app.open_job("products", about, {**about, "urls": list(islice(urls, part))}, key=None)
    for first in range(part, pages, part):
        body = {**about, "urls": list(islice(urls, part))}
        await app.add_part(opened.job, "products", body, first, more=first + part < pages)
    return opened.job


def addresses(base: str, pages: int) -> Iterator[str]:
    """Yield the addresses of the shop's products: every side gets the same ones."""
    shop = ShopSandbox(ShopConfig(pages=pages, change_days=(0, 0)))
    root = base.rstrip("/")
    return (f"{root}{shop.catalogue.path(number, 'jsonld')}" for number in range(1, pages + 1))


def _without_fsync() -> None:
    """Store without durability: the difference is the cost of durability."""
    durable = connection.connect

    def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
        db = durable(*arguments, **options)
        db.execute("PRAGMA synchronous=OFF")
        return db

    store.connect = connect  # type: ignore[attr-defined]


if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    listed = Path(request["urls"]).read_text().split() if "urls" in request else ()
    readers = request.get("readers", 0)
    answer = run(request["base"], request["pages"], fsync=request["fsync"], readers=readers, urls=listed)
    print(json.dumps(uvloop.run(answer)), flush=True)
