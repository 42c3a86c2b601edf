"""The place of a sink in the log: what it gets, in which order, and how a replay moves it. On either store."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from forager.core.change import Change
from forager.core.ledger import Session
from forager.core.sink import Batching
from forager.engine.deliver import DeliveryTiming
from forager.ledger.tables.sinks import SinkTable
from tests.support.deliveries import QUICK, Faulty, Kept
from tests.support.delivery_rig import Picky, deliver, everything, grow, running
from tests.support.engine import until
from tests.support.rig import HandClock, Rig, Worker

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
    delivery = deliver(rig, sink, session, DeliveryTiming(), clock)

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
    clock.pass_(DeliveryTiming().keep_within)
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
    assert await deliver(rig, sink, session, DeliveryTiming(batch=4)).deliver_new()
    assert sink.ids == await everything(rig)
    assert read == [0, 4, 8, 0, 4, 8]


async def test_a_replay_requested_during_a_batch_is_not_overwritten_by_it(
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
    delivery = deliver(rig, Kept(), session, DeliveryTiming(), clock)
    await grow(rig, worker)
    async with running(delivery):
        await until(lambda: len(clock.naps) >= 8)
        assert clock.naps[:8] == [0.02, 0.04, 0.08, 0.16, 0.32, 0.5, 0.5, 0.5]
        await grow(rig, worker)
        seen = len(clock.naps)
        await until(lambda: 0.02 in clock.naps[seen - 1 :])


async def test_a_sink_declares_its_batch_size_and_the_age_of_a_batch(
    rig: Rig, worker: Worker, session: Session
) -> None:
    @dataclass
    class Patient(Faulty):
        batching = Batching(most=2, age=0.3)

    sink, clock = Patient(Kept()), Napping()
    await grow(rig, worker)
    async with running(deliver(rig, sink, session, DeliveryTiming(), clock)):
        await until(lambda: len(clock.naps) >= 3)
    assert clock.naps[:3] == [0.3, 0.5, 0.5]
    assert [len(batch) for batch in sink.batches] == [2, 2, 1]


# ── how it is doing ──


async def test_lag_and_rate_are_reported(rig: Rig, worker: Worker, session: Session, sinks: SinkTable) -> None:
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


async def test_changes_that_come_during_a_batch_are_collected_for_the_next_look(
    rig: Rig, worker: Worker, session: Session
) -> None:
    """While the log moves, a sink would otherwise get a small batch for every few commits."""

    class Meanwhile(Picky):
        batches = 0

        async def write(self, batch: Sequence[Change]) -> bool:
            self.batches += 1
            await grow(rig, worker)
            return await super().write(batch)

    sink = Meanwhile(wants=True)
    delivery = deliver(rig, sink, session)
    await grow(rig, worker)
    async with asyncio.timeout(60):
        assert await delivery.deliver_new()
        assert (sink.batches, sink.seen) == (1, [1, 2, 3, 4, 5])
        assert await delivery.deliver_new()
    assert (sink.batches, sink.seen) == (2, list(range(1, 11)))
