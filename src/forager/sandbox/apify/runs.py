"""A run of an actor: its status, items and cost are pure functions of the time. Nothing advances it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson

from forager.sandbox.apify.config import ApifyConfig
from forager.sandbox.upstream import Reply
from forager.sandbox.world import draw

TERMINAL = frozenset(("SUCCEEDED", "FAILED", "TIMED-OUT", "ABORTED"))
_ENDS = {"failed": "FAILED", "aborted": "ABORTED", "timed_out": "TIMED-OUT"}
_PASSING = {"TIMED-OUT": "TIMING-OUT", "ABORTED": "ABORTING"}
_GRACE = 2.0
NEVER = float("inf")


class State(NamedTuple):
    """A run at one moment."""

    status: str
    finished: float | None
    """Time of its terminal status; None before."""
    items: int
    """Rows in its dataset."""
    cost: float
    """Its reported cost: preliminary until some seconds after its end."""


@dataclass(slots=True)
class SimulatedRun:
    number: int
    id: str
    actor: str
    tenant: str
    input: dict[str, Any]
    input_body: bytes
    started: float
    seconds: float
    """Duration, if nothing stops it."""
    outcome: str
    found: int
    """Rows that it will have pushed at its end."""
    bad_every: int
    timeout: float
    """Seconds after which it is stopped; 0: never."""
    memory: int
    max_items: int | None
    """Items that may be charged."""
    max_charge: float | None
    aborted: float | None = None
    graceful: bool = False
    user_agent: str = ""
    homes_ahead: float = 0.0
    """Seconds by which the listings were ahead of its start."""

    @property
    def search(self) -> str:
        """Return what it was started for: the words of the search, else the first start URL."""
        return str(self.input.get("search") or next(iter(self.input.get("startUrls", ())), ""))

    def abort(self, moment: float, *, graceful: bool) -> None:
        """Stop it, unless it has ended or is being aborted."""
        end, _ = self._end()
        if self.aborted is None and moment < end:
            self.aborted, self.graceful = moment, graceful

    def state(self, moment: float, config: ApifyConfig) -> State:
        begin = self.started + config.queue_seconds
        end, final = self._end()
        passing = _PASSING.get(final)
        grace = 0.0 if passing is None else 30.0 if self.graceful else _GRACE
        items = self._pushed(min(moment, end), begin)
        if moment < min(begin, end):
            return State("READY", None, 0, 0.0)
        if moment < end:
            return State("RUNNING", None, items, self._cost(items, config) * config.preliminary_share)
        finished = end + grace
        settled = moment >= finished + config.settle_seconds
        cost = self._cost(items, config) * (1.0 if settled else config.preliminary_share)
        if passing is not None and moment < finished:
            return State(passing, None, items, cost)
        return State(final, finished, items, cost)

    def final_cost(self, config: ApifyConfig) -> float:
        """Return what the run costs in the end, as far as it is decided: a later abort makes it cheaper."""
        end, _ = self._end()
        return self._cost(self._pushed(end, self.started + config.queue_seconds), config)

    def _end(self) -> tuple[float, str]:
        """(when it stops working, the status that it ends in)."""
        end = NEVER if self.outcome == "stuck" else self.started + self.seconds
        final = _ENDS.get(self.outcome, "SUCCEEDED")
        if self.timeout and self.started + self.timeout < end:
            end, final = self.started + self.timeout, "TIMED-OUT"
        if self.aborted is not None and self.aborted < end:
            end, final = self.aborted, "ABORTED"
        return end, final

    def _pushed(self, moment: float, begin: float) -> int:
        working = max(self.seconds - (begin - self.started), 0.001)
        return min(self.found, max(0, int(self.found * (moment - begin) / working + 1e-3)))

    def _cost(self, items: int, config: ApifyConfig) -> float:
        charged = items if self.max_items is None else min(items, self.max_items)
        return config.cost(charged)


def affordable(limit: float, rows: int, config: ApifyConfig) -> int:
    """Return how many of the items that were found a run pushes before its charge would exceed the limit."""
    while rows and config.cost(rows) > limit + 1e-9:
        rows -= 1
    return rows


# The input of the two apartments actors: checked when a run is started, so that bad input makes no run. Pure.


API_ACTOR = "epctex~apartments-scraper-api"
OLD_ACTOR = "epctex~apartments-scraper"
ACTORS = {API_ACTOR: "c7YhPx1uRk3sTb9Qe", OLD_ACTOR: "v2NfLq8wDz4mXk6Ja"}
"""The actors of the sandbox, by name, with their ids."""
_NAMES = {actor_id: name for name, actor_id in ACTORS.items()}
_SHARED: dict[str, tuple[type, str]] = {
    "search": (str, "string"),
    "startUrls": (list, "array"),
    "maxItems": (int, "integer"),
    "endPage": (int, "integer"),
}
_KNOWN = {
    API_ACTOR: {
        **_SHARED,
        **dict.fromkeys(
            ("includeReviews", "includeVisuals", "includeInteriorAmenities", "includeWalkScore"), (bool, "boolean")
        ),
    },
    OLD_ACTOR: {
        **_SHARED,
        "proxy": (dict, "object"),
        "extendOutputFunction": (str, "string"),
        "customMapFunction": (str, "string"),
    },
}


def actor_named(text: str) -> str | None:
    """Return the name of an actor that a path names by name or id; None if there is no such actor."""
    return text if text in ACTORS else _NAMES.get(text)


def problem_of(actor: str, sent: dict[str, Any]) -> str | None:
    """Return what is wrong with this input, in Apify's words; None if the actor takes it."""
    known = _KNOWN[actor]
    for name, value in sent.items():
        if name not in known:
            return f"Property input.{name} is not allowed."
        kind, word = known[name]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            return f"Field input.{name} must be {word}"
    if not sent.get("search") and not sent.get("startUrls"):
        return "Field input.search is required"
    if not all(isinstance(url, str) for url in sent.get("startUrls", [])):
        return "Field input.startUrls must be array of strings"
    if actor == OLD_ACTOR and "proxy" not in sent:
        return "Field input.proxy is required"
    return None


# Runs, datasets and lists as the API shows them. Pure.


Row = dict[str, Any]
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def make_id(seed: int, *parts: object) -> str:
    """Seventeen letters and digits, as Apify's ids are."""
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in draw(seed, "id", *parts, size=17))


def time_text(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def run_summary(run: SimulatedRun, state: State, config: ApifyConfig, *, with_usage: bool) -> Row:
    """Return a run as a list shows it."""
    row: Row = {
        "id": run.id,
        "actId": ACTORS[run.actor],
        "actorTaskId": None,
        "status": state.status,
        "startedAt": time_text(run.started),
        "finishedAt": None if state.finished is None else time_text(state.finished),
        "buildId": make_id(config.seed, "build", run.actor),
        "buildNumber": "0.1.42",
        "meta": {"origin": "API", "userAgent": run.user_agent},
        "defaultKeyValueStoreId": make_id(config.seed, "store", run.id),
        "defaultDatasetId": make_id(config.seed, "dataset", run.id),
        "defaultRequestQueueId": make_id(config.seed, "queue", run.id),
    }
    if with_usage:
        row["usageTotalUsd"] = round(state.cost, 6)
    return row


def run_whole(run: SimulatedRun, state: State, moment: float, config: ApifyConfig, *, with_usage: bool) -> Row:
    """Return a run as its own endpoint shows it. Without a token, what it costs is hidden."""
    lasted = (state.finished or moment) - run.started
    options: Row = {
        "build": "latest",
        "timeoutSecs": round(run.timeout),
        "memoryMbytes": run.memory,
        "diskMbytes": run.memory * 2,
    }
    if run.max_items is not None:
        options["maxItems"] = run.max_items
    if run.max_charge is not None:
        options["maxTotalChargeUsd"] = run.max_charge
    row = run_summary(run, state, config, with_usage=with_usage)
    row |= {
        "userId": make_id(config.seed, "user", run.tenant),
        "statusMessage": _message(run, state),
        "isStatusMessageTerminal": state.status in TERMINAL,
        "exitCode": {"SUCCEEDED": 0, "FAILED": 1}.get(state.status),
        "stats": {
            "inputBodyLen": len(run.input_body),
            "migrationCount": 0,
            "rebootCount": 0,
            "restartCount": 0,
            "resurrectCount": 0,
            "durationMillis": round(lasted * 1000),
            "runTimeSecs": round(lasted, 3),
            "computeUnits": round(lasted * run.memory / 1024 / 3600, 6),
        },
        "options": options,
        "usage": {"ACTOR_COMPUTE_UNITS": 0.01, "DATASET_WRITES": state.items} if with_usage else None,
        "generalAccess": "FOLLOW_USER_SETTING",
        "platformUsageBillingModel": "DEVELOPER",
        "chargedEventCounts": {"apify-actor-start": 1, "apify-default-dataset-item": state.items},
        "containerUrl": f"https://{run.id.lower()}.runs.apify.net",
    }
    return row


def dataset_whole(run: SimulatedRun, lagging: State, moment: float, config: ApifyConfig) -> Row:
    """Return the dataset of a run; its counts lag some seconds behind."""
    return {
        "id": make_id(config.seed, "dataset", run.id),
        "name": None,
        "userId": make_id(config.seed, "user", run.tenant),
        "createdAt": time_text(run.started),
        "modifiedAt": time_text(lagging.finished or moment),
        "accessedAt": time_text(moment),
        "itemCount": lagging.items,
        "cleanItemCount": lagging.items,
        "actId": ACTORS[run.actor],
        "actRunId": run.id,
        "fields": [],
    }


def _message(run: SimulatedRun, state: State) -> str | None:
    if state.status == "READY":
        return None
    if state.status == "SUCCEEDED":
        return f"Finished! Total {state.items} results"
    if state.status == "FAILED":
        return "The Actor process failed: too many blocked requests"
    return f"Fetched {state.items} of {run.found} listings"


# Errors in Apify's envelope. Pure.


def error(status: int, kind: str, message: str) -> Reply:
    return Reply(status, orjson.dumps({"error": {"type": kind, "message": message}}))


def invalid_input(problem: str) -> Reply:
    return error(400, "invalid-input", f"Input is not valid: {problem}")


def invalid_value(message: str) -> Reply:
    return error(400, "invalid-value", message)


def no_token() -> Reply:
    return error(401, "token-not-provided", "Authentication token was not provided")


def wrong_token() -> Reply:
    return error(401, "user-or-token-not-found", "User was not found or authentication token is not valid")


def no_memory(limit: int) -> Reply:
    message = f"By launching this job you will exceed the memory limit of {limit}MB for all your Actor runs and builds."
    return error(402, "actor-memory-limit-exceeded", message)


def no_credit() -> Reply:
    return error(
        402, "not-enough-usage-to-run-paid-actor", "Your remaining usage is not enough to run this paid Actor."
    )


def too_many_runs(status: int, limit: int) -> Reply:
    message = f"You have exceeded the limit of {limit} concurrent Actor runs."
    return error(status, "concurrent-runs-limit-exceeded", message)


def not_rented() -> Reply:
    message = "You must rent a paid Actor in order to run it after its free trial has expired."
    return error(403, "actor-is-not-rented", message)


def no_actor() -> Reply:
    return error(404, "actor-not-found", "Actor was not found")


def no_record() -> Reply:
    return error(404, "record-not-found", "The requested resource was not found")


def no_page() -> Reply:
    return error(404, "page-not-found", "We have bad news: there is no API endpoint at this URL.")


def too_fast(limit: int) -> Reply:
    return error(429, "rate-limit-exceeded", f"You have exceeded the rate limit of {limit} requests per second")


def internal() -> Reply:
    return error(500, "internal-server-error", "Internal server error")


def unavailable() -> Reply:
    return error(503, "internal-server-error", "The service is temporarily unavailable")


def run_timeout() -> Reply:
    return error(408, "run-timeout-exceeded", "Actor run exceeded the timeout of 300 seconds for this API endpoint")
