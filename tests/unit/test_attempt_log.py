"""The log of an attempt: the place in the code where it failed, and nothing that its message leaves out on purpose."""

import pytest

from forager.core.errors import ForagerError, Permanent, Transient
from forager.core.ledger import Lease, Settlement
from forager.core.outcome import Done, Drop
from forager.core.pipeline import Step, step
from forager.core.states import TaskState
from forager.engine.work.attempt import LONGEST_TRACE, time_attempt, traced
from tests.support.clock import FakeClock
from tests.support.rig_pipelines import Call
from tests.unit.test_patience import Ask, ended


async def run(*_: object) -> Done:
    return Done()


def settled(state: TaskState, asks: bool) -> Settlement:
    settlement = Settlement(Lease(1, 1, 1, 1, 1, 0, "call", "t0", Call(name="t0")), state)
    asked: Step = step(Ask, run, attempts=asks)
    clock = FakeClock()
    assert time_attempt(settlement, asked, clock, clock.monotonic() - 2.5) == 2.5
    return settlement


def test_a_completed_attempt_is_timed_only_for_steps_that_keep_every_attempt() -> None:
    assert settled(TaskState.COMPLETED, asks=False).tried is None
    kept = settled(TaskState.COMPLETED, asks=True).tried
    assert kept is not None
    assert (kept.duration_ms, kept.always, kept.trace) == (2_500, True, None)
    assert kept.started_at == round(FakeClock().now().timestamp() * 1000) - 2_500
    failed = settled(TaskState.FAILED, asks=False).tried
    assert failed is not None
    assert not failed.always


@pytest.mark.parametrize("error", [Transient("busy"), Permanent("gone"), ValueError("a bug")])
async def test_a_failure_contains_its_place_in_the_code(error: Exception) -> None:
    settlement = await ended(error)
    assert settlement.tried is not None
    assert settlement.tried.trace is not None
    assert "test_patience.py" in settlement.tried.trace
    assert str(error) in settlement.tried.trace


async def test_a_wait_and_a_drop_have_no_trace() -> None:
    assert (await ended(Drop("not_wanted"))).tried is None


def test_the_trace_of_our_own_errors_quotes_no_cause_and_names_the_place_that_the_message_names() -> None:
    def fail() -> None:
        try:
            raise RuntimeError("https://user:SECRET@shop.test/?token=SECRET")
        except RuntimeError as error:
            raise Transient("no connection.").at("shop.test") from error

    with pytest.raises(ForagerError) as caught:
        fail()
    trace = traced(caught.value).trace or ""
    assert trace.endswith("Transient: shop.test: no connection.")
    assert "token=SECRET" not in trace.replace('raise RuntimeError("https://user:SECRET@shop.test/?token=SECRET")', "")


def test_a_trace_is_bounded() -> None:
    assert len(traced(ValueError("x" * 100_000)).trace or "") == LONGEST_TRACE
