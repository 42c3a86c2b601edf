"""Rate windows, the request log and what an auditor reads from it. Pure: times and entries are given."""

import random
from itertools import count
from typing import Any

import pytest

from forager.sandbox import FULL_DENSITY, Fault, LoggedRequest, RequestLog, Rule, World, read_log
from forager.sandbox.audit import AuditedPage, audit, credits_charged, resent, wasted_pages
from forager.sandbox.faults import FaultScript
from forager.sandbox.rate import SlidingWindow, StartCounter

numbers = count(1)


def entry(page: int = 1, *, zip_code: str = "85001", status: int = 200, places: int = 10, **more: Any) -> LoggedRequest:
    n = next(numbers)
    delivered = more.pop("delivered", status != 0)
    return LoggedRequest(
        n, float(n), float(n), "k", "places", zip_code, "bars", page, status, credits=int(status == 200), places=places,
        delivered=delivered, done=n + 0.5, **more,
    )  # fmt: skip


def most_in_a_second(starts: list[float]) -> int:
    return max(sum(end - 1.0 < start <= end for start in starts) for end in starts)


@pytest.mark.parametrize("seed", range(5))
def test_the_most_starts_in_any_second_is_exact(seed: int) -> None:
    chance = random.Random(seed)
    starts, now = [], 100.0
    for _ in range(400):
        now += chance.expovariate(120) if chance.random() < 0.97 else chance.random()
        starts.append(now)
    counter = StartCounter(100.0)
    for start in starts:
        counter.start(start)
    assert counter.most == most_in_a_second(starts)


def test_two_starts_exactly_one_second_apart_share_no_window() -> None:
    counter = StartCounter(0.0)
    counter.start(0.0)
    counter.start(1.0)
    assert counter.most == 1


def test_a_burst_after_a_stall_is_counted_but_not_as_undisturbed() -> None:
    counter = StartCounter(0.0, period=1 / 128)
    for tick in range(1, 385):
        counter.start(tick / 128)
        counter.pulse(tick / 128)
    assert (counter.most, counter.most_undisturbed) == (128, 128)
    for late in range(100):  # half a second of requests, all seen at 3.5
        counter.start(3.5 + late / 1e6)
    counter.pulse(3.5001)
    assert counter.most > 128
    assert counter.most_undisturbed == 128
    assert counter.stalls == 1
    assert counter.longest_stall == pytest.approx(0.49, abs=0.01)


def test_a_window_refuses_what_is_over_the_limit_and_a_refused_start_takes_no_room() -> None:
    window = SlidingWindow()
    assert [window.admit(at, 2) for at in (0.0, 0.1, 0.2, 0.9, 1.0, 1.05, 1.1)] == [
        True,
        True,
        False,
        False,
        True,
        False,
        True,
    ]


def test_a_retry_after_an_error_status_is_no_resend() -> None:
    assert resent([entry(status=500), entry(status=429), entry()]) == []


def test_a_repeat_after_a_good_answer_or_a_lost_one_is_a_resend() -> None:
    log = [entry(1), entry(2), entry(1), entry(3, status=0), entry(3), entry(3, delivered=False), entry(3)]
    found = {again.page.page: (again.after_answer, again.after_silence) for again in resent(log)}
    assert found == {1: (1, 0), 3: (1, 2)}
    whole = audit(log)
    assert (whole.requests, whole.distinct, whole.repeats, whole.resent_credits) == (7, 3, 4, 4)
    assert whole.credits == credits_charged(log) == 6


def test_a_page_after_a_short_one_is_wasted__PL_10() -> None:
    fine = [entry(1, places=10), entry(2, places=3), entry(1, zip_code="85002", places=0)]
    assert wasted_pages(fine) == []
    assert wasted_pages([*fine, entry(3)]) == [AuditedPage("bars", "85001", 3)]
    assert wasted_pages([entry(2, places=0), entry(1, places=9)]) == [AuditedPage("bars", "85001", 2)]


def test_a_page_that_failed_or_was_garbled_does_not_make_later_ones_wasted__PL_10() -> None:
    assert wasted_pages([entry(1, status=500, places=0), entry(1), entry(2)]) == []
    assert wasted_pages([entry(1, places=0, fault="malformed"), entry(2)]) == []


def test_the_log_keeps_its_figures_when_old_entries_leave_it() -> None:
    log = RequestLog(0.0, limit=3)
    for number in range(5):
        one = log.arrive(number * 0.1, 0.0)
        one.endpoint, one.page, one.status, one.credits, one.delivered = "places", number % 4 + 1, 200, 1, True
        log.ask(one)
        log.end(one, number * 0.1)
    stats = log.stats(1.0)
    assert [one.n for one in log] == [3, 4, 5]
    assert [one.n for one in log.since(4)] == [5]
    assert [one.n for one in log.since(0)] == [3, 4, 5]
    assert (stats["requests"], stats["credits"], stats["distinct"], stats["resent"], stats["log_dropped"]) == (
        5,
        5,
        4,
        1,
        2,
    )
    assert stats["repeated"] == [{"endpoint": "places", "keyword": "", "zip": "", "page": 1, "times": 2}]


def test_a_request_in_flight_at_a_reset_is_not_counted_afterwards() -> None:
    log = RequestLog(0.0)
    old = log.arrive(0.0, 0.0)
    log.clear(1.0)
    log.end(old, 1.1)
    assert log.stats(2.0)["by_status"] == {}
    assert log.stats(2.0)["in_flight"] == 0
    assert log.arrive(2.0, 0.0).n == 2


def test_a_log_is_read_back_in_order_and_a_line_cut_by_a_kill_is_left_out() -> None:
    entries = [entry(1), entry(2), entry(3)]
    lines = [one.json() for one in (entries[1], entries[0], entries[2])]
    assert read_log(lines) == entries
    assert read_log([*lines[:2], lines[2][:40]]) == entries[:2]
    with pytest.raises(ValueError):
        read_log([lines[0][:40], *lines[1:]])


def test_a_script_comes_before_the_probabilities_and_is_used_up() -> None:
    script = FaultScript(World(7), [Rule(Fault.DROP, zip="85001", page=2, times=2, after=1)], {Fault.HTTP500: 1.0})
    picked = [script.pick("85001", "bars", 2, nth) for nth in range(1, 5)]
    assert picked == [Fault.HTTP500, Fault.DROP, Fault.DROP, Fault.HTTP500]
    assert script.pick("85001", "bars", 1, 1) is Fault.HTTP500


def test_probabilities_are_drawn_by_request_and_its_count() -> None:
    first = FaultScript(World(7, FULL_DENSITY), shares={Fault.HTTP500: 0.2, Fault.TIMEOUT: 0.1})
    asked = [(f"{zip_code}", "bars", 1, nth) for zip_code in range(85001, 86001) for nth in (1, 2)]
    picked = {one: first.pick(*one) for one in asked}
    assert picked == {one: first.pick(*one) for one in reversed(asked)}
    assert sum(fault is Fault.HTTP500 for fault in picked.values()) / 2000 == pytest.approx(0.2, abs=0.03)
    assert sum(fault is Fault.TIMEOUT for fault in picked.values()) / 2000 == pytest.approx(0.1, abs=0.03)
    assert any(picked[a] != picked[b] for a, b in zip(asked[::2], asked[1::2], strict=True))  # a retry may go well
