"""A run of an actor: its status, items and cost are pure functions of the time. Nothing advances it."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from forager.sandbox.apify.config import ApifyConfig

TERMINAL = frozenset(("SUCCEEDED", "FAILED", "TIMED-OUT", "ABORTED"))
_ENDS = {"failed": "FAILED", "aborted": "ABORTED", "timed_out": "TIMED-OUT"}
_PASSING = {"TIMED-OUT": "TIMING-OUT", "ABORTED": "ABORTING"}
_GRACE = 2.0
NEVER = float("inf")


class State(NamedTuple):
    """A run at one moment."""

    status: str
    finished: float | None
    """When it reached a terminal status; None before."""
    items: int
    """Rows in its dataset."""
    cost: float
    """What it costs as far as is known: preliminary until some seconds after its end."""


@dataclass(slots=True)
class Run:
    number: int
    id: str
    actor: str
    tenant: str
    input: dict[str, Any]
    input_body: bytes
    started: float
    seconds: float
    """How long it takes if nothing stops it."""
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

    @property
    def search(self) -> str:
        """What it was started for: the words of the search, else the first start URL."""
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
        """What the run costs in the end, as far as it is decided: a later abort makes it cheaper."""
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
    """How many of the items that were found a run pushes before its charge would exceed the limit."""
    while rows and config.cost(rows) > limit + 1e-9:
        rows -= 1
    return rows
