"""Cost of the dashboard: bytes of a first load, CPU of 50 open dashboards while a job runs, and frames while 10,000
rows scroll.

The store holds 1,000 jobs, 1,000,000 tasks and 1,000,000 records (a tenth of that with `--quick`). `first_row_ms` is
the time to the first row of the slowest of four lists: jobs, completed jobs, records and the newest changes.
`cpu_share_50` is the CPU time of the serving process per second while a job runs at its full rate and 50 streams are
read, less what the tasks of that time cost without streams: the median of three rounds, each with both sides.
`frame_ms_p95` is what the page itself needs between two frames (script, style and layout), since a machine without a
display draws frames at its own rate.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import psutil
from playwright.async_api import Page, async_playwright

from bench.support.machine import Machine
from bench.support.options import Options, parse
from bench.support.verdict import Target, conclude
from forager.fetch.browser.chromium import find_chromium
from tests.support.api import KEY

ROWS = 10_000
STREAMS = 50
JOBS, QUICK_JOBS = 1_000, 100
"""Finished jobs of 1,000 tasks and 1,000 records each."""
SECONDS = 4.0
ROUNDS = 3
"""Windows without and with streams, in turn: 30 s in all, so that the job does not end before."""
TARGETS = (
    Target("kilobytes", at_most=150),
    Target("cpu_share_50", at_most=0.05),
    Target("frame_ms_p95", at_most=16, quiet_only=True),
)
FIRST_ROWS = (
    ("/jobs", "a[href^='/jobs/'] .job-name"),
    ("/records/place", "a[href^='/records/place/'] .job-name"),
    ("/jobs?state=completed", "a[href^='/jobs/'] .job-name"),
    ("/changes", "a.look"),
)
"""Pages, and what their first row looks like."""
SCROLL = """async (steps) => {
  const box = document.querySelector(".virtual");
  const took = [];
  for (let step = 0; step < steps; step++) {
    const begun = performance.now();
    box.scrollTop = (step * 997) % (box.scrollHeight - box.clientHeight);
    box.dispatchEvent(new Event("scroll"));
    await null; await null;
    void box.offsetHeight;
    took.push(performance.now() - begun);
    await new Promise(requestAnimationFrame);
  }
  return took;
}"""


def main(options: Options) -> None:
    jobs = QUICK_JOBS if options.quick else JOBS
    print(
        f"dashboard: first load with {jobs:,} jobs of 1,000 tasks and records, {STREAMS} streams beside a running job,"
        f" {ROWS:,} rows"
    )
    machine = Machine()
    with tempfile.TemporaryDirectory() as home:
        command = [sys.executable, "-m", "bench.support.dashboard_server", home, str(ROWS), str(jobs)]
        log = (Path(home) / "server.log").open("wb")
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert server.stdout is not None
            url = next(line for line in server.stdout if line.startswith("http")).strip()
            # The server logs its requests there: a pipe that nothing reads would fill up and hold it.
            threading.Thread(target=deque, args=(server.stdout, 0), daemon=True).start()
            figures = asyncio.run(_measured(url, psutil.Process(server.pid), machine))
        finally:
            assert server.stdin is not None
            server.stdin.close()
            server.wait(60)
    conclude("dashboard", figures, TARGETS, machine)


async def _measured(url: str, server: psutil.Process, machine: Machine) -> dict[str, Any]:
    async with httpx.AsyncClient(base_url=url, headers={"X-Service-Key": KEY}, timeout=60) as client:
        machine.sample()
        made = await client.post("/api/v1/places/jobs", json={"keyword": "bars", "state": "AZ", "pages": 1})
        job = made.raise_for_status().json()["data"]["job_id"]
        await asyncio.sleep(2)
        shares = [await _round(client, server, job) for _ in range(ROUNDS)]
        state = (await client.get(f"/api/v1/jobs/{job}")).json()["data"]
        machine.sample()
        seen = await _browsed(url, job)
    left = state["queued"] + state["running"]
    rounds = ", ".join(f"{share:.3f}" for share in shares)
    print(f"  CPU share of {STREAMS} streams by round: {rounds}; {left:,} tasks were left then")
    return {**seen, "cpu_share_50": round(max(0.0, median(shares)), 4), "job_ran": left > 0}


async def _round(client: httpx.AsyncClient, server: psutil.Process, job: str) -> float:
    """CPU seconds per second of the streams. On a machine that is busy with other things a job does less in one window
    than in another, so the tasks of a window are charged at what a task costs without streams."""
    alone, tasks = await _used(client, server, job)
    readers = [asyncio.create_task(_read(client, job)) for _ in range(STREAMS)]
    await asyncio.sleep(1)
    read, read_tasks = await _used(client, server, job)
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    await asyncio.sleep(1)
    return read - alone / max(1.0, tasks) * read_tasks


async def _used(client: httpx.AsyncClient, server: psutil.Process, job: str) -> tuple[float, float]:
    """CPU seconds and ended tasks, per second."""
    began, used, ended = time.monotonic(), sum(server.cpu_times()[:2]), await _ended(client, job)
    await asyncio.sleep(SECONDS)
    tasks, seconds = await _ended(client, job) - ended, time.monotonic() - began
    return float(sum(server.cpu_times()[:2]) - used) / seconds, tasks / seconds


async def _ended(client: httpx.AsyncClient, job: str) -> int:
    state = (await client.get(f"/api/v1/jobs/{job}")).json()["data"]
    return int(state["completed"] + state["skipped"] + state["failed"])


async def _read(client: httpx.AsyncClient, job: str) -> None:
    async with client.stream("GET", "/api/v1/live", params={"topics": f"overview,job:{job}"}) as stream:
        async for _ in stream.aiter_bytes():
            pass


async def _browsed(url: str, job: str) -> dict[str, Any]:
    async with async_playwright() as play:
        program = find_chromium(os.environ.get("FORAGER_CHROMIUM"))
        browser = await play.chromium.launch(executable_path=str(program), args=["--no-sandbox"])
        page = await browser.new_page(base_url=url)
        await page.goto("/")
        await page.get_by_label("Key").fill(KEY)
        began = time.perf_counter()
        await page.get_by_role("button", name="Sign in").click()
        await page.locator(".card .figure").first.wait_for()
        overview = (time.perf_counter() - began) * 1000
        loaded = "performance.getEntriesByType('resource').map((each) => each.transferSize)"
        sizes = await page.evaluate(f"[...{loaded}, performance.getEntriesByType('navigation')[0].transferSize]")
        rows = {address: await _first_row(page, address, row) for address, row in FIRST_ROWS}
        print("  first row:", ", ".join(f"{address} {took:.0f} ms" for address, took in rows.items()))
        await page.goto(f"/jobs/{job}")
        await page.locator(".virtual .line").first.wait_for()
        while await page.evaluate("document.querySelector('.virtual').scrollHeight") < ROWS * 40:
            await page.evaluate("document.querySelector('.virtual').scrollTop = 1e9")
            await asyncio.sleep(0.05)
        took = sorted(await page.evaluate(SCROLL, 300))
        await browser.close()
    return {
        "kilobytes": round(sum(sizes) / 1000, 1),
        "overview_ms": round(overview),
        "first_row_ms": round(max(rows.values())),
        "frame_ms_p95": round(took[int(len(took) * 0.95)], 2),
    }


async def _first_row(page: Page, address: str, row: str) -> float:
    """Milliseconds from a request for a page of the dashboard, in a tab that shows another one, to its first row."""
    await page.goto("/keys")
    await page.locator("tbody tr").first.wait_for()
    began = time.perf_counter()
    await page.evaluate(
        "(to) => { history.pushState(null, '', to); dispatchEvent(new PopStateEvent('popstate')); }", address
    )
    await page.locator(f"#main {row}").first.wait_for()
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    main(parse(__doc__))
