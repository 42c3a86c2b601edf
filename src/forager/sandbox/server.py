"""The Serper sandbox on a port of this machine: carries out what `Serper` decides and writes down what happened.

Binds the loopback address only: it is a toy upstream with an open admin door (`/_sandbox/…`). One asyncio timer per
delayed answer, no task per request.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from itertools import chain, repeat
from typing import Any, Self
from urllib.parse import parse_qs

from forager.core.errors import Rejected
from forager.sandbox.admin import administer
from forager.sandbox.config import SerperConfig
from forager.sandbox.faults import Fault
from forager.sandbox.listener import LOOPBACK, listen
from forager.sandbox.log import Entry, RequestLog
from forager.sandbox.process import run_until_ended
from forager.sandbox.serper import Serper, Verdict
from forager.sandbox.wire import HTML, JSON, Connection, Request

_DAY = 86_400
_PART = 64 * 1024


class SerperSandbox:
    """`async with SerperSandbox(config) as sandbox:` — then send to `sandbox.url` and read `sandbox.log`."""

    def __init__(self, config: SerperConfig | None = None, *, host: str = LOOPBACK, port: int = 0) -> None:
        if host != LOOPBACK:
            raise Rejected(f"The sandbox listens on {LOOPBACK} only, not on {host}: its admin routes have no key.")
        self.config = config or SerperConfig()
        self.serper = Serper(self.config)
        flag = self.config.stall_flag_ms / 1000
        self.log = RequestLog(time.monotonic(), self.config.log_limit, self.config.log_path, flag)
        self.url = ""
        self._port = port
        self._server: asyncio.Server | None = None
        self._connections: set[Connection] = set()
        self._pulse: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        make = partial(Connection, self._receive, self._connections)
        self._server = await listen(make, self._port)
        self.url = f"http://{LOOPBACK}:{self._server.sockets[0].getsockname()[1]}"
        self.log.starts.pulse(time.monotonic())
        self._beat()

    async def stop(self) -> None:
        """End every connection; what was in flight is in the log as not delivered."""
        if self._server is None:
            return
        if self._pulse is not None:
            self._pulse.cancel()
        self._server.close()
        for connection in list(self._connections):
            connection.leave()
        self._server = None
        self.log.close()
        await asyncio.sleep(0)  # the transports close in the loop's next turn

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def stats(self) -> dict[str, Any]:
        """The figures of the log, and what each key has left."""
        return {**self.log.stats(time.monotonic()), "credits_left": self.serper.credits_left()}

    def reset(self) -> None:
        """As freshly started: empty log, the first settings, full balances, the first script."""
        self.serper = Serper(self.config)
        self.log.clear(time.monotonic())

    def _beat(self) -> None:
        starts = self.log.starts
        starts.pulse(time.monotonic())
        self._pulse = self._loop.call_later(starts.period, self._beat)

    def _receive(self, request: Request, connection: Connection) -> None:
        if request.path.startswith("/_sandbox/"):
            connection.send(*administer(self, request))
            return
        now, wall = time.monotonic(), time.time()
        entry = self.log.arrive(now, wall)
        key = _key(request)
        entry.key = self.serper.shown_key(key)
        verdict = self.serper.decide(request, key, entry, int(wall // _DAY + 3) % 7, self.log.ask)
        entry.fault = verdict.fault.value if verdict.fault else None
        if verdict.fault is Fault.TIMEOUT:
            connection.when_lost = partial(self._unseen, entry, verdict, None)
        elif verdict.delay:
            timer = self._loop.call_later(verdict.delay, self._answer, entry, verdict, connection)
            connection.when_lost = partial(self._unseen, entry, verdict, timer)
        else:
            self._answer(entry, verdict, connection)

    def _answer(self, entry: Entry, verdict: Verdict, connection: Connection) -> None:
        if verdict.fault is Fault.RESET:
            connection.cut()
            self._unseen(entry, verdict, None)
        elif verdict.fault is Fault.DROP:
            connection.send_part(verdict.status, verdict.body[: len(verdict.body) // 2], len(verdict.body))
            self._unseen(entry, verdict, None, status=verdict.status)
        elif verdict.fault is Fault.HUGE:
            connection.when_lost = partial(self._unseen, entry, verdict, None, status=verdict.status)
            size = max(self.serper.config.huge_bytes, len(verdict.body) + 16)
            parts = _padded(verdict.body, size)
            connection.send_long(verdict.status, parts, size, partial(self._seen, entry, verdict))
        elif connection.is_open:
            # Written down before it is sent: who reads the log on getting the answer must find it there.
            connection.when_lost = None
            self._seen(entry, verdict)
            connection.send(verdict.status, verdict.body, HTML if verdict.fault is Fault.HTTP503 else JSON)
        else:
            self._unseen(entry, verdict, None)

    def _seen(self, entry: Entry, verdict: Verdict) -> None:
        entry.status, entry.places, entry.credits = verdict.status, verdict.places, verdict.credits
        entry.delivered = True
        self.log.end(entry, time.monotonic())

    def _unseen(self, entry: Entry, verdict: Verdict, timer: asyncio.TimerHandle | None, status: int = 0) -> None:
        """The client did not get the answer: it left, or a fault took it. The work was done: charged by default."""
        if timer is not None:
            timer.cancel()
        entry.status = status
        if self.serper.config.charge_unseen:
            entry.credits = verdict.credits
        else:
            self.serper.refund(verdict)
        self.log.end(entry, time.monotonic())


def serve(
    config: SerperConfig,
    host: str = LOOPBACK,
    port: int = 0,
    announce: Callable[[str], None] | None = None,
    *,
    until_stdin_closes: bool = False,
    beside: Sequence[AbstractAsyncContextManager[Any]] = (),
) -> None:
    """Run the sandbox as a process of its own until SIGTERM or SIGINT; `announce` gets its URL when it is ready, and
    what runs `beside` it is.

    With `until_stdin_closes` it also ends when its standard input does: a starter that is killed leaves no orphan.
    """
    sandbox = SerperSandbox(config, host=host, port=port)
    run_until_ended(
        (sandbox, *beside),
        lambda: announce(sandbox.url) if announce is not None else None,
        until_stdin_closes=until_stdin_closes,
    )


def _key(request: Request) -> str:
    header = request.headers.get(b"x-api-key")
    if header is not None:
        return header.decode("latin-1")
    return parse_qs(request.query).get("apiKey", [""])[0] if request.query else ""


def _padded(body: bytes, size: int) -> Iterator[bytes]:
    """The answer as valid JSON of exactly `size` bytes, the padding first: a reader that stops early sees no places."""
    opening, closing = b'{"padding":"', b'",' + body[1:]
    filler = size - len(opening) - len(closing)
    whole, rest = divmod(filler, _PART)
    return chain((opening,), repeat(b"x" * _PART, whole), (b"x" * rest + closing,))
