"""One lane as a caller sees it: which rules hold and whose they are, and how it stands. Renders; changes nothing."""

from dataclasses import asdict
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from forager.app import App
from forager.core.pipeline import Lane
from forager.core.rules import AllowedHours, Rules
from forager.core.waiting import Waiting
from forager.ledger.side_tables.domains import Domain
from forager.politeness.said import By
from forager.politeness.standing import BreakerState, Standing, lane_waiting


class RuleReport(BaseModel):
    value: float | int | bool | AllowedHours | list[str] | None
    by: By = Field(
        description="Whose word it is: an operator's override, the policy file's domain, the pipeline's default,"
        " the file's default, or the settings."
    )
    where: str = Field(description="The domain or lane that it was said about.")


class BreakerReport(BaseModel):
    state: BreakerState
    calls: int = Field(description="Of the last calls, so many are known …")
    failures: int = Field(description="… and so many of them failed.")
    probe_at: datetime | None = Field(description="When the next call will be tried, if it is open.")


class LaneDetail(BaseModel):
    name: str
    kind: Literal["site", "api"]
    seen: bool = Field(description="Whether a job has used it, or somebody paused it.")
    owner: str | None = Field(description="The session that runs it now.")
    paused: bool
    wake_at: datetime | None = Field(description="Nobody runs it, and it may be taken from then on.")
    rules: dict[str, RuleReport] = Field(description="Every rule in force, and whose it is.")
    overrides: Rules | None = Field(description="What an operator said about this very name.")
    open_now: bool = Field(description="Whether its allowed hours are now.")
    opens_at: datetime | None
    breaker: BreakerReport | None = Field(description="As its owner wrote it last; null where there is none.")
    slow_until: datetime | None = Field(description="After a 429 it is asked less until then.")
    hold_until: datetime | None = Field(description="It is not asked at all until then: `Retry-After`.")
    next_at: datetime | None = Field(description="When its next request may be sent, if that is a second or more away.")
    waiting: Waiting | None = Field(description="Why it sends nothing now; null: it may send.")
    crawl_delay_seconds: float | None = Field(description="What its robots.txt asks for, as far as it was read.")
    capped: bool = Field(description="Whether its cap of an hour, a day or a month is reached.")
    used_by: list[str] = Field(description="Pipelines that used the lane in the last hour: their defaults hold in it.")


class OverrideReport(BaseModel):
    name: str
    rules: Rules
    created_at: datetime
    updated_at: datetime


async def lane_detail(app: App, name: str) -> dict[str, Any]:
    """Of a lane that exists, or that a host of this name would have."""
    politeness = app.rules.politeness
    known = await app.reports.lane(name)
    now = await app.ledger.now()
    said = await app.domains.get(name)
    off = name in politeness.inactive
    paused = off or (known is not None and known.paused)
    standing = app.waits.standing(known, name, now)
    used_by = standing.used_by or None  # before its first use, as if every pipeline that has a default for it used it
    rules = politeness.lane_for(name, used_by)
    opens = rules.hours.opens_after(now) if rules.hours else now
    return {
        "name": name,
        "kind": "api" if politeness.is_api(name) else "site",
        "seen": known is not None,
        "owner": known.owner if known else None,
        "paused": paused,
        "wake_at": known.wake_at if known else None,
        "rules": {
            key: {"value": _plain(each.value), "by": each.by, "where": each.where}
            for key, each in politeness.said(name, used_by).items()
        },
        "overrides": said_rules(said.rules) if said else None,
        "open_now": opens <= now,
        "opens_at": None if off or opens <= now else opens,
        "waiting": lane_waiting(name, rules, standing, now, paused=paused),
        **_standing(rules, standing),
    }


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
