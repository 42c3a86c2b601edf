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

from forager.core.hosts import domains_of, host_of, one_spelling
from forager.core.pipeline import Breaker, Hours, Lane, family
from forager.core.rules import FIELDS, RESOURCES, AllowedHours, Rules
from forager.politeness.policy_file import Policies
from forager.politeness.said import By, Said
from forager.politeness.sharing import slower, slower_said

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
