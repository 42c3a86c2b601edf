"""A pool of processes that parse big pages, started when needed and ended when idle.

A process handles one page at a time, so that a page that kills its process, or has to be killed, affects no other. A
dead process is replaced when the next page needs one.
"""

import asyncio
import contextlib
import os
import pickle
import signal
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from forager.core.clock import Clock
from forager.core.errors import ParseFailed, Short
from forager.core.offload import LIMIT
from forager.core.reasons import Reason
from forager.offload.child import LENGTH, TOO_BIG

T = TypeVar("T")

MEMORY_BYTES = 2 * 1024**3
"""Maximum address space: several times what the biggest page needs."""
PATIENCE = 6.0
"""On a busy machine, CPU seconds take longer: a page is also given up after so many times the limit by the wall
clock."""
BEGIN = 60.0
"""Seconds for a new process to be ready."""
IDLE = 60.0
DYING = 5.0
_ENVIRONMENT = ("PATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")
"""The environment variables that the process gets. It reads untrusted pages, so it gets no key."""


class ProcessPool:
    """Implements `core.offload.Offload`. `close` ends the processes."""

    def __init__(self, size: int, clock: Clock, *, memory: int = MEMORY_BYTES) -> None:
        self._size = size
        self._clock = clock
        self._memory = memory
        self._room = asyncio.Semaphore(size)
        self._idle: list[_Child] = []
        self._reaper: asyncio.Task[None] | None = None

    async def __call__(self, work: Callable[..., T], /, *args: Any, limit: float = LIMIT) -> T:
        """See the port. A call that cannot be pickled runs in a thread, without a limit."""
        try:
            message = pickle.dumps((work, args, limit))
        except (pickle.PicklingError, AttributeError, TypeError):
            return await asyncio.to_thread(work, *args)
        async with self._room:
            child = await self._child()
            try:
                async with asyncio.timeout(BEGIN) as time:
                    await child.begin(message)
                    time.reschedule(asyncio.get_running_loop().time() + limit * PATIENCE)
                    well, result = await child.result()
            except TimeoutError:
                await child.end()
                raise _late(limit) from None
            except EOFError:
                raise _ended(await child.ended(), limit) from None
            except BaseException:  # the task was cancelled, so the state of its process is unknown
                await child.end()
                raise
            self._put_back(child)
        if well:
            return result  # type: ignore[no-any-return]
        if result == TOO_BIG:
            raise ParseFailed(
                f"The page needs more than {self._memory >> 20:,} MB to read.", reason=Reason.PARSE_CRASHED
            )
        raise result

    async def close(self) -> None:
        if self._reaper is not None:
            self._reaper.cancel()
        idle, self._idle = self._idle, []
        for child in idle:
            await child.end()

    async def _child(self) -> "_Child":
        """Return an idle process that is still alive, or a new one."""
        while self._idle:
            child = self._idle.pop()
            if child.is_alive:
                return child
        try:
            return await _Child.start(self._memory)
        except OSError as error:
            raise Short(f"No process could be started to read a big page in: {error}.") from error

    def _put_back(self, child: "_Child") -> None:
        child.idle_since = self._clock.monotonic()
        self._idle.append(child)
        if self._reaper is None or self._reaper.done():
            self._reaper = asyncio.create_task(self._end_idle())

    async def _end_idle(self) -> None:
        """End processes that have been idle for a while, to release their memory."""
        while self._idle:
            await self._clock.sleep(IDLE)
            now = self._clock.monotonic()
            for child in [each for each in self._idle if now - each.idle_since >= IDLE]:
                self._idle.remove(child)
                await child.end()


class _Child:
    """One process and its pipes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None  # noqa: S101 - both are pipes
        assert process.stdout is not None  # noqa: S101
        self._process, self._in, self._out = process, process.stdin, process.stdout
        self.idle_since = 0.0

    @classmethod
    async def start(cls, memory: int) -> "_Child":
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        command = (sys.executable, "-m", "forager.offload.child", str(memory))
        pipe = asyncio.subprocess.PIPE
        return cls(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, env=environment))

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None

    async def begin(self, message: bytes) -> None:
        """Send work and wait until it has begun. Raises `EOFError` if the process dies."""
        try:
            self._in.write(LENGTH.pack(len(message)))
            self._in.write(message)
            await self._in.drain()
        except ConnectionError:
            raise EOFError from None
        await self._receive()

    async def result(self) -> tuple[bool, Any]:
        """Wait for the end of the work. Raises `EOFError` if the process dies."""
        return pickle.loads(await self._receive())  # type: ignore[no-any-return]  # noqa: S301 - from our own child

    async def _receive(self) -> bytes:
        try:
            (size,) = LENGTH.unpack(await self._out.readexactly(LENGTH.size))
            return await self._out.readexactly(size)
        except (ConnectionError, asyncio.IncompleteReadError):
            raise EOFError from None

    async def ended(self) -> int:
        """Return how a process ended that has closed its pipe. Do not signal it first: that would reap it and hide the
        cause."""
        try:
            async with asyncio.timeout(DYING):
                return await self._process.wait()
        except TimeoutError:
            await self.end()
            return -signal.SIGKILL
        finally:
            self._in.close()

    async def end(self) -> None:
        """Kill it, whatever it does."""
        with contextlib.suppress(ProcessLookupError):
            if self.is_alive:
                self._process.kill()
        self._in.close()
        await self._process.wait()


def _late(limit: float) -> ParseFailed:
    return ParseFailed(f"The page took more than {limit:g} s to read.", reason=Reason.PARSE_LATE)


def _ended(code: int, limit: float) -> ParseFailed:
    if code == -signal.SIGXCPU:
        return _late(limit)
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return ParseFailed(f"The page ended the process that read it ({how}).", reason=Reason.PARSE_CRASHED)
