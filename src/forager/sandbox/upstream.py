"""A simulated upstream on ports of this machine: what Google, Apify, the listings site and the shop share.

An upstream decides (`answer`); this module carries the decision out: latency, faults, log, admin routes. It binds the
loopback address only. A delayed answer costs one timer, no task.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, Generic, Self, TypeVar

from forager.sandbox.calls import Call, CallLog
from forager.sandbox.draw import chance, log_normal
from forager.sandbox.knobs import Knobs
from forager.sandbox.listener import Listener
from forager.sandbox.site import Outage
from forager.sandbox.trouble import FaultPlan, Trouble
from forager.sandbox.upstream_admin import AdminRoute, administer
from forager.sandbox.wire import HTML, JSON, Connection, Request
from forager.sandbox.world_time import WorldTime

K = TypeVar("K", bound=Knobs)
BAD_GATEWAY = b"<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"
_POLL = 0.02


@dataclass(slots=True)
class Reply:
    """What becomes of one call."""

    status: int
    body: bytes = b""
    kind: bytes = JSON
    headers: bytes = b""
    """Further header lines, each with its end."""
    fault: str | None = None
    later: "Callable[[], Reply | None] | None" = None
    """Asked every few milliseconds until it returns the reply to send instead: a call that waits for something."""


class Upstream(ABC, Generic[K]):
    """`async with` starts and stops all its hosts. Each host keeps its port over a stop and a start."""

    host_names: ClassVar[tuple[str, ...]] = ("main",)

    def __init__(self, config: K, *, now: Callable[[], datetime] | None = None, ports: Mapping[str, int] | None = None):
        self.config = config
        self.time = WorldTime(now)
        self.log = CallLog(config.log_limit, config.log_path)
        self.hosts = {name: Host(self, name, (ports or {}).get(name, 0)) for name in self.host_names}
        self._first = config
        self.faults = FaultPlan(config.seed, config.script, config.faults)
        self._outages: dict[str, Outage] = {}

    @abstractmethod
    def answer(self, host: str, request: Request, call: Call) -> Reply:
        """Decide one call: fill in what it asks for, draw its fault with `fault_of`, return the reply."""

    def prepare(self) -> None:
        """Make the state anew that calls have changed: balances, windows, runs."""

    def admin_routes(self) -> Mapping[str, AdminRoute]:
        """Further routes under `POST /_sandbox/`; each takes the decoded body and returns what is answered."""
        return {}

    def error(self, fault: str, call: Call) -> Reply | None:
        """The reply of a fault that is an error status, in this upstream's own shape; None for any other fault."""
        return None

    async def start(self) -> None:
        """Listen on all ports; if one is taken, on none."""
        self._loop = asyncio.get_running_loop()
        try:
            for host in self.hosts.values():
                await host.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Close all ports and connections; what was in flight is in the log as not delivered."""
        for host in self.hosts.values():
            await host.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
        self.log.close()

    async def fail(self, outage: Outage | None, host: str | None = None) -> None:
        """Go down in one of several ways, as a whole or one host of it; None: be up again."""
        for name in self.hosts if host is None else (host,):
            self._outages.pop(name, None)
            if outage is not None:
                self._outages[name] = outage
            await (self.hosts[name].stop() if outage is Outage.REFUSED else self.hosts[name].start())

    @property
    def endpoints(self) -> tuple[str, ...]:
        """`127.0.0.1:port` of every host, as an egress allow-list takes them."""
        return tuple(host.endpoint for host in self.hosts.values())

    def announcement(self) -> dict[str, Any]:
        """What a process that runs this upstream prints when it is ready."""
        return {"url": next(iter(self.hosts.values())).url(""), "hosts": {n: h.url("") for n, h in self.hosts.items()}}

    def stats(self) -> dict[str, Any]:
        """The totals of the log."""
        return self.log.stats()

    def reset(self) -> None:
        """Return to the state of a fresh start: empty log, first settings and script, no state of earlier calls."""
        self.adopt(self._first)
        self.faults = FaultPlan(self.config.seed, self.config.script, self.config.faults)
        self.log.clear()
        self.prepare()

    def adopt(self, config: K) -> None:
        """Take new settings while running."""
        self.config = config
        self.faults.shares = config.faults

    def fault_of(self, call: Call) -> tuple[str | None, Reply | None]:
        """Draw the fault of a call whose operation and subject are filled in.

        Returns (fault, reply). With a reply, nothing else may happen: it is an error status or a connection that ends
        at once. Without one, carry the call out and return its reply with this fault.
        """
        fault = self.faults.pick(call)
        if fault is None:
            return None, None
        if fault == Trouble.RESET:
            return fault, Reply(0, fault=fault)
        if fault == Trouble.HTTP502:
            return fault, Reply(502, BAD_GATEWAY, HTML, fault=fault)
        reply = self.error(fault, call)
        if reply is not None:
            reply.fault = fault
        return fault, reply

    def _receive(self, host: str, request: Request, connection: Connection) -> None:
        if request.path.startswith("/_sandbox/"):
            connection.send(*administer(self, request))
            return
        call = Call(self.log.next_number(), time.monotonic(), self.time.seconds(), host, request.method, *request[1:3])
        self.log.add(call)
        outage = self._outages.get(host)
        reply = self.answer(host, request, call) if outage is None else _OUTAGES[outage]()
        call.fault = reply.fault
        if reply.fault == Trouble.TIMEOUT:
            connection.when_lost = partial(self._unseen, call, None)
            return
        delay = self._delay(call, reply.fault)
        if delay or reply.later is not None:
            self._send_later(call, reply, connection, request.method, delay)
        else:
            self._send(call, reply, connection, request.method)

    def _delay(self, call: Call, fault: str | None) -> float:
        config = self.config
        delay = config.latency_ms / 1000
        if config.latency_sigma:
            drawn = chance(config.seed, "latency", call.operation, call.subject, call.page)
            delay = log_normal(delay, config.latency_sigma, drawn)
        return delay + config.slow_ms / 1000 if fault == Trouble.SLOW else delay

    def _send_later(self, call: Call, reply: Reply, connection: Connection, method: str, delay: float) -> None:
        timer = self._loop.call_later(delay, self._send, call, reply, connection, method)
        connection.when_lost = partial(self._unseen, call, timer)

    def _send(self, call: Call, reply: Reply, connection: Connection, method: str) -> None:
        if reply.later is not None:
            ready = reply.later()
            if ready is None:
                self._send_later(call, reply, connection, method, _POLL)
                return
            ready.fault = reply.fault
            reply = ready
        if not connection.is_open or reply.fault in (Trouble.RESET, Trouble.LOST):
            connection.cut()
            self._unseen(call, None)
            return
        body = b"" if method == "HEAD" else reply.body
        connection.when_lost = None
        if reply.fault == Trouble.DROP:
            call.status = reply.status
            connection.send_part(reply.status, body[: len(body) // 2], max(1, len(body)))
            self._unseen(call, None)
            return
        if reply.fault == Trouble.MALFORMED:
            body = body[: len(body) * 2 // 3] + b"\x00<br>"
        # Logged before it is sent: a client that reads the log after it got the answer must find it there.
        call.status, call.delivered = reply.status, True
        self.log.end(call, time.monotonic())
        connection.send(reply.status, body, reply.kind, reply.headers)

    def _unseen(self, call: Call, timer: asyncio.TimerHandle | None) -> None:
        """Close the entry of an answer that the client did not get: the client left, or a fault took it."""
        if timer is not None:
            timer.cancel()
        self.log.end(call, time.monotonic())


_OUTAGES: dict[Outage, Callable[[], Reply]] = {
    Outage.ERROR: lambda: Reply(500, BAD_GATEWAY, HTML, fault="error"),
    Outage.BLACK_HOLE: lambda: Reply(0, fault=Trouble.TIMEOUT),
    Outage.RESET: lambda: Reply(0, fault=Trouble.RESET),
    Outage.REFUSED: lambda: Reply(0, fault=Trouble.RESET),
}


class Host(Listener):
    """One port of an upstream."""

    def __init__(self, upstream: Upstream[Any], name: str, port: int = 0) -> None:
        super().__init__(port)
        self._respond = partial(upstream._receive, name)  # noqa: SLF001 - the two are one mechanism

    def _receive(self, request: Request, connection: Connection) -> None:
        self._respond(request, connection)
