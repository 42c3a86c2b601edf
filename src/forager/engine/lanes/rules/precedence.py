"""Decides, field by field, which rule applies to a site when there are several, and which lane a host belongs to. Pure.

The precedence: an operator's override, the policy file's domain, the pipeline's default, the file's default, the
settings. Within one source, the nearest domain comes first: `jobs.example.com` before `example.com`. A pipeline's
default applies to lanes that this pipeline uses. If several pipelines use a lane, the rules are computed for each, and
the slower ones apply (`sharing`). This module reads nothing; a new `Politeness` is built when the file or an override
changes.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import reduce
from typing import Any, Literal

from forager.core.hosts import domains_of, host_of, one_spelling
from forager.core.pipeline import Breaker, Hours, Lane, family
from forager.core.rules import FIELDS, RESOURCES, AllowedHours, Rules
from forager.engine.lanes.rules.policy_file import Policies

# The rules in force together with their sources, so that operators see where each comes from, and which one decides how
# fast a lane is. Pure.


By = Literal["operator", "file", "pipeline", "default", "settings", "robots"]
SOURCES: dict[By, str] = {
    "operator": "operator rule for {}",
    "file": "policy file, {}",
    "pipeline": "pipeline default for {}",
    "default": "policy file, default",
    "settings": "settings",
    "robots": "robots.txt of {}",
}
"""A source for people, with its `where`."""


@dataclass(frozen=True, slots=True)
class Said:
    """A value in force, and its source."""

    value: Any
    by: By
    where: str
    """The domain, lane or setting that defines it."""

    @property
    def source(self) -> str:
        """Return the source for people."""
        return SOURCES[self.by].format(self.where)


@dataclass(frozen=True, slots=True)
class PaceRule:
    """The pace of a lane, and the rule that decides it: of several limits, the slowest holds."""

    seconds: float | None
    """Average seconds from one request to the next, without slow-downs; None if nothing limits it."""
    rules: tuple[str, ...]
    """The rules that decide."""
    message: str


def pace_of(lane: Lane, rules: dict[str, Said]) -> PaceRule:
    """Return how fast a lane is by its rules. `rules["crawl_delay_seconds"]` is the delay in force."""
    by_rate = None if not lane.rate else lane.per / lane.rate
    floor, (low, high) = _floor(rules), lane.delay or (0.0, 0.0)
    by_gap = _mean_gap(floor, low, high)
    named: tuple[str, ...]
    rate = "no limit" if by_rate is None else f"{lane.rate:g} in {lane.per:g} s"
    tokens = rules["tokens_per_interval"]
    if by_rate is None and not by_gap:
        return PaceRule(None, (), "not limited")
    if not by_gap or (by_rate is not None and by_rate >= by_gap):
        named = ("tokens_per_interval", "interval_seconds")
        return PaceRule(by_rate, named, f"at most {rate} ({tokens.source})")
    if floor >= high:
        wins, named = (
            f"the crawl delay of {floor:g} s ({rules['crawl_delay_seconds'].source})",
            ("crawl_delay_seconds",),
        )
    else:
        named = ("min_delay_ms", "max_delay_ms")
        wins = f"the random pause of {max(low, floor):g} to {high:g} s ({rules['max_delay_ms'].source})"
    return PaceRule(
        by_gap,
        named,
        f"one request in {by_gap:.3g} s on average: {wins} is slower than the rate, {rate} ({tokens.source})",
    )


def _floor(rules: dict[str, Said]) -> float:
    delay = rules.get("crawl_delay_seconds")
    return float(delay.value or 0.0) if delay is not None else 0.0


def _mean_gap(floor: float, low: float, high: float) -> float:
    """Return the mean of the greater of `floor` and a random number between `low` and `high`."""
    if floor >= high:
        return floor
    if floor <= low:
        return (low + high) / 2
    return (floor * (floor - low) + (high * high - floor * floor) / 2) / (high - low)


# Combines the rules of pipelines that share a lane: the more restrictive value of each field applies. Pure.


_RATE = ("tokens_per_interval", "interval_seconds")
_LESS = ("max_concurrent_requests",)
_MORE = ("min_delay_ms", "max_delay_ms", "crawl_delay_seconds", "proxy_cooldown_seconds")
_EITHER = ("respect_robots_txt", "use_proxies", "via")


def slower_said(one: Mapping[str, Said], other: Mapping[str, Said]) -> dict[str, Said]:
    """Return the rules of a site that two pipelines use, from the rules that would apply to each alone."""
    first = one if _tokens_per_second(one) <= _tokens_per_second(other) else other
    both = {key: first[key] for key in _RATE}
    both |= {key: min(one[key], other[key], key=_value) for key in _LESS}
    both |= {key: max(one[key], other[key], key=_value) for key in (*_MORE, *_EITHER)}
    both["allowed_hours"] = _fewer_said(one["allowed_hours"], other["allowed_hours"])
    both["block_resources"] = _blocked_by_both(one["block_resources"], other["block_resources"])
    return both


def slower(one: Lane, other: Lane) -> Lane:
    """Return the limits of a lane that two pipelines use, from the lanes that each declares: of every limit, the slower
    one."""
    first = one if _speed(one) <= _speed(other) else other
    return replace(
        one,
        rate=first.rate,
        per=first.per,
        burst=min(one.burst, other.burst),
        concurrency=min(one.concurrency, other.concurrency),
        slow_by=max(one.slow_by, other.slow_by),
        slow_for=max(one.slow_for, other.slow_for),
        cap_hour=_least(one.cap_hour, other.cap_hour),
        cap_day=_least(one.cap_day, other.cap_day),
        cap_month=_least(one.cap_month, other.cap_month),
        gap=_longer_gap(one.gap, other.gap),
        delay=_longer_delay(one.delay, other.delay),
        hours=fewer_hours(one.hours, other.hours),
        breaker=one.breaker or other.breaker,
        robots=one.robots or other.robots,
        crawl_delay=one.crawl_delay or other.crawl_delay,
        proxied=one.proxied or other.proxied,
        proxy_rest=max(one.proxy_rest, other.proxy_rest),
        block=one.block & other.block,
        via=one.via or other.via,
    )


def fewer_hours(one: Hours | None, other: Hours | None) -> Hours | None:
    """Return the longest part of the day that both allow; if the two do not overlap, the shorter one."""
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


def _value(rule: Said) -> float:
    return float(rule.value)


def _tokens_per_second(rules: Mapping[str, Said]) -> float:
    return _value(rules["tokens_per_interval"]) / _value(rules["interval_seconds"])


def _fewer_said(one: Said, other: Said) -> Said:
    if one.value is None or other.value is None:
        return one if other.value is None else other
    both = fewer_hours(one.value.hours(), other.value.hours())
    for rule in (one, other):
        if rule.value.hours() == both:
            return rule
    start, end = (both.start, both.end) if both else (0, 24)
    return replace(one, value=AllowedHours.model_construct(start=start, end=end))


def _blocked_by_both(one: Said, other: Said) -> Said:
    both = tuple(name for name in RESOURCES if name in one.value and name in other.value)
    return next((rule for rule in (one, other) if tuple(rule.value) == both), replace(one, value=both))


def _speed(lane: Lane) -> float:
    return float("inf") if lane.rate is None else lane.rate / lane.per


def _least(one: int | None, other: int | None) -> int | None:
    caps = [cap for cap in (one, other) if cap is not None]
    return min(caps) if caps else None


def _longer_gap(one: float | None, other: float | None) -> float | None:
    return max((gap for gap in (one, other) if gap is not None), default=None)


def _longer_delay(one: tuple[float, float] | None, other: tuple[float, float] | None) -> tuple[float, float] | None:
    if one is None or other is None:
        return one or other
    return max(one[0], other[0]), max(one[1], other[1])


def _open(hours: Hours, hour: int) -> bool:
    if hours.start < hours.end:
        return hours.start <= hour < hours.end
    return hour >= hours.start or hour < hours.end


EVERY_SITE = "*"
"""A pipeline's lane of this name applies to all of its sites without a lane of their own."""
API_FIELDS = ("tokens_per_interval", "interval_seconds", "max_concurrent_requests", "allowed_hours")
"""The rules that an operator can set for an API. robots.txt, pauses and proxies apply only to sites."""
SITE_SLOW_BY, SITE_SLOW_FOR = 0.5, 300.0
_OWN_RATE = ("tokens_per_interval", "interval_seconds", "crawl_delay_seconds")

LOOK_AGAIN = timedelta(seconds=10)
MOST_BY_PIPELINE = 5.0
"""Maximum requests per second that a pipeline's own default may set for a site. A higher rate needs an operator or the
policy file."""


class Never(Hours):
    """The allowed hours of a lane that is switched off: none. It is checked again after a while."""

    __slots__ = ()

    def open_at(self, moment: datetime) -> bool:
        return False

    def opens_after(self, moment: datetime) -> datetime:
        return moment + LOOK_AGAIN


def ground(*, tokens: float = 2.0, interval: float = 10.0, concurrency: int = 5, proxy_rest: float = 30.0) -> Rules:
    """Return the rules that apply when no other source sets one: the settings, and robots.txt obeyed."""
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
        via=False,
    )


@dataclass(frozen=True, slots=True)
class Politeness:
    policies: Policies = field(default_factory=Policies)
    overrides: Mapping[str, Rules] = field(default_factory=dict)
    """Operators' rules, by domain or by the name of an API's lane."""
    lanes: Mapping[str, Sequence[Lane]] = field(default_factory=dict)
    """The lanes that each pipeline declares, by pipeline name."""
    ground: Rules = field(default_factory=ground)
    breaker: Breaker = field(default_factory=Breaker)
    """Breaker of sites whose pipeline declares none."""
    inactive: frozenset[str] = frozenset()
    """Lanes that an operator has switched off."""

    def lane_name(self, host: str) -> str:
        """Return the longest domain with rules from any source that contains the host, else the host itself."""
        spelled = one_spelling(host)
        declared = self._declared(spelled)
        if declared and not declared[0].site:
            return spelled
        return next((name for name in domains_of(spelled) if self._is_spoken_of(name)), spelled)

    def lane_of(self, url: str) -> str:
        return self.lane_name(host_of(url))

    def lane_for(self, name: str, used_by: Collection[str] | None = None) -> Lane:
        """Return the rules in force for a lane that these pipelines use. Without `used_by`, assume every pipeline that
        declares a default for the site."""
        lane = self._ruled(name, used_by)
        return replace(lane, hours=Never(0, 0)) if name in self.inactive else lane

    def _ruled(self, name: str, used_by: Collection[str] | None) -> Lane:
        if (api := self._api(name)) is not None:
            return self._api_lane(api)
        rules = self.said(name, used_by)
        value = {key: each.value for key, each in rules.items()}
        speaking = [default for default in self._defaults(name, used_by) if default is not None]
        declared = reduce(slower, speaking) if speaking else Lane(name)
        tokens = value["tokens_per_interval"]
        unsaid = Lane(name)
        return replace(
            declared,
            name=name,
            rate=tokens,
            per=value["interval_seconds"],
            burst=declared.burst if rules["tokens_per_interval"].by == "pipeline" else max(1, int(tokens)),
            concurrency=value["max_concurrent_requests"],
            slow_by=SITE_SLOW_BY if declared.slow_by == unsaid.slow_by else declared.slow_by,
            slow_for=SITE_SLOW_FOR if declared.slow_for == unsaid.slow_for else declared.slow_for,
            gap=value["crawl_delay_seconds"],
            delay=(value["min_delay_ms"] / 1000, value["max_delay_ms"] / 1000),
            hours=value["allowed_hours"].hours() if value["allowed_hours"] else None,
            breaker=declared.breaker or self.breaker,
            site=True,
            robots=value["respect_robots_txt"],
            crawl_delay=value["respect_robots_txt"] and not any(rules[key].by == "operator" for key in _OWN_RATE),
            proxied=value["use_proxies"],
            proxy_rest=value["proxy_cooldown_seconds"],
            block=frozenset(value["block_resources"]),
            via=value["via"],
        )

    def said(self, name: str, used_by: Collection[str] | None = None) -> dict[str, Said]:
        """Return every rule of a lane with its source."""
        if (api := self._api(name)) is not None:
            return self._said_of_api(api)
        return reduce(slower_said, [self._said_for(name, default) for default in self._defaults(name, used_by)])

    def names(self) -> set[str]:
        """Return the names that some source has rules for: domains, and the lanes of APIs that are no family."""
        declared = {lane.name for lanes in self.lanes.values() for lane in lanes}
        named = {*self.overrides, *self.policies.domains, *self.inactive, *declared}
        return {name for name in named if name != EVERY_SITE and not name.endswith(":*")}

    def is_api(self, name: str) -> bool:
        return self._api(name) is not None

    # ── who speaks ──

    def _said_for(self, name: str, default: Lane | None) -> dict[str, Said]:
        """Return the rules for a pipeline with this default."""
        order = list(self._speakers(name, default))
        chosen: dict[str, Said] = {}
        rank: dict[str, int] = {}
        for key in FIELDS:
            for number, (rules, by, where) in enumerate(order):
                value = getattr(rules, key)
                if value is not None or number == len(order) - 1:
                    chosen[key], rank[key] = Said(value, by, where), number
                    break
        _keep_in_order(chosen, rank)
        return chosen

    def _speakers(self, name: str, default: Lane | None) -> Iterator[tuple[Rules, By, str]]:
        nearest = list(domains_of(name))
        for domain in nearest:
            if domain in self.overrides:
                yield self.overrides[domain], "operator", domain
        for domain in nearest:
            if domain in self.policies.domains:
                yield self.policies.domains[domain], "file", domain
        if default is not None:
            yield rules_of(default), "pipeline", default.name
        yield self.policies.default, "default", "default"
        yield self.ground, "settings", "settings"

    def _defaults(self, name: str, used_by: Collection[str] | None) -> list[Lane | None]:
        """Return the default of each pipeline that uses the lane, limited to the maximum rate; None for one without a
        default."""
        if used_by is None:
            spoken = [self._default(name, pipeline) for pipeline in self.lanes]
            return [default for default in spoken if default is not None] or [None]
        return [self._default(name, pipeline) for pipeline in sorted(used_by) if pipeline in self.lanes] or [None]

    def _default(self, name: str, pipeline: str) -> Lane | None:
        by_name = {lane.name: lane for lane in self.lanes[pipeline] if lane.site}
        chosen = next((by_name[each] for each in (*domains_of(name), EVERY_SITE) if each in by_name), None)
        return None if chosen is None else _moderate(chosen)

    def _declared(self, name: str) -> list[Lane]:
        spoken_by = (name, family(name))
        declared = (lane for lanes in self.lanes.values() for lane in lanes if lane.name in spoken_by)
        return [lane if lane.name == name else replace(lane, name=name) for lane in declared]

    def _is_spoken_of(self, name: str) -> bool:
        return (
            name in self.overrides or name in self.policies.domains or any(lane.site for lane in self._declared(name))
        )

    # ── APIs ──

    def _api(self, name: str) -> Lane | None:
        declared = [lane for lane in self._declared(name) if not lane.site]
        return reduce(slower, declared) if declared else None

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
    """Return the rules that a pipeline sets by a site's lane. A field that equals the class's default counts as not
    set: a pipeline that does not mention robots.txt does not switch it off. Pauses of zero count as set: they request
    no pause."""
    unsaid = Lane(lane.name)
    rate_said = lane.rate is not None and (lane.rate, lane.per) != (unsaid.rate, unsaid.per)
    return Rules.model_construct(
        tokens_per_interval=lane.rate if rate_said else None,
        interval_seconds=lane.per if rate_said else None,
        min_delay_ms=round(lane.delay[0] * 1000) if lane.delay is not None else None,
        max_delay_ms=round(lane.delay[1] * 1000) if lane.delay is not None else None,
        allowed_hours=_allowed(lane.hours),
        respect_robots_txt=lane.robots or None,
        max_concurrent_requests=None if lane.concurrency == unsaid.concurrency else lane.concurrency,
        crawl_delay_seconds=lane.gap,
        use_proxies=lane.proxied or None,
        proxy_cooldown_seconds=lane.proxy_rest if lane.proxied or lane.proxy_rest else None,
        block_resources=tuple(name for name in RESOURCES if name in lane.block) or None,
        via=lane.via or None,
    )


def _moderate(lane: Lane) -> Lane:
    if lane.rate is None or lane.rate / lane.per <= MOST_BY_PIPELINE:
        return lane
    rate = MOST_BY_PIPELINE * lane.per
    return replace(lane, rate=rate, burst=min(lane.burst, max(1, int(rate))))


def _keep_in_order(rules: dict[str, Said], rank: Mapping[str, int]) -> None:
    """If the minimum pause of one source exceeds the maximum of another, use the value of the source with precedence
    for both."""
    least, most = rules["min_delay_ms"], rules["max_delay_ms"]
    if least.value > most.value:
        if rank["min_delay_ms"] < rank["max_delay_ms"]:
            rules["max_delay_ms"] = least
        else:
            rules["min_delay_ms"] = most


def _allowed(hours: Hours | None) -> AllowedHours | None:
    if hours is None or hours.start == hours.end:
        return None
    return AllowedHours.model_construct(start=hours.start, end=hours.end)
