"""Audits a job after a crash: compares the sandbox's own log of requests with the contents of the ledger.

Pure, except for reading the log, and independent of how the job was run.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from forager.cli.demos.places import JOB, SANDBOX, credits_line
from forager.kit.cli.render import count
from forager.pipelines.places.parse import place_uid
from forager.sandbox import Entry, SerperConfig, read_log
from forager.sandbox.answers import answer, read_query
from forager.sandbox.audit import audit


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


def expected_places(entries: Iterable[Entry]) -> set[str]:
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
