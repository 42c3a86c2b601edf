"""One session at a time delivers to a sink, also when its owner dies, is paused or stops. On either store."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from forager.core.change import Change
from forager.core.clock import SystemClock
from forager.core.ledger import Session
from forager.ledger.tables.sinks import SinkTable
from tests.support.deliveries import QUICK, Faulty, Kept, pause, sink_table
from tests.support.delivery_rig import Picky, deliver, everything, grow, running
from tests.support.engine import until
from tests.support.rig import LEASE, Rig, Worker


async def test_one_session_at_a_time_delivers_a_sink(rig: Rig, worker: Worker, sinks: SinkTable) -> None:
    first, second = await rig.ledger.begin("first"), await rig.ledger.begin("second")
    sink = Picky(wants=True)
    mine, other = deliver(rig, sink, first), deliver(rig, sink, second)
    await grow(rig, worker)
    assert await mine.deliver_new()
    await grow(rig, worker)
    assert not await other.deliver_new()
    (status,) = await sinks.statuses()
    assert (status.owner, status.behind) == ("first", 5)
    await rig.ledger.end(first)
    assert await other.deliver_new()
    assert (await sinks.statuses())[0].owner == "second"
    assert sink.seen == await everything(rig)


async def test_a_dead_owner_is_replaced_when_its_lease_is_over(rig: Rig, worker: Worker) -> None:
    dead = await rig.ledger.begin("dead")
    sink = Picky(wants=True)
    await grow(rig, worker)
    await deliver(rig, sink, dead).deliver_new()
    rig.pass_time(LEASE + 1)
    await rig.ledger.sweep()
    heir = await rig.ledger.begin("heir")
    again = await rig.worker()
    await grow(rig, again)
    assert await deliver(rig, sink, heir).deliver_new()
    assert sink.seen == await everything(rig)


async def test_a_session_that_has_lost_the_lane_cannot_move_the_cursor(
    rig: Rig, worker: Worker, sinks: SinkTable
) -> None:
    """It was stopped in the middle of a batch, and another has delivered since."""
    late, heir = await rig.ledger.begin("late"), await rig.ledger.begin("heir")
    overtaking = Picky(wants=True)

    class Stopped(Picky):
        async def write(self, batch: Sequence[Change]) -> bool:
            taken = await super().write(batch)
            await rig.ledger.end(late)
            assert await deliver(rig, overtaking, heir).deliver_new()
            await sinks.advance(self.name, 0)  # and an operator wants it all again
            return taken

    await grow(rig, worker)
    stopped = Stopped(wants=True)
    assert not await deliver(rig, stopped, late).deliver_new()
    assert stopped.seen == overtaking.seen == await everything(rig)
    at = await sinks.position("picky")
    assert (at.cursor, at.owner) == (0, heir.id)


async def test_a_paused_sink_rests_and_continues_where_it_stopped(
    rig: Rig, worker: Worker, session: Session, sinks: SinkTable
) -> None:
    sink = Kept()
    delivery = deliver(rig, sink, session)
    await grow(rig, worker)
    await delivery.deliver_new()
    before = sink.ids
    await pause(rig.ledger, sink)
    await grow(rig, worker)
    assert not await delivery.deliver_new()
    (status,) = await sinks.statuses()
    assert (status.paused, status.owner, sink.ids) == (True, None, before)
    await pause(rig.ledger, sink, paused=False)
    assert await delivery.deliver_new()
    assert sink.ids == await everything(rig)


async def test_without_a_living_session_nothing_is_delivered(rig: Rig) -> None:
    await rig.submit([])
    sink = Kept()
    assert not await deliver(rig, sink, None).deliver_new()
    assert sink.ids == []


async def test_a_worker_never_takes_the_lane_of_a_sink_for_work(rig: Rig, worker: Worker, session: Session) -> None:
    """Neither when its owner ends, nor when it dies, nor when all lanes are woken."""
    await deliver(rig, Kept("one"), session).deliver_new()
    await rig.ledger.end(session)
    await rig.ledger.wake_lanes()
    await deliver(rig, Kept("two"), await rig.ledger.begin("dying")).deliver_new()
    rig.pass_time(LEASE + 1)
    await rig.ledger.sweep()
    assert await (await rig.worker()).take_lanes() == []


async def test_stopping_lets_the_batch_in_hand_end(
    rig: Rig, worker: Worker, session: Session, sinks: SinkTable
) -> None:
    class Held(Faulty):
        may_end = asyncio.Event()

        async def write(self, batch: Sequence[Change]) -> bool | None:
            taken = await super().write(batch)
            await self.may_end.wait()
            return taken

    sink = Held(Kept())
    delivery = deliver(rig, sink, session, replace(QUICK, batch=2), SystemClock())
    await grow(rig, worker)
    task = asyncio.create_task(delivery.run())
    await until(lambda: sink.batches)
    delivery.stop()
    sink.may_end.set()
    await asyncio.wait_for(task, 60)
    assert sink.batches == [[1, 2]]
    assert (await sinks.position("kept")).cursor == 2


async def test_a_sink_connects_before_its_first_change_in_the_process_that_holds_its_lane(
    rig: Rig, worker: Worker
) -> None:
    class Connecting(Picky):
        def __init__(self, *, reachable: bool) -> None:
            super().__init__(wants=True)
            self.opened, self.reachable = 0, reachable

        async def open(self) -> None:
            self.opened += 1
            if not self.reachable:
                raise OSError("connection refused")

    owner, other = await rig.ledger.begin("owner"), await rig.ledger.begin("other")
    mine, standby = Connecting(reachable=False), Connecting(reachable=True)
    deliveries = [deliver(rig, mine, owner, clock=SystemClock()), deliver(rig, standby, other, clock=SystemClock())]
    assert await deliveries[0].deliver_new(), "the lane is taken, and looking at the log connects nothing"
    assert mine.opened == 0
    async with running(*deliveries):
        await until(lambda: mine.opened == 1)
        await grow(rig, worker)
        wanted = await everything(rig)
        await until(lambda: mine.seen == wanted)
    assert (mine.opened, standby.opened, standby.seen) == (1, 0, [])
    assert (await sink_table(rig.ledger).statuses())[0].failures == 0, "only a write that fails is a failure"


async def test_a_sink_for_which_changes_wait_at_the_start_is_not_opened_during_its_first_write(
    rig: Rig, worker: Worker
) -> None:
    class Connecting(Picky):
        opened = False

        async def open(self) -> None:
            self.opened = True

    sink = Connecting(wants=True)
    await grow(rig, worker)
    delivery = deliver(rig, sink, await rig.ledger.begin("owner"), clock=SystemClock())
    async with running(delivery):
        wanted = await everything(rig)
        await until(lambda: sink.seen == wanted)
        await grow(rig, worker)
        wanted = await everything(rig)
        await until(lambda: sink.seen == wanted)
    assert not sink.opened
