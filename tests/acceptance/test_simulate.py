"""Deterministic simulation of the whole application (R20): seeds without findings, the same trace in any process, and
broken builds that are found. `make simulate SEEDS=1000` runs more."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from forager.sandbox.receiver import ReceivedRequest
from forager.sinks.webhook import signing
from tests.simulate.__main__ import caught_at
from tests.simulate.broken import BUILDS
from tests.simulate.forks import Forks, forks
from tests.simulate.plan import Plan, draw
from tests.simulate.run import Result
from tests.simulate.shrink import kind_of, shrink
from tests.simulate.verdict import refusals

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(1_200)]

SEEDS = 50
AT_ONCE = 2


@pytest.fixture(scope="module")
def made() -> Iterator[Forks]:
    with forks() as running:
        yield running


def test_fifty_seeds_have_no_findings_and_all_kinds_of_faults_fired__R20(made: Forks) -> None:
    fired, lives, findings = Counter[str](), 0, dict[int, list[str]]()
    for result in made.several((draw(seed) for seed in range(1, SEEDS + 1)), AT_ONCE):
        fired.update(result.fired)
        lives += result.lives
        if result.findings:
            findings[result.seed] = result.findings
    sys.stdout.write(f"{SEEDS} seeds, {lives} processes, faults: {dict(fired)}\n")
    assert findings == {}
    assert {
        "death",
        "stall",
        "stop",
        "disk-full",
        "partition",
        "slow-commit",
        "wall-jump",
        "torn-write",
    } <= fired.keys()
    assert lives > 2 * SEEDS


def test_a_seed_has_the_same_trace_in_processes_that_hash_differently__R20(made: Forks) -> None:
    here = made.one(draw(3))
    other = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    command = [sys.executable, "-m", "tests.simulate", "--seed", "3"]
    environment = {**os.environ, "PYTHONHASHSEED": other}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=True)
    assert len(here.lines) > 20
    assert "\n".join(here.lines) in ran.stdout
    assert ran.stdout.splitlines()[-1] == f"trace hash {here.digest}"
    assert made.one(draw(4)).digest != here.digest


def test_each_broken_build_is_caught_within_200_seeds__R20(made: Forks) -> None:
    caught = {name: result.seed for name, result in caught_at(made, BUILDS, AT_ONCE)}
    sys.stdout.write(f"caught at seed: {caught}\n")
    assert caught.keys() == BUILDS.keys()


def test_a_failing_plan_shrinks_to_the_parts_that_it_needs() -> None:
    """The failure needs one job and one fault, and its words contain a moment and numbers, which may differ."""
    plan = next(plan for seed in range(1, 200) if len((plan := draw(seed)).faults) > 6 and len(plan.jobs) > 2)
    needed = {plan.jobs[1].number, plan.faults[2]}

    def again(smaller: Plan) -> Result:
        there = {*(job.number for job in smaller.jobs), *smaller.faults}
        moment = "at the end" if len(there) % 2 else f"after death {len(there)}"
        return Result(plan.seed, findings=[f"{moment}: job 4: queued is -{len(there)}"] if needed <= there else [])

    shortest, result = shrink(plan, again(plan), again)
    assert kind_of(result) == kind_of(again(plan)) == "job N: queued is N"
    assert [job.number for job in shortest.jobs] == [plan.jobs[1].number]
    assert shortest.faults == (plan.faults[2],)
    assert (shortest.acts, shortest.sinks, shortest.shuffle) == ((), (), 0.0)


def test_a_message_that_arrived_too_late_must_be_delivered_by_a_later_try() -> None:
    signed = datetime(2026, 3, 2, 6, tzinfo=UTC)

    def tried(minutes: int, problem: str | None, at: int | None = None) -> ReceivedRequest:
        left = signed + timedelta(minutes=minutes if at is None else at)
        headers = {signing.ID: "msg_1", signing.TIMESTAMP: f"{left.timestamp():.0f}"}
        return ReceivedRequest(signed + timedelta(minutes=minutes), "/", headers, b"", 400 if problem else 200, problem)

    late, delivered = tried(20, "too old", at=0), tried(21, None)
    assert refusals([late, delivered]) == []
    assert refusals([late]) == refusals([delivered, late])
    assert refusals([late]) == ["a message that arrived too late was never delivered: msg_1"]
    assert refusals([tried(0, "wrong signature"), delivered]) == ["the receiver refused a message: wrong signature"]
