"""Describes one lane for a caller: the rules in force, the source of each, and the lane's state. Read only."""

from dataclasses import asdict
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from forager.app import App
from forager.core.pipeline import Lane
from forager.core.rules import AllowedHours, Rules
from forager.core.waiting import Waiting
from forager.ledger.side_tables.domains import Domain
from forager.politeness.said import By, Said, pace_of
from forager.politeness.standing import BreakerState, Standing, lane_waiting


class RuleReport(BaseModel):
    value: float | int | bool | AllowedHours | list[str] | None
    by: By = Field(
        description="Source of the value: an operator's override, the policy file's domain, the pipeline's default,"
        " the file's default, the settings, or the site's robots.txt."
    )
    where: str = Field(description="The domain or lane that the source names.")


class BreakerReport(BaseModel):
    state: BreakerState
    calls: int = Field(description="Number of recent calls that the breaker counts.")
    failures: int = Field(description="How many of these calls failed.")
    probe_at: datetime | None = Field(description="When the next call is tried, if the breaker is open.")


class PaceReport(BaseModel):
    seconds: float | None = Field(
        description="Average seconds from one request to the next by the rules; null if nothing limits it."
    )
    rules: list[str] = Field(description="The rules that decide it: of several limits, the slowest holds.")
    message: str


class LaneDetail(BaseModel):
    name: str
    kind: Literal["site", "api"]
    seen: bool = Field(description="Whether a job has used the lane, or an operator has paused it.")
    owner: str | None = Field(description="The session that owns the lane now.")
    shared: bool = Field(
        description="Whether every worker uses the lane at once, with limits of its own; it has no owner."
    )
    paused: bool
    wake_at: datetime | None = Field(description="No session owns the lane; one may take it from this time on.")
    rules: dict[str, RuleReport] = Field(description="Every rule in force, with its source.")
    pace: PaceReport = Field(description="How fast the lane is by these rules, and which of them decides it.")
    overrides: Rules | None = Field(description="Rules that an operator has set for exactly this name.")
    open_now: bool = Field(description="Whether the current time is within the lane's allowed hours.")
    opens_at: datetime | None
    breaker: BreakerReport | None = Field(description="Breaker as its owner last stored it; null if none.")
    slow_until: datetime | None = Field(description="The rate is reduced until this time, because of a 429.")
    hold_until: datetime | None = Field(description="Nothing is sent until this time, because of a `Retry-After`.")
    next_at: datetime | None = Field(description="When the next request may be sent, if that is a second or more away.")
    waiting: Waiting | None = Field(description="Why the lane sends nothing now; null if it may send.")
    crawl_delay_seconds: float | None = Field(
        description="Crawl-delay of the site's robots.txt, once read. It is in force if `rules.crawl_delay_seconds` is"
        " `by` `robots`; an operator's own rate overrides it."
    )
    capped: bool = Field(description="Whether the lane's hourly, daily or monthly cap is reached.")
    used_by: list[str] = Field(description="Pipelines that used the lane in the last hour. Their defaults apply to it.")


class OverrideReport(BaseModel):
    name: str
    rules: Rules
    created_at: datetime
    updated_at: datetime


async def lane_detail(app: App, name: str) -> dict[str, Any]:
    """Return the detail of an existing lane, or of the lane that a host of this name would get."""
    politeness = app.rules.politeness
    known = await app.reports.lane(name)
    now = await app.ledger.now()
    override = await app.domains.get(name)
    off = name in politeness.inactive
    paused = off or (known is not None and known.paused)
    standing = app.waits.standing(known, name, now)
    used_by = standing.used_by or None  # before its first use, assume that every pipeline with a default for it uses it
    rules = politeness.lane_for(name, used_by)
    said = _with_robots(politeness.said(name, used_by), rules, standing)
    opens = rules.hours.opens_after(now) if rules.hours else now
    return {
        "name": name,
        "kind": "api" if politeness.is_api(name) else "site",
        "seen": known is not None,
        "owner": known.owner if known else None,
        "shared": known is not None and known.shared,
        "paused": paused,
        "wake_at": known.wake_at if known else None,
        "rules": {key: {"value": _plain(each.value), "by": each.by, "where": each.where} for key, each in said.items()},
        "pace": asdict(pace_of(rules, said)),
        "overrides": said_rules(override.rules) if override else None,
        "open_now": opens <= now,
        "opens_at": None if off or opens <= now else opens,
        "waiting": lane_waiting(name, rules, standing, now, paused=paused),
        **_standing(rules, standing),
    }


def _with_robots(said: dict[str, Said], rules: Lane, standing: Standing) -> dict[str, Said]:
    """Return the rules with the crawl-delay of robots.txt, where that is obeyed and longer than ours."""
    asked, own = standing.crawl_delay, said.get("crawl_delay_seconds")
    if own is None or asked is None or not rules.crawl_delay or asked <= (own.value or 0):
        return said
    return {**said, "crawl_delay_seconds": Said(asked, "robots", standing.crawl_delay_of or rules.name)}


def override_report(domain: Domain) -> dict[str, Any]:
    times = {"created_at": domain.created_at, "updated_at": domain.updated_at}
    return {"name": domain.name, "rules": said_rules(domain.rules), **times}


def said_rules(rules: Rules) -> dict[str, Any]:
    return rules.model_dump(mode="json", exclude_none=True)


def _standing(rules: Lane, standing: Standing) -> dict[str, Any]:
    breaker = standing.breaker
    return {
        "breaker": None if rules.breaker is None else asdict(breaker),
        "slow_until": standing.slow_until,
        "hold_until": standing.hold_until,
        "next_at": standing.next_at,
        "crawl_delay_seconds": standing.crawl_delay,
        "capped": standing.capped,
        "used_by": sorted(standing.used_by),
    }


def _plain(value: Any) -> Any:
    if isinstance(value, AllowedHours):
        return value.model_dump()
    return list(value) if isinstance(value, tuple) else value
