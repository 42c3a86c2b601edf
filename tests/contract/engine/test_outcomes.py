"""Every way in which a step can end, on the real engine and the real ledger."""

from dataclasses import replace
from pathlib import Path

import pytest

from forager.core.errors import Conflict
from forager.core.outcome import MAX_CHILDREN
from forager.core.task import Plan
from tests.contract.engine.conftest import OpenRig
from tests.support.acts import Act, Deed, acts, many
from tests.support.auditor import Row
from tests.support.engine import until


async def test_a_snooze_comes_back_and_burns_nothing(open_rig: OpenRig, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    rig = await open_rig(acts())
    job = await rig.submit([Plan(Act(name="a", how="snooze", flag=str(flag)))])
    worker = rig.worker()
    async with rig.working(worker):
        await until(lambda: worker.stats.ended["waiting"] >= 5)
        assert rig.states(job)["a"] in ("waiting", "ready", "running")
        flag.touch()
        await until(lambda: rig.job(job)["state"] == "completed")
    assert rig.tasks(job)["a"]["attempt"] == 1
    assert rig.job(job)["retries"] == 0


async def test_what_need_not_be_done_is_skipped_with_its_reason_and_so_are_its_followers(open_rig: OpenRig) -> None:
    rig = await open_rig(acts())
    job = await rig.submit([Plan(Act(name="a", how="drop")), Plan(Act(name="b"), after="a")])
    await rig.run()
    tasks = rig.tasks(job)
    assert rig.states(job) == {"a": "skipped", "b": "skipped"}
    assert (tasks["a"]["error"], tasks["b"]["error"]) == ("nobody needs it", "after_failed")
    assert rig.job(job)["state"] == "completed"


async def test_a_halt_pauses_the_job_and_leaves_other_jobs_alone(open_rig: OpenRig) -> None:
    rig = await open_rig(acts())
    halted = await rig.submit([Plan(Act(name="a", how="halt")), *many(50, seconds=0.01)], concurrency=1)
    other = await rig.submit(many(20))
    await rig.run()
    row = rig.job(halted)
    assert (row["state"], row["reason"]) == ("paused", "a person must act")
    assert row["queued"] == 51
    assert rig.tasks(halted)["a"]["attempt"] == 0
    assert rig.job(other)["state"] == "completed"


async def test_what_a_step_observes_to_be_gone_or_invalid_reaches_the_ledger(open_rig: OpenRig) -> None:
    rig = await open_rig(acts())
    job = await rig.submit([Plan(Act(name="a", how="vanish"))])
    await rig.run()
    (row,) = rig.tables.read(f"SELECT * FROM {Deed.table}")
    assert (row["worth"], row["gone_reason"], row["version"]) == (2, "sold", 2)
    assert rig.job(job)["rejected"] == 1


async def test_children_are_done_too_and_a_follower_waits_for_its_sibling(open_rig: OpenRig) -> None:
    rig = await open_rig(acts())
    job = await rig.submit([Plan(Act(name="a", how="family"))])
    await rig.run()
    assert rig.job(job)["total"] == 5
    assert set(rig.states(job).values()) == {"completed"}
    tasks = rig.tasks(job)
    assert tasks["a/last"]["claimed_at"] >= tasks["a/2"]["claimed_at"]


async def test_too_many_children_at_once_are_a_dead_letter_with_that_reason_trap_8(open_rig: OpenRig) -> None:
    rig = await open_rig(acts())
    job = await rig.submit([Plan(Act(name="a", how="crowd"))])
    await rig.run()
    (task,) = rig.tasks(job).values()
    assert rig.states(job) == {"a": "failed"}
    assert str(MAX_CHILDREN) in task["error"]
    assert task["cost"] == 1, "the call was made and charged all the same"


@pytest.mark.parametrize(("how", "said"), [("bug", "ZeroDivisionError"), ("nothing", "not an outcome")])
async def test_a_bug_in_a_step_is_a_dead_letter_with_its_trace_and_stops_no_other_task(
    open_rig: OpenRig, how: str, said: str
) -> None:
    rig = await open_rig(acts())
    job = await rig.submit([Plan(Act(name="bad", how=how)), *many(30)])
    await rig.run()
    states, tasks = rig.states(job), rig.tasks(job)
    assert states.pop("bad") == "failed"
    assert set(states.values()) == {"completed"}
    assert said in tasks["bad"]["error"]
    assert b"Traceback" in rig.evidence(tasks["bad"]["id"])


async def test_an_outcome_that_the_store_refuses_is_a_dead_letter_and_holds_up_no_other(open_rig: OpenRig) -> None:
    rig = await open_rig(acts())
    job = await rig.submit([*many(20), Plan(Act(name="bad", how="unstorable")), *many(20, prefix="u")])
    worker = await rig.run()
    states, tasks = rig.states(job), rig.tasks(job)
    assert states.pop("bad") == "failed"
    assert set(states.values()) == {"completed"}
    assert "could not be stored" in tasks["bad"]["error"]
    assert rig.job(job)["spent"] == 41
    assert worker.stats.trouble is None


async def test_a_permanent_failure_is_one_attempt_and_a_passing_one_four(open_rig: OpenRig) -> None:
    rig = await open_rig(acts())
    job = await rig.submit([Plan(Act(name="never", how="fail")), Plan(Act(name="later", how="stumble"))])
    await rig.run()
    tasks = rig.tasks(job)
    assert (tasks["never"]["attempt"], tasks["later"]["attempt"]) == (1, 4)
    assert (tasks["never"]["error"], tasks["later"]["error"]) == ("it never works", "it did not work this time")
    assert rig.job(job)["state"] == "failed"


async def test_a_step_that_takes_too_long_is_stopped_and_retried(open_rig: OpenRig) -> None:
    rig = await open_rig(acts(timeout=0.05))
    job = await rig.submit([Plan(Act(name="slow", seconds=30.0)), *many(5)])
    await rig.run()
    task = rig.tasks(job)["slow"]
    assert (rig.states(job)["slow"], task["attempt"]) == ("failed", 4)
    assert "0.05 s" in task["error"]
    assert rig.job(job)["completed"] == 5


async def test_a_step_may_declare_that_a_late_attempt_has_failed__SC_4(open_rig: OpenRig) -> None:
    plain = acts(timeout=0.05)
    rig = await open_rig(replace(plain, steps=(replace(plain.steps[0], when_late="fail"),)))
    job = await rig.submit([Plan(Act(name="slow", seconds=30.0)), Plan(Act(name="later", how="stumble"))])
    await rig.run()
    task = rig.tasks(job)["slow"]
    assert (rig.states(job)["slow"], task["attempt"]) == ("failed", 1)
    assert task["error"] == "It did not end within 0.05 s."
    assert (task["reason"], task["error_type"]) == ("timed_out", "network")
    assert rig.tasks(job)["later"]["attempt"] == 4, "any other failure that may pass is tried again"


async def test_a_row_that_does_not_decode_is_a_dead_letter_and_stops_no_other_task__R14(open_rig: OpenRig) -> None:
    rig = await open_rig(acts())
    job = await rig.submit([Plan(Act(name="bad")), Plan(Act(name="after"), after="bad"), *many(10)])
    number = rig.tasks(job)["bad"]["id"]
    await rig.ledger.database.write(
        "UPDATE tasks SET body = :body WHERE id = :id", {"body": b"{nonsense", "id": number}
    )
    await rig.run()
    states, tasks = rig.states(job), rig.tasks(job)
    assert (states["bad"], states["after"]) == ("failed", "skipped")
    assert "does not fit 'act'" in tasks["bad"]["error"]
    assert rig.job(job)["completed"] == 10


async def test_an_unknown_kind_is_a_dead_letter_that_names_it(open_rig: OpenRig) -> None:
    rig = await open_rig(acts())
    job = await rig.submit([Plan(Act(name="bad")), *many(3)])
    number = rig.tasks(job)["bad"]["id"]
    await rig.ledger.database.write("UPDATE tasks SET kind = 'dance' WHERE id = :id", {"id": number})
    await rig.run()
    assert rig.states(job)["bad"] == "failed"
    assert "'dance'" in rig.tasks(job)["bad"]["error"]


async def test_a_cancelled_job_ends_and_what_was_in_flight_ends_with_it(open_rig: OpenRig) -> None:
    rig = await open_rig(acts())
    job = await rig.submit(many(200, seconds=0.2), concurrency=10)
    worker = rig.worker()
    async with rig.working(worker):
        await until(lambda: worker.in_flight == 10)
        await rig.ledger.cancel(job)
        await until(lambda: rig.job(job)["state"] == "cancelled")
    row = rig.job(job)
    assert row["cancelled"] + row["completed"] == 200
    assert row["completed"] <= 20
    with pytest.raises(Conflict):
        await rig.ledger.retry(job)


@pytest.mark.parametrize(("asks", "well"), [(False, []), (True, ["completed"])])
async def test_failed_attempts_are_kept_and_every_attempt_of_a_step_that_declares_it(
    open_rig: OpenRig, asks: bool, well: list[str]
) -> None:
    plain = acts()
    rig = await open_rig(replace(plain, steps=(replace(plain.steps[0], attempts=asks),)))
    job = await rig.submit([Plan(Act(name="later", how="stumble")), *many(1)])
    await rig.run()
    kept: dict[str, list[Row]] = {}
    for key, task in rig.tasks(job).items():
        kept[key] = rig.tables.read(f"SELECT * FROM attempts WHERE task_id = {task['id']} ORDER BY id")
    later = kept.pop("later")
    assert [(row["attempt"], row["status"]) for row in later] == [(n, "failed") for n in (1, 2, 3, 4)]
    assert all("acts.py" in row["traceback"] for row in later)
    assert [row["status"] for rows in kept.values() for row in rows] == well
