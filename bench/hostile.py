"""Cost of hostile pages for the service that reads them: stalls of its event loop, waits for `/readiness`, memory.

The whole of Forager runs as `forager up` runs it; the site is a process of its own. Its pages are 76 pumps (a piece
that is repeated) in 9 contexts, in 3 sizes. Every page is requested with every extractor, crawled as a product's page,
and read as a sitemap. A part of them is chosen by a fixed seed; `--full` takes all of them, which needs hours.

A stall is the time by which a timer of the loop fires late, as far as this process used the CPU meanwhile.
`worst_late_ms` includes the time that a busy machine gives to other processes. Memory is that of the service; each
reader has a limit of its own.
"""

import asyncio
import contextlib
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp
import uvloop

from bench.scrape import service
from bench.support.hostile_site import PIECES, PLACES, SIZES
from bench.support.machine import Machine
from bench.support.options import Options, parse
from bench.support.site import site
from bench.support.verdict import Target, conclude, print_table
from forager.app.application import App
from forager.cli.process import SWITCH_INTERVAL
from forager.pipelines.scrape.extractors import EXTRACTORS

TICK = 0.005
PART, QUICK = 200, 60
"""Pages of the default and of a quick run. `--full`: all."""
SITEMAPS = 12
"""Pages, of a hundred, that are also read as a sitemap: each is a job of its own."""
AT_ONCE = 50
SEED = 27
TARGETS = (
    Target("worst_stall_ms", at_most=50),
    Target("readiness_ms", at_most=250, quiet_only=True),  # by the clock: a busy machine gives its time to others
    Target("not_ready", at_most=0),
    Target("memory_mb", at_most=64),
)
READERS = (*(each.name for each in EXTRACTORS), "product crawl")
Combination = tuple[str, int, int, int]
"""Reader, context, pump and size."""


@dataclass(slots=True)
class Watch:
    """Measurements of the loop's timer."""

    stalls: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    peak: int = 0

    async def run(self) -> None:
        while True:
            began, used = time.perf_counter(), time.process_time()
            await asyncio.sleep(TICK)
            late = time.perf_counter() - began - TICK
            self.late.append(late * 1_000)
            self.stalls.append(min(late, time.process_time() - used) * 1_000)
            self.peak = max(self.peak, resident())


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def combinations(options: Options) -> list[Combination]:
    every = list(product(READERS, range(len(PLACES)), range(len(PIECES)), SIZES))
    random.Random(SEED).shuffle(every)
    return every if options.full else every[: QUICK if options.quick else PART]


def main(options: Options) -> None:
    chosen = combinations(options)
    every = len(READERS) * len(PLACES) * len(PIECES) * len(SIZES)
    print(
        f"hostile: {len(chosen):,} of {every:,} pages: {len(PIECES)} pumps in {len(PLACES)} contexts in "
        f"{len(SIZES)} sizes, {len(READERS)} readers; seed {SEED}",
        flush=True,
    )
    sys.setswitchinterval(SWITCH_INTERVAL)  # as `forager up` does
    machine = Machine()
    machine.sample()
    with site("hostile_site") as url:
        figures = uvloop.run(measure(url.rstrip("/"), chosen))
    machine.sample()
    print_table(("figure", "value"), [(key, f"{value:,g}") for key, value in figures.items()])
    conclude("hostile", figures, TARGETS, machine)


async def measure(url: str, chosen: list[Combination]) -> dict[str, float]:
    async with service(url, "CRITICAL") as (app, api):
        ordinary = [f"{url}/ordinary/{number}" for number in range(2 * len(READERS))]
        await read(app, api, [(READERS[at % len(READERS)], page) for at, page in enumerate(ordinary)])
        watch, before = Watch(), resident()
        began, ends = time.perf_counter(), Counter[str]()
        ticking = asyncio.create_task(watch.run())
        async with probe(str(api._base_url)) as slowest:
            for first in range(0, len(chosen), AT_ONCE):
                part = chosen[first : first + AT_ONCE]
                pages = [(name, f"{url}/{context}/{pump}/{size}") for name, context, pump, size in part]
                maps = [("sitemap", f"{page}/sitemap.xml") for _, page in pages[: AT_ONCE * SITEMAPS // 100]]
                ends += await read(app, api, [*pages, *maps])
                if first % (10 * AT_ONCE) == 0:
                    print(f"  {first + len(part):,} pages, worst stall {max(watch.stalls):.1f} ms", flush=True)
        ticking.cancel()
    for why in slowest["why"]:
        print(f"  not ready: {why}")
    return {
        "worst_stall_ms": round(max(watch.stalls), 1),
        "stall_p999_ms": round(sorted(watch.stalls)[int(len(watch.stalls) * 0.999)], 1),
        "worst_late_ms": round(max(watch.late), 1),
        "readiness_ms": round(slowest["worst_ms"], 1),
        "readiness_p99_ms": round(slowest["p99_ms"], 1),
        "not_ready": slowest["not_ready"],
        "memory_mb": round((watch.peak - before) / 1_048_576, 1),
        "pages": len(chosen),
        "seconds": round(time.perf_counter() - began),
        **{f"ended_{state}": count for state, count in sorted(ends.items())},
    }


async def read(app: App, api: aiohttp.ClientSession, pages: list[tuple[str, str]]) -> Counter[str]:
    """Request pages through the API, each with its reader, until all have ended. Return their final states."""
    before = Counter(app.worker.stats.ended)
    targets = [
        {"target_type": name, "target_url": page, "workspace_id": "bench", "render": "http"}
        for name, page in pages
        if name not in ("product crawl", "sitemap")
    ]
    crawled = [page for name, page in pages if name == "product crawl"]
    jobs = [await send(api, targets)] if targets else []
    if crawled:
        jobs.append((await app.submit("products", {"urls": crawled, "recrawl": False})).job)
    for name, page in pages:
        if name == "sitemap":
            jobs.append((await app.submit("products", {"sitemap": page, "recrawl": False})).job)
    while any([(await app.reports.job(job)).finished_at is None for job in jobs]):
        await asyncio.sleep(0.05)
    return Counter(app.worker.stats.ended) - before


async def send(api: aiohttp.ClientSession, targets: list[dict[str, str]]) -> UUID:
    async with api.post("/api/v1/scrape/batch", json={"targets": targets}) as answer:
        said = await answer.json()
        assert answer.status == 202, said
        return UUID(said["data"]["job_id"])


@contextlib.asynccontextmanager
async def probe(url: str) -> AsyncIterator[dict[str, Any]]:
    """Poll `/readiness` while the block runs, from a process of its own; the result is filled in at its end."""
    told: dict[str, Any] = {}
    command = [sys.executable, "-m", "bench.support.readiness_probe", url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        await asyncio.to_thread(process.stdout.readline)
        try:
            yield told
        finally:
            process.stdin.close()
            told |= json.loads(await asyncio.to_thread(process.stdout.readline))


if __name__ == "__main__":
    main(parse(__doc__ or ""))
