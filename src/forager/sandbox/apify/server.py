"""Apify's API and the listings site behind its actors, on two ports of this machine.

Both read one world at one time: a run finds the listings of the site at the moment of its start.
"""

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, ClassVar

from forager.core.errors import Rejected
from forager.sandbox.apify import runs as apify_runs
from forager.sandbox.apify.config import ApifyConfig, RunRule
from forager.sandbox.apify.methods import ApifyMethods, read_route
from forager.sandbox.apify.runs import SimulatedRun
from forager.sandbox.faults import Trouble
from forager.sandbox.journal import Call
from forager.sandbox.listings import site
from forager.sandbox.rate import SlidingWindow
from forager.sandbox.upstream import AdminRoute, Reply, Upstream
from forager.sandbox.wire import WireRequest

_RATE = 60
_WINDOWS = 10_000


class ApifySandbox(Upstream[ApifyConfig]):
    """`async with ApifySandbox(config, now=clock.now) as apify:` — then send to `apify.url`; pages are at `site_url`.

    A token `sandbox-NAME` belongs to the user NAME. Runs, costs and the world of listings follow the clock `now`.
    """

    host_names: ClassVar[tuple[str, ...]] = ("api", "site")

    def __init__(
        self,
        config: ApifyConfig | None = None,
        *,
        now: Callable[[], datetime] | None = None,
        ports: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(config or ApifyConfig(), now=now, ports=ports)
        self.prepare()

    @property
    def url(self) -> str:
        return self.hosts["api"].url("")

    @property
    def site_url(self) -> str:
        return self.hosts["site"].url("")

    @property
    def runs(self) -> list[SimulatedRun]:
        """Every run that was started and is kept, in that order: the auditor's view."""
        return list(self.methods.runs.values())

    def prepare(self) -> None:
        self.world = self.config.world()
        self.methods = ApifyMethods(self.config, self.world, self.time, lambda: self.hosts["site"].port)
        self._windows: dict[str, SlidingWindow] = {}

    def spent(self, tenant: str | None = None) -> float:
        """Return what all runs (of a user) cost in the end."""
        chosen = (run for run in self.runs if tenant in (None, run.tenant))
        return sum(run.final_cost(self.config) for run in chosen)

    def script_runs(self, *rules: RunRule) -> None:
        """Add rules about how the next runs go."""
        self.methods.script.add(rules)

    def stats(self) -> dict[str, Any]:
        return {**super().stats(), "runs": len(self.methods.runs), "spent_usd": round(self.spent(), 6)}

    def adopt(self, config: ApifyConfig) -> None:
        super().adopt(config)
        self.methods.config = config

    def admin_routes(self) -> Mapping[str, AdminRoute]:
        return {"runs": self._add_rules}

    def announcement(self) -> dict[str, Any]:
        return {"url": self.url, "site_url": self.site_url, "token": f"{self.config.prefix}demo"}

    def error(self, fault: str, call: Call) -> Reply | None:
        if call.host == "site":
            return site.trouble(fault) or _SITE_ERRORS.get(fault, lambda: None)()
        made = _API_ERRORS.get(fault)
        return made() if made is not None else None

    def answer(self, host: str, request: WireRequest, call: Call) -> Reply:
        reply = self._page(request, call) if host == "site" else self._api(request, call)
        return _with_limit(reply) if host == "api" else reply

    def _page(self, request: WireRequest, call: Call) -> Reply:
        visit = site.read_path(self.world, request.path)
        call.operation, call.subject = visit.operation, visit.subject
        fault, failed = self.fault_of(call)
        if failed is not None:
            return failed
        moment = self.time.seconds() + self.config.homes_ahead
        reply = site.answer(self.world, visit, moment, self.config.site_robots, self.config.gone)
        return Reply(reply.status, reply.body, reply.kind, reply.headers, fault)

    def _api(self, request: WireRequest, call: Call) -> Reply:
        asked = read_route(request)
        call.query = asked.shown_query
        if asked.operation == "":
            return apify_runs.no_page()
        tenant, known = self._tenant(asked.token)
        call.tenant, call.operation, call.subject, call.page = tenant, asked.operation, asked.subject, asked.page
        if asked.operation in ("runs.start", "runs.sync"):
            call.subject = asked.search or asked.subject
        if asked.token and not known:
            return apify_runs.wrong_token()
        if not asked.token and asked.needs_token:
            return apify_runs.no_token()
        limit = self.config.rate_per_second
        if not self._window(f"{asked.operation} {request.path}").admit(call.at, limit):
            return apify_runs.too_fast(limit or _RATE)
        fault, failed = self.fault_of(call)
        if failed is not None:
            return failed
        reply = self.methods.carry_out(asked, tenant if known else "", call, time.monotonic())
        reply.fault = fault
        return reply

    def _tenant(self, token: str) -> tuple[str, bool]:
        """(the user's name, whether the token is good); a token that is not ours is shown by its end only."""
        if token.startswith(self.config.prefix) and len(token) > len(self.config.prefix):
            return token[len(self.config.prefix) :], True
        return f"…{token[-4:]}" if token else "", False

    def _window(self, resource: str) -> SlidingWindow:
        if resource not in self._windows and len(self._windows) >= _WINDOWS:
            del self._windows[next(iter(self._windows))]
        return self._windows.setdefault(resource, SlidingWindow())

    def _add_rules(self, value: Any) -> Any:
        if not isinstance(value, list):
            raise Rejected("Send a list of run rules")
        self.script_runs(*(RunRule.from_json(rule) for rule in value))
        return {"added": len(value)}


def _with_limit(reply: Reply) -> Reply:
    """Add the header that every answer of the API has, also to one that comes later."""
    if reply.later is None:
        reply.headers += _LIMIT
        return reply
    later = reply.later

    def ready() -> Reply | None:
        done = later()
        return None if done is None else _with_limit(done)

    reply.later = ready
    return reply


_LIMIT = f"X-RateLimit-Limit: {_RATE}\r\n".encode()
_API_ERRORS: dict[str, Callable[[], Reply]] = {
    "http400": lambda: apify_runs.invalid_input("Field input.search must be string"),
    "http401": apify_runs.wrong_token,
    "http402": apify_runs.no_credit,
    "http403": apify_runs.not_rented,
    "http404": apify_runs.no_record,
    Trouble.HTTP429: lambda: apify_runs.too_fast(_RATE),
    Trouble.HTTP500: apify_runs.internal,
    Trouble.HTTP503: apify_runs.unavailable,
}
_SITE_ERRORS: dict[str, Callable[[], Reply | None]] = {
    "http403": lambda: site.trouble("blocked"),
    "http404": lambda: site.page("Not found", "<h1>404</h1>", 404),
    Trouble.HTTP429: lambda: site.page("Too many requests", "<h1>429</h1>", 429),
    Trouble.HTTP500: lambda: site.page("Error", "<h1>500</h1>", 500),
    Trouble.HTTP503: lambda: site.page("Unavailable", "<h1>503</h1>", 503),
}
