"""The engine with fewer places than its lanes want: whose turn it is, who was served longest ago; nobody for ever."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from time import monotonic

import pytest

from forager.core.ledger import Demand, Session, Settlement
from forager.core.pipeline import Lane, Pipeline, StepTable
from forager.engine.lanes import ownership
from forager.engine.lanes.lane import DeclaredLanes
from forager.engine.work import worker as work_worker
from forager.engine.work.worker import Worker
from tests.contract.engine.conftest import OpenRig
from tests.support.acts import QUICK, acts, many
from tests.support.engine import until


def shared() -> Pipeline:
    """Any lane without limits: only the process is short of places."""
    return acts(*(Lane(name, rate=None, retry=QUICK) for name in "abcdef"))


def in_order(worker: Worker) -> list[str]:
    """The lane of each task in the order in which they ended, as long as the worker continues."""
    ended: list[str] = []

    def note(group: Sequence[Settlement]) -> None:
        ended.extend(settlement.lease.key[0] for settlement in group)

    worker.when_settled(note)
    return ended


async def test_lanes_of_one_turn_are_served_one_after_the_other(open_rig: OpenRig) -> None:
    rig = await open_rig(shared())
    for name in "abcd":
        await rig.submit(many(30, prefix=name, where=name, seconds=0.002))
    worker = rig.worker(capacity=4)
    ended = in_order(worker)
    await worker.run(until_idle=True)
    first = ended[:60]
    assert all(10 <= first.count(name) <= 20 for name in "abcd"), "".join(ended)


async def test_a_lane_with_a_lower_turn_goes_first_as_soon_as_its_work_is_there(
    open_rig: OpenRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "TURNS_HOLD", 0.0)
    rig = await open_rig(shared())
    await rig.submit(many(200, prefix="a", where="a", seconds=0.01), turn=5)
    await rig.submit(many(1, prefix="b", where="b", seconds=0.01), turn=5)
    worker = rig.worker(capacity=3)
    ended = in_order(worker)
    async with rig.working(worker):
        await until(lambda: ended.count("a") >= 5 and "b" in ended)
        await rig.submit(many(30, prefix="b", where="b", seconds=0.01), turn=0)
        await until(lambda: ended.count("b") == 31)
        assert ended.count("a") < 100, "it did not have to wait until the other had run dry"
        between = ended[ended.index("b") + 1 :]
        last = len(between) - between[::-1].index("b")
        urgent = between[between.index("b") : last]
        assert urgent.count("a") <= 10, "".join(ended)


async def test_more_lanes_than_places_are_all_served_although_those_that_are_held_never_run_dry(
    open_rig: OpenRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "QUANTUM", 0.3)
    monkeypatch.setattr(ownership, "TURNS_HOLD", 0.05)
    rig = await open_rig(shared())
    for name in "abcdef":
        await rig.submit(many(5_000, prefix=name, where=name, seconds=0.01))
    worker = rig.worker(capacity=2)
    ended = in_order(worker)
    async with rig.working(worker):
        await until(lambda: set(ended) == set("abcdef"))
        assert all(ended.count(name) < 5_000 for name in "abcdef")
        again = len(ended)
        await until(lambda: set(ended[again:]) == set("abcdef"))


async def test_a_busy_lane_is_kept_while_no_other_lane_waits_for_its_slot(
    open_rig: OpenRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "QUANTUM", 0.05)
    monkeypatch.setattr(ownership, "TURNS_HOLD", 0.01)
    rig = await open_rig(shared())
    for name in "ab":
        await rig.submit(many(100, prefix=name, where=name, seconds=0.01))
    await rig.worker(capacity=2).run(until_idle=True)
    assert [row["epoch"] for row in rig.tables.read("SELECT epoch FROM lanes WHERE name IN ('a', 'b')")] == [1, 1]


async def test_a_place_that_a_lane_has_left_is_taken_at_once(
    open_rig: OpenRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "QUANTUM", 0.1)
    monkeypatch.setattr(work_worker, "POLL", 3.0)  # the place was empty until this check found the waiting task
    rig = await open_rig(shared())
    for name in "ab":
        await rig.submit(many(2_000, prefix=name, where=name, seconds=0.01))
    worker = rig.worker(capacity=1)
    ended, at = in_order(worker), list[float]()
    worker.when_settled(lambda _: at.append(monotonic()))
    async with rig.working(worker):
        await until(lambda: set(ended) == set("ab"))
    assert max(later - before for before, later in pairwise(at)) < 1.5


async def test_a_full_worker_rarely_checks_for_waiting_lanes(
    open_rig: OpenRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands may, and the answer looks at each."""
    monkeypatch.setattr(ownership, "TURNS_HOLD", 0.0)
    rig = await open_rig(shared())
    for name in "abcd":
        await rig.submit(many(60, prefix=name, where=name, seconds=0.002))
    asked: list[int] = []
    demand: Callable[[Session, Sequence[int], int], Awaitable[Demand]] = rig.ledger.demand

    async def count(session: Session, lanes: Sequence[int], most: int) -> Demand:
        asked.append(most)
        return await demand(session, lanes, most)

    monkeypatch.setattr(rig.ledger, "demand", count)
    worker = rig.worker(capacity=3)
    ended = in_order(worker)
    async with rig.working(worker):
        await until(lambda: len(ended) >= 60)
    assert len(asked) > 10
    assert sum(1 for most in asked if most) <= 3


async def test_work_that_comes_while_lanes_are_taken_is_worth_another_look(open_rig: OpenRig) -> None:
    rig = await open_rig(shared())
    session = await rig.ledger.begin("taker")
    lanes = ownership.OwnedLanes(
        rig.ledger, DeclaredLanes(rig.pipelines), rig.clock, StepTable(rig.pipelines), most=10, random=lambda: 0.5
    )
    taking = asyncio.create_task(lanes.take(session))
    await asyncio.sleep(0)
    lanes.expect_work()
    assert not await taking
    assert lanes.look
    assert not await lanes.take(session)
    assert not lanes.look
