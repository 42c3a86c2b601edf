"""The reviews demo: two accounts with their locations and reviews, against a simulated Google Business Profile."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from forager.kit.cli import render
from forager.kit.cli.client import Api
from forager.kit.cli.demo import Demo, Upstream
from forager.kit.cli.job_report import seconds_of
from forager.kit.cli.words import Job
from forager.pipelines.reviews.cli_words import words

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
SHOWN_LOCATIONS, SHOWN_REVIEWS = 3, 2


def upstream(log: Path) -> Sequence[str]:
    config = orjson.dumps({**SANDBOX, "log_path": str(log)}).decode()
    size = ["--size", str(LOCATIONS)]
    return [sys.executable, "-m", "forager.sandbox", "google", "--until-stdin-closes", *size, "--config", config]


def settings(upstream: Upstream) -> Mapping[str, Any]:
    hosts = {name: upstream.announced[f"{name}_url"] for name in ("accounts", "locations", "reviews")}
    return {
        **{f"google_{name}_url": url for name, url in hosts.items()},
        "egress_allow": tuple(urlsplit(url).netloc for url in hosts.values()),
        "google_requests_per_second": RATE,
    }


async def found(api: Api, job_id: str) -> Any:
    """The counts of the job, and a small part of its tree."""
    counts = await api.get(f"/review-fetch/{job_id}")
    accounts = await api.get("/records/account", job=job_id, limit=10)
    locations = await api.get("/records/location", job=job_id, limit=1_000)
    reviews = await api.get("/records/review", job=job_id, limit=1_000)
    return {"counts": counts, "accounts": accounts, "locations": locations, "reviews": reviews}


def show(job: Job, found: Any) -> None:
    from rich.tree import Tree

    console, counts = render.out(), found["counts"]
    for account in found["accounts"]:
        tree = Tree(f"[bold]{render.plain(account['account_name'] or account['account_id'])}[/]")
        own = [each for each in found["locations"] if each["account_id"] == account["account_id"]]
        for location in own[:SHOWN_LOCATIONS]:
            branch = tree.add(render.plain(location["title"] or location["location_id"]))
            for review in _reviews_of(found["reviews"], location)[:SHOWN_REVIEWS]:
                stars = "★" * (review["rating"] or 0)
                branch.add(f"[yellow]{stars}[/] {render.plain((review['text'] or '')[:60])}")
        if len(own) > SHOWN_LOCATIONS:
            tree.add(f"[dim]and {render.some(len(own) - SHOWN_LOCATIONS, 'location')} more[/]")
        console.print(tree)
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


def _reviews_of(reviews: Sequence[Mapping[str, Any]], location: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [
        each
        for each in reviews
        if (each["account_id"], each["location_id"]) == (location["account_id"], location["location_id"])
    ]


demo = Demo(
    intro=f"A reviews job: every account, location and review of one access token ({LOCATIONS} locations), against a"
    " simulated\nGoogle Business Profile. No key, no network. One answer in a hundred fails on purpose.\n",
    upstream=upstream,
    settings=settings,
    path="/review-fetch",
    job={"access_token": TOKEN},
    found=found,
    show=show,
    next_steps=next_steps,
    name="reviews",
    words=words,
)
