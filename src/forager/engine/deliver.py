"""Delivers changes to sinks: each sink has its own loop and its own cursor into the log.

One session at a time delivers a sink: the one that holds the lane `sink:NAME`. A session that dies loses its lanes when
its lease ends, and another process then takes over from the cursor. The cursor moves after the sink has taken a batch,
never before, so what was under way at a crash is delivered again; a sink takes effect once by the change's id.

There are two kinds of failure. A sink that cannot be reached is left alone for a while, and the same batch is
handed over again. A sink that is reachable but refuses a batch has been given a change that it will never take: halving
the batch finds it, and after a few tries it is set aside for an operator, so that one bad change holds up no other.
"""

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from forager.core.change import Change
from forager.core.clock import Clock
from forager.core.errors import ForagerError, Permanent, StoreError, StoreFull, StoreUnavailable
from forager.core.ids import sink_lane
from forager.core.ledger import Away, GivenLane, Ledger, Session
from forager.core.sink import Batching, Cursors, Full, Sink, SinkPosition

if TYPE_CHECKING:
    from forager.core.tracing import Tracer

# Backpressure of a sink that works but takes no changes now, and its display for operators.


log = structlog.get_logger("forager.engine")


class Fullness:
    """The answers of one sink's `full`. A sink without that method is never full."""

    def __init__(self, sink: Sink, cursors: Cursors, clock: Clock) -> None:
        self._sink = sink
        self._ask: Callable[[], Awaitable[Full | None]] | None = getattr(sink, "full", None)
        self._cursors = cursors
        self._clock = clock
        self._since: float | None = None
        """Time when the sink began to be full for a reason, in monotonic seconds; None if it is not."""
        self._stored_at: int | None = None
        """The sink's stored position when the reason was stored last."""
        self.is_full = False
        """The last answer."""

    async def ask(self, cursor: int) -> bool:
        """Check whether the sink, whose stored position is `cursor`, takes nothing now.

        A reason is logged once for the whole time in which the sink is full. It is stored as the sink's last error with
        the time of the next try, again after each such try, because moving the position clears that time. The sink does
        not count as failing.
        """
        found = None if self._ask is None else await self._ask()
        self.is_full = found is not None
        if found is not None and found.reason is not None:
            await self._note(found.reason, found.retry_in, cursor)
        elif found is not None:  # it takes changes again, or still; None alone may be the next try of one that is full
            self._since = self._stored_at = None
        return self.is_full

    def end(self) -> None:
        """Note that nothing waits for the sink: if it is full later, the reason is a new one."""
        self.is_full = False
        self._since = self._stored_at = None

    async def _note(self, reason: str, retry_in: float | None, cursor: int) -> None:
        now = self._clock.monotonic()
        if self._since is None:
            self._since = now
            log.warning("sink_full", sink=self._sink.name, reason=reason)
        if self._stored_at != cursor:
            await self._cursors.failed(
                self._sink.name, reason, failures=0, retry_in=retry_in, seconds_ago=now - self._since
            )
            self._stored_at = cursor


REFUSALS = (Permanent, ValueError, TypeError, LookupError, ArithmeticError)
"""Errors with which a reachable sink refuses a change. A defect in the sink's code raises the same types on purpose: a
change that triggers it must not stop the sink for ever."""
RATE_OVER = 60.0
RETRIED_AT_ONCE = 100
CLOSED_WITHIN = 5.0


@dataclass(frozen=True, slots=True)
class DeliveryTiming:
    """Timing of deliveries. All times are in seconds."""

    batch: int | None = None
    """Maximum changes in one batch. None: the sink's own batch size."""
    look_every: float = 0.5
    """Seconds between two reads of the log while it contains nothing for the sink. As soon as it does, the next read
    comes after the sink's `Batching.age` (20 ms), and the interval doubles with each read that finds nothing. A sink of
    rare changes, such as ended jobs, must not cost a busy engine fifty queries a second. If the sink's `Batching.age`
    is longer than this, the log is read only at that interval."""
    await_session: float = 0.05
    """Pause while this process has no session, as just after its start. Checking for a session costs no query."""
    keep_within: float = 5.0
    """Maximum time until a cursor is stored that has passed only changes that do not concern the sink. A commit per
    batch would compete with the writers of the log."""
    first_pause: float = 1.0
    longest_pause: float = 300.0
    """A sink that cannot be reached is tried again after the first pause, which doubles up to the longest."""
    between_tries: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0)
    """Pauses between the tries of a change that is refused: with four pauses it is tried five times."""
    most_refused: int = 20
    """A sink that refuses this number of changes in a row is considered broken: no more changes are set aside, and it
    is treated like a sink that cannot be reached."""
    write_timeout: float = 300.0

    def pause(self, failures: int) -> float:
        """Return the pause after this number of failures in a row."""
        return min(self.longest_pause, self.first_pause * 2.0 ** min(failures - 1, 30))


class _Moved(Exception):
    """The sink's lane or cursor is not what we expected: stop here and read its position again."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """A batch that is being read from the log: the changes after one number, up to another."""

    after: int
    until: int
    batch: asyncio.Future[Sequence[Change]]

    def forget(self) -> None:
        self.batch.cancel()
        self.batch.add_done_callback(lambda batch: batch.cancelled() or batch.exception())  # it may have failed


class SinkDelivery:
    """Delivers one sink while this process holds its lane. `run` it as a task; `stop` lets the current batch finish."""

    def __init__(
        self,
        ledger: Ledger,
        cursors: Cursors,
        sink: Sink,
        clock: Clock,
        session: Callable[[], Session | None],
        pace: DeliveryTiming | None = None,
        *,
        tracer: "Tracer | None" = None,
    ) -> None:
        """`session` returns this process's session while it is alive, and None otherwise."""
        self._tracer = tracer
        self.sink = sink
        self._ledger = ledger
        self._cursors = cursors
        self._clock = clock
        self._session = session
        self._pace = pace or DeliveryTiming()
        self._batching: Batching = getattr(sink, "batching", Batching())
        self._had_news = False
        """True if the last look at the log found changes for this sink."""
        self._looking = asyncio.Lock()
        self._stopping = asyncio.Event()
        self._cursor = self._kept = 0
        """The sink's position, and the position that is stored. They differ by changes that did not concern the
        sink."""
        self._not_kept_since: float | None = None
        self._pipelines: frozenset[str] | None = getattr(sink, "pipelines", None)
        self._most = self._pace.batch or self._batching.most
        self._ahead: _Reading | None = None
        """The next batch, which is read while the sink takes the one before."""
        self._fullness = Fullness(sink, cursors, clock)
        self._failures = 0
        self._retry_at = -math.inf
        self._refused_in_a_row = 0
        self._rate, self._rate_at = 0.0, clock.monotonic()

    # ── the loop ──

    async def run(self) -> None:
        """Deliver until `stop`. Errors of the sink or the store are handled here and never raised."""
        nap = self._pace.look_every
        opening: asyncio.Task[None] | None = None
        may_open = True
        try:
            while not self._stopping.is_set():
                self._had_news = False
                if await self.deliver_new():
                    if may_open and not self._had_news:  # a sink that has taken changes is connected
                        opening = asyncio.create_task(self._open())
                    may_open = False
                    nap = self._batching.age if self._had_news else 2 * nap
                    nap = max(min(nap, self._pace.look_every), self._batching.age)
                elif self._session() is None:
                    nap = self._pace.await_session
                else:  # however long a sink collects changes, a retry or a resumed lane does not wait for that
                    nap = self._pace.look_every
                rest = self._retry_at - self._clock.monotonic()
                await self._nap(max(rest, nap))
        finally:
            if opening is not None:  # its connection must be closed before another process takes the lane
                opening.cancel()
                await asyncio.wait({opening}, timeout=CLOSED_WITHIN)

    async def _open(self) -> None:
        """Let the sink connect before its first change. This is a task of its own, because reading the log must not
        wait for a system that does not answer."""
        try:
            if (connect := getattr(self.sink, "open", None)) is not None:
                await connect()
        except Exception as error:  # noqa: BLE001 - the first change tries again, and then it counts
            log.warning("sink_unreachable", sink=self.sink.name, error=_message(error))

    def reopen(self) -> None:
        """Allow another `run` after a stop."""
        self._stopping.clear()

    def stop(self) -> None:
        """Let `run` return after the current batch."""
        self._stopping.set()

    async def deliver_new(self) -> bool:
        """Deliver everything that is new now.

        Returns False if the sink could not be served to the end: it fails, it is full, it is paused, or another process
        has it.
        """
        async with self._looking:
            if self._clock.monotonic() < self._retry_at:
                return False
            try:
                done = await self._catch_up()
            except Exception as error:  # noqa: BLE001 - an error of one sink must not affect the others
                await self._note_failure(error)
                return False
            finally:
                if self._ahead is not None:
                    self._ahead.forget()
                    self._ahead = None
            return done

    async def _catch_up(self) -> bool:
        at_rest, upto = True, None
        while not self._stopping.is_set():
            at = await self._position_if_ours()
            if at is None:
                return False
            # Newer changes are left to the next look, after `Batching.age`: while the log moves, each batch would
            # otherwise have only the changes committed during the last one, and a sink would never collect changes.
            upto = at.last if upto is None else min(upto, at.last)
            with contextlib.suppress(_Moved):
                if at.retries:
                    await self._retry_set_aside()
                if self._cursor >= upto:
                    if at_rest or self._failures:
                        await self._keep()
                    self._fullness.end()
                    return True
                at_rest = False
                # check before the same batch is read again; first store the cursor past changes that do not concern the
                # sink
                if self.is_full:
                    await self._keep()
                    if await self._fullness.ask(self._kept):
                        return False
                if not await self._next_batch(at.last):
                    return False
        return False

    @property
    def is_full(self) -> bool:
        """Return whether the sink took nothing at the last look although it works."""
        return self._fullness.is_full

    async def _next_batch(self, last: int) -> bool:
        """Deliver the next batch. Returns False if it has changes for the sink, and the sink is full: it is checked
        only then, because changes of other pipelines need no room."""
        reading = self._take_ahead() or self._read_on(self._cursor, last)
        batch, last = await reading.batch, reading.until
        wanted = batch if self._pipelines is None else [each for each in batch if each.pipeline in self._pipelines]
        if wanted and await self._fullness.ask(self._kept):
            return False
        is_whole = len(batch) == self._most
        upto = batch[-1].id if is_whole else last
        if is_whole and upto < last:
            self._ahead = self._read_on(upto, last)
        if wanted:
            self._had_news = True
            await self._hand_over(wanted, upto)
        else:
            await self._passed(upto)
        return True

    def _read_on(self, after: int, until: int) -> _Reading:
        changes = self._ledger.changes(after, self._most, kinds=self.sink.kinds, until=until)
        return _Reading(after, until, asyncio.ensure_future(changes))

    def _take_ahead(self) -> _Reading | None:
        """Return the batch that was read ahead, if it begins at the sink's position; otherwise forget it."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead.after != self._cursor:
            ahead.forget()
            return None
        return ahead

    # ── whose sink it is ──

    async def _position_if_ours(self) -> SinkPosition | None:
        """Return the sink's position if this process may deliver it now; takes its lane if no session owns it."""
        session = self._session()
        if session is None:
            return None
        name = self.sink.name
        at = await self._cursors.position(name)
        if at.paused:
            if at.owner == session.id and at.lane is not None:
                await self._ledger.give_lanes(session, {at.lane: GivenLane()})
            return None
        if at.owner is None:
            if isinstance(await self._ledger.take_lane(session, sink_lane(name)), Away):
                return None
            at = await self._cursors.position(name)  # the last owner may have moved it before it lost the lane
        elif at.owner != session.id:
            return None
        if at.cursor != self._kept or at.last < self._cursor:
            # Moved by another process, by an operator's replay or by a restored database: continue from there.
            self._cursor = self._kept = at.cursor
            self._not_kept_since = None
        return at

    # ── a batch ──

    async def _hand_over(self, batch: Sequence[Change], upto: int) -> None:
        """Deliver a batch and move the cursor to `upto`. A refused batch is split in halves until the refused change is
        found."""
        try:
            taken = await self._write(batch)
        except REFUSALS as error:
            if len(batch) > 1:
                middle = len(batch) // 2
                await self._hand_over(batch[:middle], batch[middle - 1].id)
                await self._hand_over(batch[middle:], upto)
                return
            if not await self._insist(batch[0], error):
                await self._passed(upto, keep=True)
                return
            taken = True
        await self._passed(upto, delivered=0 if taken is False else len(batch))

    async def _insist(self, change: Change, error: Exception) -> bool:
        """Retry a refused change a few times. Returns True if it is accepted; otherwise sets it aside and returns
        False."""
        for pause in self._pace.between_tries:
            await self._nap(pause)
            try:
                await self._write([change])
            except REFUSALS as again:
                error = again
            else:
                return True
        self._refused_in_a_row += 1
        if self._refused_in_a_row > self._pace.most_refused:
            raise error
        message, name = _message(error), self.sink.name
        await self._cursors.set_aside(name, change.id, tries=1 + len(self._pace.between_tries), error=message)
        log.error("sink_refused_change", sink=name, change=change.id, key=change.key, error=message)
        return False

    async def _write(self, batch: Sequence[Change]) -> bool | None:
        if self._session() is None:
            raise _Moved
        tracer, error = self._tracer, None
        began = 0 if tracer is None else tracer.now()
        try:
            async with asyncio.timeout(self._pace.write_timeout):
                taken = await self.sink.write(batch)
        except Exception as failure:
            error = type(failure).__name__
            raise
        finally:
            if tracer is not None:
                tracer.delivered(self.sink.name, batch, began, error)
        self._refused_in_a_row = 0
        return taken

    async def _passed(self, upto: int, delivered: int = 0, *, keep: bool = False) -> None:
        """Move the position to this change. It is stored a little later if the batch did not concern the sink."""
        self._cursor = upto
        now = self._clock.monotonic()
        self._rate = self._rate * math.exp((self._rate_at - now) / RATE_OVER) + delivered / RATE_OVER
        self._rate_at = now
        if self._not_kept_since is None:
            self._not_kept_since = now
        if delivered or keep or now - self._not_kept_since >= self._pace.keep_within:
            await self._keep(delivered)

    async def _keep(self, delivered: int = 0) -> None:
        """Store the sink's position, unless it is stored already."""
        session = self._session()
        if session is None or (self._not_kept_since is None and not self._failures):
            return
        moved = await self._cursors.advance(
            self.sink.name,
            self._cursor,
            expected=self._kept,
            session=session.id,
            delivered=delivered,
            rate=self._rate,
        )
        self._not_kept_since = None
        if not moved:
            self._kept = -1  # the stored position is unknown now
            raise _Moved
        self._kept = self._cursor
        if self._failures:
            log.info("sink_recovered", sink=self.sink.name, failures=self._failures)
        self._failures = 0

    async def _retry_set_aside(self) -> None:
        """Deliver the changes that an operator has requested again, one at a time."""
        name = self.sink.name
        for number in await self._cursors.to_retry(name, RETRIED_AT_ONCE):
            change = await self._ledger.changes(number - 1, 1, until=number)
            try:
                if change:
                    await self._write(change)
            except REFUSALS as error:
                await self._cursors.set_aside(name, number, tries=1, error=_message(error))
            else:
                await self._cursors.taken(name, number)

    # ── trouble ──

    async def _note_failure(self, error: Exception) -> None:
        name, message = self.sink.name, _message(error)
        if isinstance(error, StoreUnavailable | StoreFull):  # our own store failed, not the sink
            self._retry_at = self._clock.monotonic() + self._pace.first_pause
            log.warning("sink_log_unreadable", sink=name, error=message)
            return
        self._failures += 1
        pause = self._pace.pause(self._failures)
        self._retry_at = self._clock.monotonic() + pause
        if isinstance(error, ForagerError | OSError | TimeoutError):
            log.warning("sink_failing", sink=name, error=message, failures=self._failures, next_try_in=pause)
        else:
            log.error("sink_broke", sink=name, failures=self._failures, pause=pause, exc_info=error)
        with contextlib.suppress(StoreError):
            await self._cursors.failed(name, message, failures=self._failures, retry_in=pause)

    async def _nap(self, seconds: float) -> None:
        """Sleep; return early on `stop`."""
        sleeping = asyncio.ensure_future(self._clock.sleep(seconds))
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({sleeping, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            stopping.cancel()


def _message(error: Exception) -> str:
    return error.message if isinstance(error, ForagerError) else f"{type(error).__name__}: {error}".rstrip(": ")


# The deliveries of one process, by sink. Some are added and removed while the others run.


class Deliveries(Mapping[str, SinkDelivery]):
    """A mapping from the name of a sink to its delivery, and the tasks in which these run.

    Nothing runs before `start`; a delivery that is added later starts at once.
    """

    def __init__(self, deliveries: Iterable[SinkDelivery] = ()) -> None:
        self._all = {each.sink.name: each for each in deliveries}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._running = False

    def __getitem__(self, name: str) -> SinkDelivery:
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._all))

    def __len__(self) -> int:
        return len(self._all)

    def add(self, delivery: SinkDelivery) -> None:
        """Add the delivery of a sink. There must be none of that name."""
        name = delivery.sink.name
        if name in self._all:
            raise AssertionError(f"the sink {name} has a delivery")
        self._all[name] = delivery
        if self._running:
            self._tasks[name] = asyncio.create_task(delivery.run())

    async def remove(self, name: str, grace: float) -> None:
        """Stop the delivery of a sink, if there is one. The current batch has `grace` seconds to finish."""
        delivery = self._all.pop(name, None)
        if delivery is not None:
            delivery.stop()
            await _end([task] if (task := self._tasks.pop(name, None)) else [], grace)

    def start(self) -> None:
        """Run every delivery until `stop`."""
        self._running = True
        for each in self._all.values():
            each.reopen()
        self._tasks = {name: asyncio.create_task(each.run()) for name, each in self._all.items()}

    async def stop(self, grace: float) -> None:
        """Stop every delivery. Current batches have `grace` seconds to finish."""
        self._running = False
        for each in self._all.values():
            each.stop()
        tasks, self._tasks = list(self._tasks.values()), {}
        await _end(tasks, grace)


async def _end(tasks: list[asyncio.Task[None]], grace: float) -> None:
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=grace)
        for task in late:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
