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
from urllib.parse import parse_qs

import orjson

from forager.core.errors import Rejected
from forager.sandbox.config import Knobs
from forager.sandbox.faults import FaultPlan, Trouble, When
from forager.sandbox.journal import Call, CallLog
from forager.sandbox.jumping_clock import WorldTime
from forager.sandbox.site import Outage
from forager.sandbox.wire import HTML, JSON, Connection, PortListener, WireRequest
from forager.sandbox.world import chance, log_normal

# The admin routes of a simulated upstream, for tests and auditors in other processes.
#
# They are not part of the imitated API and are never logged as requests to it.


AdminRoute = Callable[[Any], Any]
_Reply = tuple[int, bytes, bytes]
_JSON_LINES = b"application/x-ndjson"


def administer(upstream: "Upstream[Any]", request: WireRequest) -> _Reply:
    """Answer a request under `/_sandbox/` with (status, body, content type)."""
    name = request.path.removeprefix("/_sandbox/")
    own = upstream.admin_routes()
    try:
        if request.method == "GET" and name == "log":
            return _log(upstream, request)
        if request.method == "GET" and name == "stats":
            return 200, orjson.dumps(upstream.stats()), JSON
        if request.method == "POST" and name == "reset":
            upstream.reset()
            return 200, b"{}", JSON
        if request.method == "POST" and name in _POSTED:
            return 200, orjson.dumps(_POSTED[name](upstream, _decoded(request))), JSON
        if request.method == "POST" and name in own:
            return 200, orjson.dumps(own[name](_decoded(request))), JSON
    except Rejected as error:
        return 400, orjson.dumps({"message": error.message, "statusCode": 400}), JSON
    posted = ", ".join(f"POST /_sandbox/{each}" for each in ("reset", *_POSTED, *own))
    message = f"No such admin route. There are: GET /_sandbox/log, GET /_sandbox/stats, {posted}"
    return 404, orjson.dumps({"message": message, "statusCode": 404}), JSON


def _log(upstream: "Upstream[Any]", request: WireRequest) -> _Reply:
    since = parse_qs(request.query).get("since", ["0"])[0]
    if not since.isdigit():
        raise Rejected(f"`since` is the number of the last entry already read; got {since!r}")
    return 200, b"".join(call.json() + b"\n" for call in upstream.log.since(int(since))), _JSON_LINES


def _faults(upstream: "Upstream[Any]", value: Any) -> Any:
    """A list of rules to add, or `{"clear": true, "rules": […]}` to put them in the place of the present ones."""
    clear = isinstance(value, dict) and bool(value.get("clear"))
    listed = value.get("rules", []) if isinstance(value, dict) else value
    if not isinstance(listed, list):
        raise Rejected('Send a list of rules, or {"clear": true, "rules": [...]}')
    rules = [When.from_json(rule, upstream.config.fault_names) for rule in listed]
    if clear:
        upstream.faults.script.clear()
    upstream.faults.script.add(rules)
    return {"added": len(rules)}


def _config(upstream: "Upstream[Any]", changes: Any) -> Any:
    if not isinstance(changes, dict):
        raise Rejected("Send an object of setting to value")
    fixed = sorted(set(changes) - upstream.config.live)
    if fixed:
        raise Rejected(
            f"{', '.join(fixed)} cannot change while the sandbox runs: start another one. "
            f"What can change: {', '.join(sorted(upstream.config.live))}."
        )
    upstream.adopt(upstream.config.changed(changes))
    return {}


def _clock(upstream: "Upstream[Any]", value: Any) -> Any:
    seconds = value.get("advance_seconds") if isinstance(value, dict) else None
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        raise Rejected('Send {"advance_seconds": number}')
    upstream.time.advance(seconds)
    return {"now": upstream.time.now().isoformat()}


def _decoded(request: WireRequest) -> Any:
    try:
        return orjson.loads(request.body)
    except ValueError as error:
        raise Rejected(f"The body is not valid JSON: {error}") from error


_POSTED: dict[str, Callable[["Upstream[Any]", Any], Any]] = {"faults": _faults, "config": _config, "clock": _clock}


K = TypeVar("K", bound=Knobs)
BAD_GATEWAY = b"<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"
_POLL = 0.02


@dataclass(slots=True)
class Reply:
    """The result of one call."""

    status: int
    body: bytes = b""
    kind: bytes = JSON
    headers: bytes = b""
    """Further header lines, each with its end."""
    fault: str | None = None
    later: "Callable[[], Reply | None] | None" = None
    """Called every few milliseconds until it returns the reply to send instead: a call that waits for something."""


class Upstream(ABC, Generic[K]):
    """`async with` starts and stops all its hosts. Each host keeps its port over a stop and a start."""

    host_names: ClassVar[tuple[str, ...]] = ("main",)

    def __init__(self, config: K, *, now: Callable[[], datetime] | None = None, ports: Mapping[str, int] | None = None):
        self.config = config
        self.time = WorldTime(now)
        self.log = CallLog(config.log_limit, config.log_path)
        self.hosts = {name: UpstreamHost(self, name, (ports or {}).get(name, 0)) for name in self.host_names}
        self._first = config
        self.faults = FaultPlan(config.seed, config.script, config.faults)
        self._outages: dict[str, Outage] = {}

    @abstractmethod
    def answer(self, host: str, request: WireRequest, call: Call) -> Reply:
        """Decide one call: fill in its request, draw its fault with `fault_of`, return the reply."""

    def prepare(self) -> None:
        """Reset the state that calls have changed: balances, windows, runs."""

    def admin_routes(self) -> Mapping[str, AdminRoute]:
        """Further routes under `POST /_sandbox/`; each takes the decoded body and returns what is answered."""
        return {}

    def error(self, fault: str, call: Call) -> Reply | None:
        """Return the reply of a fault that is an error status, in this upstream's own shape; None for any other
        fault."""
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
        """Return the line that a process with this upstream prints when it is ready."""
        return {"url": next(iter(self.hosts.values())).url(""), "hosts": {n: h.url("") for n, h in self.hosts.items()}}

    def stats(self) -> dict[str, Any]:
        """Return the totals of the log."""
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

    def _receive(self, host: str, request: WireRequest, connection: Connection) -> None:
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


class UpstreamHost(PortListener):
    """One port of an upstream."""

    def __init__(self, upstream: Upstream[Any], name: str, port: int = 0) -> None:
        super().__init__(port)
        self._respond = partial(upstream._receive, name)  # noqa: SLF001 - the two are one mechanism

    def _receive(self, request: WireRequest, connection: Connection) -> None:
        self._respond(request, connection)
