"""A whole site by its links, compared with Scrapy and Crawlee: pages per second, and how useful the first requests are.

The site is a process of its own: articles, lists and a home page that link to each other, and between them a calendar,
filters, session ids, copies for printing and for telephones, and redirects. No side gets a sitemap. `useful_share`
looks at the first N requests, where N is the number of useful pages, and is the share of them that requested a useful
page for the first time. All sides keep title, language, links and HTML; ours on disk with fsync, theirs in memory.
"""

import json
import statistics
import subprocess
import sys
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.support import peers
from bench.support.machine import Machine
from bench.support.options import Options, parse
from bench.support.verdict import Target, conclude, print_table
from forager.sandbox.linked import LinkedConfig, LinkedPages

PAGES, QUICK = 50_000, 2_000
ROUND, QUICK_ROUND = 10_000, 2_000
TARGETS = (
    Target("vs_scrapy", at_least=3.0),
    Target("cpu_vs_scrapy", at_most=0.33),
    Target("useful_share", at_least=0.95),
    Target("peak_mb", at_most=300),
)
PEERS = {"scrapy": "scrapy_site", "crawlee": "crawlee_site"}
"""The scripts of the peers, by name."""
Run = dict[str, Any]


def main(options: Options) -> None:
    pages = QUICK if options.quick else PAGES
    limit = QUICK_ROUND if options.quick else ROUND
    useful = LinkedPages(LinkedConfig(pages=pages, sitemap=False, words=400)).useful()
    print(f"sites: {pages:,} articles, {len(useful):,} useful pages, {options.rounds} rounds of {limit:,} requests")
    peers.prepare(peers.CRAWLERS)
    machine = Machine()
    runs: dict[str, list[Run]] = defaultdict(list)
    for number in range(1, options.rounds + 1):
        machine.sample()
        for name in ("forager", *PEERS):
            with linked_site(pages) as base:
                asked = min(limit, len(useful))
                run = ours(base, asked) if name == "forager" else peers.answer(PEERS[name], base, str(asked))
                run |= found(base, useful, asked)
            runs[name].append(run)
            print(
                f"  round {number}: {name:8} {run['requests'] / run['seconds']:8,.0f} pages/s,"
                f" {run['cpu'] * 1_000 / run['requests']:.2f} ms CPU a page, useful {run['useful']:.3f}",
                flush=True,
            )
    machine.sample()
    report(runs, machine)


@contextmanager
def linked_site(pages: int) -> Iterator[str]:
    command = [sys.executable, "-m", "bench.support.linked_site", str(pages)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def ours(base: str, limit: int) -> Run:
    command = [sys.executable, "-m", "bench.support.site_run", json.dumps({"base": base, "limit": limit})]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    run: Run = json.loads(done.stdout.splitlines()[-1])
    return run


def found(base: str, useful: set[str], asked: int) -> Run:
    """Return how many requests came, and the share of useful pages among the first ones."""
    with urllib.request.urlopen(f"{base}_sandbox/log") as answer:
        calls = [json.loads(line)["subject"] for line in answer.read().splitlines()]
    calls = [path for path in calls if path != "/robots.txt"]
    return {"requests": len(calls), "useful": round(len(useful & set(calls[:asked])) / asked, 4)}


def report(runs: dict[str, list[Run]], machine: Machine) -> None:
    def ratio(of: str, peer: str) -> float:
        pairs = zip(runs[peer], runs["forager"], strict=True)
        return round(
            float(statistics.median(them[of] / them["requests"] / (us[of] / us["requests"]) for them, us in pairs)), 2
        )

    figures = {
        "vs_scrapy": ratio("seconds", "scrapy"),
        "vs_crawlee": ratio("seconds", "crawlee"),
        "cpu_vs_scrapy": round(1 / ratio("cpu", "scrapy"), 3),
        "useful_share": min(run["useful"] for run in runs["forager"]),
        **{f"{name}_useful_share": min(run["useful"] for run in runs[name]) for name in PEERS},
        "peak_mb": round(max(run["peak_mb"] for run in runs["forager"])),
    }
    rows = []
    for name, every in runs.items():
        rate = statistics.median(run["requests"] / run["seconds"] for run in every)
        useful = statistics.median(run["useful"] for run in every)
        rows.append((name, f"{rate:,.0f}", f"{useful:.3f}"))
    print_table(("side", "pages/s", "useful"), rows)
    conclude("sites", figures, TARGETS, machine)


if __name__ == "__main__":
    main(parse(__doc__ or ""))
