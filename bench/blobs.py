"""Cost of storing a page: CPU per page, memory as the number of pages grows, reading and collecting.

Each measurement is a fresh process. Its figure is its own CPU time (all threads) less that of the same loop without
storing. The same process also measures the unavoidable part: hashing and packing the same pages.
"""

import asyncio
import multiprocessing
import random
import resource
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from bench.support.machine import Machine
from bench.support.options import Options, parse
from bench.support.verdict import Target, conclude, print_table
from forager.core.clock import SystemClock
from forager.core.http import Response
from forager.sdk.warc import CapturedPage, WarcWriter
from forager.storage.pages.local import LocalBlobs
from forager.storage.pages.segments import Packer, digest_of

PAGE = 20_000
FEW, MANY = 5_000, 100_000
IN_FLIGHT = 64
TARGETS = (
    Target("cpu_ms_per_page", at_most=0.1, quiet_only=True),
    Target("share_of_packing", at_least=0.45),
    Target("memory_growth", at_most=1.1),
)
AT = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Measured:
    pages: int
    store_ms: float
    pack_ms: float
    warc_ms: float
    again_ms: float
    read_ms: float
    collect_ms: float
    peak_mb: float
    stored: float
    """Bytes on the disk per page."""


def main(options: Options) -> None:
    sizes = (FEW // 5, MANY // 20) if options.quick else (FEW, MANY)
    print(f"blobs: {sizes[0]:,} and {sizes[1]:,} pages of {PAGE / 1000:.0f} KB, {IN_FLIGHT} in flight")
    machine, runs = Machine(), {size: list[Measured]() for size in sizes}
    for number in range(1, options.rounds + 1):
        machine.sample()
        for size in sizes if number == 1 else sizes[:1]:  # memory needs no second look at the big one
            found = in_process(size)
            runs[size].append(found)
            print(
                f"  round {number}: {size:>9,} pages {found.store_ms:.4f} ms, peak {found.peak_mb:.0f} MB", flush=True
            )
    machine.sample()
    report(runs[sizes[0]], runs[sizes[1]][0], machine)


def report(few: Sequence[Measured], many: Measured, machine: Machine) -> None:
    print_table(
        ("pages", "store ms", "hash+pack ms", "WARC ms", "again ms", "read ms", "collect ms", "bytes", "peak MB"),
        (
            (f"{m.pages:,}", f"{m.store_ms:.4f}", f"{m.pack_ms:.4f}", f"{m.warc_ms:.4f}", f"{m.again_ms:.4f}",
             f"{m.read_ms:.4f}", f"{m.collect_ms:.4f}", f"{m.stored:,.0f}", f"{m.peak_mb:.0f}")
            for m in (*few, many)
        ),
    )  # fmt: skip
    figures = {
        "cpu_ms_per_page": round(statistics.median(m.store_ms for m in few), 4),
        "cpu_ms_at_100k": round(many.store_ms, 4),
        "share_of_packing": round(statistics.median(m.pack_ms / m.store_ms for m in few), 3),
        "warc_ms": round(statistics.median(m.warc_ms for m in few), 4),
        "again_ms": round(statistics.median(m.again_ms for m in few), 4),
        "read_ms": round(statistics.median(m.read_ms for m in few), 4),
        "collect_ms": round(many.collect_ms, 4),
        "memory_growth": round(many.peak_mb / min(m.peak_mb for m in few), 3),
        "peak_mb": round(many.peak_mb, 1),
    }
    conclude("blobs", figures, TARGETS, machine)


def in_process(size: int) -> Measured:
    """In a process of its own, so that neither memory nor CPU time of another round counts."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, (size,))


def measure(size: int) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        return uvloop.run(_measure(size, Path(folder) / "blobs"))


async def _measure(size: int, folder: Path) -> Measured:
    pages = Pages()
    idle = await spend(size, pages, None)
    blobs = LocalBlobs(folder, SystemClock())
    stored = await spend(size, pages, blobs)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    on_disk = (await blobs.stat()).stored
    few = min(size, FEW)
    again = await spend(few, pages, blobs)
    names = [await blobs.keep(pages.page(number)) for number in range(few)]
    began = time.process_time()
    for name in names:
        await blobs.read(name)
    read = time.process_time() - began

    async def all_of_them() -> AsyncIterator[Sequence[str]]:
        for start in range(0, size, 2_000):
            yield names[start : start + 2_000]

    began = time.process_time()
    await blobs.collect(all_of_them)
    collected = time.process_time() - began
    await blobs.close()
    bare = pack(few, pages)
    each = 1000 / size
    return Measured(
        size,
        (stored - idle) * each,
        (bare - idle * few / size) * 1000 / few,
        (as_warc(few, pages) - idle * few / size) * 1000 / few,
        (again - idle * few / size) * 1000 / few,
        read * 1000 / few,
        collected * each,
        peak,
        on_disk / size,
    )


def as_warc(size: int, pages: "Pages") -> float:
    """CPU seconds to write the same pages as records of a WARC file."""
    began = time.process_time()
    with tempfile.TemporaryFile() as file:
        writer = WarcWriter(file, "pages.warc.gz")
        for number in range(size):
            page = pages.page(number)
            writer.add(CapturedPage(page.url, page.at, page.status, "text/html", page.body, {}))
    return time.process_time() - began


async def spend(size: int, pages: "Pages", blobs: LocalBlobs | None) -> float:
    """CPU seconds of a loop over this many pages that stores them, or does nothing with them."""
    numbers = iter(range(size))

    async def work() -> None:
        for number in numbers:
            page = pages.page(number)
            if blobs is None:
                await asyncio.sleep(0)
            else:
                await blobs.keep(page)

    began = time.process_time()
    await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
    return time.process_time() - began


def pack(size: int, pages: "Pages") -> float:
    packer = Packer()
    began = time.process_time()
    for number in range(size):
        page = pages.page(number)
        packer.pack(digest_of(page), page)
    return time.process_time() - began


class Pages:
    """Pages of a shop, each another one: some markup that all have, words and figures of their own."""

    def __init__(self) -> None:
        dice = random.Random(1)
        words = ["".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=dice.randint(3, 10))) for _ in range(3_000)]
        self._kinds = [self._made(dice, words) for _ in range(200)]

    def page(self, number: int) -> Response:
        body = b"%s<p>%d</p>" % (self._kinds[number % len(self._kinds)], number)
        return Response(f"https://shop.example/p/{number}", 200, {"Content-Type": "text/html"}, body, AT, 10)

    @staticmethod
    def _made(dice: random.Random, words: Sequence[str]) -> bytes:
        made = ["<!doctype html><html><head><title>Shop</title></head><body>"]
        while sum(map(len, made)) < PAGE:
            name, price = " ".join(dice.choices(words, k=6)), dice.randint(100, 99_999) / 100
            made.append(
                f'<div class="product-card" data-id="{dice.randrange(10**9)}"><a class="product-link" '
                f'href="/p/{dice.randrange(10**6)}"><h3>{name}</h3></a><span class="price">{price:.2f} €</span></div>'
            )
        return "".join(made).encode()[:PAGE]


if __name__ == "__main__":
    main(parse(__doc__ or ""))
