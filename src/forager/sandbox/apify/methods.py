"""The methods of the API, for calls that passed all checks: runs are started, polled, listed, aborted, and their items
read."""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

import orjson

from forager.sandbox.apify import runs
from forager.sandbox.apify import runs as apify_runs
from forager.sandbox.apify.config import ApifyConfig, RunRule
from forager.sandbox.apify.runs import NEVER, OLD_ACTOR, TERMINAL, SimulatedRun, actor_named, affordable, problem_of
from forager.sandbox.faults import Script
from forager.sandbox.journal import Call
from forager.sandbox.jumping_clock import WorldTime
from forager.sandbox.listings import homes, site
from forager.sandbox.listings.homes import home_of
from forager.sandbox.listings.world import ListingsWorld, SimulatedListing, SimulatedMarket
from forager.sandbox.upstream import Reply
from forager.sandbox.wire import JSON, WireRequest
from forager.sandbox.world import chance

# Pages of a dataset: cut by offset and limit first, thinned by `clean` afterwards. Pure.


Row = dict[str, Any]
_LINES = b"application/x-ndjson; charset=utf-8"


def page_of_items(total: int, row: Callable[[int], Row], query: Mapping[str, str]) -> tuple[Reply, int]:
    """Return the answer to `GET …/items` and how many rows are in it.

    The pagination headers count rows before thinning, so that a page in the middle may be shorter than its limit.
    """
    offset, limit = query.get("offset", "0"), query.get("limit", "")
    if not offset.isdigit() or (limit and not limit.isdigit()):
        return runs.invalid_value("Parameters offset and limit must be whole numbers"), 0
    kind = query.get("format", "json")
    if kind not in ("json", "jsonl"):
        return runs.invalid_value(f"The sandbox gives items as json and jsonl, not as {kind}"), 0
    first, last = int(offset), total if not limit or limit == "0" else min(total, int(offset) + int(limit))
    numbers = range(total - 1 - first, total - 1 - last, -1) if _on(query, "desc") else range(first, last)
    rows = [_picked(row(number), query) for number in numbers]
    cut = len(rows)
    if _on(query, "clean") or _on(query, "skipEmpty"):
        rows = [each for each in rows if each]
    sizes = (("Offset", first), ("Limit", limit or 999_999_999_999), ("Count", len(rows)), ("Total", total))
    headers = "".join(f"X-Apify-Pagination-{name}: {value}\r\n" for name, value in sizes).encode()
    if kind == "jsonl":
        return Reply(200, b"".join(orjson.dumps(each) + b"\n" for each in rows), _LINES, headers), cut
    return Reply(200, orjson.dumps(rows), JSON, headers), cut


def _on(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "").lower() in ("1", "true")


def _picked(row: Row, query: Mapping[str, str]) -> Row:
    if query.get("fields"):
        wanted = query["fields"].split(",")
        row = {name: row[name] for name in wanted if name in row}
    if query.get("omit"):
        unwanted = set(query["omit"].split(","))
        row = {name: value for name, value in row.items() if name not in unwanted}
    return row


# The rows of a run's dataset, made from the listings world when they are read. Pure but for a small cache.


_PER_LIST_PAGE = 25
_KEPT = 64
_ANY_RENT = 10**9
_LIST_PAGE = re.compile(
    r"/(?P<city>[a-z-]+)-(?P<state>[a-z]{2})/?(?:(?:(?P<low>\d+)-to-(?P<high>\d+)|under-(?P<under>\d+)|over-(?P<over>\d+))/?)?"
)


class Rows:
    """The results of runs: the world as it is when a run starts."""

    def __init__(self, world: ListingsWorld, config: ApifyConfig) -> None:
        self._world = world
        self._config = config
        self._targets: dict[str, list[tuple[SimulatedMarket, SimulatedListing]]] = {}

    def count(self, sent: dict[str, Any], moment: float) -> int:
        """Return how many rows a run with this input finds."""
        return len(self._found(sent, moment))

    def row(self, run: SimulatedRun, number: int, port: int) -> Row:
        """Return one row of a dataset, by its place; the same whenever it is read."""
        if run.outcome == "placeholder":
            return homes.placeholder_row()
        if chance(self._config.seed, "empty", run.id, number) < self._config.empty_share:
            return {}
        row = self._usual(run, number, port)
        every = run.bad_every or self._config.bad_every
        return homes.bad_row(row, number // every) if every and number % every == every - 1 else row

    def _usual(self, run: SimulatedRun, number: int, port: int) -> Row:
        if run.id not in self._targets:
            if len(self._targets) >= _KEPT:
                del self._targets[next(iter(self._targets))]
            self._targets[run.id] = self._found(run.input, run.started + run.homes_ahead)
        market, listing = self._targets[run.id][number]
        home = home_of(self._world, market, listing, run.started + run.homes_ahead)
        path = f"/rentals/{home.id}" if listing.twin else f"/{home.slug}/{home.id}/"
        url = self._config.portals[listing.twin].format(port=port) + path
        with_rent = chance(self._config.seed, "rent", listing.market, listing.home) < self._config.rent_share
        make = homes.old_row if run.actor == OLD_ACTOR else homes.api_row
        return make(home, url, run.started, with_rent=with_rent)

    def _found(self, sent: dict[str, Any], moment: float) -> list[tuple[SimulatedMarket, SimulatedListing]]:
        listings: list[tuple[SimulatedMarket, SimulatedListing]] = []
        if sent.get("search"):
            listings += self._search(sent["search"], moment)
        for url in sent.get("startUrls", ()):
            listings += self._start_url(url, moment)
        if "endPage" in sent:
            listings = listings[: max(0, sent["endPage"]) * _PER_LIST_PAGE]
        most = sent.get("maxItems")
        return listings[:most] if most else listings

    def _search(self, search: str, moment: float) -> list[tuple[SimulatedMarket, SimulatedListing]]:
        market = self._world.market(search)
        return [(market, listing) for listing in self._world.listings(search, moment)]

    def _start_url(self, url: str, moment: float) -> list[tuple[SimulatedMarket, SimulatedListing]]:
        """A list page is its market; a page of a property is that property if it is listed. Others find nothing."""
        path = urlsplit(url).path
        listing = site.read_path(self._world, path).listing
        if listing is not None:
            market = SimulatedMarket(listing.market, "Townsend", "IL")
            return [(market, listing)] if self._world.listed(listing, moment) else []
        match = _LIST_PAGE.fullmatch(path)
        if match is None:
            return []
        found = self._search(f"{match['city'].replace('-', ' ').title()}, {match['state'].upper()}", moment)
        low, high = match["low"] or match["over"], match["high"] or match["under"]
        if low is None and high is None:
            return found
        return [each for each in found if self._is_between(each, int(low or 0), int(high or _ANY_RENT), moment)]

    def _is_between(self, found: tuple[SimulatedMarket, SimulatedListing], low: int, high: int, moment: float) -> bool:
        """Return whether the property has a flat with a rent in the band; one without any is in none."""
        return any(low <= unit.rent <= high for unit in home_of(self._world, *found, moment).units)


# `GET /v2/acts/{actor}/runs`: the runs of an actor by status and time. Pure.


_MOST = 1000


def page_of_runs(
    runs: Iterable[SimulatedRun], query: Mapping[str, str], offset: int, moment: float, config: ApifyConfig
) -> dict[str, Any] | None:
    """Return the requested page; None if one of its dates cannot be read."""
    after, before = _moment(query.get("startedAfter"), -NEVER), _moment(query.get("startedBefore"), NEVER)
    if after is None or before is None:
        return None
    listed = [run for run in runs if after <= run.started <= before]
    if "status" in query:
        wanted = query["status"].split(",")
        listed = [run for run in listed if run.state(moment, config).status in wanted]
    desc = query.get("desc", "").lower() in ("1", "true")
    limit = query.get("limit", "")
    most = min(int(limit), _MOST) if limit.isdigit() and int(limit) else _MOST
    chosen = (listed[::-1] if desc else listed)[offset : offset + most]
    rows = [apify_runs.run_summary(run, run.state(moment, config), config, with_usage=True) for run in chosen]
    return {"total": len(listed), "offset": offset, "limit": most, "count": len(rows), "desc": desc, "items": rows}


def _moment(text: str | None, default: float) -> float | None:
    """Seconds since 1970 of a date in ISO 8601; None if the text is not such a date."""
    if text is None:
        return default
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


# The options of a start: time, memory, and what it may cost. Pure.


_MEMORY = 1024
_TIMEOUT = 3600


class Start(NamedTuple):
    timeout: float
    memory: int
    max_items: int | None
    max_charge: float | None


def read_start(query: Mapping[str, str], config: ApifyConfig) -> Start | Reply:
    """Return the options of a start; a reply if one of them is refused."""
    memory, timeout = query.get("memory", str(_MEMORY)), query.get("timeout", str(_TIMEOUT))
    if not memory.isdigit() or int(memory) < 128 or int(memory) & (int(memory) - 1):
        return runs.invalid_value("Memory must be a power of 2 and at least 128 MB")
    if not timeout.isdigit():
        return runs.invalid_value("Timeout must be a whole number of seconds")
    items, charge = query.get("maxItems"), _amount(query.get("maxTotalChargeUsd"))
    if items is not None and not items.isdigit():
        return runs.invalid_value("maxItems must be a whole number")
    if charge is not None and charge < config.least_charge_usd:
        message = f"Parameter maxTotalChargeUsd must be at least {config.least_charge_usd}"
        return runs.error(400, "max-total-charge-usd-below-minimum", message)
    return Start(float(timeout), int(memory), None if items is None else int(items), charge)


def _amount(text: str | None) -> float | None:
    """Money of a parameter; an unreadable one counts as 0, which is below every minimum."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return 0.0


# Finds the method of the API for a request. Pure.


class ApifyCall(NamedTuple):
    """One call, understood. `operation` is empty if there is no such endpoint."""

    operation: str
    subject: str
    """The id in the path: an actor, a run, a dataset, a store."""
    record: str
    """Key of a record in a store."""
    token: str
    query: dict[str, str]
    body: bytes
    sent: Any
    """The decoded body; None if it is not JSON."""
    user_agent: str

    @property
    def needs_token(self) -> bool:
        """Return whether knowing the id is not enough."""
        return self.operation in ("runs.start", "runs.sync", "runs.list", "runs.abort", "runs.delete")

    @property
    def page(self) -> int:
        """Offset of a list, which distinguishes its pages in the log."""
        offset = self.query.get("offset", "0")
        return int(offset) if offset.isdigit() else 0

    @property
    def search(self) -> str:
        """Return what a start searches for: the words, else the first start URL."""
        sent = self.sent if isinstance(self.sent, dict) else {}
        urls = sent.get("startUrls")
        return str(sent.get("search") or (urls[0] if isinstance(urls, list) and urls else ""))

    @property
    def shown_query(self) -> str:
        """The query without the token."""
        return urlencode({name: value for name, value in self.query.items() if name != "token"})


def read_route(request: WireRequest) -> ApifyCall:
    """Understand a request. `?method=` overrides the verb; the token may be in the header or in the query."""
    query = dict(parse_qsl(request.query, keep_blank_values=True))
    verb = query.get("method", request.method).upper()
    scheme, _, token = request.headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    token = token.strip() if scheme.lower() == "bearer" else query.get("token", "")
    operation, subject, record = _match(verb, request.path)
    try:
        sent = orjson.loads(request.body) if request.body else {}
    except ValueError:
        sent = None
    agent = request.headers.get(b"user-agent", b"").decode("latin-1")
    return ApifyCall(operation, subject, record, token, query, request.body, sent, agent)


def _match(verb: str, path: str) -> tuple[str, str, str]:
    for method, pattern, operation in _ROUTES:
        match = pattern.fullmatch(path) if method == verb else None
        if match is not None:
            named = match.groupdict()
            return operation, named.get("id", ""), named.get("record", "")
    return "", "", ""


_ACTOR = r"/v2/(?:acts|actors)/(?P<id>[^/]+)"
_RUN = r"/v2/actor-runs/(?P<id>[^/]+)"
_DATASET = r"/v2/datasets/(?P<id>[^/]+)"
_ROUTES = tuple(
    (verb, re.compile(pattern), operation)
    for verb, pattern, operation in (
        ("POST", rf"{_ACTOR}/runs", "runs.start"),
        ("POST", rf"{_ACTOR}/run-sync-get-dataset-items", "runs.sync"),
        ("GET", rf"{_ACTOR}/runs", "runs.list"),
        ("GET", _RUN, "runs.get"),
        ("POST", rf"{_RUN}/abort", "runs.abort"),
        ("DELETE", _RUN, "runs.delete"),
        ("GET", rf"{_RUN}/log", "runs.log"),
        ("GET", rf"{_RUN}/dataset/items", "run.items"),
        ("GET", rf"{_RUN}/key-value-store/records/(?P<record>[^/]+)", "run.record"),
        ("GET", _DATASET, "dataset.get"),
        ("GET", rf"{_DATASET}/items", "dataset.items"),
        ("GET", r"/v2/key-value-stores/(?P<id>[^/]+)/records/(?P<record>[^/]+)", "store.record"),
    )
)


_SYNC_SECONDS = 300.0
_LAG = 5.0
_TEXT = b"text/plain; charset=utf-8"


class ApifyMethods:
    """Holds the runs. Their progress is computed from the time whenever it is read."""

    def __init__(
        self, config: ApifyConfig, world: ListingsWorld, world_time: WorldTime, site_port: Callable[[], int]
    ) -> None:
        self.config = config
        self.runs: dict[str, SimulatedRun] = {}
        self.script: Script[RunRule] = Script(config.runs)
        self._rows = Rows(world, config)
        self._time = world_time
        self._site_port = site_port
        self._datasets: dict[str, str] = {}
        self._stores: dict[str, str] = {}
        self._active: dict[str, list[SimulatedRun]] = {}
        self._started = 0

    def carry_out(self, asked: ApifyCall, tenant: str, call: Call, now: float) -> Reply:
        """Answer a call that passed authentication and limits. `tenant` is empty without a token."""
        if asked.operation in ("runs.start", "runs.sync"):
            return self._start(asked, tenant, now)
        if asked.operation == "runs.list":
            return self._list(asked, tenant, call)
        run = self._find(asked)
        if run is None or (tenant and run.tenant != tenant):
            return apify_runs.no_record()
        return self._of_run(asked, run, call, now, with_usage=bool(tenant))

    def _of_run(self, asked: ApifyCall, run: SimulatedRun, call: Call, now: float, *, with_usage: bool) -> Reply:
        moment = self._time.seconds()
        match asked.operation:
            case "runs.get":
                return self._when_ended(run, _seconds(asked), now, lambda: self._shown(run, with_usage=with_usage))
            case "runs.abort":
                run.abort(moment, graceful=asked.query.get("gracefully", "").lower() in ("1", "true"))
                return self._shown(run, with_usage=True)
            case "runs.delete":
                return self._delete(run, moment)
            case "runs.log":
                return Reply(200, f"{apify_runs.time_text(run.started)} ACTOR: Starting\n".encode(), _TEXT)
            case "dataset.get":
                lagging = run.state(moment - _LAG, self.config)
                return _data(apify_runs.dataset_whole(run, lagging, moment, self.config))
            case "dataset.items" | "run.items":
                return self._items(run, asked.query, call)
            case _:
                return Reply(200, run.input_body, JSON) if asked.record == "INPUT" else apify_runs.no_record()

    def _start(self, asked: ApifyCall, tenant: str, now: float) -> Reply:
        actor = actor_named(asked.subject)
        if actor is None:
            return apify_runs.no_actor()
        if not isinstance(asked.sent, dict):
            return apify_runs.error(
                400, "run-input-body-not-valid-json", "The body of the run input is not valid JSON."
            )
        problem = problem_of(actor, asked.sent)
        if problem is not None:
            return apify_runs.invalid_input(problem)
        start = read_start(asked.query, self.config)
        if isinstance(start, Reply):
            return start
        refused = self._refused(tenant, start)
        if refused is not None:
            return refused
        run = self._started_run(actor, tenant, asked, start)
        if asked.operation == "runs.sync":
            return self._synchronous(run, asked, now)
        shown = lambda: self._shown(run, status=201, with_usage=True)  # noqa: E731 - given to two callers
        return self._when_ended(run, _seconds(asked), now, shown)

    def _refused(self, tenant: str, start: Start) -> Reply | None:
        moment = self._time.seconds()
        active = [run for run in self._active.get(tenant, ()) if run.state(moment, self.config).status not in TERMINAL]
        self._active[tenant] = active
        if len(active) >= self.config.most_runs:
            return apify_runs.too_many_runs(self.config.too_many_runs_status, self.config.most_runs)
        if sum(run.memory for run in active) + start.memory > self.config.memory_limit_mb:
            return apify_runs.no_memory(self.config.memory_limit_mb)
        credit = self.config.credit_usd
        if credit is None:
            return None
        spent = sum(run.state(moment, self.config).cost for run in self.runs.values() if run.tenant == tenant)
        return apify_runs.no_credit() if spent >= credit else None

    def _started_run(self, actor: str, tenant: str, asked: ApifyCall, start: Start) -> SimulatedRun:
        config, moment = self.config, self._time.seconds()
        self._started += 1
        key = apify_runs.make_id(config.seed, "run", self._started)
        rule = self.script.take(lambda rule: rule.matches(asked.search)) or RunRule()
        usual = config.run_seconds * (0.5 + chance(config.seed, "duration", self._started)) + config.queue_seconds
        rows = 0 if rule.outcome == "empty" else self._row_count(asked.sent, moment, rule)
        if rule.outcome == "placeholder":
            rows = max(rows, 1)
        if start.max_charge is not None:
            rows = affordable(start.max_charge, rows, config)
        run = SimulatedRun(
            self._started, key, actor, tenant, asked.sent, asked.body or b"{}", moment,
            usual if rule.seconds is None else rule.seconds, rule.outcome, rows, rule.bad_every,
            start.timeout, start.memory, start.max_items, start.max_charge, user_agent=asked.user_agent,
            homes_ahead=config.homes_ahead,
        )  # fmt: skip
        self.runs[key] = run
        self._active.setdefault(tenant, []).append(run)
        self._datasets[apify_runs.make_id(config.seed, "dataset", key)] = key
        self._stores[apify_runs.make_id(config.seed, "store", key)] = key
        if len(self.runs) > config.keep_runs:
            self._forget(next(iter(self.runs)))
        return run

    def _row_count(self, sent: dict[str, Any], moment: float, rule: RunRule) -> int:
        return int(self._rows.count(sent, moment + self.config.homes_ahead) * rule.share + 1e-6)

    def _synchronous(self, run: SimulatedRun, asked: ApifyCall, now: float) -> Reply:
        def ended() -> Reply:
            state = run.state(self._time.seconds(), self.config)
            if state.status not in TERMINAL:
                return apify_runs.run_timeout()
            reply, _ = page_of_items(state.items, self._row_of(run), asked.query)
            reply.status = 201
            return reply

        return self._when_ended(run, _SYNC_SECONDS, now, ended)

    def _when_ended(self, run: SimulatedRun, seconds: float, now: float, answer: Callable[[], Reply]) -> Reply:
        """The answer once the run has ended or the time is over, in the world's time or in real time."""
        until = self._time.seconds() + seconds

        def ready() -> Reply | None:
            moment = self._time.seconds()
            ended = run.state(moment, self.config).status in TERMINAL
            return answer() if ended or moment >= until or time.monotonic() >= now + seconds else None

        return ready() or Reply(0, later=ready)

    def _list(self, asked: ApifyCall, tenant: str, call: Call) -> Reply:
        actor = actor_named(asked.subject)
        if actor is None:
            return apify_runs.no_actor()
        runs = (run for run in self.runs.values() if run.tenant == tenant and run.actor == actor)
        page = page_of_runs(runs, asked.query, asked.page, self._time.seconds(), self.config)
        if page is None:
            return apify_runs.invalid_value("startedAfter and startedBefore must be dates in ISO 8601")
        call.items = page["count"]
        return _data(page)

    def _items(self, run: SimulatedRun, query: dict[str, str], call: Call) -> Reply:
        state = run.state(self._time.seconds(), self.config)
        reply, call.items = page_of_items(state.items, self._row_of(run), query)
        return reply

    def _row_of(self, run: SimulatedRun) -> Callable[[int], dict[str, Any]]:
        port = self._site_port()
        return lambda number: self._rows.row(run, number, port)

    def _shown(self, run: SimulatedRun, *, status: int = 200, with_usage: bool) -> Reply:
        moment = self._time.seconds()
        state = run.state(moment, self.config)
        reply = _data(apify_runs.run_whole(run, state, moment, self.config, with_usage=with_usage), status)
        if status == 201:
            reply.headers = f"Location: https://api.apify.com/v2/actor-runs/{run.id}\r\n".encode()
        return reply

    def _delete(self, run: SimulatedRun, moment: float) -> Reply:
        if run.state(moment, self.config).status not in TERMINAL:
            return apify_runs.error(400, "invalid-request", "Only finished runs can be deleted.")
        self._forget(run.id)
        return Reply(204)

    def _find(self, asked: ApifyCall) -> SimulatedRun | None:
        if asked.operation.startswith("dataset."):
            return self.runs.get(self._datasets.get(asked.subject, ""))
        if asked.operation == "store.record":
            return self.runs.get(self._stores.get(asked.subject, ""))
        return self.runs.get(asked.subject)

    def _forget(self, run_id: str) -> None:
        del self.runs[run_id]
        self._datasets.pop(apify_runs.make_id(self.config.seed, "dataset", run_id), None)
        self._stores.pop(apify_runs.make_id(self.config.seed, "store", run_id), None)


def _seconds(asked: ApifyCall) -> float:
    text = asked.query.get("waitForFinish", "0")
    return float(min(60, int(text))) if text.isdigit() else 0.0


def _data(value: Any, status: int = 200) -> Reply:
    return Reply(status, orjson.dumps({"data": value}))
