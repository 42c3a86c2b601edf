"""The reviews demo: two accounts with their locations and reviews, against a simulated Google Business Profile."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from forager.pipelines.reviews.cli import ReviewTree, read_events, watch_tree, words
from forager.sdk.cli import render
from forager.sdk.cli.client import Api
from forager.sdk.cli.demo import Demo, DemoUpstream
from forager.sdk.cli.render import Job
from forager.sdk.cli.run_job import seconds_of

TOKEN = "sandbox-demo"  # noqa: S105 - opens the simulated world only
LOCATIONS = 60
SANDBOX: dict[str, Any] = {
    "latency_ms": 120.0,
    "latency_sigma": 0.25,
    "faults": {"http500": 0.01},
    "quota_per_minute": None,
}
"""Like the real upstream: a tenth of a second, and one answer in a hundred is an error."""
RATE = 40.0


def upstream(log: Path) -> Sequence[str]:
    config = orjson.dumps({**SANDBOX, "log_path": str(log)}).decode()
    size = ["--size", str(LOCATIONS)]
    return [sys.executable, "-m", "forager.sandbox", "google", "--until-stdin-closes", *size, "--config", config]


def settings(upstream: DemoUpstream) -> Mapping[str, Any]:
    hosts = {name: upstream.announced[f"{name}_url"] for name in ("accounts", "locations", "reviews")}
    return {
        **{f"google_{name}_url": url for name, url in hosts.items()},
        "egress_allow": tuple(urlsplit(url).netloc for url in hosts.values()),
        "google_requests_per_second": RATE,
    }


async def found(api: Api, job_id: str) -> Any:
    """Return the counts of the job, and everything that it found, in order."""
    counts = await api.get(f"/review-fetch/{job_id}")
    events: list[Mapping[str, Any]] = []
    await read_events(api, job_id, events.append, lambda: None, wait=False)
    return {"counts": counts, "events": events}


def show(job: Job, results: Any) -> None:
    console, counts = render.out(), results["counts"]
    if not console.is_terminal:  # on a terminal the tree was drawn while it grew
        tree = ReviewTree()
        for event in results["events"]:
            tree.add(event)
        console.print(tree.drawn())
    figures = [
        ("accounts", render.count(counts["accounts"])),
        ("locations", render.count(counts["locations"])),
        ("reviews", f"{render.count(counts['reviews'])} in {render.duration(seconds_of(job))}"),
        ("retries", f"{render.count(job['retries'])}, after answers that failed on purpose"),
    ]
    console.print()
    console.print(render.facts(figures))


def next_steps(home: Path) -> list[tuple[str, str]]:
    program = render.program()
    return [
        ("reviews as JSON lines", f"{program} --home {render.near(home)} export review"),
        ("the real thing", f"{program} reviews run --token-file token.txt"),
        ("API, engine, schedules", f"{program} up"),
    ]


demo = Demo(
    intro=f"A reviews job: every account, location and review of one access token ({LOCATIONS} locations), against a"
    " simulated Google Business Profile. No key, no network. One answer in a hundred fails on purpose.\n",
    upstream=upstream,
    settings=settings,
    path="/review-fetch",
    job={"access_token": TOKEN},
    found=found,
    follow=watch_tree,
    show=show,
    next_steps=next_steps,
    name="reviews",
    words=words,
)
