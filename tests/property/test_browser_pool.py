"""The pool over any sequence of tasks, crashes and waits, with a pretending launcher and a clock that stands still."""

import asyncio
from contextlib import AsyncExitStack

from hypothesis import given, settings
from hypothesis import strategies as st

from forager.core.errors import ForagerError
from forager.fetch.browser.pool import Pool, PoolLimits
from tests.support.stepped_clock import PretendBrowser, PretendLauncher, SteppedClock, settle


# Feature: scraping-microservices, Property 12: Browser instance recycling after page threshold
@settings(max_examples=100)
@given(limit=st.integers(1, 12), tasks=st.integers(1, 40), size=st.integers(1, 3))
def test_a_browser_is_replaced_when_it_has_shown_its_pages__SC_P12(limit: int, tasks: int, size: int) -> None:
    async def run() -> None:
        clock, launcher = SteppedClock(), PretendLauncher()
        pool = Pool(launcher, clock, PoolLimits(size=size, most=size, page_limit=limit))
        lent: dict[int, int] = {}
        for _ in range(tasks):
            async with pool.browser() as browser:
                lent[browser.number] = lent.get(browser.number, 0) + 1
                assert lent[browser.number] <= limit
            await settle()
            worn_out = lent[browser.number] >= limit
            assert browser.closed is worn_out
            assert pool.stats().total >= 1  # replaced, not just ended
        assert pool.stats().recycled_count == sum(pages >= limit for pages in lent.values())
        assert pool.stats().pages_processed == tasks
        assert launcher.most <= size
        await pool.close()
        assert launcher.living == []

    asyncio.run(run())


ACTS = st.one_of(
    st.just(("take", 0)),
    st.tuples(st.just("give"), st.integers(0, 9)),
    st.tuples(st.just("crash"), st.integers(0, 9)),
    st.tuples(st.just("cancel"), st.integers(0, 9)),
    st.tuples(st.just("wait"), st.sampled_from([0, 1, 3, 11, 61])),
)


@settings(max_examples=100)
@given(acts=st.lists(ACTS, max_size=40), size=st.integers(0, 3), more=st.integers(0, 3), limit=st.integers(1, 4))
def test_no_browser_is_lent_twice_none_is_lost_and_every_task_ends__SC_5(
    acts: list[tuple[str, int]], size: int, more: int, limit: int
) -> None:
    async def run() -> None:
        clock = SteppedClock()
        launcher = PretendLauncher(clock, takes=0.3)
        most = max(1, size + more)
        pool = Pool(launcher, clock, PoolLimits(size=size, most=most, page_limit=limit))
        holding: set[int] = set()
        stops: list[asyncio.Event] = []
        tasks: list[asyncio.Task[None]] = []

        async def work(stop: asyncio.Event) -> None:
            async with AsyncExitStack() as stack:
                browser: PretendBrowser = await stack.enter_async_context(pool.browser())
                assert browser.number not in holding
                holding.add(browser.number)
                stack.callback(holding.discard, browser.number)
                await stop.wait()

        for act, number in acts:
            if act == "take":
                stops.append(asyncio.Event())
                tasks.append(asyncio.create_task(work(stops[-1])))
            elif act == "give" and stops:
                stops[number % len(stops)].set()
            elif act == "cancel" and tasks:
                tasks[number % len(tasks)].cancel()
            elif act == "crash" and launcher.living:
                launcher.living[number % len(launcher.living)].crash()
            elif act == "wait":
                await clock.advance(number)
            await settle()
            stats = pool.stats()
            assert len(launcher.living) <= most
            assert stats.total == stats.available + stats.in_use
            assert stats.total <= most
        for stop in stops:
            stop.set()
        await clock.advance(30)
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(end is None or isinstance(end, ForagerError | asyncio.CancelledError) for end in ends), ends
        await clock.advance(61)
        assert launcher.living == []  # all idle for a minute
        await pool.close()

    asyncio.run(run())
