"""Combines the rules of pipelines that share a lane: the more restrictive value of each field applies. Pure."""

from collections.abc import Mapping
from dataclasses import replace

from forager.core.pipeline import Hours, Lane
from forager.core.rules import RESOURCES, AllowedHours
from forager.politeness.said import Said

_RATE = ("tokens_per_interval", "interval_seconds")
_LESS = ("max_concurrent_requests",)
_MORE = ("min_delay_ms", "max_delay_ms", "crawl_delay_seconds", "proxy_cooldown_seconds")
_EITHER = ("respect_robots_txt", "use_proxies")


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
    """The same for lanes that pipelines declare."""
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
    )


def fewer_hours(one: Hours | None, other: Hours | None) -> Hours | None:
    """Return the longest part of the day that both allow; if there is none, the shorter of the two."""
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
