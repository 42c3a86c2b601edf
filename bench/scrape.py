"""Pages on demand, as a client of the service sees it: by plain HTTP, by browser, and what the service adds to a fetch.

The whole of Forager runs as `forager up` runs it (API, engine, embedded store, fsync on); the site is a process of its
own. Politeness would be what is measured, so the site has a policy without pauses, printed with the result.
`overhead_p95_ms`: one synchronous request after another, each beside a bare fetch and reading of the same page;
`pool_busy_share`: of the time in which a browser task was waiting, the share of the pool's browsers that were at work.
"""

import asyncio
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import uvloop

from bench.support.machine import Machine
from bench.support.options import Options, parse
from bench.support.site import site
from bench.support.verdict import Target, conclude, print_table
from forager.api.serve import serve
from forager.app.application import App
from forager.app.compose import open_app
from forager.app.config import load_settings
from forager.cli.process import SWITCH_INTERVAL
from forager.core.clock import SystemClock
from forager.core.http import Request
from forager.fetch.guard import EgressGuard
from forager.fetch.http.fetcher import HttpFetcher
from forager.logging import configure_logs

KEY = "bench-0123456789-abcdefghij-KLMNOPQRST"
BROWSERS = 2
BATCH = 100
POLICY = (
    "domains:\n  default:\n    tokens_per_interval: 100000\n    interval_seconds: 1\n    min_delay_ms: 0\n"
    "    max_delay_ms: 0\n    respect_robots_txt: false\n    max_concurrent_requests: 64\n"
)
TARGETS = (Target("overhead_p95_ms", at_most=15), Target("pool_busy_share", at_least=0.95))


@dataclass(frozen=True, slots=True)
class Round:
    http_per_s: float
    browser_per_s: float
    overheads: list[float]
    busy: float


def main(options: Options) -> None:
    tasks, looks = (100, 40) if options.quick else (500, 200)
    print(f"scrape: {tasks} pages each way, {BROWSERS} browsers, {looks} synchronous requests, {options.rounds} rounds")
    print(f"policy of the site:\n{POLICY}")
    sys.setswitchinterval(SWITCH_INTERVAL)  # as `forager up` does
    machine, rounds = Machine(), []
    with site("job_site") as url:
        for number in range(1, options.rounds + 1):
            machine.sample()
            measured = uvloop.run(measure(url, tasks, looks))
            rounds.append(measured)
            print(
                f"  round {number}: {measured.http_per_s:.0f}/s by HTTP, {measured.browser_per_s:.1f}/s by browser, "
                f"overhead p95 {p95(measured.overheads):.1f} ms, browsers busy {measured.busy:.3f}",
                flush=True,
            )
        machine.sample()
    report(rounds, machine)


async def measure(url: str, tasks: int, looks: int) -> Round:
    async with service(url) as (app, api):
        await drain(app, api, url, "http", BATCH)  # everything is imported and warm
        overheads = await compare(api, url, looks)
        by_http, _ = await drain(app, api, url, "http", tasks)
        await drain(app, api, url, "browser", 4 * BROWSERS)
        by_browser, busy = await drain(app, api, url, "browser", tasks)
        return Round(tasks / by_http, tasks / by_browser, overheads, busy)


async def compare(api: aiohttp.ClientSession, url: str, looks: int) -> list[float]:
    """Milliseconds that a synchronous request took longer than fetching and reading the same page by hand."""
    from forager.pipelines.scrape.extractor import PageInput
    from forager.pipelines.scrape.extractors import EXTRACTORS

    extractor = next(each for each in EXTRACTORS if each.name == "job_posting")
    fetch = HttpFetcher(EgressGuard([url.removeprefix("http://")]), SystemClock(), lambda _: None)
    longer = []
    for number in range(looks):
        page = f"{url}/jobs/jsonld/{number}"
        began = time.perf_counter()
        response = await fetch(Request(page))
        extractor.parse(PageInput(response.url, response.body, response.status, response.at), frozenset())
        bare = time.perf_counter() - began
        began = time.perf_counter()
        body = _target(page, "http")
        async with api.post("/api/v1/scrape/sync", json=body) as answer:
            said = await answer.json()
            assert answer.status == 200, said
        longer.append((time.perf_counter() - began - bare) * 1_000)
    await fetch.close()
    return longer


async def drain(app: App, api: aiohttp.ClientSession, url: str, render: str, tasks: int) -> tuple[float, float]:
    """Seconds until all are done, and how busy the browsers were while more tasks than browsers were open."""
    layout = "script" if render == "browser" else "jsonld"
    pages = [f"{url}/jobs/{layout}/{number}" for number in range(tasks)]
    began, jobs = time.perf_counter(), []
    for first in range(0, tasks, BATCH):
        targets = [_target(page, render) for page in pages[first : first + BATCH]]
        async with api.post("/api/v1/scrape/batch", json={"targets": targets}) as answer:
            said = await answer.json()
            assert answer.status == 202, said
            jobs.append(said["data"]["job_id"])
    shares: list[float] = []
    while (left := await _left(app)) > 0:
        if left > 2 * BROWSERS:
            shares.append(min(1.0, app.browsers.stats().in_use / BROWSERS))
        await asyncio.sleep(0.02)
    seconds = time.perf_counter() - began
    for job in jobs:
        async with api.get(f"/api/v1/scrape/jobs/{job}") as answer:
            said = (await answer.json())["data"]
            assert said["failed_tasks"] == 0, said
    warm = shares[len(shares) // 10 :]
    return seconds, statistics.fmean(warm) if warm else 0.0


def _target(page: str, render: str) -> dict[str, str]:
    return {"target_type": "job_posting", "target_url": page, "workspace_id": "bench", "render": render}


async def _left(app: App) -> int:
    health = await app.reports.health()
    return health.queued + health.running


@contextlib.asynccontextmanager
async def service(url: str, log_level: str = "WARNING") -> AsyncIterator[tuple[App, aiohttp.ClientSession]]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "policies.yaml").write_text(POLICY)
        settings = load_settings({**_overrides(home, url), "log_level": log_level}, env={}, cwd=home)
        configure_logs(settings.log_level, settings.log_format, settings.secrets())
        async with (
            open_app(settings) as app,
            app.engine(),
            serve(app, host="127.0.0.1", port=0, key=KEY) as api_url,
            aiohttp.ClientSession(api_url, headers={"X-Service-Key": KEY}) as api,
        ):
            yield app, api


def _overrides(home: Path, url: str) -> dict[str, Any]:
    return {
        "home": home,
        "log_level": "WARNING",
        "domain_policies_path": home / "policies.yaml",
        "egress_allow": [url.removeprefix("http://")],
        "browser_pool_size": BROWSERS,
        "browser_pool_max": BROWSERS,
    }


def p95(figures: list[float]) -> float:
    return statistics.quantiles(figures, n=20)[-1]


def report(rounds: list[Round], machine: Machine) -> None:
    figures = {
        "http_per_s": round(statistics.median(each.http_per_s for each in rounds), 1),
        "browser_per_s": round(statistics.median(each.browser_per_s for each in rounds), 2),
        "overhead_p95_ms": round(statistics.median(p95(each.overheads) for each in rounds), 2),
        "overhead_p50_ms": round(statistics.median(statistics.median(each.overheads) for each in rounds), 2),
        "pool_busy_share": round(statistics.median(each.busy for each in rounds), 4),
    }
    print_table(("median of the rounds", "figure"), [(key, f"{value:,g}") for key, value in figures.items()])
    conclude("scrape", figures, TARGETS, machine)


if __name__ == "__main__":
    main(parse(__doc__ or ""))
