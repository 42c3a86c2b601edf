"""The pool's own logic, over a launcher that pretends and a clock that stands still. On real Chromium: contract/."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from forager.core.errors import BrowserCrashed, PoolExhausted, Unconfigured
from forager.fetch.browser.pool import Pool, PoolLimits
from tests.support.stepped_clock import BROKEN, PretendBrowser, PretendLauncher, SteppedClock, settle


class Rig:
    def __init__(self, **limits: float) -> None:
        self.clock = SteppedClock()
        self.launcher = PretendLauncher()
        self.pool = Pool(self.launcher, self.clock, PoolLimits(**limits))  # type: ignore[arg-type]
        self.open: list[AsyncExitStack] = []

    async def take(self) -> PretendBrowser:
        """Lend a browser until `give_back`."""
        stack = AsyncExitStack()
        browser = await stack.enter_async_context(self.pool.browser())
        self.open.append(stack)
        return browser

    def waiting(self) -> "asyncio.Task[PretendBrowser]":
        return asyncio.create_task(self.take())

    async def give_back(self, number: int = 0) -> None:
        await self.open.pop(number).aclose()
        await settle()


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = Rig()
    yield made
    for stack in made.open:
        await stack.aclose()
    await made.pool.close()


async def test_no_browser_is_started_before_the_first_task__SC_5(rig: Rig) -> None:
    assert rig.pool.stats().total == 0
    assert rig.pool.stats().launchable == 20
    await rig.take()
    assert len(rig.launcher.started) == 1


async def test_a_browser_that_was_given_back_is_lent_again__SC_5(rig: Rig) -> None:
    first = await rig.take()
    await rig.give_back()
    assert await rig.take() is first


async def test_five_are_started_at_once_and_a_sixth_when_a_task_waited_for_a_second__SC_5(rig: Rig) -> None:
    for _ in range(5):
        await rig.take()
    sixth = rig.waiting()
    await rig.clock.advance(0.9)
    assert len(rig.launcher.started) == 5
    await rig.clock.advance(0.5)
    assert len(rig.launcher.started) == 6
    assert (await sixth).number == 5


async def test_it_never_grows_past_its_most__SC_5(rig: Rig) -> None:
    tasks = [rig.waiting() for _ in range(30)]
    await rig.clock.advance(9)
    assert (len(rig.launcher.started), rig.pool.stats().in_use, rig.pool.stats().waiting) == (20, 20, 10)
    assert rig.pool.stats().launchable == 0
    await rig.clock.advance(2)
    failed = [task for task in tasks if task.done() and task.exception()]
    assert len(failed) == 10
    assert all(isinstance(task.exception(), PoolExhausted) for task in failed)


async def test_a_task_that_waits_gets_the_next_free_browser_in_the_order_of_arrival__SC_5() -> None:
    rig = Rig(size=1, most=1)
    only = await rig.take()
    first, second = rig.waiting(), rig.waiting()
    await settle()
    await rig.give_back()
    assert first.done()
    assert not second.done()
    assert await first is only
    await rig.give_back()
    assert await second is only
    await rig.give_back()
    await rig.pool.close()


async def test_idle_browsers_are_let_go_after_a_minute_down_to_none__SC_5(rig: Rig) -> None:
    for _ in range(3):
        await rig.take()
    for _ in range(3):
        await rig.give_back()
    await rig.clock.advance(59)
    assert len(rig.launcher.living) == 3
    await rig.clock.advance(2)
    assert rig.launcher.living == []
    assert (rig.pool.stats().total, rig.pool.stats().launchable) == (0, 20)


async def test_what_is_in_use_is_not_idle__SC_5(rig: Rig) -> None:
    await rig.take()
    await rig.clock.advance(300)
    assert len(rig.launcher.living) == 1


async def test_a_browser_that_crashed_during_its_task_is_replaced_and_serves_a_waiting_task__SC_5() -> None:
    rig = Rig(size=1, most=1)
    dying = await rig.take()
    waiting = rig.waiting()
    await settle()
    dying.crash()
    await settle()
    replacement = await waiting
    assert replacement is not dying
    assert rig.pool.stats().crashed_count == 1
    assert rig.launcher.most == 1
    await rig.give_back()
    assert rig.pool.stats().pages_processed == 1
    await rig.give_back()
    await rig.pool.close()


async def test_an_idle_browser_that_dies_is_forgotten__SC_5(rig: Rig) -> None:
    dying = await rig.take()
    await rig.give_back()
    dying.crash()
    assert rig.pool.stats().total == 0
    assert await rig.take() is not dying


async def test_a_browser_past_its_memory_limit_is_replaced_after_its_task__SC_5(rig: Rig) -> None:
    heavy = await rig.take()
    heavy.megabytes = 700
    await rig.clock.advance(6)
    while not heavy.megabytes or not rig.pool._members[id(heavy)].is_heavy:
        await asyncio.sleep(0.001)  # it is measured in a thread
    assert not heavy.closed
    await rig.give_back()
    await settle()
    assert heavy.closed
    assert rig.pool.stats().recycled_count == 1


async def test_a_measurement_that_broke_is_not_the_last__SC_5(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    heavy = await rig.take()
    heavy.megabytes = 700

    def gone() -> int:
        raise ProcessLookupError

    with monkeypatch.context() as patch:
        patch.setattr(heavy, "memory", gone)
        await rig.clock.advance(6)
        while rig.pool._measuring:
            await asyncio.sleep(0.001)
    await rig.clock.advance(6)
    async with asyncio.timeout(60):
        while not rig.pool._members[id(heavy)].is_heavy:
            await asyncio.sleep(0.001)


async def test_a_page_that_takes_twice_the_memory_is_ended_at_once__SC_5(rig: Rig) -> None:
    heavy = await rig.take()
    heavy.megabytes = 1_100
    await rig.clock.advance(6)
    while not heavy.closed:
        await asyncio.sleep(0.001)
    assert rig.pool.stats().crashed_count == 1


async def test_without_chromium_the_task_gets_an_error_and_nothing_is_launchable__SC_5(rig: Rig) -> None:
    rig.launcher.refuses = Unconfigured("There is no Chromium.")
    with pytest.raises(Unconfigured, match="no Chromium"):
        await rig.take()
    assert rig.pool.stats().launchable == 0


async def test_a_failed_start_does_not_fail_tasks_that_another_browser_can_serve__SC_5() -> None:
    rig = Rig(size=2, most=2)
    await rig.take()
    rig.launcher.refuses = BROKEN
    waiting = rig.waiting()
    await settle()
    assert not waiting.done()
    await rig.give_back()
    assert (await waiting).number == 0
    await rig.give_back()
    (await rig.take()).crash()
    await settle()
    with pytest.raises(BrowserCrashed):  # now there is no other
        await rig.take()
    await rig.pool.close()


async def test_a_task_that_is_cancelled_while_it_waits_loses_no_browser__SC_5() -> None:
    rig = Rig(size=1, most=1)
    await rig.take()
    waiting = rig.waiting()
    await settle()
    stack = rig.open.pop()
    await stack.aclose()  # the browser is given to who waits, and in the same moment that one is cancelled
    waiting.cancel()
    await settle()
    assert rig.pool.stats().available == 1
    await rig.take()
    await rig.give_back()
    await rig.pool.close()


async def test_closing_lets_a_running_task_end_and_refuses_new_ones__SC_5(rig: Rig) -> None:
    browser = await rig.take()
    closing = asyncio.create_task(rig.pool.close(grace=30))
    await rig.clock.advance(5)
    assert not browser.closed
    with pytest.raises(PoolExhausted):
        await rig.take()
    await rig.give_back()
    await rig.clock.advance(1)
    await closing
    assert rig.launcher.living == []
    assert rig.launcher.is_closed
