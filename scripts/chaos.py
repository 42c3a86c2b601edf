"""Run the fault tests at full size and write docs/contributing/chaos.md: `make chaos`, or `make chaos NAME=R7`.

A check is every test whose name ends with its id (R1 to R22), those of full size (`chaos`) and those of CI size. A row
of the table has what was seen when its check ran last; a run of one check leaves the other rows as they are.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "contributing" / "chaos.md"

CHECKS = {
    "R1": "8 processes pass claims around: none is held twice, none skipped",
    "R2": "kill -9 and SIGSTOP past the lease during a job: nothing lost or doubled, late commits fenced",
    "R3": "a kill at every commit boundary",
    "R4": "recovery after SIGKILL, by itself, within the lease and 5 s",
    "R5": "a rescue races a completion: what is completed never changes",
    "R6": "a state machine over the ledger, two and three sessions",
    "R7": "SIGTERM under load: ends within its grace, nothing lost, no attempt burned",
    "R8": "PostgreSQL killed during a job",
    "R9": "a broker killed: Redis, RabbitMQ, Kafka",
    "R10": "a full disk: leasing stops, nothing acknowledged is missing, heals by itself",
    "R11": "a wall clock that is hours or days off",
    "R12": "one site of a hundred is a black hole",
    "R13": "an hour's outage heals with thousands of retries due",
    "R14": "tasks that kill, hang or answer with broken data",
    "R15": "Kafka rebalances, and a task longer than the poll interval",
    "R16": "a webhook's receiver is down for a day",
    "R17": "a sink's answer is lost after its commit",
    "R18": "migrations: equal schemas, old stores, old and new workers side by side",
    "R19": "kill -9 over all pipelines with four sinks, and the comparison of all sides",
    "R20": "the simulation by seed, and its broken builds",
    "R21": "a soak run: nothing grows",
    "R22": "one bad receiver, site, page, sink or reader of streams: the others keep their pace",
}
_CHECK = re.compile(r"__(R\d+)(?=_|\[|$)")
_OWN_RUN = {"R21": "its own run, `make soak`: [soak.md](soak.md)"}


@dataclass
class Row:
    """What was seen of one check."""

    passed: int = 0
    full: int = 0
    """Tests of full size among those that passed."""
    seconds: float = 0.0
    stores: set[str] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


class Collector:
    """A pytest plug-in that keeps the tests of some checks and counts their results. Without a choice it keeps all
    checks, and the tests of full size that have no check."""

    def __init__(self, wanted: Sequence[str] = ()) -> None:
        self.rows = {check: Row() for check in wanted or CHECKS}
        self._all = not wanted
        self._full: set[str] = set()

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        self._full = {item.nodeid for item in items if item.get_closest_marker("chaos")}
        full = self._full if self._all else set()
        mine = [item for item in items if checks_of(item.name) & self.rows.keys() or item.nodeid in full]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(mine)])
        items[:] = mine

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        for check in checks_of(report.nodeid) & self.rows.keys():
            row = self.rows[check]
            row.seconds += report.duration
            if report.passed:
                row.passed += 1
                row.full += report.nodeid in self._full
                row.stores.add("PostgreSQL" if "postgres" in report.nodeid else "SQLite")
            elif report.skipped:
                row.skipped.append(f"{report.nodeid.rpartition('/')[2]}: {why(report)}")
            else:
                row.failed.append(report.nodeid.rpartition("/")[2])


def checks_of(name: str) -> set[str]:
    return set(_CHECK.findall(name))


def why(report: pytest.TestReport) -> str:
    """Return why a test was skipped."""
    told = report.longrepr
    reason = str(told[2]) if isinstance(told, tuple) else str(told)
    return reason.removeprefix("Skipped: ")


def line(check: str, row: Row, at: str) -> str:
    """Return the row of a check."""
    what = f"{row.passed} passed, {row.full} of them of full size"
    if row.failed:
        what += f"; failed: {', '.join(f'`{name}`' for name in row.failed)}"
    if row.skipped:
        what += f"; not run: {'; '.join(row.skipped)}"
    if not (row.passed or row.failed or row.skipped):
        what = _OWN_RUN.get(check, "no test has its id")
    stores = ", ".join(sorted(row.stores, reverse=True))
    minutes = f"{row.seconds / 60:.1f} min" if row.seconds else ""
    return f"| {check} | {CHECKS[check]} | {stores} | {what} | {minutes} | {at} |"


def page(lines: Mapping[str, str]) -> str:
    head = [
        "# Fault tests at full size",
        "",
        "Written by `make chaos`; `make chaos NAME=R7` runs one check and renews its row. [What dies, and its",
        "tests](failure-tests.md) has the same tests by what they break. A row names the stores that its tests ran on:",
        "a test that starts its own server counts as PostgreSQL where its name has the word.",
        "",
        "| check | what happens | stores | seen | took | on |",
        "|---|---|---|---|---|---|",
    ]
    rows = [lines.get(check, f"| {check} | {about} | | not run yet | | |") for check, about in CHECKS.items()]
    return "\n".join([*head, *rows]) + "\n"


def kept(text: str) -> dict[str, str]:
    """Return the rows of a page by their checks."""
    return {found[1]: found[0] for found in re.finditer(r"^\| (R\d+) \|.*$", text, re.MULTILINE)}


def main(arguments: Sequence[str]) -> int:
    wanted = [each for each in arguments if each in CHECKS]
    rest = [each for each in arguments if each not in CHECKS]
    collector = Collector(wanted)
    options = ["-q", "-m", "not servers", "--timeout", "3600", "-o", "faulthandler_timeout=3900", "tests", *rest]
    code = pytest.main(options, plugins=[collector])
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    rows = kept(PAGE.read_text("utf-8")) if PAGE.exists() else {}
    rows |= {check: line(check, row, today) for check, row in collector.rows.items()}
    PAGE.write_text(page(rows), encoding="utf-8")
    if not wanted and not code:
        code = through_pooler(rest)
    sys.stdout.write(f"Written: {PAGE.relative_to(ROOT)}\n")
    return int(code)


def through_pooler(options: Sequence[str]) -> int:
    """Run the contract suite of PostgreSQL through PgBouncer."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-k",
        "postgres",
        "-m",
        "not chaos",
        "--timeout",
        "600",
        "tests/contract",
    ]
    environment = {**os.environ, "FORAGER_TEST_PGBOUNCER": "1"}
    return subprocess.run([*command, *options], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
