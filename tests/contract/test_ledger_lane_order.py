"""The order of taking lanes when not all can be taken: the lowest turn first, then the longest wait; none waits for
ever."""

from forager.core.ledger import GivenLane
from forager.core.pipeline import AGED_AFTER
from forager.core.states import TaskState
from tests.support.rig import Rig
from tests.support.rig_pipelines import calls


async def take(rig: Rig, most: int = 1) -> list[str]:
    session = await rig.ledger.begin("taker")
    return [lane.name for lane in await rig.ledger.take_lanes(session, most)]


async def test_of_equal_turns_the_lane_that_has_waited_longest_is_taken_first(rig: Rig) -> None:
    for name in ("c", "a", "b"):
        await rig.submit(calls(1, where=name))
        rig.pass_time(1)
    assert [await take(rig) for _ in range(4)] == [["c"], ["a"], ["b"], []]


async def test_a_turn_never_reports_no_free_lane_while_there_is_one(rig: Rig) -> None:
    await rig.submit(calls(1, where="own"))
    worker = await rig.worker()
    await rig.submit(calls(1, where="own", prefix="u"))
    before = (await worker.cycle()).lanes_to_take
    await rig.submit(calls(1, where="new"))
    assert (await worker.cycle(most=1)).lanes_to_take
    await rig.ledger.pause_lane("new", paused=True)
    paused = (await worker.cycle()).lanes_to_take
    await rig.ledger.pause_lane("new", paused=False)
    assert (await worker.cycle()).lanes_to_take
    assert await worker.take_lanes() == ["new"]
    if "Sqlite" in type(rig.ledger).__name__:  # the other store does not check: it reports that there may be some
        assert not before
        assert not paused
        assert not (await worker.cycle()).lanes_to_take


async def test_a_lower_turn_is_taken_before_an_older_lane(rig: Rig) -> None:
    for name, turn in (("old", 9), ("older", 5), ("urgent", 0), ("usual", 5)):
        await rig.submit(calls(1, where=name), turn=turn)
        rig.pass_time(1)
    assert await take(rig, 3) == ["urgent", "older", "usual"]
    assert await take(rig) == ["old"]


async def test_the_best_job_of_a_lane_speaks_for_it_and_a_paused_one_does_not(rig: Rig) -> None:
    await rig.submit(calls(1, where="plain"), turn=5)
    await rig.submit(calls(1, where="mixed"), turn=9)
    rig.pass_time(1)
    await rig.submit(calls(1, where="mixed"), turn=1)
    await rig.submit(calls(1, where="asleep"), turn=8)
    urgent = (await rig.submit(calls(1, where="asleep"), turn=0)).job
    await rig.ledger.pause(urgent)
    assert [await take(rig) for _ in range(3)] == [["mixed"], ["plain"], ["asleep"]]


async def test_work_that_waited_for_its_moment_keeps_its_turn(rig: Rig) -> None:
    await rig.submit(calls(1, where="again"), turn=9)
    worker = await rig.worker()
    (lease,) = await worker.lease()
    await worker.settle(lease, TaskState.WAITING, wait=5, burned=False)
    await rig.ledger.give_lanes(worker.session, {worker.lanes["again"]: GivenLane()})
    rig.pass_time(10)
    await rig.submit(calls(1, where="new"), turn=5)
    assert [await take(rig) for _ in range(2)] == [["new"], ["again"]]


async def test_a_lane_behind_lower_turns_is_taken_once_its_job_has_aged(rig: Rig) -> None:
    await rig.submit(calls(1, where="patient"), turn=9)
    rig.pass_time(AGED_AFTER - 20)
    await rig.submit(calls(1, where="urgent-1"), turn=0)
    await rig.submit(calls(1, where="urgent-2"), turn=0)
    assert await take(rig) == ["urgent-1"]
    rig.pass_time(21)
    assert (await rig.ledger.sweep()).aged == 1
    assert [await take(rig) for _ in range(2)] == [["patient"], ["urgent-2"]]


async def test_a_returned_lane_with_work_is_behind_waiting_lanes(rig: Rig) -> None:
    for name in ("first", "second"):
        await rig.submit(calls(1, where=name))
        rig.pass_time(1)
    session = await rig.ledger.begin("taker")
    (lane,) = await rig.ledger.take_lanes(session, 1)
    rig.pass_time(1)
    await rig.ledger.give_lanes(session, {lane.id: GivenLane()})
    assert [await take(rig) for _ in range(2)] == [["second"], ["first"]]


async def test_a_returned_lane_with_overdue_work_is_behind_waiting_lanes(rig: Rig) -> None:
    await rig.submit(calls(1, where="first"))
    worker = await rig.worker()
    (lease,) = await worker.lease()
    await worker.settle(lease, TaskState.WAITING, wait=5, burned=False)
    rig.pass_time(10)
    await rig.submit(calls(1, where="second"))
    rig.pass_time(1)
    await rig.ledger.give_lanes(worker.session, {worker.lanes["first"]: GivenLane()})
    assert [await take(rig) for _ in range(2)] == [["second"], ["first"]]


async def test_demand_counts_the_turns_of_owned_and_of_waiting_lanes(rig: Rig) -> None:
    for name, turn in (("a", 3), ("b", 7)):
        await rig.submit(calls(1, where=name), turn=turn)
    session = await rig.ledger.begin("taker")
    numbers = {lane.name: lane.id for lane in await rig.ledger.take_lanes(session, 10)}
    for name, turn in (("c", 9), ("d", 2), ("e", 4), ("off", 0)):
        await rig.submit(calls(1, where=name), turn=turn)
    await rig.ledger.pause_lane("off", paused=True)
    demand = await rig.ledger.demand(session, list(numbers.values()), 2)
    assert demand.own == {numbers["a"]: 3, numbers["b"]: 7}
    assert list(demand.waiting) == [2, 4]
    assert list((await rig.ledger.demand(session, [], 0)).waiting) == []
