"""The places demo: a state, three pages per ZIP, against a simulated Serper in which one answer in a hundred fails."""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from forager.pipelines.places.cli import words
from forager.pipelines.places.parse import place_uid
from forager.sandbox import LoggedRequest, SerperConfig, read_log
from forager.sandbox.answers import answer, read_query
from forager.sandbox.audit import audit
from forager.sdk.cli import render
from forager.sdk.cli.client import Api
from forager.sdk.cli.demo import CrashDemo, Demo, DemoUpstream
from forager.sdk.cli.render import Job, count, spent_with_assumed
from forager.sdk.cli.run_job import seconds_of

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


def settings(upstream: DemoUpstream) -> Mapping[str, Any]:
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


def audit_places(upstream: DemoUpstream, job: Job, held: Sequence[str]) -> Any:

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
    crash=CrashDemo(stored=stored, audit=audit_places),
)


# Audits a job after a crash: compares the sandbox's own log of requests with the contents of the ledger.
#
# Pure, except for reading the log, and independent of how the job was run.


@dataclass(frozen=True, slots=True)
class CrashAudit:
    requests: int
    credits: int
    """Counted by the upstream."""
    expected: int
    """Places in the answers that a complete job must have received."""
    stored: int
    lost: int
    duplicates: int
    resent: int
    resent_credits: int
    spent: str
    """Counted by the ledger, as text."""
    failures: tuple[str, ...] = field(default=())

    @property
    def passed(self) -> bool:
        return not self.failures

    def sentence(self) -> str:
        again = "request in flight was sent again" if self.resent == 1 else "requests in flight were sent again"
        credit = "credit" if self.resent_credits == 1 else "credits"
        return (
            f"{self.lost:,} lost, {self.duplicates:,} duplicate records; "
            f"{self.resent:,} {again} ({self.resent_credits:,} {credit})"
        )

    def facts(self) -> list[tuple[str, str]]:
        return [
            ("places", f"{count(self.stored)} stored, {count(self.expected)} expected"),
            ("credits", self.spent),
            ("upstream", f"{count(self.requests)} requests, {count(self.credits)} credits charged"),
        ]

    def figures(self) -> dict[str, Any]:
        names = ("requests", "credits", "expected", "stored", "lost", "duplicates", "resent", "resent_credits")
        return {**{name: getattr(self, name) for name in names}, "failures": list(self.failures), "passed": self.passed}


def audit_crash(log: Path, job: Mapping[str, Any], stored: Sequence[str]) -> CrashAudit:
    """Compare the job with the upstream's log. `stored` is the place of every sighting of the job, duplicates
    included."""
    with log.open("rb") as lines:
        entries = read_log(lines)
    sent = audit(entries)
    expected = expected_places(entries)
    held = Counter(stored)
    lost, strange = expected - held.keys(), held.keys() - expected
    duplicates = held.total() - len(held)
    checks = {
        f"the job is {job['state']}": job["state"] != "completed",
        f"{job['total'] - job['completed'] - job['skipped']} queries were not completed": (
            job["completed"] + job["skipped"] != job["total"]
        ),
        f"{len(lost)} places are lost": bool(lost),
        f"{duplicates} records are duplicates": bool(duplicates),
        f"{len(strange)} stored places were in no answer": bool(strange),
        f"{len(sent.wasted)} pages were paid for after a short one": bool(sent.wasted),
        f"the ledger counts {job['spent']} credits, the upstream {sent.credits}": job["spent"] < sent.credits,
    }
    return CrashAudit(
        requests=sent.requests,
        credits=sent.credits,
        expected=len(expected),
        stored=len(held),
        lost=len(lost),
        duplicates=duplicates,
        resent=sent.repeats,
        resent_credits=sent.resent_credits,
        spent=credits_line(job),
        failures=tuple(failure for failure, wrong in checks.items() if wrong),
    )


def expected_places(entries: Iterable[LoggedRequest]) -> set[str]:
    """Return the places on every page that was requested and paid for, computed from the sandbox's generated world
    alone."""
    config = SerperConfig().changed(SANDBOX)
    world = config.world()
    uids: set[str] = set()
    for zip_code, page in {(entry.zip, entry.page) for entry in entries if entry.page and entry.credits}:
        query = read_query("places", {"q": f"{zip_code} {JOB['keyword']}", "page": page, "num": 10})
        rows = orjson.loads(answer(world, config, query, 0).body).get("places") or []
        uids.update(uid for uid in map(place_uid, rows) if uid is not None)
    return uids
