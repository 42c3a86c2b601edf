"""Whose rule holds when several speak about a site, field by field; and which lane a host belongs to. Pure.

The order: an operator's override, the policy file's domain, the pipeline's own default, the file's default, the
settings. Within one of them the nearest domain speaks first: `jobs.example.com` before `example.com`. Nothing is read
here; a new `Politeness` is made when the file or an override has changed.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import reduce
from typing import Any, Literal

from forager.core.hosts import domains_of, host_of, one_spelling
from forager.core.pipeline import Breaker, Hours, Lane, family
from forager.core.rules import FIELDS, RESOURCES, AllowedHours, Rules
from forager.politeness.policy_file import Policies

EVERY_SITE = "*"
"""A pipeline's lane of this name speaks for all of its sites that it has no other lane for."""
API_FIELDS = ("tokens_per_interval", "interval_seconds", "max_concurrent_requests", "allowed_hours")
"""What an operator can change about an API; robots.txt, pauses and proxies are for sites."""
SITE_SLOW_BY, SITE_SLOW_FOR = 0.5, 300.0
_OWN_RATE = ("tokens_per_interval", "interval_seconds", "crawl_delay_seconds")

LOOK_AGAIN = timedelta(seconds=10)
MOST_BY_PIPELINE = 5.0
"""Requests a second that a pipeline may ask of a site by its own word; more takes an operator's, or the file's."""

By = Literal["operator", "file", "pipeline", "default", "settings"]


class Never(Hours):
    """No hour of any day: of a lane that is switched off. It is looked at again after a while, in vain or not."""

    __slots__ = ()

    def open_at(self, moment: datetime) -> bool:
        return False

    def opens_after(self, moment: datetime) -> datetime:
        return moment + LOOK_AGAIN


@dataclass(frozen=True, slots=True)
class Said:
    """A number in force, and whose it is."""

    value: Any
    by: By
    where: str
    """The domain, lane or setting that says it."""


def ground(*, tokens: float = 2.0, interval: float = 10.0, concurrency: int = 5, proxy_rest: float = 30.0) -> Rules:
    """What holds when nobody says anything: the settings, and good manners."""
    return Rules(
        tokens_per_interval=tokens,
        interval_seconds=interval,
        min_delay_ms=0,
        max_delay_ms=0,
        respect_robots_txt=True,
        max_concurrent_requests=concurrency,
        crawl_delay_seconds=0,
        use_proxies=True,
        proxy_cooldown_seconds=proxy_rest,
        block_resources=(),
    )


@dataclass(frozen=True, slots=True)
class Politeness:
    policies: Policies = field(default_factory=Policies)
    overrides: Mapping[str, Rules] = field(default_factory=dict)
    """The operator's, by domain or by the name of an API's lane."""
    lanes: Mapping[str, Sequence[Lane]] = field(default_factory=dict)
    """What each pipeline declares, by its name."""
    ground: Rules = field(default_factory=ground)
    breaker: Breaker = field(default_factory=Breaker)
    """Of sites whose pipeline declares none."""
    inactive: frozenset[str] = frozenset()
    """Lanes that an operator has switched off."""

    def lane_name(self, host: str) -> str:
        """The longest domain that anybody has rules for and that the host lies in, else the host itself."""
        spelled = one_spelling(host)
        declared = self._declared(spelled)
        if declared and not declared[0].site:
            return spelled
        return next((name for name in domains_of(spelled) if self._is_spoken_of(name)), spelled)

    def lane_of(self, url: str) -> str:
        return self.lane_name(host_of(url))

    def lane_for(self, name: str, used_by: Collection[str] | None = None) -> Lane:
        """The rules in force. `used_by`: the pipelines that work in this lane, if known; else each may be one."""
        lane = self._ruled(name, used_by)
        return replace(lane, hours=Never(0, 0)) if name in self.inactive else lane

    def _ruled(self, name: str, used_by: Collection[str] | None) -> Lane:
        if (api := self._api(name)) is not None:
            return self._api_lane(api)
        said = self.said(name, used_by)
        value = {key: each.value for key, each in said.items()}
        declared = self._default(name, used_by) or Lane(name)
        tokens = value["tokens_per_interval"]
        unsaid = Lane(name)
        return replace(
            declared,
            name=name,
            rate=tokens,
            per=value["interval_seconds"],
            burst=declared.burst if said["tokens_per_interval"].by == "pipeline" else max(1, int(tokens)),
            concurrency=value["max_concurrent_requests"],
            slow_by=SITE_SLOW_BY if declared.slow_by == unsaid.slow_by else declared.slow_by,
            slow_for=SITE_SLOW_FOR if declared.slow_for == unsaid.slow_for else declared.slow_for,
            gap=value["crawl_delay_seconds"],
            delay=(value["min_delay_ms"] / 1000, value["max_delay_ms"] / 1000),
            hours=value["allowed_hours"].hours() if value["allowed_hours"] else None,
            breaker=declared.breaker or self.breaker,
            site=True,
            robots=value["respect_robots_txt"],
            crawl_delay=value["respect_robots_txt"] and not any(said[key].by == "operator" for key in _OWN_RATE),
            proxied=value["use_proxies"],
            proxy_rest=value["proxy_cooldown_seconds"],
            block=frozenset(value["block_resources"]),
        )

    def said(self, name: str, used_by: Collection[str] | None = None) -> dict[str, Said]:
        """Every rule of a lane with whose word it is."""
        if (api := self._api(name)) is not None:
            return self._said_of_api(api)
        order = list(self._speakers(name, used_by))
        found: dict[str, Said] = {}
        rank: dict[str, int] = {}
        for key in FIELDS:
            for number, (rules, by, where) in enumerate(order):
                value = getattr(rules, key)
                if value is not None or number == len(order) - 1:
                    found[key], rank[key] = Said(value, by, where), number
                    break
        _keep_in_order(found, rank)
        return found

    def is_api(self, name: str) -> bool:
        return self._api(name) is not None

    # ── who speaks ──

    def _speakers(self, name: str, used_by: Collection[str] | None) -> Iterator[tuple[Rules, By, str]]:
        nearest = list(domains_of(name))
        for domain in nearest:
            if domain in self.overrides:
                yield self.overrides[domain], "operator", domain
        for domain in nearest:
            if domain in self.policies.domains:
                yield self.policies.domains[domain], "file", domain
        default = self._default(name, used_by)
        if default is not None:
            yield rules_of(default), "pipeline", default.name
        yield self.policies.default, "default", "default"
        yield self.ground, "settings", "settings"

    def _default(self, name: str, used_by: Collection[str] | None) -> Lane | None:
        """What the pipelines say about a site; where several do, the slower, and never too much."""
        found = []
        for pipeline, lanes in self.lanes.items():
            if used_by is not None and pipeline not in used_by:
                continue
            by_name = {lane.name: lane for lane in lanes if lane.site}
            chosen = next((by_name[each] for each in (*domains_of(name), EVERY_SITE) if each in by_name), None)
            if chosen is not None:
                found.append(chosen)
        return _moderate(reduce(slower, found)) if found else None

    def _declared(self, name: str) -> list[Lane]:
        spoken_by = (name, family(name))
        found = (lane for lanes in self.lanes.values() for lane in lanes if lane.name in spoken_by)
        return [lane if lane.name == name else replace(lane, name=name) for lane in found]

    def _is_spoken_of(self, name: str) -> bool:
        return (
            name in self.overrides or name in self.policies.domains or any(lane.site for lane in self._declared(name))
        )

    # ── APIs ──

    def _api(self, name: str) -> Lane | None:
        found = [lane for lane in self._declared(name) if not lane.site]
        return reduce(slower, found) if found else None

    def _api_lane(self, lane: Lane) -> Lane:
        own = self.overrides.get(lane.name, Rules())
        return replace(
            lane,
            rate=lane.rate if own.tokens_per_interval is None else own.tokens_per_interval,
            per=lane.per if own.interval_seconds is None else own.interval_seconds,
            concurrency=own.max_concurrent_requests or lane.concurrency,
            hours=own.allowed_hours.hours() if own.allowed_hours else lane.hours,
        )

    def _said_of_api(self, lane: Lane) -> dict[str, Said]:
        own = self.overrides.get(lane.name, Rules())
        values = (lane.rate, lane.per, lane.concurrency, _allowed(lane.hours))
        declared = dict(zip(API_FIELDS, values, strict=True))
        return {
            key: Said(value, "pipeline", lane.name)
            if getattr(own, key) is None
            else Said(getattr(own, key), "operator", lane.name)
            for key, value in declared.items()
        }


def rules_of(lane: Lane) -> Rules:
    """What a pipeline says by a site's lane. What equals a lane's own default is not said: a pipeline that leaves
    robots.txt out does not switch it off."""
    unsaid = Lane(lane.name)
    rate_said = lane.rate is not None and (lane.rate, lane.per) != (unsaid.rate, unsaid.per)
    delay_said = lane.delay != unsaid.delay
    return Rules.model_construct(
        tokens_per_interval=lane.rate if rate_said else None,
        interval_seconds=lane.per if rate_said else None,
        min_delay_ms=round(lane.delay[0] * 1000) if delay_said else None,
        max_delay_ms=round(lane.delay[1] * 1000) if delay_said else None,
        allowed_hours=_allowed(lane.hours),
        respect_robots_txt=lane.robots or None,
        max_concurrent_requests=None if lane.concurrency == unsaid.concurrency else lane.concurrency,
        crawl_delay_seconds=lane.gap or None,
        use_proxies=lane.proxied or None,
        proxy_cooldown_seconds=lane.proxy_rest if lane.proxied or lane.proxy_rest else None,
        block_resources=tuple(name for name in RESOURCES if name in lane.block) or None,
    )


def slower(one: Lane, other: Lane) -> Lane:
    """Two pipelines share a lane: in every respect what asks less of it."""
    first = one if _speed(one) <= _speed(other) else other
    return replace(
        one,
        rate=first.rate,
        per=first.per,
        burst=min(one.burst, other.burst),
        concurrency=min(one.concurrency, other.concurrency),
        slow_by=max(one.slow_by, other.slow_by),
        slow_for=max(one.slow_for, other.slow_for),
        cap_day=_least(one.cap_day, other.cap_day),
        cap_month=_least(one.cap_month, other.cap_month),
        gap=max(one.gap, other.gap),
        delay=(max(one.delay[0], other.delay[0]), max(one.delay[1], other.delay[1])),
        hours=_fewer(one.hours, other.hours),
        breaker=one.breaker or other.breaker,
        robots=one.robots or other.robots,
        crawl_delay=one.crawl_delay or other.crawl_delay,
        proxied=one.proxied or other.proxied,
        proxy_rest=max(one.proxy_rest, other.proxy_rest),
        block=one.block & other.block,
    )


def _moderate(lane: Lane) -> Lane:
    if lane.rate is None or _speed(lane) <= MOST_BY_PIPELINE:
        return lane
    rate = MOST_BY_PIPELINE * lane.per
    return replace(lane, rate=rate, burst=min(lane.burst, max(1, int(rate))))


def _keep_in_order(found: dict[str, Said], rank: Mapping[str, int]) -> None:
    """One speaker's least pause may be above another's most: then both are what the stronger of the two says."""
    least, most = found["min_delay_ms"], found["max_delay_ms"]
    if least.value > most.value:
        if rank["min_delay_ms"] < rank["max_delay_ms"]:
            found["max_delay_ms"] = least
        else:
            found["min_delay_ms"] = most


def _allowed(hours: Hours | None) -> AllowedHours | None:
    if hours is None or hours.start == hours.end:
        return None
    return AllowedHours.model_construct(start=hours.start, end=hours.end)


def _speed(lane: Lane) -> float:
    return float("inf") if lane.rate is None else lane.rate / lane.per


def _least(one: int | None, other: int | None) -> int | None:
    said = [cap for cap in (one, other) if cap is not None]
    return min(said) if said else None


def _fewer(one: Hours | None, other: Hours | None) -> Hours | None:
    """The longest piece of the day that both allow; where there is none, the shorter of the two."""
    if one is None or other is None:
        return one or other
    both = {hour for hour in range(24) if _open(one, hour) and _open(other, hour)}
    if len(both) in (0, 24):
        return min(one, other, key=lambda hours: (sum(_open(hours, hour) for hour in range(24)), hours.start))
    pieces = []
    for start in sorted(hour for hour in both if (hour - 1) % 24 not in both):
        length = next(n for n in range(1, 25) if (start + n) % 24 not in both)
        pieces.append((length, start))
    length, start = max(pieces, key=lambda piece: piece[0])
    return Hours(start, (start + length) % 24)


def _open(hours: Hours, hour: int) -> bool:
    if hours.start < hours.end:
        return hours.start <= hour < hours.end
    return hour >= hours.start or hour < hours.end
