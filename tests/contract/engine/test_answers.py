"""Outcomes of each kind of answer: every error class of PL-9, with a real engine, fetcher and upstream."""

import itertools
from dataclasses import replace

import pytest

from forager.pipelines.places.records import Sighting
from forager.sandbox import FULL_DENSITY, Band, Fault, Rule, SerperConfig, SerperSandbox
from tests.contract.engine.conftest import OpenRig
from tests.support.engine import serper, until

pytestmark = pytest.mark.one_store  # what an answer leads to is decided by the step and the engine

EMPTY = (Band(1.0, 0, 0),)
FULL = SerperConfig(density=FULL_DENSITY, rate_limit=None)


@pytest.mark.one_store(False)
async def test_every_place_of_a_good_answer_is_stored__PL_9(open_rig: OpenRig) -> None:
    async with SerperSandbox(SerperConfig(rate_limit=None)) as sandbox:
        rig = await open_rig(serper(sandbox.url))
        job = await rig.submit_places(20, pages=3)
        await rig.run(sandbox.url)
        row, log = rig.job(job), list(sandbox.log)
        assert row["state"] == "completed"
        assert row["completed"] == len(log) == row["spent"]
        assert row["completed"] + row["skipped"] == row["total"] == 60
        (seen,) = rig.tables.read(f"SELECT count(*) AS n FROM {Sighting.table}")
        shown = {(e.zip, e.page): e.places for e in log}
        assert 0 < seen["n"] == row["records"] <= sum(shown.values())


async def test_no_place_at_all_is_a_completed_query_with_no_results__PL_9(open_rig: OpenRig) -> None:
    async with SerperSandbox(SerperConfig(density=EMPTY)) as sandbox:
        rig = await open_rig(serper(sandbox.url))
        job = await rig.submit_places(["85001"], pages=1)
        await rig.run(sandbox.url)
        (task,) = rig.tasks(job).values()
        assert rig.states(job) == {"85001/1": "completed"}
        assert '"results_count":0' in str(task["facts"]).replace(" ", "")


async def test_a_key_that_is_not_set_pauses_the_job_and_sends_nothing__PL_9(open_rig: OpenRig) -> None:
    async with SerperSandbox(FULL) as sandbox:
        rig = await open_rig(serper(sandbox.url))
        job = await rig.submit_places(5, pages=2)
        rig.key = ""
        await rig.run(sandbox.url)
        row = rig.job(job)
        assert (row["state"], row["queued"], row["spent"], row["failed"]) == ("paused", 10, 0, 0)
        assert "SERPER_API_KEY is not set" in row["reason"]
        assert len(sandbox.log) == 0
        rig.key = "sandbox-key"
        await rig.ledger.resume(job)
        await rig.run(sandbox.url)
        assert rig.job(job)["completed"] == 10


@pytest.mark.one_store(False)
async def test_a_bad_key_pauses_the_job_with_a_remedy_and_resuming_sends_its_queries__PL_9(open_rig: OpenRig) -> None:
    async with SerperSandbox(FULL) as sandbox:
        rig = await open_rig(serper(sandbox.url))
        job = await rig.submit_places(5, pages=1)
        rig.key = "somebody-else's"
        await rig.run(sandbox.url)
        row = rig.job(job)
        assert (row["state"], row["queued"], row["spent"]) == ("paused", 5, 0)
        assert "SERPER_API_KEY" in row["reason"]
        assert {t["attempt"] for t in rig.tasks(job).values()} == {0}
        rig.key = "sandbox-key"
        await rig.ledger.resume(job)
        await rig.run(sandbox.url)
        assert rig.job(job)["state"] == "completed"
        assert rig.job(job)["completed"] == 5


async def test_an_account_without_credits_pauses_the_job_until_there_are_some__PL_9(open_rig: OpenRig) -> None:
    async with SerperSandbox(replace(FULL, credits=3)) as sandbox:
        rig = await open_rig(serper(sandbox.url))
        job = await rig.submit_places(8, pages=1, concurrency=1)
        await rig.run(sandbox.url)
        row = rig.job(job)
        assert (row["state"], row["completed"], row["queued"], row["spent"]) == ("paused", 3, 5, 3)
        assert "no credits left" in row["reason"]
        assert "Not enough credits" in row["reason"]
        sandbox.serper.adopt({"credits": 100})
        await rig.ledger.resume(job)
        await rig.run(sandbox.url)
        assert rig.job(job)["state"] == "completed"
        assert sandbox.stats()["credits"] == 8


async def test_any_other_refusal_fails_the_query_with_the_upstreams_own_words__PL_9(open_rig: OpenRig) -> None:
    async with SerperSandbox() as sandbox:
        rig = await open_rig(serper(f"{sandbox.url}/nowhere"))
        job = await rig.submit_places(["85001"], pages=2)
        await rig.run(sandbox.url)
        tasks = rig.tasks(job)
        assert rig.states(job) == {"85001/1": "failed", "85001/2": "skipped"}
        assert "404" in tasks["85001/1"]["error"]
        assert "/nowhere" in tasks["85001/1"]["error"]
        assert tasks["85001/2"]["error"] == "after_failed"
        assert b"/nowhere" in rig.evidence(tasks["85001/1"]["id"])
        assert len(sandbox.log) == 1


async def test_a_429_burns_no_attempt_and_slows_the_lane_down__PL_9(open_rig: OpenRig) -> None:
    rules = (Rule(Fault.HTTP429, zip="85003", times=2),)
    async with SerperSandbox(replace(FULL, script=rules)) as sandbox:
        rig = await open_rig(serper(sandbox.url, rate=100))
        job = await rig.submit_places(["85003"], pages=1)
        worker = rig.worker(sandbox.url)
        async with rig.working(worker):
            await until(lambda: rig.job(job)["state"] == "completed")
            (lane,) = worker._lanes
            assert lane._limiter.rate == 80
        (task,) = rig.tasks(job).values()
        assert task["attempt"] == 1, "a refusal is no attempt"
        assert (rig.job(job)["retries"], rig.job(job)["spent"]) == (0, 1)
        waits = [b - a for a, b in itertools.pairwise([e.at for e in sandbox.log])]
        assert len(waits) == 2
        assert waits[0] >= 0.9
        assert waits[1] >= 1.8, "the wait doubles"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault.HTTP500, "500"),
        (Fault.HTTP503, "503"),
        (Fault.TIMEOUT, "in time"),
        (Fault.RESET, "connection was lost"),
        (Fault.DROP, "broke off"),
    ],
)
async def test_a_passing_fault_is_retried_three_times_and_then_fails_with_the_last_error__PL_9(
    open_rig: OpenRig, fault: Fault, said: str
) -> None:
    rules = (Rule(fault, zip="85003", times=3), Rule(fault, zip="85004", times=None))
    async with SerperSandbox(replace(FULL, script=rules)) as sandbox:
        rig = await open_rig(serper(sandbox.url, timeout=0.2))
        job = await rig.submit_places(["85003", "85004"], pages=1)
        await rig.run(sandbox.url)
        assert rig.states(job) == {"85003/1": "completed", "85004/1": "failed"}
        tasks, row = rig.tasks(job), rig.job(job)
        assert {t["attempt"] for t in tasks.values()} == {4}
        assert row["retries"] == 6
        assert row["state"] == "partially_completed"
        assert said in tasks["85004/1"]["error"]
        asked = [e.zip for e in sandbox.log]
        assert (asked.count("85003"), asked.count("85004")) == (4, 4)
        assert row["spent"] >= sandbox.stats()["credits"], "a call that may have been charged counts as charged"


async def test_retries_wait_longer_and_longer__PL_9(open_rig: OpenRig) -> None:
    async with SerperSandbox(replace(FULL, script=(Rule(Fault.HTTP500, times=3),))) as sandbox:
        rig = await open_rig(serper(sandbox.url))
        await rig.submit_places(["85003"], pages=1)
        await rig.run(sandbox.url)
        at = [e.at for e in sandbox.log]
        waits = [b - a for a, b in itertools.pairwise(at)]
        assert [w >= least for w, least in zip(waits, (0.05, 0.1, 0.2), strict=True)] == [True] * 3


async def test_malformed_json_fails_at_once_and_its_body_is_kept__PL_9(open_rig: OpenRig) -> None:
    async with SerperSandbox(replace(FULL, script=(Rule(Fault.MALFORMED, times=1),))) as sandbox:
        rig = await open_rig(serper(sandbox.url))
        job = await rig.submit_places(["85003"], pages=1)
        await rig.run(sandbox.url)
        (task,) = rig.tasks(job).values()
        assert rig.states(job) == {"85003/1": "failed"}
        assert "malformed JSON" in task["error"]
        assert rig.evidence(task["id"]).endswith(b"\x00<br>")
        assert rig.job(job)["spent"] == sandbox.stats()["credits"] == 1
        assert len(sandbox.log) == 1


@pytest.mark.one_store(False)
async def test_a_retried_job_runs_its_failures_and_the_pages_behind_them_and_nothing_else__PL_12(
    open_rig: OpenRig,
) -> None:
    rules = (Rule(Fault.HTTP500, zip="85003", page=1, times=4),)
    async with SerperSandbox(replace(FULL, script=rules)) as sandbox:
        rig = await open_rig(serper(sandbox.url))
        job = await rig.submit_places(["85003", "85004"], pages=3)
        await rig.run(sandbox.url)
        assert list(rig.states(job).values()) == ["failed", "skipped", "skipped", *["completed"] * 3]
        assert rig.job(job)["state"] == "partially_completed"
        sent = len(sandbox.log)
        assert await rig.ledger.retry(job) == 3
        await rig.run(sandbox.url)
        assert rig.job(job)["state"] == "completed"
        assert rig.job(job)["completed"] == 6
        assert [(e.zip, e.page) for e in list(sandbox.log)[sent:]] == [("85003", n) for n in (1, 2, 3)]
