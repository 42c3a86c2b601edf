"""Every error has a reason and a category; an attempt passes both on."""

import pytest

from forager.core.errors import (
    CircuitOpen,
    Disallowed,
    ForagerError,
    NoHealthyProxies,
    Permanent,
    PoolExhausted,
    RateLimited,
    Refused,
    TimedOut,
    Transient,
)
from forager.core.ledger import Lease, Settlement
from forager.core.outcome import Drop
from forager.core.pipeline import Pipeline
from forager.core.states import ErrorType, TaskState
from forager.engine.work.stats import WorkStats
from forager.fetch.http.connect import map_errors
from tests.support.rig_pipelines import PIPELINE, Call
from tests.unit.test_patience import ended


@pytest.mark.parametrize(
    ("error", "state", "reason", "error_type"),
    [
        (RateLimited("fewer"), "WAITING", "rate_limited", "http"),
        (TimedOut("late"), "WAITING", "timed_out", "network"),
        (Transient("500", error_type=ErrorType.HTTP), "WAITING", None, "http"),
        (PoolExhausted(), "WAITING", "pool_exhausted", "internal"),
        (NoHealthyProxies(), "WAITING", "no_healthy_proxies", "network"),
        (Permanent("gone", reason="not_found", error_type=ErrorType.HTTP), "FAILED", "not_found", "http"),
        (Refused("not public"), "FAILED", "egress_refused", "validation"),
        (CircuitOpen("left alone"), "FAILED", "circuit_open", "blocked"),
        (Disallowed("no"), "SKIPPED", "robots", "blocked"),
        (ValueError("a bug"), "FAILED", "step_broke", "internal"),
    ],
)
async def test_an_attempt_ends_with_the_reason_of_its_error(
    error: Exception, state: str, reason: str | None, error_type: str
) -> None:
    settlement = await ended(error)
    assert (settlement.state.name, settlement.reason, settlement.error_type) == (state, reason, error_type)


async def test_a_drop_has_a_word_and_maybe_a_sentence() -> None:
    plain = await ended(Drop("not_wanted"))
    assert (plain.error, plain.reason) == ("not_wanted", "not_wanted")
    told = await ended(Drop("not_wanted", "It is older than a year."))
    assert (told.error, told.reason) == ("It is older than a year.", "not_wanted")


def test_where_an_error_happened_stands_before_its_message_and_can_be_exchanged() -> None:
    with pytest.raises(Transient) as caught, map_errors("https://shop.test/hook/SECRET?key=1"):
        raise Transient("no connection: refused.")
    error: ForagerError = caught.value
    assert error.message == str(error) == "https://shop.test/hook/SECRET: no connection: refused."
    error.where = "shop.test"
    assert error.message == "shop.test: no connection: refused."


def test_a_pipeline_declares_words_not_sentences() -> None:
    with pytest.raises(ValueError, match="one lower-case word"):
        Pipeline(name="x", params=PIPELINE.params, plan=PIPELINE.plan, steps=(), reasons=frozenset({"Not found!"}))


def test_metrics_have_no_label_that_no_pipeline_declares() -> None:
    stats = WorkStats(frozenset({"not_found"}))
    lease = Lease(1, 1, 1, 1, 1, 0, "call", "t0", Call(name="t0"))
    ends = [("not_found", "http"), ("timed_out", "network"), (None, "internal"), ("made up", "internal"), (None, None)]
    stats.settled([Settlement(lease, TaskState.FAILED, reason=reason, error_type=kind) for reason, kind in ends])
    assert dict(stats.failures) == {
        ("not_found", "http"): 1,
        ("timed_out", "network"): 1,
        ("", "internal"): 1,
        ("other", "internal"): 1,
    }
