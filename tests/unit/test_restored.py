"""Restoring a job from a mirror: pure rules, without a store."""

from uuid import UUID

import pytest

from forager.core.states import JobState, TaskState
from forager.core.upkeep import RestoredJob, RestoredTask, resolved

READY, WAITING, HELD, RUNNING = TaskState.READY, TaskState.WAITING, TaskState.HELD, TaskState.RUNNING
COMPLETED, FAILED, SKIPPED, CANCELLED = TaskState.COMPLETED, TaskState.FAILED, TaskState.SKIPPED, TaskState.CANCELLED


def task(number: int, state: TaskState, reason: str | None = None, *, after: int | None = None) -> RestoredTask:
    return RestoredTask(number, "k", f"key {number}", state, b"{}", after=after, reason=reason, cost=1, attempt=1)


def job(*tasks: RestoredTask, state: JobState = JobState.RUNNING, drain: str | None = None) -> RestoredJob:
    return RestoredJob(1, UUID(int=1), "p", {}, state, 0, tasks=tasks, drain=drain, finished_at=9)


def states(*tasks: RestoredTask) -> list[TaskState]:
    return [each.state for each in resolved(job(*tasks)).tasks]


@pytest.mark.parametrize("state", [READY, WAITING, RUNNING, TaskState.SUSPECT])
def test_what_was_queued_or_in_flight_is_ready(state: TaskState) -> None:
    (found,) = resolved(job(task(1, state))).tasks
    assert (found.state, found.attempt, found.cost) == (READY, 0, 1), "what it has cost stays"


def test_what_has_ended_stays_as_it_is() -> None:
    ended = [task(1, COMPLETED), task(2, FAILED, "http"), task(3, SKIPPED, "early_exit"), task(4, CANCELLED)]
    assert resolved(job(*ended)).tasks == ended


def test_a_follower_waits_for_an_open_predecessor_and_not_for_an_ended_one() -> None:
    assert states(task(1, RUNNING), task(2, HELD, after=1), task(3, HELD, after=2)) == [READY, HELD, HELD]
    assert states(task(1, COMPLETED), task(2, HELD, after=1), task(3, HELD, after=2)) == [COMPLETED, READY, HELD]


@pytest.mark.parametrize("reason", ["early_exit", "after_failed"])
def test_a_follower_skipped_by_a_lost_end_waits_again__PL_10(reason: str) -> None:
    assert states(task(3, SKIPPED, reason, after=2), task(2, SKIPPED, reason, after=1), task(1, RUNNING)) == [
        HELD,
        HELD,
        READY,
    ]


def test_a_follower_that_the_budget_skipped_stays_skipped__PL_11() -> None:
    assert states(task(1, RUNNING), task(2, SKIPPED, "budget", after=1)) == [READY, SKIPPED]


def test_a_follower_of_a_failure_is_skipped() -> None:
    after = resolved(job(task(1, FAILED), task(2, HELD, after=1), task(3, HELD, after=2))).tasks
    assert [(each.state, each.reason) for each in after[1:]] == [(SKIPPED, "after_failed")] * 2


def test_a_job_that_ended_while_the_mirror_lagged_runs_again() -> None:
    found = resolved(job(task(1, COMPLETED), task(2, RUNNING), state=JobState.COMPLETED))
    assert (found.state, found.finished_at, found.is_finished) == (JobState.RUNNING, None, False)
    assert found.counts["queued"] == 1


def test_a_cancelled_job_with_open_tasks_continues_being_cancelled() -> None:
    found = resolved(job(task(1, READY), state=JobState.CANCELLED))
    assert (found.state, found.drain) == (JobState.RUNNING, "cancelled")


def test_a_paused_job_stays_paused_and_a_finished_one_finished() -> None:
    assert resolved(job(task(1, READY), state=JobState.PAUSED)).state == JobState.PAUSED
    found = resolved(job(task(1, COMPLETED), state=JobState.COMPLETED))
    assert (found.is_finished, found.finished_at) == (True, 9)
