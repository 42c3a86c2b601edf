"""The browser pool: starts browsers when tasks wait for them, lends each to one task at a time, and replaces worn-out
ones.

Contexts inside one browser are isolated from one another, but a crash, a memory limit or a kill affects the whole
process. With one task per browser, a bad page costs only its own visit, and memory is attributed to the page that used
it. A headless shell needs about 120 MB, so this is affordable.

The pool never holds more browser processes than `most`, never lends one to two tasks, and never loses one: whatever was
acquired is released, and whatever is closed is awaited. Only the launcher uses Playwright.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import structlog

from forager.core.clock import Clock
from forager.core.errors import BrowserCrashed, ForagerError, PoolExhausted

log = structlog.get_logger("forager.browser")

TICK = 0.25
MEASURE_EVERY = 5.0
MEGABYTE = 1 << 20


class Browser(Protocol):
    """The interface of a running browser that the pool uses."""

    @property
    def is_gone(self) -> bool: ...

    def memory(self) -> int:
        """Return the bytes that it uses, with all its processes. May block: called in a thread."""
        ...

    async def close(self) -> None:
        """End it, by force if need be; return when none of its processes is left. Never raises."""
        ...


B = TypeVar("B", bound=Browser)
Launched = TypeVar("Launched", bound=Browser, covariant=True)


class Launcher(Protocol[Launched]):
    def can_launch(self) -> bool:
        """Return whether a browser could be started. Cheap, because readiness calls it."""
        ...

    async def launch(self, gone: Callable[[Launched], None]) -> Launched:
        """Start one. `gone` is called when it ends, for whatever reason. Raises `ForagerError`."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class PoolLimits:
    size: int = 5
    """Browsers that are started at once when tasks wait …"""
    most: int = 20
    """… and the maximum, used while tasks wait longer than `grow_after`."""
    page_limit: int = 100
    memory: int = 500 * MEGABYTE
    wait: float = 10.0
    grow_after: float = 1.0
    idle: float = 60.0


@dataclass(frozen=True, slots=True)
class PoolStats:
    total: int
    available: int
    in_use: int
    pages_processed: int
    recycled_count: int
    crashed_count: int
    launchable: int
    """Number of browsers that could still be started: readiness adds these to the available ones."""
    waiting: int


@dataclass(eq=False, slots=True)
class _Member(Generic[B]):
    browser: B
    pages: int = 0
    idle_since: float = 0.0
    in_use: bool = False
    is_heavy: bool = False


@dataclass(eq=False, slots=True)
class _Waiter(Generic[B]):
    since: float
    given: "asyncio.Future[_Member[B]]"


class Pool(Generic[B]):
    def __init__(self, launcher: Launcher[B], clock: Clock, limits: PoolLimits | None = None) -> None:
        self.limits = limits or PoolLimits()
        self._launcher = launcher
        self._clock = clock
        self._members: dict[int, _Member[B]] = {}
        self._idle: list[_Member[B]] = []  # the most recently used is taken first, so that the others can be ended
        self._waiting: deque[_Waiter[B]] = deque()
        self._starting = 0
        self._has_launched = False
        self._pages = self._recycled = self._crashed = 0
        self._closing = False
        self._jobs: set[asyncio.Task[None]] = set()
        self._ticker: asyncio.Task[None] | None = None
        self._measured_at = clock.monotonic()
        self._measuring = False

    @asynccontextmanager
    async def browser(self) -> AsyncIterator[B]:
        """Yield a browser for one task. Raises `PoolExhausted` if none became free in time."""
        member = await self._acquire()
        try:
            yield member.browser
        finally:
            self._release(member)

    def stats(self) -> PoolStats:
        room = self.limits.most - self._total
        return PoolStats(
            total=len(self._members),
            available=len(self._idle),
            in_use=sum(member.in_use for member in self._members.values()),
            pages_processed=self._pages,
            recycled_count=self._recycled,
            crashed_count=self._crashed,
            launchable=room if room > 0 and not self._closing and self._launcher.can_launch() else 0,
            waiting=len(self._waiting),
        )

    async def close(self, grace: float = 0.0) -> None:
        """Lend no more browsers, let running tasks finish for `grace` seconds, then end every browser."""
        self._closing = True
        self._fail_waiting(PoolExhausted("The browsers are being closed: Forager is stopping."))
        until = self._clock.monotonic() + grace
        while any(member.in_use for member in self._members.values()) and self._clock.monotonic() < until:
            await self._clock.sleep(TICK)
        if self._ticker:
            self._ticker.cancel()
        members, self._members, self._idle = list(self._members.values()), {}, []
        await asyncio.gather(*(member.browser.close() for member in members))
        await asyncio.gather(*self._jobs, return_exceptions=True)
        if self._has_launched:
            await self._launcher.close()

    # ── lending ──

    @property
    def _total(self) -> int:
        return len(self._members) + self._starting

    async def _acquire(self) -> _Member[B]:
        if self._closing:
            raise PoolExhausted("The browsers are being closed: Forager is stopping.")
        self._keep_ticking()
        if self._idle and not self._waiting:
            member = self._idle.pop()
            member.in_use = True
            return member
        waiter = _Waiter[B](self._clock.monotonic(), asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        self._grow()
        try:
            return await waiter.given
        except asyncio.CancelledError:
            self._forget(waiter)
            raise

    def _forget(self, waiter: _Waiter[B]) -> None:
        """Remove a cancelled waiter. A browser that it was just given goes to the next one."""
        if waiter in self._waiting:
            self._waiting.remove(waiter)
        given = waiter.given
        if given.done() and not given.cancelled() and given.exception() is None:
            member = given.result()
            member.in_use = False
            if not member.browser.is_gone and id(member.browser) in self._members:
                self._put(member)

    def _release(self, member: _Member[B]) -> None:
        member.in_use = False
        member.pages += 1
        self._pages += 1
        if self._members.get(id(member.browser)) is not member:
            return  # it crashed, or the pool was closed, while it was lent
        if member.browser.is_gone:
            self._gone(member.browser)
        elif member.pages >= self.limits.page_limit or member.is_heavy:
            self._recycle(member)
        else:
            self._put(member)

    def _put(self, member: _Member[B]) -> None:
        """Give a browser to the longest-waiting task, else add it to the idle ones."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.given.done():
                member.in_use = True
                waiter.given.set_result(member)
                return
        member.idle_since = self._clock.monotonic()
        self._idle.append(member)

    # ── growing, shrinking, replacing ──

    def _grow(self) -> None:
        """Start browsers for waiting tasks: up to `size` at once, up to `most` for tasks that have waited too long."""
        now = self._clock.monotonic()
        late = sum(now - waiter.since > self.limits.grow_after for waiter in self._waiting)
        while self._starting < len(self._waiting) and self._total < self.limits.size:
            self._start()
        while self._starting < late and self._total < self.limits.most:
            self._start()

    def _start(self, instead_of: B | None = None) -> None:
        self._starting += 1
        self._has_launched = True
        self._spawn(self._started(instead_of))

    async def _started(self, instead_of: B | None) -> None:
        """Start a browser. It counts from now on; a worn-out one counts until it has ended."""
        try:
            if instead_of is not None:
                await instead_of.close()
            if self._closing:
                return
            browser = await self._launcher.launch(self._gone)
        except ForagerError as error:
            self._starting -= 1
            self._could_not_start(error)
            return
        except BaseException:
            self._starting -= 1
            raise
        self._starting -= 1
        if self._closing or browser.is_gone:
            await browser.close()
            if not self._closing:
                self._could_not_start(BrowserCrashed("The browser ended as soon as it was started."))
            return
        member = _Member(browser)
        self._members[id(browser)] = member
        self._put(member)

    def _could_not_start(self, error: ForagerError) -> None:
        """Handle a failed start: while other browsers work, waiting tasks may still be served; otherwise they get the
        error."""
        log.warning("browser_not_started", reason=error.message)
        if not self._total:
            self._fail_waiting(error)

    def _recycle(self, member: _Member[B]) -> None:
        self._recycled += 1
        del self._members[id(member.browser)]
        self._start(instead_of=member.browser)

    def _gone(self, browser: B) -> None:
        """Handle a browser that died. One that was in use is replaced at once, because its task will be retried."""
        member = self._members.pop(id(browser), None)
        if member is None:
            return  # ended by us
        self._crashed += 1
        if member in self._idle:
            self._idle.remove(member)
        log.warning("browser_crashed", pages=member.pages, in_use=member.in_use)
        if self._closing:
            return
        if member.in_use or self._waiting:
            self._start(instead_of=browser)  # `close` clears up after a dead one
        else:
            self._spawn(browser.close())

    def _fail_waiting(self, error: ForagerError) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.given.done():
                waiter.given.set_exception(type(error)(error.message))

    # ── time ──

    def _keep_ticking(self) -> None:
        if self._ticker is None or self._ticker.done():
            self._ticker = asyncio.create_task(self._tick_while_needed())

    async def _tick_while_needed(self) -> None:
        while self._total or self._waiting:
            await self._clock.sleep(TICK)
            self._tick()
            if not self._measuring and self._clock.monotonic() - self._measured_at >= MEASURE_EVERY:
                self._measuring = True
                self._spawn(self._measure())  # in the background: it reads many files, and no task should wait for it

    def _tick(self) -> None:
        now = self._clock.monotonic()
        while self._waiting and now - self._waiting[0].since >= self.limits.wait:
            waiter = self._waiting.popleft()
            if not waiter.given.done():
                waiter.given.set_exception(PoolExhausted(self._exhausted()))
        self._grow()
        for member in [member for member in self._idle if now - member.idle_since >= self.limits.idle]:
            self._let_go(member)

    def _let_go(self, member: _Member[B]) -> None:
        self._idle.remove(member)
        del self._members[id(member.browser)]
        self._spawn(member.browser.close())

    def _exhausted(self) -> str:
        busy = sum(member.in_use for member in self._members.values())
        return (
            f"No browser became free within {self.limits.wait:g} s: {busy} are in use and {self._starting} start,"
            f" of at most {self.limits.most}. Raise FORAGER_BROWSER_POOL_MAX, or send less at once."
        )

    async def _measure(self) -> None:
        """Check a browser's memory. Above the limit it is replaced after its task; above twice the limit it is killed
        during it."""
        try:
            for member in list(self._members.values()):
                used = await asyncio.to_thread(member.browser.memory)
                if used > self.limits.memory and self._members.get(id(member.browser)) is member:
                    self._too_heavy(member, used)
        finally:
            self._measured_at = self._clock.monotonic()
            self._measuring = False

    def _too_heavy(self, member: _Member[B], used: int) -> None:
        log.warning("browser_heavy", megabytes=used // MEGABYTE, in_use=member.in_use)
        member.is_heavy = True
        if not member.in_use:
            self._idle.remove(member)
            self._recycle(member)
        elif used > 2 * self.limits.memory:
            self._spawn(member.browser.close())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)
