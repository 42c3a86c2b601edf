"""What a durable crawl costs beside Scrapy and Crawlee: 5,000 pages of 20 KB, fetched, parsed and stored.

Every side reads the same fields of the same pages, 64 in flight, from a shop in a process of its own. Ours keeps every
page, product and change on disk with fsync; Scrapy keeps its items in memory, and its queue too unless it has a JOBDIR;
Crawlee keeps queue and items in files by default, or in memory. The sides take turns; each ratio is taken in its round.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from bench.support import peers
from bench.support.crawl_run import POLICY, addresses
from bench.support.machine import Machine
from bench.support.options import Options, parse
from bench.support.site import site
from bench.support.verdict import Target, conclude, print_table

PAGES, QUICK = 5_000, 500
MANY, QUICK_MANY = 100_000, 2_000
TARGETS = (
    Target("vs_scrapy", at_least=3.0),
    Target("vs_scrapy_jobdir", at_least=4.0),
    Target("vs_crawlee", at_least=5.0),
    Target("vs_crawlee_memory", at_least=1.3),
    Target("cpu_vs_scrapy", at_most=0.33),
    Target("fsync_cost", at_most=1.3),
    Target("memory_growth", at_most=1.3),
    Target("peak_mb", at_most=200),
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
    report(runs, many, pages, machine)


def one_round(base: str, pages: int, urls: Path, folder: Path) -> dict[str, Run]:
    folder.mkdir()
    return {
        "forager": ours(base, pages),
        "one reader": ours(base, pages, readers=1),
        "scrapy": peers.answer("scrapy", str(urls)),
        "without fsync": ours(base, pages, fsync=False),
        "scrapy jobdir": peers.answer("scrapy", str(urls), str(folder / "job")),
        "crawlee memory": peers.answer("crawlee", str(urls), "memory", str(folder / "memory")),
        "crawlee": peers.answer("crawlee", str(urls), "default", str(folder / "default")),
    }


def ours(base: str, pages: int, *, fsync: bool = True, readers: int = 0) -> Run:
    request = json.dumps({"base": base, "pages": pages, "fsync": fsync, "readers": readers})
    command = [sys.executable, "-m", "bench.support.crawl_run", request]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    run: Run = json.loads(done.stdout.splitlines()[-1])
    return run


def report(runs: dict[str, list[Run]], many: Run, pages: int, machine: Machine) -> None:
    def ratio(name: str, key: str = "seconds") -> float:
        pairs = zip(runs[name], runs["forager"], strict=True)
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
    rows = []
    for name, all_of_them in runs.items():
        rate = statistics.median(pages / run["seconds"] for run in all_of_them)
        cpu = statistics.median(run["cpu"] * 1_000 / pages for run in all_of_them)
        read = statistics.median(run.get("cpu_readers", 0.0) * 1_000 / pages for run in all_of_them)
        rows.append((name, f"{rate:,.0f}", f"{cpu:.2f}", f"{read:.2f}" if read else ""))
    print_table(("side", "pages/s", "CPU ms a page", "of it in readers"), rows)
    conclude("crawl", figures, TARGETS, machine)


if __name__ == "__main__":
    main(parse(__doc__ or ""))
