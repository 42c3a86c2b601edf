"""Sinks that hang, cannot be reached, or refuse a change: each loses nothing and delays no other. On either store."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from forager.core.change import Change
from forager.core.clock import SystemClock
from forager.core.errors import NotFound
from forager.core.ledger import Session
from forager.engine.deliver import DeliveryTiming
from forager.ledger.tables.sinks import SinkTable
from tests.support.deliveries import QUICK, Faulty, Kept
from tests.support.delivery_rig import deliver, everything, grow, running
from tests.support.engine import until
from tests.support.rig import HandClock, Rig, Worker

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
    assert [DeliveryTiming().pause(failures) for failures in (1, 2, 3, 4, 9, 10, 1_000)] == [1, 2, 4, 8, 256, 300, 300]


async def test_a_sink_that_is_down_gets_everything_when_it_is_back(
    rig: Rig, worker: Worker, session: Session, sinks: SinkTable
) -> None:
    clock, sink = HandClock(), Faulty(Kept(), down=True)
    delivery = deliver(rig, sink, session, DeliveryTiming(), clock)
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
