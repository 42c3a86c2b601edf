"""A lane in the hands of its owner: what may start now, what is in flight, whether the upstream requested a slower
pace.

All politeness is enforced here and nowhere else. `state()` contains what must survive a restart or a change of owner.

Requests leave first in, first out: in the order in which their tasks were leased. The limiter plans moments, and a
moment belongs to no task: the first task in the line takes the earliest. Otherwise a task that needs a second moment
(for a robots.txt) or that the limiter puts off would fall behind all others. A task for which the line is too long goes
back to the queue as ready, not as due later: there it keeps its turn before those that come after it.
"""

import asyncio
import heapq
from bisect import insort
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import Any, Protocol

import structlog

from forager.core.clock import Clock
from forager.core.hosts import host_of
from forager.core.ledger import OwnedLane
from forager.core.pipeline import Lane, Pipeline, family
from forager.engine.lanes.breaker import BreakerRun
from forager.engine.lanes.pace import Limiter, read_pace, write_pace
from forager.engine.waits import HORIZON, LONGEST_CAP_REST, LONGEST_HOLD
from forager.engine.work.stats import LaneCounts

# Spending caps of a lane per UTC hour, day and month, over all jobs. Pure, except for the clock.


NO_CAP = 1_000_000
AN_HOUR = timedelta(hours=1)


class Caps:
    """Tracks what a lane has spent. `lane` may be replaced when its rules change; what was spent still counts."""

    def __init__(self, lane: Lane, clock: Clock, owned: OwnedLane) -> None:
        self.lane = lane
        self.reserved = 0
        self._clock = clock
        self.recount(owned)

    def recount(self, owned: OwnedLane) -> None:
        """Set what was spent in this hour, day and month, as the ledger reports it."""
        self._hour = self._this_hour()
        self._spent = [owned.spent_hour, owned.spent_day, owned.spent_month]

    @property
    def any(self) -> bool:
        return self.lane.cap_hour is not None or self.lane.cap_day is not None or self.lane.cap_month is not None

    def affordable(self) -> int:
        """Return how many units may still be spent; a very large number without a cap."""
        if not self.any:
            return NO_CAP
        return max(0, min(left for left, _ in self._left()) - self.reserved)

    def wait(self, units: int = 1) -> float:
        """Return the seconds until these units may be spent; 0 if they may be now, or once in-flight tasks have
        ended."""
        if not self.any:
            return 0.0
        ends = [ends for left, ends in self._left() if left < units]
        return (max(ends) - self._clock.now()).total_seconds() if ends else 0.0

    def spend(self, reserved: int, cost: int) -> None:
        self.reserved -= reserved
        if cost:
            self._begin_period()
            self._spent = [spent + cost for spent in self._spent]

    def _left(self) -> list[tuple[int, datetime]]:
        """Yield for each cap what is left of it, and when its period ends."""
        self._begin_period()
        hour, day = self._hour, self._hour.replace(hour=0)
        next_month = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
        ends = (hour + AN_HOUR, day + timedelta(days=1), next_month)
        caps = (self.lane.cap_hour, self.lane.cap_day, self.lane.cap_month)
        return [(cap - spent, end) for cap, spent, end in zip(caps, self._spent, ends, strict=True) if cap is not None]

    def _begin_period(self) -> None:
        if self._hour <= self._clock.now() < self._hour + AN_HOUR:
            return
        now, was = self._this_hour(), self._hour
        self._hour = now
        self._spent[0] = 0
        if now.date() != was.date():
            self._spent[1] = 0
        if (now.year, now.month) != (was.year, was.month):
            self._spent[2] = 0

    def _this_hour(self) -> datetime:
        return self._clock.now().astimezone(UTC).replace(minute=0, second=0, microsecond=0)


# Tracks which pipelines use a lane. A pipeline's defaults apply to its own requests and to those of others in the same
# lane.
#
# Pure: times are arguments. A pipeline that has sent nothing for an hour no longer slows the others down.


USED_FOR = 3_600.0


class LaneUsers:
    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._last)

    def use(self, pipeline: str, now: float) -> bool:
        """Note that a task of this pipeline uses the lane. Returns whether the pipeline is a new user."""
        new = pipeline not in self._last
        self._last[pipeline] = now
        return new

    def forget(self, now: float) -> bool:
        """Remove pipelines that have not used the lane for an hour. Returns whether there were any."""
        gone = [name for name, last in self._last.items() if now - last > USED_FOR]
        for name in gone:
            del self._last[name]
        return bool(gone)

    def dump(self, moment: Callable[[float], int]) -> Mapping[str, int]:
        """Return the state for the next owner; `moment` converts our time to the store's."""
        return {name: moment(last) for name, last in self._last.items()}

    @classmethod
    def read(cls, known: Any, clock: Clock) -> "LaneUsers":
        """Read the state that another owner stored; entries that cannot be read are left out."""
        users, now, store_now = cls(), clock.monotonic(), clock.now().timestamp()
        for name, at in known.items() if isinstance(known, Mapping) else ():
            if isinstance(at, int):
                users.use(str(name), now + min(0.0, at / 1000 - store_now))
        users.forget(now)
        return users


log = structlog.get_logger("forager.engine")

MOST_ORIGINS = 100
FARTHEST_TOLD = 365 * 86_400.0
WORTH_TELLING = 1.0
"""A shorter wait for the next request is not stored."""


def _wake(waiting: asyncio.Event, pause: "asyncio.Task[None]") -> None:
    """Wake a waiter when its pause is over. A cancelled pause must not: the waiter would wait again at once."""
    if not pause.cancelled():
        waiting.set()


@dataclass(slots=True, order=True)
class _Waiter:
    """A request in the line of a lane."""

    ticket: int
    changed: asyncio.Event = field(default_factory=asyncio.Event, compare=False)
    """Set when it may be its turn, or when the earliest moment has changed."""


class LaneRun:
    def __init__(
        self,
        owned: OwnedLane,
        policy: Lane,
        clock: Clock,
        *,
        fail_fast: bool = False,
        skippers: frozenset[str] = frozenset(),
        users: LaneUsers | None = None,
        random: Callable[[], float] | None = None,
        counts: LaneCounts | None = None,
    ) -> None:
        """`skippers`: pipelines with steps whose tasks are skipped, instead of waiting, when a cap is reached."""
        self.id = owned.id
        self.name = owned.name
        self.queue = owned.queue
        self.shared = owned.shared
        """True if other sessions also use it, each with limits of its own."""
        self.policy = policy
        self.counts = counts or LaneCounts()
        self.ours = True
        """False once the lane was given back: a task that still refers to it must send nothing through it."""
        self.in_flight = 0
        self.hungry = True
        """True if a lease may find tasks. False after a lease returned fewer than wanted, until something changes."""
        self.due: float | None = None
        """Monotonic time at which a waiting task is due."""
        self.turn = 0
        """The lowest turn of its queued tasks, as last reported by the store."""
        self.served = (0.0, 0)
        """Time when tasks of it were last leased, and how many."""
        self.taken_at = clock.monotonic()
        self.leaving = False
        """True if it is given back as soon as nothing of it is in flight, because others wait for its slot."""
        self.turned = False
        """True if the breaker opened or closed since the state was last stored."""
        self.epoch = owned.epoch
        """Number of times it was taken; for a shared lane, how often this process has joined it."""
        self._clock = clock
        self._fail_fast = fail_fast
        self._skippers = skippers
        self.users = users or LaneUsers()
        self._random = random or Random().random  # noqa: S311 - a delay, not a secret
        self.seen_open = clock.monotonic()
        """Time when the store last reported that it is not paused."""
        self._crawl_delays: dict[str, float] = {}
        self._proxy_used: dict[int, float] = {}
        self._slow_until = 0.0
        self._hold_until = 0.0
        self._share = 1.0
        self._tickets = 0
        self._moments: list[float] = []
        """Planned moments that no request has used yet (a heap)."""
        self._line: list[_Waiter] = []
        """Requests that wait, by ticket."""
        self._sent_back = range(0)
        """Tickets of tasks that were in flight behind one that went back to the queue: they must not overtake it."""
        self._full_until = 0.0
        """Nothing is leased before this moment: what was leased last would have had to wait for too long."""
        self.breaker = BreakerRun(policy.breaker) if policy.breaker else None
        self._limiter = Limiter(policy.rate, policy.per, policy.burst, self._gap())
        self._caps = Caps(policy, clock, owned)
        self._restore(owned)

    # ── what may start ──

    def most(self, free: int, horizon: float = HORIZON) -> int:
        """Return how many tasks may be leased now, with `free` slots in the process, to start within `horizon`
        seconds."""
        now = self._clock.monotonic()
        self._pace(now)
        room = self.room(free)
        if room <= 0 or self.closed_for() > 0:
            return 0
        if self._skips():
            return room  # nothing is sent for them
        if now < self._full_until:
            return 0
        if self.breaker is not None and (state := self.breaker.state(now)) != "closed":
            if state == "open":
                return room if self._fail_fast else 0  # some tasks are to fail at once instead of waiting
            return max(0, min(room, self.breaker.admits(now) - self.in_flight))
        return self._limiter.available(now, horizon, room)

    def monotonic(self) -> float:
        """Return the time of the clock that all waits of this lane are measured with."""
        return self._clock.monotonic()

    def room(self, free: int) -> int:
        """Return how many more tasks may be in flight, regardless of the rate."""
        at_once = max(1, int(self.policy.concurrency * self._share))
        units = free if self._skips() else self._caps.affordable()
        return max(0, min(free, at_once - self.in_flight, units))

    def affords(self, price: int) -> bool:
        """Return whether the caps leave enough units for a task of this price."""
        return not self._caps.any or self._caps.affordable() >= max(1, price)

    def capped_for(self, price: int = 1) -> float:
        """Return the seconds until the caps allow these units; 0 if they do now, or once in-flight tasks have
        ended."""
        return self._caps.wait(max(1, price))

    def _skips(self) -> bool:
        """Return whether a cap is reached and the lane may have tasks that are then skipped."""
        return self._caps.wait() > 0 and not self._skippers.isdisjoint(self.users.names)

    def closed_for(self) -> float:
        """Return the seconds until the lane's allowed hours begin; 0 within them."""
        if self.policy.hours is None:
            return 0.0
        now = self._clock.now()
        return (self.policy.hours.opens_after(now) - now).total_seconds()

    def rests(self, now: float) -> float:
        """Return the seconds for which the lane sends nothing, whatever tasks it has."""
        rest = max(self.closed_for(), self._limiter.next_start(now) - now, self._hold_until - now)
        if not self._skips():
            rest = max(rest, min(self._caps.wait(), LONGEST_CAP_REST))
        if self.breaker is not None and not self._fail_fast:
            rest = max(rest, self.breaker.wait(now) if not self.breaker.admits(now) else 0.0)
        return max(0.0, rest)

    def wake_time(self, now: float) -> float | None:
        """Return when the lane must be checked again if nothing else happens before."""
        if self.leaving:
            return None
        if not self.hungry:
            return self.due
        if closed := self.closed_for():
            return now + closed
        if self.in_flight >= self.policy.concurrency:
            return None
        if self._caps.affordable() <= 0 and not self._skips():
            return now + wait if (wait := self._caps.wait()) else None
        if self.breaker is not None and not self._fail_fast and (wait := self.breaker.wait(now)):
            return now + wait
        return max(now + HORIZON / 4, self._limiter.next_start(now) - HORIZON, self._full_until)

    # ── a task, and its requests ──

    def start(self, price: int) -> bool:
        """Start a task. Returns whether a moment is planned for its first request."""
        self.in_flight += 1
        self._caps.reserved += price
        if self.breaker is not None and self.breaker.state(self._clock.monotonic()) == "open":
            return False  # it will not send, so it takes no place in the pace
        self.plan_request()
        return True

    def ticket(self) -> int:
        """Return the next number for the line. A task draws one when it starts, and keeps it for all its requests."""
        self._tickets += 1
        return self._tickets

    def end(self, price: int, cost: int) -> None:
        self.in_flight -= 1
        self._caps.spend(price, cost)
        self.hungry = True

    def plan_request(self) -> None:
        """Plan a moment for one more request."""
        heapq.heappush(self._moments, self._limiter.plan(self._clock.monotonic()))

    def give_place_back(self) -> None:
        """Cancel a planned request. The latest moment is cancelled: those who wait move up."""
        if self._moments:
            last = max(self._moments)
            self._moments.remove(last)
            heapq.heapify(self._moments)
            self._limiter.unplan(last)

    def start_at_once(self, ticket: int) -> bool:
        """Start a planned request now. Returns False if it must wait: call `wait_to_send`."""
        if self._line or ticket in self._sent_back:
            return False
        return self._start_first(self._clock.monotonic()) is None

    async def wait_to_send(self, ticket: int, longest: float) -> float:
        """Wait until all requests with a lower ticket have been started, the earliest planned moment has come, and the
        window has room. Returns 0 when the request was started.

        If that takes more than `longest` seconds, the request leaves the line, and so do all behind it. Returns how
        long it would still have to wait. Nothing is leased before such a wait would be bearable.
        """
        waiter = _Waiter(ticket)
        insort(self._line, waiter)
        self._line[0].changed.set()  # its moment may be an earlier one now
        since = self._clock.monotonic()
        started = False
        try:
            while True:
                waiter.changed.clear()
                now = self._clock.monotonic()
                if ticket in self._sent_back:
                    return max(HORIZON, self._full_until - now)
                wait = self._wait_of(waiter, now)
                if wait is None:
                    started = True
                    return 0.0
                if wait + now - since > longest:
                    self._send_back(ticket, now + wait - longest)
                    return wait
                pause = asyncio.create_task(self._clock.sleep(wait))
                pause.add_done_callback(partial(_wake, waiter.changed))
                try:
                    await waiter.changed.wait()
                finally:
                    pause.cancel()
        finally:
            self._line.remove(waiter)
            if not started:
                self.give_place_back()
            if self._line:
                self._line[0].changed.set()

    def _send_back(self, ticket: int, until: float) -> None:
        """Note that the request with this ticket goes back to the queue: all behind it follow."""
        self._sent_back = range(ticket + 1, self._tickets + 1)
        self._full_until = max(self._full_until, until)
        for behind in self._line:
            behind.changed.set()

    def _wait_of(self, waiter: _Waiter, now: float) -> float | None:
        """Return the seconds after which to look at this waiter again; None if its request was started."""
        if self._line[0] is waiter:
            at = self._start_first(now)
            return None if at is None else at - now
        planned = heapq.nsmallest(self._line.index(waiter) + 1, self._moments)
        return max(planned[-1] - now if planned else 0.0, HORIZON)

    def _start_first(self, now: float) -> float | None:
        """Start a request at the earliest planned moment. Returns None, or when to try again."""
        if not self._moments:  # as after a change of rules: the limiter alone decides
            self.plan_request()
        at = self._moments[0]
        if at > now:
            return at
        at = self._limiter.start(now)
        if at > now:
            heapq.heapreplace(self._moments, at)
            return at
        heapq.heappop(self._moments)
        return None

    def left(self) -> None:
        """Record that an admitted request has been sent."""
        self._limiter.left(self._clock.monotonic())

    def gave_up(self) -> None:
        """Record that an admitted request was never sent, because no connection was made."""
        self._limiter.gave_up()

    # ── the breaker ──

    def circuit_wait(self) -> float:
        """Return the seconds for which the breaker lets nothing through; 0 if a call may be tried."""
        now = self._clock.monotonic()
        return self.breaker.wait(now) if self.breaker is not None and not self.breaker.admits(now) else 0.0

    def enter_circuit(self) -> int | None:
        """Begin a call. Returns its number for `call_ended`; None without a breaker. Check `circuit_wait` first."""
        return None if self.breaker is None else self.breaker.enter(self._clock.monotonic())

    def call_ended(self, call: int | None, *, well: bool | None) -> None:
        """Record how a call ended. `well` is None if the end is no evidence about the site."""
        if self.breaker is None or call is None:
            return
        if well is None:
            self.breaker.abandoned(call)
        elif self.breaker.ended(call, well=well, now=self._clock.monotonic()):
            self.turned = self.hungry = True
            self._log_breaker(self.breaker)

    def _log_breaker(self, breaker: BreakerRun) -> None:
        rule = breaker.rule
        if breaker.state(self._clock.monotonic()) == "closed":
            log.info("breaker_closed", lane=self.name)
        else:
            log.warning(
                "breaker_opened", lane=self.name, failures=rule.failures, window=rule.window, seconds=rule.cooldown
            )

    # ── requests of the site to slow down ──

    def slow_down(self, retry_after: float | None) -> None:
        """Reduce the rate after a 429. Another 429 restarts the period and does not reduce the rate further."""
        now = self._clock.monotonic()
        self._slow_until = now + self.policy.slow_for
        if retry_after:
            self._hold_until = now + min(retry_after, LONGEST_HOLD)
            self._limiter.hold_until(self._hold_until)
        self._pace(now)

    def obey_crawl_delay(self, origin: str, seconds: float | None) -> None:
        """Apply the crawl-delay of a robots.txt. It is a minimum, unless an operator has overridden it. With several
        origins in one lane, the longest applies."""
        wanted = min(seconds or 0.0, LONGEST_HOLD)
        if wanted != self._crawl_delays.get(origin, 0.0):
            before = self._crawl_delay()
            self._crawl_delays.pop(origin, None)
            if wanted:
                self._crawl_delays[origin] = wanted
            if len(self._crawl_delays) > MOST_ORIGINS:
                del self._crawl_delays[min(self._crawl_delays, key=self._crawl_delays.__getitem__)]
            if self._crawl_delay() != before:
                self._adopt_limits()

    def _crawl_delay(self) -> float:
        return max(self._crawl_delays.values(), default=0.0)

    # ── proxies ──

    def proxy_rests(self, proxy: int) -> float:
        """Return the seconds until a proxy may be used for this lane again."""
        used = self._proxy_used.get(proxy)
        return 0.0 if used is None else max(0.0, used + self.policy.proxy_rest - self._clock.monotonic())

    def proxy_left(self, proxy: int) -> None:
        self._proxy_used[proxy] = self._clock.monotonic()

    # ── other rules, another owner ──

    def adopt(self, policy: Lane) -> None:
        """Apply new rules. Requests, 429s and failures from before still count."""
        if policy == self.policy:
            return
        was, self.policy = self.policy, policy
        self._caps.lane = policy
        if policy.breaker != was.breaker:
            self.breaker = BreakerRun(policy.breaker) if policy.breaker else None
        self._adopt_limits()
        self.hungry = True

    def state(self) -> Mapping[str, Any]:
        """Return the state for the next owner and for reports (`next_at`), with moments in the store's time."""
        now = self._clock.monotonic()
        ends = {"slow_until": self._slow_until, "hold_until": self._hold_until}
        state: dict[str, Any] = {name: self._store_ms(end) for name, end in ends.items() if end > now}
        if (start := self._limiter.next_start(now)) - now >= WORTH_TELLING:
            state["next_at"] = self._store_ms(start)
        if self._caps.affordable() <= 0:
            state["capped"] = True
            if wait := self._caps.wait():
                state["capped_until"] = self._store_ms(now + wait)
        if (self.policy.site or self._caps.any) and (users := self.users.dump(self._store_ms)):
            state["used_by"] = users
        if self._crawl_delays:
            state["crawl_delays"] = dict(self._crawl_delays)
        if self.breaker is not None and (known := self.breaker.dump(now)) != {"state": "closed", "calls": ""}:
            state["breaker"] = {**known, "at": self._store_ms(now)}
        rest = self.policy.proxy_rest
        resting = {str(proxy): self._store_ms(at) for proxy, at in self._proxy_used.items() if at + rest > now}
        return {**state, "proxies": resting} if resting else state

    def last_state(self) -> Mapping[str, Any]:
        """Return the state when the lane is given back: includes the pace, with which the next owner continues."""
        pace = (
            {} if self.in_flight else write_pace(self._limiter.pace(self._clock.monotonic()), self.epoch, self._clock)
        )
        return {**self.state(), **pace}

    def is_next_owner(self, owned: OwnedLane) -> bool:
        """Return whether we owned the lane before and no other session has since: our state is then still valid."""
        if owned.epoch != self.epoch + 1:
            return False
        self.epoch = owned.epoch
        self._caps.recount(owned)
        self.hungry, self.due = True, None
        return True

    def _restore(self, owned: OwnedLane) -> None:
        now, state = self._clock.monotonic(), owned.state
        if (slow := self._seconds_until(state.get("slow_until"))) > 0:
            self._slow_until = now + min(slow, self.policy.slow_for)
        if (hold := self._seconds_until(state.get("hold_until"))) > 0:
            self._hold_until = now + min(hold, LONGEST_HOLD)
            self._limiter.hold_until(self._hold_until)
        for origin, delay in (state.get("crawl_delays") or {}).items():
            self.obey_crawl_delay(origin, delay)
        if self.breaker is not None and isinstance(known := state.get("breaker"), Mapping):
            self.breaker.load(known, now, max(0.0, -self._seconds_until(known.get("at"))))
        for proxy, at in (state.get("proxies") or {}).items():
            self._proxy_used[int(proxy)] = now + self._seconds_until(at)
        self._pace(now)
        if owned.epoch > 1:
            self._go_on(owned, now)

    def _go_on(self, owned: OwnedLane, now: float) -> None:
        """Continue at the last owner's pace. If its requests are not known, wait until its last window has passed."""
        pace = read_pace(owned.state, owned.epoch, self._clock)
        limited = self.policy.rate is not None
        if pace is None or (limited and pace.window < self._limiter.window):
            self._limiter.hold_until(now + max(self._limiter.window if limited else 0.0, self._floor()))
            return
        self._limiter.go_on(pace)
        if self._floor() > 0:
            self._limiter.hold_until(pace.last + self._floor())

    # ── inside ──

    def _pace(self, now: float) -> None:
        """Return the share of the rate that may be used: reduced after a 429 and for a while after an outage."""
        if self._slow_until and now >= self._slow_until:
            self._slow_until = 0.0
        share = self.breaker.share(now) if self.breaker is not None else 1.0
        self._share = share
        self._limiter.slow_to(share * (1.0 - self.policy.slow_by) if self._slow_until else share)

    def _adopt_limits(self) -> None:
        self._limiter.adopt(self.policy.rate, self.policy.per, self.policy.burst, self._gap())
        self._pace(self._clock.monotonic())

    def _gap(self) -> Callable[[], float] | None:
        """Return the gap between two starts: a random delay, but at least the crawl-delay and the minimum interval."""
        floor = self._floor()
        low, high = self.policy.delay or (0.0, 0.0)
        if floor <= 0 and high <= 0:
            return None
        return lambda: max(floor, low + (high - low) * self._random())

    def _floor(self) -> float:
        return max(self.policy.gap or 0.0, self._crawl_delay() if self.policy.crawl_delay else 0.0)

    def _store_ms(self, at: float) -> int:
        ahead = timedelta(seconds=min(at - self._clock.monotonic(), FARTHEST_TOLD))
        return round((self._clock.now() + ahead).timestamp() * 1000)

    def _seconds_until(self, moment: Any) -> float:
        return moment / 1000 - self._clock.now().timestamp() if isinstance(moment, int) else 0.0


# The port for a lane's rules. They come from pipelines, the policy file and operators, and can change at any time.


class LaneRules(Protocol):
    def lane_for(self, name: str, used_by: Collection[str] | None = None) -> Lane:
        """Return the rules in force for a lane that these pipelines use; None if the pipelines are not known."""
        ...

    def lane_name(self, url: str) -> str:
        """Return the name of the lane that a URL belongs to."""
        ...


class DeclaredLanes:
    """Uses only the lanes that pipelines declare. A lane that none declares has modest limits."""

    def __init__(self, pipelines: Sequence[Pipeline]) -> None:
        self._declared = {lane.name: lane for pipeline in pipelines for lane in pipeline.lanes}

    def lane_for(self, name: str, used_by: Collection[str] | None = None) -> Lane:
        declared = self._declared.get(name) or self._declared.get(family(name))
        return replace(declared, name=name) if declared else Lane(name)

    def lane_name(self, url: str) -> str:
        return host_of(url)
