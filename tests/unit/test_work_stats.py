"""Counters for monitors: their labels are bounded, whatever the number of sites."""

from forager.core.ledger import Lease, Settlement
from forager.core.states import TaskState
from forager.core.task import Task
from forager.engine.work.stats import BOUNDS, MOST_LANES, OTHER, Durations, LaneTally, WorkStats


def test_lanes_are_counted_by_name_up_to_a_hundred_and_together_from_then_on() -> None:
    tally = LaneTally()
    for number in range(MOST_LANES):
        tally.of(f"site{number}.example").requests += 1
    assert OTHER not in tally.by_name

    for number in range(MOST_LANES, MOST_LANES + 50):
        tally.of(f"site{number}.example").requests += 1
    tally.of("site0.example").requests += 1

    assert len(tally.by_name) == MOST_LANES + 1
    assert tally.by_name[OTHER].requests == 50
    assert tally.by_name["site0.example"].requests == 2


def test_durations_are_counted_up_to_each_bound() -> None:
    durations = Durations()
    for seconds in (0.0, BOUNDS[0], 0.3, 99.0):
        durations.add(seconds)
    counts = dict(durations.cumulative())
    assert counts[str(BOUNDS[0])] == 2, "a bound belongs to its class"
    assert (counts["0.25"], counts["0.5"], counts[str(BOUNDS[-1])], counts["+Inf"]) == (2, 3, 3, 4)
    assert durations.total == BOUNDS[0] + 99.3


def test_a_retry_is_an_attempt_that_burned_and_waits() -> None:
    class Query(Task, frozen=True):
        kind = "query"

    lease = Lease(task_id=1, job_id=1, lane=1, claim=1, attempt=1, price=0, kind="query", key="q", task=Query())
    stats = WorkStats()
    stats.settled(
        [
            Settlement(lease, TaskState.WAITING, wait=1.0),
            Settlement(lease, TaskState.WAITING, wait=1.0, burned=False),
            Settlement(lease, TaskState.FAILED),
            Settlement(lease, TaskState.COMPLETED),
        ]
    )
    assert stats.retried == {"query": 1}
