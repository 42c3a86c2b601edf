"""The state of a lane for reports: what its owner stored, and why the lane sends nothing now. Pure.

The engine writes the state (`LaneRun.state`); only reports read it here. A report must not fail, whatever the state
contains.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from forager.core.pipeline import Lane
from forager.core.waiting import Waiting, WaitReason, clock_time, seconds_left

FAR_MS = 32_503_680_000_000
"""The year 3000: a damaged state may contain any number."""
SHORTEST_TOLD = timedelta(seconds=1)
"""A shorter wait for the next request is the lane's ordinary pace."""

BreakerState = Literal["closed", "open", "half_open"]


@dataclass(frozen=True, slots=True)
class BreakerStanding:
    """A breaker as the lane's owner last stored it."""

    state: BreakerState
    calls: int
    failures: int
    probe_at: datetime | None


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a lane at one moment. Times that have passed are None."""

    breaker: BreakerStanding
    slow_until: datetime | None
    hold_until: datetime | None
    next_at: datetime | None
    """Time when its next request may be sent, as its owner last stored it."""
    crawl_delay: float | None
    """The longest crawl-delay of a robots.txt that was read for the lane …"""
    crawl_delay_of: str | None
    """… and the origin whose robots.txt it is."""
    capped: bool
    capped_until: datetime | None
    """Time when the cap's period ends; None if that is not known."""
    used_by: frozenset[str]
    """The pipelines that used it recently, whose rules apply to it."""

    @classmethod
    def read(cls, state: Mapping[str, Any], now: datetime, *, wake_at: datetime | None = None) -> "Standing":
        """Read a lane's state; `wake_at` is when a lane without an owner may be taken again."""
        slowest = _slowest(state.get("crawl_delays"))
        next_at = _later(state.get("next_at"), now) or (wake_at if wake_at and wake_at > now else None)
        return cls(
            breaker=_breaker(state.get("breaker"), now),
            slow_until=_later(state.get("slow_until"), now),
            hold_until=_later(state.get("hold_until"), now),
            next_at=next_at,
            crawl_delay=slowest[1] if slowest else None,
            crawl_delay_of=slowest[0] if slowest else None,
            capped=state.get("capped") is True,
            capped_until=_later(state.get("capped_until"), now),
            used_by=_names(state.get("used_by")),
        )


def lane_waiting(name: str, policy: Lane, standing: Standing, now: datetime, *, paused: bool) -> Waiting | None:
    """Return why this lane sends nothing now; None if it may send.

    If there are several reasons, the first one that an operator would have to remove is returned.
    """
    if paused:
        return Waiting(reason=WaitReason.PAUSED, message=f"{name} is paused by an operator", lane=name)
    opens = policy.hours.opens_after(now) if policy.hours else now
    if opens > now:
        message = f"outside the allowed hours of {name} until {clock_time(opens, now)}"
        return Waiting(reason=WaitReason.HOURS, message=message, lane=name, until=opens)
    if standing.capped:
        until = standing.capped_until
        left = f"; next request in {seconds_left(until, now)}" if until else ""
        message = f"the spending cap of {name} is reached for this hour, day or month{left}"
        return Waiting(reason=WaitReason.CAP, message=message, lane=name, until=until)
    if policy.breaker and standing.breaker.state == "open" and (probe := standing.breaker.probe_at):
        message = f"{name} failed too often; next try in {seconds_left(probe, now)}"
        return Waiting(reason=WaitReason.BREAKER, message=message, lane=name, until=probe)
    if standing.hold_until:
        message = f"{name} requested a pause; next request in {seconds_left(standing.hold_until, now)}"
        return Waiting(reason=WaitReason.RETRY_AFTER, message=message, lane=name, until=standing.hold_until)
    if standing.next_at and standing.next_at - now >= SHORTEST_TOLD:
        message = f"next request to {name} in {seconds_left(standing.next_at, now)}{slowed(name, standing, now)}"
        return Waiting(reason=WaitReason.RATE, message=message, lane=name, until=standing.next_at)
    return None


def slowed(name: str, standing: Standing, now: datetime) -> str:
    """Return why a lane is slower than its rules, to be added to a sentence; empty if it is not."""
    if standing.slow_until is None:
        return ""
    return f"; {name} limited the rate of calls (429); it gets fewer until {clock_time(standing.slow_until, now)}"


def _breaker(known: Any, now: datetime) -> BreakerStanding:
    written: Mapping[str, Any] = known if isinstance(known, Mapping) else {}
    calls, wrote = str(written.get("calls", "")), _moment(written.get("at"))
    left = written.get("open_for")
    probe = wrote + timedelta(seconds=left) if wrote and isinstance(left, int | float) else None
    state: BreakerState = "closed" if probe is None else "open" if probe > now else "half_open"
    return BreakerStanding(state, len(calls), calls.count("x"), probe)


def _later(ms: Any, now: datetime) -> datetime | None:
    moment = _moment(ms)
    return moment if moment and moment > now else None


def _moment(ms: Any) -> datetime | None:
    return datetime.fromtimestamp(ms / 1000, UTC) if isinstance(ms, int) and 0 <= ms < FAR_MS else None


def _names(used_by: Any) -> frozenset[str]:
    return frozenset(str(name) for name in used_by) if isinstance(used_by, Mapping) else frozenset()


def _slowest(delays: Any) -> tuple[str, float] | None:
    if not isinstance(delays, Mapping):
        return None
    known = [(str(origin), float(each)) for origin, each in delays.items() if isinstance(each, int | float)]
    return max(known, key=lambda each: each[1], default=None)
