"""The Serper sandbox on a port of this machine: carries out the decisions of `Serper` and logs them.

Binds the loopback address only: it is a toy upstream with an open admin door (`/_sandbox/…`). One asyncio timer per
delayed answer, no task per request.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, repeat
from typing import Any, Self
from urllib.parse import parse_qs

import orjson

from forager.core.errors import Rejected
from forager.sandbox import answers
from forager.sandbox.answers import NotAnswerable, SerperAnswer, SerperQuery
from forager.sandbox.config import LIVE, SerperConfig
from forager.sandbox.faults import Fault, FaultScript, Rule
from forager.sandbox.journal import LoggedRequest, RequestLog
from forager.sandbox.process import run_until_ended
from forager.sandbox.rate import SlidingWindow
from forager.sandbox.wire import HTML, JSON, LOOPBACK, Connection, WireRequest, listen
from forager.sandbox.world import log_normal

# The admin door of a running sandbox, for tests and auditors in other processes.
#
# Not part of the imitated API, and never logged as a request to it.


Reply = tuple[int, bytes, bytes]
JSON_LINES = b"application/x-ndjson"


def administer(sandbox: "SerperSandbox", request: WireRequest) -> Reply:
    route = _ROUTES.get((request.method, request.path.removeprefix("/_sandbox/")))
    try:
        if route is None:
            known = ", ".join(f"{method} /_sandbox/{name}" for method, name in _ROUTES)
            return 404, orjson.dumps({"message": f"No such admin route. There are: {known}", "statusCode": 404}), JSON
        return route(sandbox, request)
    except Rejected as error:
        return 400, orjson.dumps({"message": error.message, "statusCode": 400}), JSON


def _log(sandbox: "SerperSandbox", request: WireRequest) -> Reply:
    since = parse_qs(request.query).get("since", ["0"])[0]
    if not since.isdigit():
        raise Rejected(f"`since` is the number of the last entry already read; got {since!r}")
    return 200, b"".join(entry.json() + b"\n" for entry in sandbox.log.since(int(since))), JSON_LINES


def _stats(sandbox: "SerperSandbox", _request: WireRequest) -> Reply:
    return 200, orjson.dumps(sandbox.stats()), JSON


def _reset(sandbox: "SerperSandbox", _request: WireRequest) -> Reply:
    sandbox.reset()
    return 200, b"{}", JSON


def _faults(sandbox: "SerperSandbox", request: WireRequest) -> Reply:
    """A list of rules to add, or `{"clear": true, "rules": […]}` to put them in the place of the present ones."""
    value = _decoded(request)
    clear = isinstance(value, dict) and bool(value.get("clear"))
    listed = value.get("rules", []) if isinstance(value, dict) else value
    if not isinstance(listed, list):
        raise Rejected('Send a list of rules, or {"clear": true, "rules": [...]}')
    rules = [Rule.from_json(rule) for rule in listed]
    if clear:
        sandbox.serper.script.clear()
    sandbox.serper.script.add(rules)
    return 200, orjson.dumps({"added": len(rules)}), JSON


def _config(sandbox: "SerperSandbox", request: WireRequest) -> Reply:
    changes = _decoded(request)
    if not isinstance(changes, dict):
        raise Rejected("Send an object of setting to value")
    fixed = sorted(set(changes) - LIVE)
    if fixed:
        raise Rejected(
            f"{', '.join(fixed)} cannot change while the sandbox runs: start another one. "
            f"What can change: {', '.join(sorted(LIVE))}."
        )
    sandbox.serper.adopt(changes)
    return 200, b"{}", JSON


def _decoded(request: WireRequest) -> Any:
    try:
        return orjson.loads(request.body)
    except ValueError as error:
        raise Rejected(f"The body is not valid JSON: {error}") from error


_ROUTES = {
    ("GET", "log"): _log,
    ("GET", "stats"): _stats,
    ("POST", "reset"): _reset,
    ("POST", "faults"): _faults,
    ("POST", "config"): _config,
}


# The decisions of Serper: access, limits, prices, and the requests that fail.
#
# Holds the balances and the windows of the keys. Never writes to a connection and never reads a clock: the server gives
# the time of arrival and carries out what is decided here.


@dataclass(slots=True)
class SerperAccount:
    """One key: its remaining credits and its recent requests."""

    window: SlidingWindow
    credits: int | None


@dataclass(slots=True)
class SerperVerdict:
    """The result of one request."""

    status: int
    body: bytes
    fault: Fault | None = None
    credits: int = 0
    places: int = 0
    delay: float = 0.0
    account: SerperAccount | None = None


class SimulatedSerper:
    def __init__(self, config: SerperConfig) -> None:
        self.config = config
        self.world = config.world()
        self.script = FaultScript(self.world, config.script, config.faults)
        self._accounts = {
            key: SerperAccount(SlidingWindow(), config.credits) for key in (config.key, *config.other_keys)
        }
        self._rendered: dict[tuple[str, bytes, int], tuple[SerperQuery, SerperAnswer]] = {}
        self._eldest: deque[tuple[str, bytes, int]] = deque()

    def adopt(self, changes: Mapping[str, Any]) -> None:
        """Change what may change while running; new `credits` are the new balance of every key."""
        self.config = self.config.changed(changes)
        self.script.shares = self.config.faults
        if "credits" in changes:
            for account in self._accounts.values():
                account.credits = self.config.credits

    def credits_left(self) -> dict[str, int | None]:
        return {key: account.credits for key, account in self._accounts.items()}

    def shown_key(self, key: str) -> str:
        """Return the sandbox's own key unchanged; of any other key only the end, because a real one may have been sent
        by mistake."""
        return key if key in self._accounts else f"…{key[-4:]}" if key else ""

    def decide(
        self, request: WireRequest, key: str, entry: LoggedRequest, weekday: int, ask: Callable[[LoggedRequest], int]
    ) -> SerperVerdict:
        """Return the verdict on a request that arrived at `entry.at`; the entry records the request, even if
        refused."""
        if not key:
            return SerperVerdict(403, answers.NO_KEY)
        account = self._accounts.get(key)
        if account is None:
            return SerperVerdict(403, answers.UNAUTHORIZED)
        entry.endpoint = request.path[1:]
        if entry.endpoint not in answers.PAGE_SIZES or request.method not in ("GET", "POST"):
            return SerperVerdict(404, answers.not_found(request.method, request.path))
        refused = not account.window.admit(entry.at, self.config.rate_limit)
        try:
            query, answer = self._answer(request, entry.endpoint, weekday)
        except NotAnswerable as error:
            return SerperVerdict(429, answers.TOO_MANY) if refused else SerperVerdict(error.status, error.body)
        entry.zip, entry.keyword, entry.page = query.zip, query.keyword, query.page
        nth = ask(entry)
        if refused:
            return SerperVerdict(429, answers.TOO_MANY)
        return self._priced(query, answer, nth, account)

    def refund(self, verdict: SerperVerdict) -> None:
        if verdict.account is not None and verdict.account.credits is not None:
            verdict.account.credits += verdict.credits

    def latency(self, zip_code: str, keyword: str, page: int, nth: int) -> float:
        """Seconds until the `nth` answer for this page: the same for the same seed."""
        drawn = self.world.chance("latency", zip_code, keyword, page, nth) if self.config.latency_sigma else 0.0
        return log_normal(self.config.latency_ms / 1000, self.config.latency_sigma, drawn)

    def _priced(self, query: SerperQuery, answer: SerperAnswer, nth: int, account: SerperAccount) -> SerperVerdict:
        fault = self.script.pick(query.zip, query.keyword, query.page, nth)
        if fault is Fault.HTTP429:
            return SerperVerdict(429, answers.TOO_MANY, fault)
        delay = self.latency(query.zip, query.keyword, query.page, nth)
        if fault is Fault.HTTP500:
            return SerperVerdict(500, answers.FAILED, fault, delay=delay)
        if fault is Fault.HTTP503:
            return SerperVerdict(503, answers.UNAVAILABLE, fault, delay=delay)
        price = self.config.price(query.endpoint)
        if account.credits is not None:
            if account.credits < price:
                return SerperVerdict(400, answers.NO_CREDITS)
            account.credits -= price
        verdict = SerperVerdict(200, answer.body, fault, price, answer.places, delay, account)
        return self._spoiled(verdict) if fault else verdict

    def _spoiled(self, verdict: SerperVerdict) -> SerperVerdict:
        if verdict.fault is Fault.SLOW:
            return replace(verdict, delay=verdict.delay + self.config.slow_ms / 1000)
        if verdict.fault is Fault.MALFORMED:
            return replace(verdict, body=verdict.body[: len(verdict.body) * 2 // 3] + b"\x00<br>", places=0)
        return verdict

    def _answer(self, request: WireRequest, endpoint: str, weekday: int) -> tuple[SerperQuery, SerperAnswer]:
        """Rendered once for the same words: the sandbox must cost its caller's machine as little as it can."""
        asked = request.body if request.method == "POST" else b"?" + request.query.encode()
        known = self._rendered.get((endpoint, asked, weekday))
        if known is not None:
            return known
        sent = answers.read_body(request.body) if request.method == "POST" else answers.read_url(request.query)
        query = answers.read_query(endpoint, sent)
        rendered = query, answers.answer(self.world, self.config, query, weekday)
        self._keep((endpoint, asked, weekday), rendered)
        return rendered

    def _keep(self, asked: tuple[str, bytes, int], rendered: tuple[SerperQuery, SerperAnswer]) -> None:
        if not self.config.cache_limit:
            return
        if len(self._eldest) >= self.config.cache_limit:
            self._rendered.pop(self._eldest.popleft(), None)
        self._rendered[asked] = rendered
        self._eldest.append(asked)


_DAY = 86_400
_PART = 64 * 1024


class SerperSandbox:
    """`async with SerperSandbox(config) as sandbox:` — then send to `sandbox.url` and read `sandbox.log`."""

    def __init__(self, config: SerperConfig | None = None, *, host: str = LOOPBACK, port: int = 0) -> None:
        if host != LOOPBACK:
            raise Rejected(f"The sandbox listens on {LOOPBACK} only, not on {host}: its admin routes have no key.")
        self.config = config or SerperConfig()
        self.serper = SimulatedSerper(self.config)
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
        """Return the figures of the log, and what each key has left."""
        return {**self.log.stats(time.monotonic()), "credits_left": self.serper.credits_left()}

    def reset(self) -> None:
        """As freshly started: empty log, the first settings, full balances, the first script."""
        self.serper = SimulatedSerper(self.config)
        self.log.clear(time.monotonic())

    def _beat(self) -> None:
        starts = self.log.starts
        starts.pulse(time.monotonic())
        self._pulse = self._loop.call_later(starts.period, self._beat)

    def _receive(self, request: WireRequest, connection: Connection) -> None:
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

    def _answer(self, entry: LoggedRequest, verdict: SerperVerdict, connection: Connection) -> None:
        # The entry ends here. Without this, a client that left in the same turn of a late loop would end it once more,
        # and its credits would count twice.
        connection.when_lost = None
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
            self._seen(entry, verdict)
            connection.send(verdict.status, verdict.body, HTML if verdict.fault is Fault.HTTP503 else JSON)
        else:
            self._unseen(entry, verdict, None)

    def _seen(self, entry: LoggedRequest, verdict: SerperVerdict) -> None:
        entry.status, entry.places, entry.credits = verdict.status, verdict.places, verdict.credits
        entry.delivered = True
        self.log.end(entry, time.monotonic())

    def _unseen(
        self, entry: LoggedRequest, verdict: SerperVerdict, timer: asyncio.TimerHandle | None, status: int = 0
    ) -> None:
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


def _key(request: WireRequest) -> str:
    header = request.headers.get(b"x-api-key")
    if header is not None:
        return header.decode("latin-1")
    return parse_qs(request.query).get("apiKey", [""])[0] if request.query else ""


def _padded(body: bytes, size: int) -> Iterator[bytes]:
    """Yield the answer as valid JSON of exactly `size` bytes, the padding first: a reader that stops early sees no
    places."""
    opening, closing = b'{"padding":"', b'",' + body[1:]
    filler = size - len(opening) - len(closing)
    whole, rest = divmod(filler, _PART)
    return chain((opening,), repeat(b"x" * _PART, whole), (b"x" * rest + closing,))
