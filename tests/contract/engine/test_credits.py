"""Credits: none is spent on a page behind a short one, none beyond a budget or a cap. The sandbox's log judges."""

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta

from forager.core.clock import SystemClock
from forager.core.pipeline import Lane, Pipeline, WhenCapped
from forager.core.states import TaskState
from forager.engine.waits import LONGEST_CAP_REST
from forager.sandbox import FULL_DENSITY, Fault, Rule, SerperConfig, SerperSandbox
from forager.sandbox.audit import audit
from tests.contract.engine.conftest import OpenRig
from tests.support.acts import acts, many
from tests.support.engine import serper, until, zip_codes

SWAY = SerperConfig(latency_ms=5, latency_sigma=1.0, rate_limit=None)


class MovableClock(SystemClock):
    """A wall clock that a test can put forward; the monotonic one continues as it does."""

    ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


async def test_a_short_page_skips_the_rest_and_no_credit_is_wasted__PL_10(open_rig: OpenRig) -> None:
    async with SerperSandbox(SWAY) as sandbox:
        rig = await open_rig(serper(sandbox.url))
        job = await rig.submit_places(120, pages=4)
        await rig.run(sandbox.url)
        told = audit(sandbox.log)
        assert told.wasted == ()
        assert told.repeats == 0
        row = rig.job(job)
        assert row["spent"] == told.credits == row["completed"]
        assert row["skipped"] == 480 - row["completed"] > 100
        tasks = rig.tasks(job)
        for entry in sandbox.log:
            after = tasks.get(f"{entry.zip}/{entry.page + 1}")
            if after is not None and entry.places < 10:
                assert after["error"] == f"early_exit_page{entry.page}_lt10"
                assert after["ended_at"] is not None


async def test_pages_are_taken_page_major__PL_10(open_rig: OpenRig) -> None:
    async with SerperSandbox(SerperConfig(density=FULL_DENSITY, rate_limit=None)) as sandbox:
        rig = await open_rig(serper(sandbox.url))
        await rig.submit_places(12, pages=3, concurrency=1)
        await rig.run(sandbox.url)
        assert [e.page for e in sandbox.log] == [1] * 12 + [2] * 12 + [3] * 12


async def test_no_more_is_charged_than_the_budget_and_the_rest_is_skipped__PL_11(open_rig: OpenRig) -> None:
    faults = {Fault.HTTP500: 0.05, Fault.RESET: 0.05, Fault.DROP: 0.05}
    async with SerperSandbox(replace(SWAY, density=FULL_DENSITY, faults=faults)) as sandbox:
        rig = await open_rig(serper(sandbox.url))
        job = await rig.submit_places(100, pages=3, max_credits=150)
        await rig.run(sandbox.url)
        row = rig.job(job)
        assert sandbox.stats()["credits"] <= row["spent"] <= 150
        assert row["spent"] == 150
        assert row["reserved"] == row["queued"] == row["running"] == 0
        reasons = Counter(t["error"] for t in rig.tasks(job).values() if t["state"] == 6)
        assert reasons["budget"] > 0
        assert set(reasons) <= {"budget", "after_failed"}
        assert row["completed"] + row["failed"] + row["skipped"] == row["total"] == 300


async def test_a_budget_of_nothing_sends_nothing__PL_11(open_rig: OpenRig) -> None:
    async with SerperSandbox() as sandbox:
        rig = await open_rig(serper(sandbox.url))
        job = await rig.submit_places(5, pages=2, max_credits=0)
        await rig.run(sandbox.url)
        assert rig.job(job)["skipped"] == 10
        assert len(sandbox.log) == 0


async def test_a_time_out_counts_against_the_budget_although_its_price_is_unknown__PL_11(open_rig: OpenRig) -> None:
    rules = (Rule(Fault.TIMEOUT, times=None),)
    async with SerperSandbox(SerperConfig(script=rules)) as sandbox:
        rig = await open_rig(serper(sandbox.url, timeout=0.5))
        job = await rig.submit_places(3, pages=1, max_credits=5)
        await rig.run(sandbox.url)
        row = rig.job(job)
        assert (row["spent"], row["guessed"]) == (5, 5)
        assert len(sandbox.log) == 5


async def test_a_cap_per_day_stops_the_lane_until_the_next_day__PL_11(open_rig: OpenRig) -> None:
    async with SerperSandbox(SerperConfig(density=FULL_DENSITY)) as sandbox:
        clock = MovableClock()
        rig = await open_rig(serper(sandbox.url, rate=200, cap_day=7))
        rig.may_rest = True
        job = await rig.submit_places(20, pages=1)
        worker = rig.worker(sandbox.url, clock=clock)
        async with rig.working(worker):
            await until(lambda: rig.job(job)["completed"] == 7)
            (lane,) = worker._lanes
            assert lane.most(100) == 0
            assert (rig.job(job)["state"], rig.job(job)["queued"]) == ("running", 13)
            clock.ahead = timedelta(days=1)
            await until(lambda: rig.job(job)["completed"] == 14)
            assert len(sandbox.log) == 14
        await rig.ledger.wake_lanes()  # the worker's day is not the store's
        rig.check()


async def test_a_restart_does_not_forget_what_the_day_has_spent__PL_11(open_rig: OpenRig) -> None:
    async with SerperSandbox(SerperConfig(density=FULL_DENSITY)) as sandbox:
        rig = await open_rig(serper(sandbox.url, rate=200, cap_day=7))
        rig.may_rest = True
        job = await rig.submit_places(20, pages=1)
        for _ in range(2):
            await rig.ledger.wake_lanes()
            worker = rig.worker(sandbox.url)
            async with rig.working(worker):
                await until(lambda: rig.job(job)["completed"] == 7 and list(worker._lanes))  # noqa: B023
        assert len(sandbox.log) == 7


def counted(when_capped: WhenCapped) -> Pipeline:
    """Tasks that cost one unit each, in a lane that may spend three in an hour."""
    made = acts(Lane("acts", rate=None, cap_hour=3))
    return replace(made, steps=tuple(replace(each, when_capped=when_capped) for each in made.steps))


async def test_an_hourly_cap_skips_excess_tasks_if_the_step_declares_it(open_rig: OpenRig) -> None:
    rig = await open_rig(counted("skip"))
    job = await rig.submit(many(20))
    await rig.run(capacity=2)
    row = rig.job(job)
    assert (row["state"], row["completed"], row["skipped"], row["spent"]) == ("completed", 3, 17, 3)
    skipped = [task for task in rig.tasks(job).values() if task["state"] == TaskState.SKIPPED]
    assert {(task["reason"], task["attempt"], task["cost"]) for task in skipped} == {("limit", 1, 0)}


async def test_a_cap_per_hour_makes_other_tasks_wait_until_the_next_and_gives_the_lane_back(open_rig: OpenRig) -> None:
    rig = await open_rig(counted("wait"))
    rig.may_rest = True
    job = await rig.submit(many(20))
    worker = rig.worker()
    async with rig.working(worker):
        await until(lambda: rig.job(job)["completed"] == 3)
        await until(lambda: not list(worker._lanes))
    (lane,) = rig.tables.read("SELECT wake_at, state FROM lanes WHERE name = 'acts'")
    now = await rig.ledger.now()
    hour = now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    least = min(hour, now + timedelta(seconds=LONGEST_CAP_REST)) - timedelta(seconds=60)
    assert least.timestamp() <= lane["wake_at"] / 1000 <= hour.timestamp() + 1
    assert (rig.job(job)["state"], rig.job(job)["queued"]) == ("running", 17)


def test_the_zips_of_these_tests_are_real_ones() -> None:
    assert len(set(zip_codes(2_000))) == 2_000
