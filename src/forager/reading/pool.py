"""The pool of readers: every page goes to one of a few processes, started with the first page and ended when idle.

A reader has several small pages at a time, so that it never waits for the next one; they leave in one system call. It
answers them in order. If it ends, the first page without an answer was in its hands; the pages behind it are sent to
another reader as if nothing had happened. The page itself gets a second reader, which it has to itself: its first one
may have been ended by something else (the system that was short of memory, a person, the damage of an earlier page),
and a page that is hostile to parsers is made harmless before the second attempt (`core.reading.care`). Only a page that
ends this one too fails. The first attempt is short, so that a slow page holds up its neighbours for a second at most.
"""

import asyncio
import contextlib
import os
import pickle
import signal
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import structlog
from pydantic import ValidationError

from forager.core.errors import ParseFailed, Short
from forager.core.reading import LIMIT, QUICK, InThread, ReadError, result_of
from forager.core.states import Reason
from forager.reading.child import ANSWER, CALL, ERROR, LAST, READY, RESULT, TOO_BIG
from forager.reading.server import STATUS, ReaderServer

T = TypeVar("T")
log = structlog.get_logger("forager.reading")

MEMORY_BYTES = 1024**3
"""Bytes that a page may take in its reader: several times what the biggest page needs."""
PATIENCE = 6.0
"""On a busy machine, CPU seconds take longer: a page is also given up after this multiple of the limit by the wall
clock."""
BEGIN = 60.0
"""Seconds for a new reader to be ready, and for the modules of a function that a reader has not run yet."""
IDLE = 60.0
DYING = 5.0
LOOK = 0.25
"""Seconds between two checks of the pages in hand."""
MOST_PAGES, MOST_BYTES = 8, 256 * 1024
"""Pages that a reader may have at a time; a second big one always, so that it does not wait for it."""
MOST_ANSWER = 64 * 1024 * 1024
"""Bytes of an answer; no reading function gives more."""
_SERVER = ReaderServer()
"""One for all pools of this process: it has no state but the modules that it has loaded."""
_MODULES: set[str] = set()
"""Modules of all functions that were called: the next reader starts with them."""


class ReaderPool:
    """Implements `core.reading.Offload`. It belongs to one event loop. `close` ends the readers."""

    def __init__(self, size: int, *, memory: int = MEMORY_BYTES) -> None:
        self._size = size
        self._memory = memory
        self._waiting: deque[_Page] = deque()
        self._readers: list[_Reader] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._starting = 0
        self._is_dispatching = False
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self.pending = 0
        """Pages that are under way."""

    @property
    def readers(self) -> list[int]:
        """Process ids of the readers that are ready."""
        return [reader.pid for reader in self._readers]

    async def __call__(self, work: Callable[..., T], page: bytes, /, *args: Any, limit: float = LIMIT) -> T:
        """See the port. A call that cannot be pickled (of a function made in a function) runs in a thread, without a
        limit."""
        try:
            call = pickle.dumps((work, args), protocol=5)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            log.warning("page_read_without_limits", function=getattr(work, "__qualname__", str(work)), error=str(error))
            return await InThread()(work, page, *args)
        if self._closed:
            raise Short("The readers are closed: this process is ending.")
        job = _Page(work, call, page, limit, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        self._dispatch_soon()
        self.pending += 1
        try:
            return await job.answer  # type: ignore[no-any-return]
        finally:
            self.pending -= 1

    async def close(self) -> None:
        self._closed = True
        for reader in [*self._readers]:
            reader.kill()
            self._remove(reader)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._timer is not None:
            self._timer.cancel()
        self._fail_waiting("The readers are closed: this process is ending.")

    # ── sending ──

    def _dispatch_soon(self) -> None:
        """Send at the end of this turn of the loop: pages that arrive together leave together."""
        if not self._is_dispatching:
            self._is_dispatching = True
            asyncio.get_running_loop().call_soon(self._dispatch)

    def _dispatch(self) -> None:
        self._is_dispatching = False
        groups: dict[_Reader, list[_Page]] = {}
        while self._waiting:
            page = self._waiting[0]
            if page.answer.done():  # the task was cancelled
                self._waiting.popleft()
                continue
            reader = min((each for each in self._readers if each.takes(page)), key=_load, default=None)
            if (reader is None or reader.pages) and len(self._readers) + self._starting < self._size:
                self._start()
            if reader is None:
                break
            self._waiting.popleft()
            reader.add(page)
            groups.setdefault(reader, []).append(page)
        for reader, pages in groups.items():
            reader.send(pages)
        if self._timer is None and self._readers:
            self._timer = asyncio.get_running_loop().call_later(LOOK, self._look)

    def _start(self) -> None:
        self._starting += 1
        _MODULES.update(page.work.__module__ for page in self._waiting)
        task = asyncio.create_task(self._started())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _started(self) -> None:
        """Start a reader, again if its server ended meanwhile. If that fails, every waiting page fails for now."""
        problem = ""
        try:
            for _ in range(3):
                try:
                    reader = await _Reader.start(self._memory, self._answered, self._ended)
                except OSError as error:
                    problem = str(error) or type(error).__name__
                    continue
                self._readers.append(reader)
                return
            if not self._readers:
                self._fail_waiting(f"No process could be started to read pages in: {problem}.")
        finally:
            self._starting -= 1
            self._dispatch_soon()

    def _fail_waiting(self, message: str) -> None:
        while self._waiting:
            self._waiting.popleft().fail(Short(message))

    # ── answers ──

    def _answered(self, reader: "_Reader", kind: bytes, answer: bytes) -> None:
        page = reader.pages.popleft()
        reader.next_page(page)
        if kind == TOO_BIG and not page.is_alone:
            page.is_alone = True
            self._waiting.appendleft(page)
        elif kind == TOO_BIG:
            message = f"The page needs more than {self._memory >> 20:,} MB to read."
            page.fail(ParseFailed(message, reason=Reason.PARSE_CRASHED))
        elif kind == ERROR:
            page.fail(ReadError(answer.decode("utf-8", "replace")))
        elif not page.answer.done():
            try:
                page.answer.set_result(result_of(page.work).validate_json(answer))
            except (ValidationError, RecursionError) as error:
                page.fail(ReadError(f"The answer of the reader is not valid: {error}"))
        if self._waiting:
            self._dispatch_soon()

    def _ended(self, reader: "_Reader") -> None:
        """Find out how a reader ended that has closed its channel."""
        if reader in self._readers:
            self._readers.remove(reader)
            task = asyncio.create_task(self._settle_end(reader))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _settle_end(self, reader: "_Reader") -> None:
        code = await reader.ended()
        pages, suspect = reader.pages, None
        if pages and not reader.is_last:
            suspect = pages.popleft()
        self._waiting.extendleft(reversed(pages))
        if suspect is not None:
            if not suspect.is_alone:
                suspect.is_alone = True
                self._waiting.appendleft(suspect)
            elif reader.is_late or code == -signal.SIGPROF:
                message = f"The page took more than {suspect.limit:g} s to read."
                suspect.fail(ParseFailed(message, reason=Reason.PARSE_LATE))
            else:
                how = "killed" if code is None else f"signal {-code}" if code < 0 else f"exit code {code}"
                message = f"The page ended the process that read it ({how})."
                suspect.fail(ParseFailed(message, reason=Reason.PARSE_CRASHED))
            log.warning("reader_ended", pid=reader.pid, code=code, repeated=len(pages) + (not suspect.answer.done()))
        self._dispatch_soon()

    def _remove(self, reader: "_Reader") -> None:
        """Forget a reader, and let its pages fail."""
        reader.close()
        if reader in self._readers:
            self._readers.remove(reader)
        self._waiting.extend(reader.pages)

    def _look(self) -> None:
        """End readers whose page takes too long by the clock, and readers that are idle."""
        self._timer = None
        now = asyncio.get_running_loop().time()
        for reader in [*self._readers]:
            if reader.pages and now > reader.deadline:
                reader.is_late = True
                reader.kill()
            elif not reader.pages and now - reader.since > IDLE:
                self._remove(reader)
        if self._readers:
            self._timer = asyncio.get_running_loop().call_later(LOOK, self._look)


class _Page:
    """A page on its way."""

    __slots__ = ("answer", "call", "is_alone", "limit", "page", "work")

    def __init__(
        self, work: Callable[..., Any], call: bytes, page: bytes, limit: float, answer: asyncio.Future[Any]
    ) -> None:
        self.work, self.call, self.page, self.limit, self.answer = work, call, page, limit, answer
        self.is_alone = False
        """True if a reader has ended with it: it needs one to itself, and is read with care."""

    @property
    def seconds(self) -> float:
        """CPU seconds of this attempt."""
        return self.limit if self.is_alone else min(self.limit, QUICK)

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


def _load(reader: "_Reader") -> int:
    return reader.bytes + len(reader.pages)


class _Reader:
    """One process: its channel, and the pages that it has."""

    def __init__(
        self,
        channel: socket.socket,
        exited: socket.socket,
        answered: Callable[["_Reader", bytes, bytes], None],
        ended: Callable[["_Reader"], None],
    ) -> None:
        self.pages: deque[_Page] = deque()
        self.bytes = 0
        self.pid = 0
        self.since = self.deadline = asyncio.get_running_loop().time()
        self.is_late = False
        self.is_last = False
        """True if it ends by itself, and not because of a page."""
        self._channel, self._exited = channel, exited
        self._answered, self._ended = answered, ended
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._known: set[Callable[..., Any]] = set()
        self._modules: frozenset[str] = frozenset()
        self._in = bytearray()
        self._out: deque[memoryview] = deque()
        self._is_writing = False
        for each in (channel, exited):
            each.setblocking(False)

    @classmethod
    async def start(
        cls,
        memory: int,
        answered: Callable[["_Reader", bytes, bytes], None],
        ended: Callable[["_Reader"], None],
    ) -> "_Reader":
        """Start a reader and wait until it is ready. Raises `OSError` if that fails."""
        modules = frozenset(_MODULES)
        forking = asyncio.ensure_future(asyncio.to_thread(_SERVER.fork, modules, memory))
        try:
            channel, exited = await asyncio.shield(forking)
        except asyncio.CancelledError:
            forking.add_done_callback(_close_both)
            raise
        reader = cls(channel, exited, answered, ended)
        reader._modules = modules
        asyncio.get_running_loop().add_reader(channel.fileno(), reader._readable)
        try:
            async with asyncio.timeout(BEGIN):
                await reader._ready
        except BaseException as error:
            reader.close()
            if isinstance(error, TimeoutError):
                raise OSError(f"a reader was not ready within {BEGIN:g} s") from None
            raise
        return reader

    def takes(self, page: _Page) -> bool:
        """Return whether a page may be sent now."""
        if not self.pages:
            return True
        if page.is_alone or self.pages[0].is_alone:
            return False
        return len(self.pages) < 2 or (len(self.pages) < MOST_PAGES and self.bytes + len(page.page) <= MOST_BYTES)

    def add(self, page: _Page) -> None:
        self.pages.append(page)
        self.bytes += len(page.page)
        if len(self.pages) == 1:
            self._set_deadline()

    def next_page(self, done: _Page) -> None:
        """Begin the time of the next page."""
        self._known.add(done.work)
        self.bytes -= len(done.page)
        self._set_deadline()

    def _set_deadline(self) -> None:
        self.since = asyncio.get_running_loop().time()
        if self.pages:
            first = self.pages[0]
            is_loaded = first.work in self._known or first.work.__module__ in self._modules
            self.deadline = self.since + first.seconds * PATIENCE + (0.0 if is_loaded else BEGIN)

    def send(self, pages: Sequence[_Page]) -> None:
        for page in pages:
            head = CALL.pack(len(page.call), len(page.page), page.seconds, page.is_alone)
            self._out.append(memoryview(head + page.call))
            if page.page:
                self._out.append(memoryview(page.page))
        if not self._is_writing:
            self._write()

    def _write(self) -> None:
        """Send what the channel takes, without a copy; the rest when it has room."""
        out = self._out
        try:
            while out:
                sent = self._channel.sendmsg([out[number] for number in range(min(len(out), 2 * MOST_PAGES))])
                while sent:
                    if sent < len(out[0]):
                        out[0] = out[0][sent:]
                        break
                    sent -= len(out.popleft())
        except BlockingIOError:
            if not self._is_writing:
                self._is_writing = True
                asyncio.get_running_loop().add_writer(self._channel.fileno(), self._write)
            return
        except OSError:  # it has ended: the end of its channel is read next
            out.clear()
        if self._is_writing:
            self._is_writing = False
            asyncio.get_running_loop().remove_writer(self._channel.fileno())

    def _readable(self) -> None:
        try:
            data = self._channel.recv(256 * 1024)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._stop_reading()
            if self._ready.done():
                self._ended(self)
            else:
                self._ready.set_exception(ConnectionResetError("the reader ended before it was ready"))
            return
        held = self._in
        held += data
        at = 0
        while len(held) - at >= ANSWER.size:
            size, kind = ANSWER.unpack_from(held, at)
            if size > MOST_ANSWER:  # no answer of ours: the reader has been taken over
                self.kill()
                break
            if len(held) - at < ANSWER.size + size:
                break
            start = at + ANSWER.size
            at = start + size
            self._take(kind, bytes(memoryview(held)[start:at]))
        del held[:at]

    def _take(self, kind: bytes, answer: bytes) -> None:
        if kind == READY:
            if not self._ready.done():
                self.pid = int(answer)
                self._ready.set_result(None)
        elif kind == LAST:
            self.is_last = True
        elif kind in (RESULT, ERROR, TOO_BIG) and self.pages:
            self._answered(self, kind, answer)

    def kill(self) -> None:
        """Kill the process; the end of its channel follows."""
        with contextlib.suppress(ProcessLookupError):
            if self.pid > 0:
                os.kill(self.pid, signal.SIGKILL)

    async def ended(self) -> int | None:
        """Return the exit code of a process that has closed its channel, negative for a signal; None if unknown."""
        try:
            async with asyncio.timeout(DYING):
                told = await asyncio.get_running_loop().sock_recv(self._exited, STATUS.size)
            return int(STATUS.unpack(told)[0]) if len(told) == STATUS.size else None
        except (TimeoutError, OSError):
            self.kill()
            return None
        finally:
            self.close()

    def _stop_reading(self) -> None:
        loop, number = asyncio.get_running_loop(), self._channel.fileno()
        if number >= 0:
            loop.remove_reader(number)
            loop.remove_writer(number)

    def close(self) -> None:
        """Close the channel. A process that reads nothing ends by itself."""
        self._stop_reading()
        self._channel.close()
        self._exited.close()


def _close_both(forking: asyncio.Future[tuple[socket.socket, socket.socket]]) -> None:
    if not forking.cancelled() and forking.exception() is None:
        for each in forking.result():
            each.close()
