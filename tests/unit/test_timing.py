"""Time limits by the injected clock: what they count, what they do not, and that a cancellation stays one."""

import asyncio

import pytest

from forager.core.clock import TimeLimit, arrives
from tests.support.clock import FakeClock
from tests.support.stepped_clock import SteppedClock, settle


async def test_a_block_ends_with_a_time_out_by_the_clock() -> None:
    clock = SteppedClock()

    async def wait() -> None:
        async with TimeLimit(clock, 60):
            await asyncio.Event().wait()

    waiting = asyncio.create_task(wait())
    await clock.advance(59.9)
    assert not waiting.done()
    await clock.advance(0.2)
    with pytest.raises(TimeoutError):
        waiting.result()


async def test_time_between_stop_and_go_on_does_not_count_also_where_stops_overlap() -> None:
    clock = SteppedClock()
    limit = TimeLimit(clock, 10)

    async def wait() -> None:
        async with limit:
            await asyncio.Event().wait()

    waiting = asyncio.create_task(wait())
    await clock.advance(6)
    limit.stop()
    await clock.advance(100)
    limit.stop()
    await clock.advance(100)
    limit.go_on()
    await clock.advance(100)
    assert not waiting.done()
    limit.go_on()
    await clock.advance(3.9)
    assert not waiting.done()
    await clock.advance(0.2)
    assert isinstance(waiting.exception(), TimeoutError)


async def test_a_cancellation_from_outside_is_no_time_out() -> None:
    clock = SteppedClock()

    async def wait() -> None:
        async with TimeLimit(clock, 10):
            await asyncio.Event().wait()

    waiting = asyncio.create_task(wait())
    await settle()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert clock.next_timer() is None, "no timer is left behind"


async def test_an_event_is_waited_for_as_long_as_the_clock_allows() -> None:
    clock, event = SteppedClock(), asyncio.Event()
    waiting = asyncio.create_task(arrives(event, clock, 5))
    await clock.advance(5.1)
    assert not await waiting
    waiting = asyncio.create_task(arrives(event, clock, 5))
    await settle()
    event.set()
    assert await waiting
    assert await arrives(event, FakeClock(), 0)
