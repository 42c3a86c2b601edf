"""One lane as a caller sees it: which rules hold and whose they are, and how it stands. Renders; changes nothing."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pydantic import BaseModel, Field

from forager.app import App
from forager.core.pipeline import Lane
from forager.core.rules import AllowedHours, Rules
from forager.ledger.reports import LaneReport
from forager.ledger.side_tables.domains import Domain
from forager.politeness.precedence import By

FAR_MS = 32_503_680_000_000
"""The year 3000: a state that somebody spoilt may say anything."""

BreakerState = Literal["closed", "open", "half_open"]


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
    crawl_delay_seconds: float | None = Field(description="What its robots.txt asks for, as far as it was read.")
    capped: bool = Field(description="Whether its cap of a day or month is reached.")


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
    rules = politeness.lane_for(name)
    said = await app.domains.get(name)
    off = name in politeness.inactive
    opens = rules.hours.opens_after(now) if rules.hours else now
    return {
        "name": name,
        "kind": "api" if politeness.is_api(name) else "site",
        "seen": known is not None,
        "owner": known.owner if known else None,
        "paused": off or (known is not None and known.paused),
        "wake_at": known.wake_at if known else None,
        "rules": {
            key: {"value": _plain(each.value), "by": each.by, "where": each.where}
            for key, each in politeness.said(name).items()
        },
        "overrides": said_rules(said.rules) if said else None,
        "open_now": opens <= now,
        "opens_at": None if off or opens <= now else opens,
        **_standing(rules, known, now),
    }


def override_report(domain: Domain) -> dict[str, Any]:
    times = {"created_at": domain.created_at, "updated_at": domain.updated_at}
    return {"name": domain.name, "rules": said_rules(domain.rules), **times}


def said_rules(rules: Rules) -> dict[str, Any]:
    return rules.model_dump(mode="json", exclude_none=True)


def _standing(rules: Lane, known: LaneReport | None, now: datetime) -> dict[str, Any]:
    """From the state that the lane's owner wrote down: whatever is in it, a page about it must not fail."""
    state: Mapping[str, Any] = known.state if known else {}
    asked = state.get("crawl_delay")
    return {
        "breaker": _breaker(state.get("breaker"), now) if rules.breaker else None,
        "slow_until": _later(state.get("slow_until"), now),
        "hold_until": _later(state.get("hold_until"), now),
        "crawl_delay_seconds": asked if isinstance(asked, int | float) else None,
        "capped": state.get("capped") is True,
    }


def _breaker(known: Any, now: datetime) -> dict[str, Any]:
    said: Mapping[str, Any] = known if isinstance(known, Mapping) else {}
    calls, wrote = str(said.get("calls", "")), _moment(said.get("at"))
    left = said.get("open_for")
    probe = wrote + timedelta(seconds=left) if wrote and isinstance(left, int | float) else None
    state: BreakerState = "closed" if probe is None else "open" if probe > now else "half_open"
    return {"state": state, "calls": len(calls), "failures": calls.count("x"), "probe_at": probe}


def _later(ms: Any, now: datetime) -> datetime | None:
    moment = _moment(ms)
    return moment if moment and moment > now else None


def _moment(ms: Any) -> datetime | None:
    return datetime.fromtimestamp(ms / 1000, UTC) if isinstance(ms, int) and 0 <= ms < FAR_MS else None


def _plain(value: Any) -> Any:
    if isinstance(value, AllowedHours):
        return value.model_dump()
    return list(value) if isinstance(value, tuple) else value
