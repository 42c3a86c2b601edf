"""Serper as it decides: who may ask, how often, at what price, and which request goes wrong.

Holds the balances and the windows of the keys. Never writes to a connection and never reads a clock: the server gives
the time of arrival and carries out what is decided here.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from forager.sandbox import answers
from forager.sandbox.answers import Answer, NotAnswerable, Query
from forager.sandbox.config import SerperConfig
from forager.sandbox.draw import log_normal
from forager.sandbox.faults import Fault, FaultScript
from forager.sandbox.log import Entry
from forager.sandbox.rate import SlidingWindow
from forager.sandbox.wire import Request


@dataclass(slots=True)
class Account:
    """One key: what it has left and when it asked lately."""

    window: SlidingWindow
    credits: int | None


@dataclass(slots=True)
class Verdict:
    """What becomes of one request."""

    status: int
    body: bytes
    fault: Fault | None = None
    credits: int = 0
    places: int = 0
    delay: float = 0.0
    account: Account | None = None


class Serper:
    def __init__(self, config: SerperConfig) -> None:
        self.config = config
        self.world = config.world()
        self.script = FaultScript(self.world, config.script, config.faults)
        self._accounts = {key: Account(SlidingWindow(), config.credits) for key in (config.key, *config.other_keys)}
        self._rendered: dict[tuple[str, bytes, int], tuple[Query, Answer]] = {}
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

    def decide(self, request: Request, key: str, entry: Entry, weekday: int, ask: Callable[[Entry], int]) -> Verdict:
        """The verdict on a request that arrived at `entry.at`; the entry learns what was asked, even if refused."""
        if not key:
            return Verdict(403, answers.NO_KEY)
        account = self._accounts.get(key)
        if account is None:
            return Verdict(403, answers.UNAUTHORIZED)
        entry.endpoint = request.path[1:]
        if entry.endpoint not in answers.PAGE_SIZES or request.method not in ("GET", "POST"):
            return Verdict(404, answers.not_found(request.method, request.path))
        refused = not account.window.admit(entry.at, self.config.rate_limit)
        try:
            query, answer = self._answer(request, entry.endpoint, weekday)
        except NotAnswerable as error:
            return Verdict(429, answers.TOO_MANY) if refused else Verdict(error.status, error.body)
        entry.zip, entry.keyword, entry.page = query.zip, query.keyword, query.page
        nth = ask(entry)
        if refused:
            return Verdict(429, answers.TOO_MANY)
        return self._priced(query, answer, nth, account)

    def refund(self, verdict: Verdict) -> None:
        if verdict.account is not None and verdict.account.credits is not None:
            verdict.account.credits += verdict.credits

    def latency(self, zip_code: str, keyword: str, page: int, nth: int) -> float:
        """Seconds until the `nth` answer for this page: the same for the same seed."""
        drawn = self.world.chance("latency", zip_code, keyword, page, nth) if self.config.latency_sigma else 0.0
        return log_normal(self.config.latency_ms / 1000, self.config.latency_sigma, drawn)

    def _priced(self, query: Query, answer: Answer, nth: int, account: Account) -> Verdict:
        fault = self.script.pick(query.zip, query.keyword, query.page, nth)
        if fault is Fault.HTTP429:
            return Verdict(429, answers.TOO_MANY, fault)
        delay = self.latency(query.zip, query.keyword, query.page, nth)
        if fault is Fault.HTTP500:
            return Verdict(500, answers.FAILED, fault, delay=delay)
        if fault is Fault.HTTP503:
            return Verdict(503, answers.UNAVAILABLE, fault, delay=delay)
        price = self.config.price(query.endpoint)
        if account.credits is not None:
            if account.credits < price:
                return Verdict(400, answers.NO_CREDITS)
            account.credits -= price
        verdict = Verdict(200, answer.body, fault, price, answer.places, delay, account)
        return self._spoiled(verdict) if fault else verdict

    def _spoiled(self, verdict: Verdict) -> Verdict:
        if verdict.fault is Fault.SLOW:
            return replace(verdict, delay=verdict.delay + self.config.slow_ms / 1000)
        if verdict.fault is Fault.MALFORMED:
            return replace(verdict, body=verdict.body[: len(verdict.body) * 2 // 3] + b"\x00<br>", places=0)
        return verdict

    def _answer(self, request: Request, endpoint: str, weekday: int) -> tuple[Query, Answer]:
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

    def _keep(self, asked: tuple[str, bytes, int], rendered: tuple[Query, Answer]) -> None:
        if not self.config.cache_limit:
            return
        if len(self._eldest) >= self.config.cache_limit:
            self._rendered.pop(self._eldest.popleft(), None)
        self._rendered[asked] = rendered
        self._eldest.append(asked)
