"""The scrape demo: job postings and company pages of a simulated site, in several layouts, become fields."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forager.app.config import new_settings
from forager.client.connect import in_process
from forager.pipelines.scrape.cli.job_words import words
from forager.sandbox import SandboxSite
from forager.sdk.cli import progress, render
from forager.sdk.cli.demo import OwnDemo
from forager.sdk.cli.run_job import seconds_of, work_on

PAGES = 40
LAYOUTS = ("jsonld", "microdata", "plain")
LATENCY = 0.05
RATE = 40
SHOWN = 10
INTRO = (
    f"A scrape job: [bold]{PAGES} job postings[/] of a simulated site, in {len(LAYOUTS)} layouts, some with structured"
    " data and some without. No key, no network.\n"
)


def run(home: Path, as_json: bool) -> None:
    """Fetch the pages and show their fields."""
    began = time.monotonic()
    if not as_json:
        render.notes().print(INTRO)
    job, pages = asyncio.run(_fetched(home, as_json=as_json))
    data = home / "ledger.db"
    if as_json:
        seconds = round(time.monotonic() - began, 2)
        render.show_json({"job": job, "pages": pages, "data": str(data), "seconds": seconds})
        return
    _show(job, pages)
    render.out().print(render.facts([("data", render.near(data))]))
    render.show_next(next_steps(home))


async def _fetched(home: Path, *, as_json: bool) -> tuple[Mapping[str, Any], list[Any]]:
    async with SandboxSite(latency=LATENCY) as site:
        targets = [
            {
                "target_url": site.url(f"/jobs/{LAYOUTS[n % len(LAYOUTS)]}/{n}"),
                "target_type": "job_posting",
                "workspace_id": "demo",
                "render": "http",
            }
            for n in range(PAGES)
        ]
        settings = new_settings(home=home, egress_allow=site.endpoints, domain_policies_path=_rules(home, site))
        async with in_process(settings) as at:
            assert at.engine is not None  # noqa: S101 - in_process opened it
            created = await at.api.post("/scrape/batch", {"targets": targets})
            view = progress.choose_view(render.notes(), quiet=as_json, words=words)
            job = await work_on(at.api, at.engine, created["job_id"], view, words)
            found = [page async for some in at.api.pages(f"/scrape/jobs/{job['id']}/pages", limit=100) for page in some]
            return job, found


def _rules(home: Path, site: SandboxSite) -> Path:
    """Write a policy file that removes the pauses for the simulated site."""
    rules = home / "policies.yaml"
    (address,) = site.endpoints
    rules.write_text(
        f'domains:\n  "{address}":\n    tokens_per_interval: {RATE}\n    interval_seconds: 1\n'
        "    max_concurrent_requests: 8\n"
    )
    return rules


def _show(job: Mapping[str, Any], pages: list[Any]) -> None:
    rows = render.table("title", "company", "location", "pay")
    read = [page["result"] for page in pages if page["result"]]
    for result in read[:SHOWN]:
        where = (result.get("location") or {}).get("raw")
        cells = (result.get("job_title"), result.get("company_name"), where, result.get("salary_range"))
        rows.add_row(*map(render.plain, cells))
    console = render.out()
    console.print()
    console.print(rows)
    if len(read) > SHOWN:
        console.print(f"[dim]and {render.some(len(read) - SHOWN, 'page')} more[/]")
    console.print()
    console.print(render.facts([("pages", f"{render.count(len(read))} in {render.duration(seconds_of(job))}")]))


def next_steps(home: Path) -> list[tuple[str, str]]:
    program = render.program()
    return [
        ("the fields as CSV", f"{program} --home {render.near(home)} export scrape_result -f csv"),
        ("a page of yours", f"{program} scrape https://example.com/ --as markdown"),
        ("API, engine, schedules", f"{program} up"),
    ]


demo = OwnDemo(run)
