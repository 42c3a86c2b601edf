"""A worker's list of owned lanes compared with the store: the two never differ for longer than one answer."""

import asyncio
from typing import Any

import pytest

from forager.core.ledger import Away, GivenLane, OwnedLane, Session
from forager.core.pipeline import Lane, StepTable
from forager.engine.lanes.lane import DeclaredLanes, LaneRun
from forager.engine.lanes.ownership import OwnedLanes
from forager.engine.waits import LONGEST_REST
from forager.ledger.tables.domains import follow_declared
from tests.contract.engine.conftest import OpenRig
from tests.support.acts import acts, many
from tests.support.engine import EngineRig

URL = "http://x.example/"


def owned_lanes(rig: EngineRig) -> OwnedLanes:
    rules = DeclaredLanes(rig.pipelines)
    return OwnedLanes(rig.ledger, rules, rig.clock, StepTable(rig.pipelines), most=10, random=lambda: 0.5)


def owner_of(rig: EngineRig, lane: str) -> Any:
    (row,) = rig.tables.read(f"SELECT owner FROM lanes WHERE name = '{lane}'")
    return row["owner"]


async def an_idle_lane(rig: EngineRig, lanes: OwnedLanes, session: Session) -> LaneRun:
    """One that a request took a while ago: it is due to be given back, and the next request takes it again."""
    lane = await lanes.of_url(session, URL, own=None)  # type: ignore[arg-type]
    assert isinstance(lane, LaneRun)
    lane.hungry, lane.seen_open = False, float("-inf")
    lanes._idle_since[lane.id] = float("-inf")
    return lane


async def test_an_answer_from_before_a_lane_was_given_back_gives_it_no_owner(
    open_rig: OpenRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = await open_rig(acts())
    session, lanes = await rig.ledger.begin("one"), owned_lanes(rig)
    await an_idle_lane(rig, lanes, session)
    take, answers = rig.ledger.take_lane, 0

    async def late(session: Session, name: str) -> OwnedLane | Away:
        nonlocal answers
        answer: OwnedLane | Away = await take(session, name)
        answers += 1
        if answers == 1:
            await lanes.give_back_idle(session)
            assert owner_of(rig, name) is None
        return answer

    monkeypatch.setattr(rig.ledger, "take_lane", late)
    lane = await lanes.of_url(session, URL, own=None)  # type: ignore[arg-type]
    assert isinstance(lane, LaneRun)
    assert lane.ours
    assert (answers, owner_of(rig, lane.name)) == (2, session.id)


async def test_a_request_for_a_lane_that_is_being_handed_back_waits_for_it(
    open_rig: OpenRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = await open_rig(acts())
    session, lanes = await rig.ledger.begin("one"), owned_lanes(rig)
    await an_idle_lane(rig, lanes, session)
    give, go_on = rig.ledger.give_lanes, asyncio.Event()

    async def slowly(session: Session, given: dict[int, GivenLane]) -> None:
        await go_on.wait()
        await give(session, given)

    monkeypatch.setattr(rig.ledger, "give_lanes", slowly)
    giving = asyncio.create_task(lanes.give_back_idle(session))
    await asyncio.sleep(0)
    asking = asyncio.create_task(lanes.of_url(session, URL, own=None))  # type: ignore[arg-type]
    await asyncio.wait([asking], timeout=0.05)
    assert not asking.done()
    go_on.set()
    await giving
    lane = await asking
    assert isinstance(lane, LaneRun)
    assert owner_of(rig, lane.name) == session.id


async def test_a_lane_that_a_request_uses_while_others_are_waited_for_stays(open_rig: OpenRig) -> None:
    """Whoever would give it back must look again after waiting: it was idle only before."""
    rig = await open_rig(acts())
    session, lanes = await rig.ledger.begin("one"), owned_lanes(rig)
    lane = await an_idle_lane(rig, lanes, session)
    lane.seen_open = rig.clock.monotonic()
    async with lanes._giving:
        giving = asyncio.create_task(lanes.give_back_idle(session))
        await asyncio.sleep(0)
        assert await lanes.of_url(session, URL, own=None) is lane  # type: ignore[arg-type]
        lane.in_flight = 1
    assert not await giving
    assert lane.ours
    assert owner_of(rig, lane.name) == session.id
    lane.in_flight = 0


async def test_a_lane_with_next_to_no_rate_rests_for_a_day_at_most(open_rig: OpenRig) -> None:
    """Its next start is some ages away: more milliseconds than a store can keep."""
    rig = await open_rig(acts(Lane("acts", rate=1e-12, per=86_400)))
    rig.may_rest = True
    await rig.submit(many(2))
    session, lanes = await rig.ledger.begin("one"), owned_lanes(rig)
    assert await lanes.take(session)
    (lane,) = lanes
    lane._limiter.plan(rig.clock.monotonic())
    lanes._idle_since[lane.id] = float("-inf")
    await lanes.give_back_idle(session)
    (row,) = rig.tables.read("SELECT owner, wake_at FROM lanes WHERE name = 'acts'")
    assert row["owner"] is None
    now = round((await rig.ledger.now()).timestamp() * 1000)
    assert 0 < row["wake_at"] - now <= LONGEST_REST * 1000


async def test_lanes_whose_queue_has_changed_since_they_were_taken_are_shared_by_the_new_queue(
    open_rig: OpenRig,
) -> None:
    """A process that starts may move lanes to another queue while an older process owns them."""
    rig = await open_rig(acts())
    session, lanes = await rig.ledger.begin("old"), owned_lanes(rig)
    for name in ("a", "b"):
        await lanes.take_named(session, name)
    await follow_declared(rig.ledger.database, {"a": "scraping", "b": "scraping"})
    new = await rig.ledger.begin("new", ["scraping"])
    assert await rig.ledger.beat(new, {}, 10)
    first, second = lanes
    await lanes.take(session)
    assert not first.leaving, "it has not had its quantum"
    first.taken_at, lanes._share_asked = float("-inf"), float("-inf")
    await lanes.take(session)
    assert (first.leaving, second.leaving) == (True, False)
