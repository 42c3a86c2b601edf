"""The loop of a sink: its place in the log, its failures, its lane. On either store."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from forager.core.change import Change
from forager.core.clock import SystemClock
from forager.core.errors import NotFound
from forager.core.ledger import Session
from forager.core.sink import Batching
from forager.engine.deliver import Delivery, Pace
from forager.ledger.side_tables.sinks import SinkTable
from tests.support.deliveries import QUICK, Faulty, Kept, pause, sink_table
from tests.support.engine import until
from tests.support.rig import LEASE, HandClock, Rig, Thing, Worker, calls


@pytest.fixture
def sinks(rig: Rig) -> SinkTable:
    return sink_table(rig.ledger)


@pytest.fixture
async def session(rig: Rig) -> Session:
    return await rig.ledger.begin("deliverer")


async def grow(rig: Rig, worker: Worker, count: int = 3) -> None:
    """A job that finds so many things: in all, so many changes and the two of the job."""
    await rig.submit(calls(1))
    (lease,) = await worker.lease()
    await worker.settle(lease, records=[Thing(uid=f"{lease.task_id}-{n}") for n in range(count)])


def deliver(rig: Rig, sink: Any, session: Session | None, pace: Pace = QUICK, clock: Any = None) -> Delivery:
    return Delivery(rig.ledger, sink_table(rig.ledger), sink, clock or HandClock(), lambda: session, pace)


async def everything(rig: Rig) -> list[int]:
    return list(range(1, rig.last_change() + 1))


@asynccontextmanager
async def running(*deliveries: Delivery) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(each.run()) for each in deliveries]
    try:
        async with asyncio.timeout(60):
            yield
    finally:
        for each in deliveries:
            each.stop()
        await asyncio.wait_for(asyncio.gather(*tasks), 60)


# ── the cursor ──


async def test_a_cursor_starts_at_nothing_and_can_be_moved_back(rig: Rig, sinks: SinkTable) -> None:
    async def cursor(sink: str) -> int:
        return (await sinks.position(sink)).cursor

    assert await cursor("files") == 0
    await sinks.advance("files", 17)
    await sinks.advance("other", 3)
    assert (await cursor("files"), await cursor("other")) == (17, 3)
    await sinks.advance("files", 5)
    assert await cursor("files") == 5
    assert not await sinks.advance("files", 9, expected=17)
    assert await cursor("files") == 5
    assert await sinks.advance("files", 9, expected=5)
    assert await sinks.advance("new", 2, expected=0)
    assert (await cursor("files"), await cursor("new")) == (9, 2)


async def test_a_new_sink_gets_every_change_of_its_kinds_in_order(rig: Rig, worker: Worker, session: Session) -> None:
    await grow(rig, worker)
    await grow(rig, worker)
    all_, things = Kept("all"), Kept("things", frozenset({"thing", "seen"}))
    assert await deliver(rig, all_, session, replace(QUICK, batch=2)).deliver_new()
    assert await deliver(rig, things, session, replace(QUICK, batch=2)).deliver_new()
    assert all_.ids == await everything(rig)
    assert [(c.kind, c.op) for c in things.changes] == [("thing", "new")] * 6
    assert things.ids == sorted(things.ids)


async def test_a_cursor_for_which_nothing_was_done_is_stored_when_the_log_rests_or_late(
    rig: Rig, session: Session, sinks: SinkTable
) -> None:
    clock, sink = HandClock(), Picky()
    delivery = deliver(rig, sink, session, Pace(), clock)

    async def is_kept() -> bool:
        at = await sinks.position(sink.name)
        return at.cursor == at.last

    async def one_more(*, wanted: bool) -> None:
        sink.wants = wanted
        await rig.submit([])
        await delivery.deliver_new()

    await one_more(wanted=False)
    assert not await is_kept()
    await delivery.deliver_new()  # nothing new
    assert await is_kept()
    await one_more(wanted=True)
    assert await is_kept()
    await one_more(wanted=False)
    clock.pass_(Pace().keep_within)
    assert not await is_kept()
    await one_more(wanted=False)
    assert await is_kept()
    assert sink.seen == [1, 2, 3, 4], "each of them once"


async def test_a_replay_is_a_cursor_moved_back_and_is_followed_at_once(
    rig: Rig, session: Session, sinks: SinkTable
) -> None:
    sink = Picky(wants=True)
    delivery = deliver(rig, sink, session)
    await rig.submit([])
    await delivery.deliver_new()
    await sinks.advance(sink.name, 0)
    await delivery.deliver_new()  # nothing new, and yet
    assert sink.seen == [1, 1]
    await rig.submit([])
    await sinks.advance(sink.name, rig.last_change())
    await delivery.deliver_new()
    assert sink.seen == [1, 1]


async def test_the_next_batch_is_read_while_the_sink_takes_the_one_before(
    rig: Rig, worker: Worker, session: Session, sinks: SinkTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    await grow(rig, worker, 7)
    read: list[int] = []
    changes = rig.ledger.changes

    async def seen(after: int, *args: Any, **more: Any) -> Any:
        read.append(after)
        return await changes(after, *args, **more)

    monkeypatch.setattr(rig.ledger, "changes", seen)

    class Slow(Kept):
        async def write(self, batch: Sequence[Change]) -> None:
            if batch[-1].id < rig.last_change():
                await until(lambda: batch[-1].id in read)  # the batch after this one
            if batch[-1].id == 8 and len(read) == 3:
                await sinks.replay("kept", 0)  # what was read ahead is not what comes next
            await super().write(batch)

    sink = Slow()
    assert await deliver(rig, sink, session, Pace(batch=4)).deliver_new()
    assert sink.ids == await everything(rig)
    assert read == [0, 4, 8, 0, 4, 8]


async def test_a_replay_that_is_asked_for_during_a_batch_is_not_overwritten_by_it(
    rig: Rig, session: Session, sinks: SinkTable
) -> None:
    class Interrupted(Picky):
        async def write(self, batch: Sequence[Change]) -> bool:
            if len(self.seen) == 2:
                await sinks.advance(self.name, 0)
            return await super().write(batch)

    sink = Interrupted(wants=True)
    delivery = deliver(rig, sink, session)
    for _ in range(3):
        await rig.submit([])
        await delivery.deliver_new()
    assert sink.seen == [1, 2, 3, 1, 2, 3]


# ── several sinks ──


async def test_a_broken_and_a_slow_sink_delay_no_other(rig: Rig, worker: Worker, session: Session) -> None:
    broken, slow, fine = Faulty(Kept("broken"), down=True), Faulty(Kept("slow"), slow=60.0), Kept("fine")
    pace = replace(QUICK, write_timeout=60.0)
    deliveries = [deliver(rig, each, session, pace, SystemClock()) for each in (broken, slow, fine)]
    tasks = [asyncio.create_task(each.run()) for each in deliveries]
    for _ in range(3):
        await grow(rig, worker)
        wanted = await everything(rig)
        await until(lambda wanted=wanted: fine.ids == wanted)  # type: ignore[misc]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(broken.batches) > 1
    assert len(slow.batches) == 1
    assert broken.real.ids == slow.real.ids == []  # type: ignore[attr-defined]


async def test_a_sink_that_hangs_is_tried_again_after_a_time_limit(rig: Rig, session: Session) -> None:
    await rig.submit([])
    sink = Faulty(Kept(), slow=60.0)
    async with running(deliver(rig, sink, session, replace(QUICK, write_timeout=0.05), SystemClock())):
        await until(lambda: len(sink.batches) == 2)
        sink.slow = 0.0
        await until(lambda: sink.real.ids == [1])  # type: ignore[attr-defined]


# ── a sink that cannot be reached ──


def test_a_sink_that_cannot_be_reached_is_left_alone_for_a_second_and_at_most_for_five_minutes() -> None:
    assert [Pace().pause(failures) for failures in (1, 2, 3, 4, 9, 10, 1_000)] == [1, 2, 4, 8, 256, 300, 300]


async def test_a_sink_that_is_down_gets_everything_when_it_is_back(
    rig: Rig, worker: Worker, session: Session, sinks: SinkTable
) -> None:
    clock, sink = HandClock(), Faulty(Kept(), down=True)
    delivery = deliver(rig, sink, session, Pace(), clock)
    await grow(rig, worker)
    assert not await delivery.deliver_new()
    assert not await delivery.deliver_new()
    assert len(sink.batches) == 1, "it is left alone"
    clock.pass_(1.1)
    await delivery.deliver_new()
    (status,) = await sinks.statuses()
    assert (status.failures, status.error, status.cursor) == (2, "It does not answer.", 0)
    assert status.error_at is not None
    assert status.retry_at is not None
    assert 1.5 < (status.retry_at - status.error_at).total_seconds() <= 2.0
    sink.down = False
    clock.pass_(2.1)
    assert await delivery.deliver_new()
    assert sink.real.ids == await everything(rig)  # type: ignore[attr-defined]
    (status,) = await sinks.statuses()
    assert (status.failures, status.error, status.retry_at) == (0, "It does not answer.", None)


async def test_a_lost_answer_repeats_the_batch_and_it_counts_once(rig: Rig, worker: Worker, session: Session) -> None:
    clock, sink = HandClock(), Faulty(Kept(), answers_lost=2)
    delivery = deliver(rig, sink, session, QUICK, clock)
    await grow(rig, worker)
    while not await delivery.deliver_new():
        clock.pass_(1)
    assert sink.batches == [await everything(rig)] * 3
    assert sink.real.ids == await everything(rig)  # type: ignore[attr-defined]


# ── a change that is refused ──


async def test_one_poison_change_is_found_tried_five_times_and_set_aside(
    rig: Rig, worker: Worker, session: Session, sinks: SinkTable
) -> None:
    await grow(rig, worker, 100)
    sink = Faulty(Kept(), poison={42})
    assert await deliver(rig, sink, session).deliver_new()
    rest = [number for number in await everything(rig) if number != 42]
    assert sink.real.ids == rest  # type: ignore[attr-defined]
    assert sink.batches.count([42]) == 5
    assert len(sink.batches) <= 2 * 7 + 5, "it is found by halving"
    (refused,) = (await sinks.refused("kept")).items
    assert (refused.change, refused.kind, refused.op, refused.tries) == (42, "thing", "new", 5)
    assert refused.error == "It refuses [42]."
    assert refused.job is not None
    (status,) = await sinks.statuses()
    assert (status.set_aside, status.behind, status.failures, status.delivered) == (1, 0, 0, len(rest))


async def test_what_was_set_aside_can_be_retried_and_discarded(
    rig: Rig, worker: Worker, session: Session, sinks: SinkTable
) -> None:
    await grow(rig, worker, 6)
    sink = Faulty(Kept(), poison={3, 5, 6})
    delivery = deliver(rig, sink, session)
    await delivery.deliver_new()
    sink.poison = {5}
    assert await sinks.retry("kept") == 3
    await delivery.deliver_new()
    assert sink.real.ids[-2:] == [3, 6]  # type: ignore[attr-defined]
    (left,) = (await sinks.refused("kept")).items
    assert (left.change, left.tries, left.retry) == (5, 6, False)
    assert await sinks.discard("kept", 5) == 1
    assert (await sinks.refused("kept")).items == []
    with pytest.raises(NotFound, match="has not set change 5 aside"):
        await sinks.retry("kept", 5)


async def test_a_refusal_that_passes_sets_nothing_aside(rig: Rig, worker: Worker, session: Session) -> None:
    class Recovers(Faulty):
        async def write(self, batch: Sequence[Change]) -> bool | None:
            if self.batches.count([2]) == 3:
                self.poison = set()
            return await super().write(batch)

    await grow(rig, worker)
    sink = Recovers(Kept(), poison={2})
    await deliver(rig, sink, session).deliver_new()
    assert sink.real.ids == await everything(rig)  # type: ignore[attr-defined]


async def test_a_sink_that_refuses_everything_is_broken_and_sets_no_more_aside(
    rig: Rig, worker: Worker, session: Session, sinks: SinkTable
) -> None:
    await grow(rig, worker, 30)
    clock = HandClock()
    sink = Faulty(Kept(), poison=set(range(1, 1_000)))
    delivery = deliver(rig, sink, session, replace(QUICK, most_refused=4), clock)
    for _ in range(3):
        assert not await delivery.deliver_new()
        clock.pass_(1)
    (status,) = await sinks.statuses()
    assert (status.set_aside, status.cursor, status.failures) == (4, 4, 3)
    sink.poison = set()
    assert await delivery.deliver_new()
    assert sink.real.ids == (await everything(rig))[4:]  # type: ignore[attr-defined]


async def test_a_defect_of_the_sinks_own_code_holds_up_one_change(
    rig: Rig, worker: Worker, session: Session, sinks: SinkTable
) -> None:
    class Careless(Kept):
        async def write(self, batch: Sequence[Change]) -> None:
            titles: dict[int, str] = {}
            [titles[change.id] for change in batch if change.id == 3]
            await super().write(batch)

    await grow(rig, worker)
    sink = Careless()
    assert await deliver(rig, sink, session).deliver_new()
    assert sink.ids == [1, 2, 4, 5]
    (refused,) = (await sinks.refused("kept")).items
    assert refused.error == "KeyError: 3"


# ── whose sink it is ──


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


async def test_a_paused_sink_rests_and_goes_on_where_it_was(
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
    sink = Faulty(Kept(), slow=0.2)
    delivery = deliver(rig, sink, session, replace(QUICK, batch=2), SystemClock())
    await grow(rig, worker)
    task = asyncio.create_task(delivery.run())
    await until(lambda: sink.batches)
    delivery.stop()
    await asyncio.wait_for(task, 60)
    assert sink.batches == [[1, 2]]
    assert (await sinks.position("kept")).cursor == 2


# ── how it is doing ──


async def test_lag_and_rate_are_told(rig: Rig, worker: Worker, session: Session, sinks: SinkTable) -> None:
    await grow(rig, worker)
    clock, sink = HandClock(), Kept()
    delivery = deliver(rig, sink, session, QUICK, clock)
    rig.pass_time(10)
    (before,) = await sinks.statuses(["kept"])
    assert (before.behind, before.cursor, before.rate, before.moved_at) == (5, 0, 0.0, None)
    assert before.lag >= (10 if rig.clock else 0)
    await delivery.deliver_new()
    (after,) = await sinks.statuses(["kept"])
    assert (after.behind, after.lag, after.delivered) == (0, 0.0, 5)
    assert after.rate == pytest.approx(5 / 60, rel=0.05)
    assert [s.name for s in await sinks.statuses(["another"])] == ["another", "kept"]


class Picky:
    """A sink that wants something, or not; it keeps what it is given, also what comes again."""

    name, kinds = "picky", frozenset({"job", "thing"})

    def __init__(self, *, wants: bool = False) -> None:
        self.wants = wants
        self.seen: list[int] = []

    async def write(self, batch: Sequence[Change]) -> bool:
        self.seen += [change.id for change in batch]
        return self.wants


# ── how often the log is looked at ──


class Napping(HandClock):
    """Passes the time of every nap at once, and keeps how long each was."""

    def __init__(self) -> None:
        super().__init__()
        self.naps: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.pass_(seconds)
        await asyncio.sleep(0.001)


async def test_a_log_that_moves_is_looked_at_after_20_ms_and_one_at_rest_twice_a_second__RV_3(
    rig: Rig, worker: Worker, session: Session
) -> None:
    clock = Napping()
    delivery = deliver(rig, Kept(), session, Pace(), clock)
    await grow(rig, worker)
    async with running(delivery):
        await until(lambda: len(clock.naps) >= 8)
        assert clock.naps[:8] == [0.02, 0.04, 0.08, 0.16, 0.32, 0.5, 0.5, 0.5]
        await grow(rig, worker)
        seen = len(clock.naps)
        await until(lambda: 0.02 in clock.naps[seen - 1 :])


async def test_a_sink_says_how_many_changes_it_takes_and_how_long_they_wait(
    rig: Rig, worker: Worker, session: Session
) -> None:
    @dataclass
    class Patient(Faulty):
        batching = Batching(most=2, age=0.3)

    sink, clock = Patient(Kept()), Napping()
    await grow(rig, worker)
    async with running(deliver(rig, sink, session, Pace(), clock)):
        await until(lambda: len(clock.naps) >= 3)
    assert clock.naps[:3] == [0.3, 0.5, 0.5]
    assert [len(batch) for batch in sink.batches] == [2, 2, 1]
