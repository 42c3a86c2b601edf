"""Cost of a durable crawl, compared with Scrapy and Crawlee: 5,000 pages of 20 KB, fetched, parsed and stored.

Every side reads the same fields of the same pages, 64 in flight, from a shop in a process of its own. Ours keeps every
page, product and change on disk with fsync; Scrapy keeps its items in memory, and its queue as well unless it has a
JOBDIR; Crawlee keeps queue and items in files by default, or in memory. The sides take turns; each ratio is taken in
its round.

A second part crawls real pages of shops and other sites at their real size (`FORAGER_DATA`), compressed as they are
sent. There the peers read the same fields as their users do, with extruct and price-parser.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.support import peers
from bench.support.crawl_run import POLICY, addresses
from bench.support.data_set import DATA
from bench.support.machine import Machine
from bench.support.options import Options, parse
from bench.support.real_site import chosen
from bench.support.site import site
from bench.support.verdict import Target, conclude, print_table

PAGES, QUICK = 5_000, 500
MANY, QUICK_MANY = 100_000, 2_000
REAL_EVERY, QUICK_REAL_EVERY = 1, 8
"""One of so many of the real pages."""
REAL_ROUNDS = 1
"""A round of real pages takes minutes, most of them the peers': its ratios are far apart."""
TARGETS = (
    Target("vs_scrapy", at_least=3.3),
    Target("vs_scrapy_jobdir", at_least=4.0),
    Target("vs_crawlee", at_least=5.0),
    Target("vs_crawlee_memory", at_least=1.5),
    Target("real_vs_scrapy", at_least=4.0),
    Target("cpu_vs_scrapy", at_most=0.33),
    Target("fsync_cost", at_most=1.3),
    Target("memory_growth", at_most=1.3),
    Target("peak_mb", at_most=250),
)
Run = dict[str, Any]


def main(options: Options) -> None:
    pages = QUICK if options.quick else PAGES
    print(f"crawl: {pages:,} pages of 20 KB, {options.rounds} rounds; our policy: {POLICY}")
    peers.prepare(peers.CRAWLERS)
    machine = Machine()
    runs: dict[str, list[Run]] = defaultdict(list)
    with site("shop_site") as base, tempfile.TemporaryDirectory(prefix="forager-bench-") as folder:
        urls = Path(folder) / "urls.txt"
        urls.write_text("\n".join(addresses(base, pages)))
        for number in range(1, options.rounds + 1):
            machine.sample()
            for name, run in one_round(base, pages, urls, Path(folder) / str(number)).items():
                assert run["items"] == pages, f"{name} found {run['items']} of {pages} products"
                runs[name].append(run)
                rate, cpu = pages / run["seconds"], run["cpu"] * 1_000 / pages
                print(f"  round {number}: {name:16} {rate:8,.0f} pages/s, {cpu:.2f} ms CPU a page", flush=True)
        many = ours(base, QUICK_MANY if options.quick else MANY)
        machine.sample()
    real = real_runs(options) if DATA.exists() else {}
    machine.sample()
    report(runs, many, pages, real, machine)


def real_runs(options: Options) -> dict[str, list[Run]]:
    """Each side's runs over the real pages. Not every page is a product; items are those with a price, or, of the
    peers, with markup of a product."""
    paths = [path for path, _ in chosen(QUICK_REAL_EVERY if options.quick else REAL_EVERY)]
    runs: dict[str, list[Run]] = defaultdict(list)
    print(f"crawl: {len(paths)} real pages, {REAL_ROUNDS} round", flush=True)
    with site("real_site") as base, tempfile.TemporaryDirectory(prefix="forager-bench-") as name:
        folder, root = Path(name), base.rstrip("/")
        urls = folder / "urls.txt"
        urls.write_text("\n".join(f"{root}{path}" for path in paths))
        for number in range(REAL_ROUNDS):
            sides = {
                "forager": ours(base, len(paths), urls=urls),
                "one reader": ours(base, len(paths), urls=urls, readers=1),
                "scrapy": peers.answer("scrapy", str(urls), "real"),
                "scrapy jobdir": peers.answer("scrapy", str(urls), "real", str(folder / f"job{number}")),
                "crawlee memory": peers.answer("crawlee", str(urls), "real", "memory", str(folder / f"m{number}")),
            }
            for side, run in sides.items():
                runs[side].append({**run, "pages": len(paths)})
                rate, cpu = len(paths) / run["seconds"], run["cpu"] * 1_000 / len(paths)
                print(f"  {side:16} {rate:8,.1f} pages/s, {cpu:.1f} ms CPU a page, {run['items']} items", flush=True)
    return runs


def one_round(base: str, pages: int, urls: Path, folder: Path) -> dict[str, Run]:
    folder.mkdir()
    return {
        "forager": ours(base, pages),
        "one reader": ours(base, pages, readers=1),
        "scrapy": peers.answer("scrapy", str(urls), "shop"),
        "without fsync": ours(base, pages, fsync=False),
        "scrapy jobdir": peers.answer("scrapy", str(urls), "shop", str(folder / "job")),
        "crawlee memory": peers.answer("crawlee", str(urls), "shop", "memory", str(folder / "memory")),
        "crawlee": peers.answer("crawlee", str(urls), "shop", "default", str(folder / "default")),
    }


def ours(base: str, pages: int, *, fsync: bool = True, readers: int = 0, urls: Path | None = None) -> Run:
    request: dict[str, Any] = {"base": base, "pages": pages, "fsync": fsync, "readers": readers}
    if urls is not None:
        request["urls"] = str(urls)
    command = [sys.executable, "-m", "bench.support.crawl_run", json.dumps(request)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    run: Run = json.loads(done.stdout.splitlines()[-1])
    return run


def report(runs: dict[str, list[Run]], many: Run, pages: int, real: dict[str, list[Run]], machine: Machine) -> None:
    def ratio(name: str, key: str = "seconds", of: dict[str, list[Run]] = runs) -> float:
        pairs = zip(of[name], of["forager"], strict=True)
        return round(float(statistics.median(theirs[key] / mine[key] for theirs, mine in pairs)), 2)

    peak = max(run["peak_mb"] for run in runs["forager"])
    figures = {
        "vs_scrapy": ratio("scrapy"),
        "vs_scrapy_jobdir": ratio("scrapy jobdir"),
        "vs_crawlee": ratio("crawlee"),
        "vs_crawlee_memory": ratio("crawlee memory"),
        "cpu_vs_scrapy": round(1 / ratio("scrapy", "cpu"), 3),
        "fsync_cost": round(1 / ratio("without fsync"), 2),
        "memory_growth": round(many["peak_mb"] / peak, 2),
        "peak_mb": round(many["peak_mb"]),
    }
    if real:
        figures |= {
            "real_vs_scrapy": ratio("scrapy", of=real),
            "real_vs_scrapy_jobdir": ratio("scrapy jobdir", of=real),
            "real_vs_crawlee_memory": ratio("crawlee memory", of=real),
            "real_cpu_vs_scrapy": round(1 / ratio("scrapy", "cpu", of=real), 3),
        }
    rows = [*_rows(runs, pages, "20 KB"), *_rows(real, real["forager"][0]["pages"] if real else 0, "real")]
    print_table(("side", "pages", "pages/s", "CPU ms a page", "of it in readers"), rows)
    conclude("crawl", figures, TARGETS, machine)


def _rows(runs: dict[str, list[Run]], pages: int, size: str) -> Iterator[tuple[str, ...]]:
    for name, all_of_them in runs.items():
        rate = statistics.median(pages / run["seconds"] for run in all_of_them)
        cpu = statistics.median(run["cpu"] * 1_000 / pages for run in all_of_them)
        read = statistics.median(run.get("cpu_readers", 0.0) * 1_000 / pages for run in all_of_them)
        yield name, size, f"{rate:,.1f}", f"{cpu:.2f}", f"{read:.2f}" if read else ""


if __name__ == "__main__":
    main(parse(__doc__ or ""))
