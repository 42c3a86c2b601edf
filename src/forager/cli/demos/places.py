"""The places demo: a state, three pages per ZIP, against a simulated Serper in which one answer in a hundred fails."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from forager.kit.cli import render
from forager.kit.cli.client import Api
from forager.kit.cli.demo import CrashDemo, Demo, Upstream
from forager.kit.cli.job_report import seconds_of
from forager.kit.cli.words import Job, spent_with_assumed
from forager.pipelines.places.cli_words import words

JOB = {"keyword": "bars", "state": "AZ", "pages": 3}
WHERE = "Arizona"
UPSTREAM_KEY = "sandbox-key"
SANDBOX: dict[str, Any] = {
    "key": UPSTREAM_KEY,
    "latency_ms": 200.0,
    "latency_sigma": 0.25,
    "faults": {"http500": 0.01},
    "rate_limit": 300,
}
"""Like the real upstream: a fifth of a second, a limit, and one answer in a hundred is an error."""
RATE = 240
RETRY_DELAY = 0.3
SHOWN = 10
LOOKED_AT = 1_000


def upstream(log: Path) -> Sequence[str]:
    config = orjson.dumps({**SANDBOX, "log_path": str(log)}).decode()
    return [sys.executable, "-m", "forager.sandbox", "--until-stdin-closes", "--config", config]


def settings(upstream: Upstream) -> Mapping[str, Any]:
    return {
        "serper_base_url": upstream.url,
        "serper_api_key": UPSTREAM_KEY,
        "egress_allow": (upstream.address,),
        "serper_rate": RATE,
        "retry_delay_seconds": RETRY_DELAY,
    }


async def found(api: Api, job_id: str) -> list[Any]:
    """Return the places with the most complete data: an answer has either a phone number or a rating, and some places
    have both."""
    places = await api.get("/places", limit=LOOKED_AT)
    return sorted(places, key=lambda place: sum(place[name] is None for name in ("phone", "rating", "address")))[:SHOWN]


def show(job: Job, places: Any) -> None:
    rows = render.table("place", "rating", "phone", "address", right=("rating",))
    for column, width in zip(rows.columns, (20, 6, 14, 20), strict=True):
        column.no_wrap, column.min_width = True, width
    for place in places:
        rating = f"{place['rating']:.1f}" if place["rating"] is not None else "-"
        rows.add_row(render.plain(place["title"]), rating, render.plain(place["phone"]), render.plain(place["address"]))
    new = f"{render.count(job['discoveries'])} from {render.some(job['completed'], 'query', 'queries')}"
    figures = [
        ("places", f"{new} in {render.duration(seconds_of(job))}"),
        ("credits", credits_line(job)),
        ("retries", f"{render.count(job['retries'])}, after answers that failed on purpose"),
    ]
    console = render.out()
    console.print()
    console.print(rows)
    console.print()
    console.print(render.facts(figures))


def credits_line(job: Job) -> str:
    saved, worst = render.count(job["skipped"]), render.count(job["total"])
    return f"{spent_with_assumed(job)}, {saved} saved by early exit (worst case {worst})"


def next_steps(home: Path) -> list[tuple[str, str]]:
    program = render.program()
    return [
        ("kill -9 in the middle", f"{program} demo --crash"),
        ("what was found, as CSV", f"{program} --home {render.near(home)} export place -f csv"),
        ("a price, beforehand", f"{program} places plan -k bars -s AZ"),
        ("the real thing", f"SERPER_API_KEY=… {program} places run -k bars -s AZ"),
        ("API, engine, schedules", f"{program} up"),
    ]


async def stored(api: Api, job_id: str) -> list[str]:
    """Return the place of every sighting of the job in the ledger."""
    return [row["place_uid"] async for page in api.pages("/records/sighting", job=job_id) for row in page]


def audit(upstream: Upstream, job: Job, held: Sequence[str]) -> Any:
    from forager.cli.demos.places_audit import audit_crash

    return audit_crash(upstream.log, job, held)


demo = Demo(
    intro=f"A places job: [bold]{JOB['keyword']} in {WHERE}[/], up to {JOB['pages']} pages per ZIP, against a simulated"
    " Serper.\nNo key, no network. One answer in a hundred fails on purpose.\n",
    upstream=upstream,
    settings=settings,
    path="/places/jobs",
    job=JOB,
    found=found,
    show=show,
    next_steps=next_steps,
    name="places",
    words=words,
    crash=CrashDemo(stored=stored, audit=audit),
)
