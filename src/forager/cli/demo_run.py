"""The plain demo: a state, three pages per ZIP, on the embedded store, in this process."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import SecretStr

import forager.api  # noqa: F401 - imported while the sandbox starts, since it takes as long
from forager.cli import progress, render
from forager.cli.connect import in_process
from forager.cli.demo_setup import JOB, RATE, RETRY_DELAY, UPSTREAM_KEY, WHERE, Upstream
from forager.cli.local_run import work_on
from forager.cli.running import run_loop
from forager.settings import Settings

SHOWN = 10
LOOKED_AT = 1_000


def run_demo(home: Path, upstream: Upstream, *, as_json: bool) -> None:
    began = time.monotonic()
    if not as_json:
        say_what_runs()
    job, places = run_loop(_run(home, upstream, as_json=as_json))
    seconds = time.monotonic() - began
    if as_json:
        render.show_json({"job": job, "places": places, "data": str(home / "ledger.db"), "seconds": round(seconds, 2)})
    else:
        show_places(places)
        _show_end(job, home)


def say_what_runs() -> None:
    render.notes().print(
        f"A places job: [bold]{JOB['keyword']} in {WHERE}[/], up to {JOB['pages']} pages per ZIP, against a simulated"
        " Serper.\nNo key, no network. One answer in a hundred fails on purpose.\n"
    )


def show_places(places: list[Mapping[str, Any]]) -> None:
    rows = render.table("place", "rating", "phone", "address", right=("rating",))
    for column, width in zip(rows.columns, (20, 6, 14, 20), strict=True):
        column.no_wrap, column.min_width = True, width
    for place in places:
        rating = f"{place['rating']:.1f}" if place["rating"] is not None else "-"
        rows.add_row(render.plain(place["title"]), rating, render.plain(place["phone"]), render.plain(place["address"]))
    console = render.out()
    console.print()
    console.print(rows)


def credits_line(job: Mapping[str, Any]) -> str:
    from forager.cli.jobs import spent_of

    saved, worst = render.count(job["skipped"]), render.count(job["total"])
    return f"{spent_of(job)}, {saved} saved by early exit (worst case {worst})"


async def _run(home: Path, upstream: Upstream, *, as_json: bool) -> tuple[Mapping[str, Any], list[Any]]:
    settings = Settings(
        home=home,
        serper_base_url=upstream.url,
        serper_api_key=SecretStr(UPSTREAM_KEY),
        egress_allow=(upstream.address,),
        serper_rate=RATE,
        retry_delay_seconds=RETRY_DELAY,
    )
    async with in_process(settings) as at:
        assert at.app is not None  # noqa: S101 - in_process opened it
        created = await at.api.post("/places/jobs", JOB)
        view = progress.choose_view(render.notes(), quiet=as_json)
        job = await work_on(at.api, at.app, created["job_id"], view)
        found = await at.api.get("/places", limit=LOOKED_AT)
    return job, _telling(found)


def _telling(places: list[Any]) -> list[Any]:
    """Those with the most to show: an answer has either a phone number or a rating, and some places had both."""
    known = sorted(places, key=lambda place: sum(place[name] is None for name in ("phone", "rating", "address")))
    return known[:SHOWN]


def _show_end(job: Mapping[str, Any], home: Path) -> None:
    from forager.cli.jobs import seconds_of

    found = f"{render.count(job['discoveries'])} from {render.count(job['completed'])} queries"
    figures = [
        ("places", f"{found} in {render.duration(seconds_of(job))}"),
        ("credits", credits_line(job)),
        ("retries", f"{render.count(job['retries'])}, after answers that failed on purpose"),
        ("data", render.near(home / "ledger.db")),
    ]
    console = render.out()
    console.print()
    console.print(render.facts(figures))
    console.print("\n[bold]Next[/]")
    console.print(render.facts(next_steps(home)))


def next_steps(home: Path) -> list[tuple[str, str]]:
    program = render.program()
    return [
        ("kill -9 in the middle", f"{program} demo --crash"),
        ("what was found, as CSV", f"{program} --home {render.near(home)} export places -f csv"),
        ("a price, beforehand", f"{program} places plan -k bars -s AZ"),
        ("the real thing", f"SERPER_API_KEY=… {program} places run -k bars -s AZ"),
        ("API, engine, schedules", f"{program} up"),
    ]
