"""Sessions share the lanes: who has more than its part makes room while others want some, and takes none meanwhile."""

from collections.abc import Mapping

from forager.core.ids import sink_lane
from forager.core.ledger import GivenLane
from tests.support.rig import LEASE, Rig, Worker
from tests.support.rig_pipelines import calls

PLENTY = 100


async def with_lanes(rig: Rig, count: int, *, first: int = 0) -> None:
    """Create `count` lanes with work."""
    for number in range(first, first + count):
        await rig.submit(calls(2, where=f"lane{number}", prefix=f"{number}/"))


async def session(rig: Rig, *, wants: int = 0) -> Worker:
    """Return a session without lanes that could use `wants` of them."""
    worker = Worker(rig, await rig.ledger.begin("worker"))
    assert await rig.ledger.beat(worker.session, {}, wants)
    return worker


async def give(rig: Rig, worker: Worker, count: int) -> None:
    going: Mapping[int, GivenLane] = {worker.lanes.pop(name): GivenLane() for name in list(worker.lanes)[:count]}
    await rig.ledger.give_lanes(worker.session, going)


async def test_a_session_alone_has_all_lanes_and_none_too_many(rig: Rig) -> None:
    await with_lanes(rig, 8)
    first = await session(rig, wants=PLENTY)
    assert len(await first.take_lanes()) == 8
    assert sum((await rig.ledger.surplus(first.session)).values()) == 0


async def test_while_no_other_session_wants_lanes_there_is_no_surplus(rig: Rig) -> None:
    await with_lanes(rig, 8)
    first, _ = await session(rig, wants=PLENTY), await session(rig, wants=0)
    await first.take_lanes()
    assert sum((await rig.ledger.surplus(first.session)).values()) == 0
    await with_lanes(rig, 2, first=8)
    assert len(await first.take_lanes()) == 2


async def test_a_joining_session_that_wants_lanes_gets_its_half_and_the_first_takes_none_of_it_back(rig: Rig) -> None:
    await with_lanes(rig, 8)
    first = await session(rig, wants=PLENTY)
    await first.take_lanes()
    second = await session(rig, wants=PLENTY)
    assert await second.take_lanes() == []
    assert sum((await rig.ledger.surplus(first.session)).values()) == 4
    await give(rig, first, 3)
    assert await first.take_lanes() == [], "it is still above its share"
    assert sum((await rig.ledger.surplus(first.session)).values()) == 1
    await give(rig, first, 1)
    assert await first.take_lanes() == [], "it is at its share, and these lanes are for the other"
    assert len(await second.take_lanes()) == 4
    assert (
        sum((await rig.ledger.surplus(first.session)).values())
        == sum((await rig.ledger.surplus(second.session)).values())
        == 0
    )


async def test_lanes_that_come_later_are_shared_too(rig: Rig) -> None:
    first, second = await session(rig, wants=PLENTY), await session(rig, wants=PLENTY)
    await with_lanes(rig, 7)
    assert len(await first.take_lanes()) == 4
    assert len(await second.take_lanes()) == 3


async def test_who_could_use_only_few_leaves_the_rest_to_the_others(rig: Rig) -> None:
    await with_lanes(rig, 9)
    first = await session(rig, wants=PLENTY)
    await first.take_lanes()
    await session(rig, wants=2)
    assert sum((await rig.ledger.surplus(first.session)).values()) == 2


async def test_the_wants_of_an_expired_session_do_not_count(rig: Rig) -> None:
    await with_lanes(rig, 8)
    await session(rig, wants=PLENTY)
    rig.pass_time(LEASE + 1)
    first = await session(rig)
    assert len(await first.take_lanes()) == 8
    assert sum((await rig.ledger.surplus(first.session)).values()) == 0


async def test_nothing_is_reserved_for_a_session_that_has_enough_lanes(rig: Rig) -> None:
    first, second = await session(rig, wants=PLENTY), await session(rig, wants=PLENTY)
    await with_lanes(rig, 8)
    assert len(await first.take_lanes()) == 4
    assert await rig.ledger.beat(second.session, {}, 0)
    assert len(await first.take_lanes()) == 4


async def test_the_lane_of_a_sink_is_no_part_of_what_is_shared(rig: Rig) -> None:
    await with_lanes(rig, 4)
    first = await session(rig, wants=PLENTY)
    for number in range(4):
        await rig.ledger.take_lane(first.session, sink_lane(f"sink{number}"))
    second = await session(rig, wants=PLENTY)
    assert len(await first.take_lanes()) == 2
    assert len(await second.take_lanes()) == 2
    assert sum((await rig.ledger.surplus(first.session)).values()) == 0


async def test_a_heartbeat_returns_the_time_of_the_store_and_nothing_for_a_lost_session(rig: Rig) -> None:
    first = await session(rig)
    told = await rig.ledger.beat(first.session, {}, 3)
    assert told is not None
    assert abs((told - await rig.ledger.now()).total_seconds()) < 60
    await rig.ledger.end(first.session)
    assert await rig.ledger.beat(first.session, {}, 3) is None
