"""Routes for lanes, the sites and APIs that rates and limits apply to: list, show, pause, resume, set rules."""

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Body, Path, Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.api.examples import LANE, LANE_DETAIL, OVERRIDE, OVERRIDES
from forager.app.application import App
from forager.app.lanes import belongs_to, require_host, require_known, switch_lane
from forager.core.errors import FieldError, NotFound, Rejected
from forager.core.ids import did_you_mean
from forager.core.pipeline import Lane
from forager.core.rules import AllowedHours, Rules
from forager.core.waiting import Waiting
from forager.engine.lanes.rules.precedence import API_FIELDS, By, Said, pace_of
from forager.engine.lanes.rules.standing import BreakerState, Standing, lane_waiting
from forager.ledger.reports import LaneReport
from forager.ledger.tables.domains import Domain, checked_name
from forager.sdk.http.envelope import Envelope, ResultPage, answer, page
from forager.sdk.http.routes import JsonRoute, PageQuery, Router, example, failures

# Describes one lane for a caller: the rules in force, the source of each, and the lane's state. Read only.


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
    failures: int = Field(description="Number of these calls that failed.")
    probe_at: datetime | None = Field(description="Time of the next attempt, if the breaker is open.")


class PaceReport(BaseModel):
    seconds: float | None = Field(
        description="Average seconds from one request to the next by the rules; null if nothing limits it."
    )
    rules: list[str] = Field(description="The rules that decide it: of several limits, the slowest holds.")
    message: str


class LaneDetail(BaseModel):
    name: str
    kind: Literal["site", "api"]
    seen: bool = Field(description="True if a job has used the lane, or an operator has paused it.")
    owner: str | None = Field(description="The session that owns the lane now.")
    shared: bool = Field(
        description="True if every worker uses the lane at once, with its own limits: it has no owner."
    )
    paused: bool
    wake_at: datetime | None = Field(description="No session owns the lane; one may take it from this time on.")
    rules: dict[str, RuleReport] = Field(description="Every rule in force, with its source.")
    pace: PaceReport = Field(description="Speed of the lane by these rules, and the rule that decides it.")
    per_second: float | None = Field(
        description="Requests per second that the answering process has sent there in the last half minute; null if"
        " it has sent none since its start."
    )
    overrides: Rules | None = Field(description="Rules that an operator has set for exactly this name.")
    open_now: bool = Field(description="True if the current time is within the lane's allowed hours.")
    opens_at: datetime | None
    breaker: BreakerReport | None = Field(description="Breaker as its owner last stored it; null if none.")
    slow_until: datetime | None = Field(description="The rate is reduced until this time, because of a 429.")
    hold_until: datetime | None = Field(description="Nothing is sent until this time, because of a `Retry-After`.")
    next_at: datetime | None = Field(description="Time of the next possible request, if a second or more away.")
    waiting: Waiting | None = Field(description="Why the lane sends nothing now; null if it may send.")
    crawl_delay_seconds: float | None = Field(
        description="Crawl-delay of the site's robots.txt, once read. It is in force if `rules.crawl_delay_seconds` is"
        " `by` `robots`; an operator's own rate overrides it."
    )
    capped: bool = Field(description="True if the lane's hourly, daily or monthly cap is reached.")
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
        "per_second": sent_per_second(app, name),
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


def sent_per_second(app: App, name: str) -> float | None:
    """Return how many requests this process sends through a lane; None if it has sent none since its start."""
    counts = app.worker.stats.lanes.by_name.get(name)
    return None if counts is None else round(counts.per_second(app.clock.monotonic()), 3)


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


LaneName = Annotated[
    str,
    Path(
        min_length=1,
        max_length=260,
        description="A domain such as example.com (it need not have been used yet), or the name of an API's lane.",
        examples=["example.com"],
    ),
]
New = Annotated[bool, Query(description="Name a site that no job has used yet; otherwise an unknown lane is refused.")]
RulesBody = Annotated[Rules, Body(openapi_examples={"slower, at night": {"value": OVERRIDES}})]


class Cleared(BaseModel):
    cleared: str


def lanes_router(app: App) -> Router:
    router = Router(prefix="/api/v1", tags=["lanes"], route_class=JsonRoute)
    _add_reading(router, app)
    _add_pausing(router, app)
    _add_rules(router, app)
    return router


def _add_reading(router: Router, app: App) -> None:
    @router.get(
        "/lanes",
        summary="List lanes",
        response_model=ResultPage[LaneReport],
        responses={200: example([LANE], next_cursor=None), **failures()},
    )
    async def list_lanes(request: Request, asked: Annotated[PageQuery, Query()]) -> Response:
        """Sorted by name. A lane appears with the first job that uses it."""
        await app.rules.refresh()
        listed = await app.reports.lanes(cursor=asked.cursor, limit=asked.limit)
        off = app.rules.politeness.inactive
        lanes = [
            lane.model_copy(
                update={"paused": lane.paused or lane.name in off, "per_second": sent_per_second(app, lane.name)}
            )
            for lane in listed.items
        ]
        return page(request, await app.waits.lanes(lanes), listed.next_cursor)

    @router.get(
        "/overrides",
        summary="List the rules that operators have set",
        response_model=ResultPage[OverrideReport],
        responses={200: example([OVERRIDE], next_cursor=None), **failures()},
    )
    async def list_overrides(request: Request, asked: Annotated[PageQuery, Query()]) -> Response:
        """Sorted by name. Includes domains that no job has used yet."""
        listed = await app.domains.list(cursor=asked.cursor, limit=asked.limit)
        return page(request, [override_report(domain) for domain in listed.items], listed.next_cursor)

    @router.get("/lanes/{lane}", summary="Show a lane", **_ONE)
    async def show_lane(request: Request, lane: LaneName) -> Response:
        """The rules in force, the source of each, and the lane's state. A host name shows the lane that the host
        belongs to."""
        await app.rules.refresh()
        await require_host(app, lane)
        return answer(request, await lane_detail(app, await belongs_to(app, lane)))


def _add_pausing(router: Router, app: App) -> None:
    @router.post("/lanes/{lane}/pause", summary="Pause a lane", **_ONE)
    async def pause_lane(request: Request, lane: LaneName, new: New = False) -> Response:
        """Sends no new requests until the lane is resumed. In-flight requests finish; its tasks stay queued."""
        await require_known(app, lane, new=new)
        name = await switch_lane(app, lane, active=False)
        return answer(request, await lane_detail(app, name))

    @router.post("/lanes/{lane}/resume", summary="Resume a lane", **_ONE)
    async def resume_lane(request: Request, lane: LaneName) -> Response:
        await require_known(app, lane)
        name = await switch_lane(app, lane, active=True)
        return answer(request, await lane_detail(app, name))


def _add_rules(router: Router, app: App) -> None:
    @router.put("/lanes/{lane}/rules", summary="Replace a lane's overrides", **_ONE)
    async def put_rules(request: Request, lane: LaneName, body: RulesBody, new: New = False) -> Response:
        """Operator rules override the policy file and the pipelines. A rule that is left out falls back to those."""
        await require_known(app, lane, new=new, command="set")
        name = _ruled(app, lane, {key for key, value in body if value is not None})
        app.check_via({"via": body.via})
        await app.domains.replace(name, body)
        await app.rules.refresh()
        return answer(request, await lane_detail(app, name))

    @router.patch("/lanes/{lane}/rules", summary="Change some of a lane's overrides", **_ONE)
    async def patch_rules(request: Request, lane: LaneName, body: RulesBody, new: New = False) -> Response:
        """Changes only the rules in the body; null removes one."""
        if not body.model_fields_set:
            problem = FieldError("body", f"name at least one of {', '.join(Rules.model_fields)}")
            raise Rejected("There is nothing to change.", fields=[problem])
        await require_known(app, lane, new=new, command="set")
        changes = {key: getattr(body, key) for key in body.model_fields_set}
        name = _ruled(app, lane, {key for key, value in changes.items() if value is not None})
        app.check_via(changes)
        await app.domains.set(name, changes)
        await app.rules.refresh()
        return answer(request, await lane_detail(app, name))

    @router.delete(
        "/lanes/{lane}/rules",
        summary="Clear a lane's overrides",
        response_model=Envelope[Cleared],
        responses={200: example({"cleared": OVERRIDE["name"]}), **failures(404)},
    )
    async def clear_rules(request: Request, lane: LaneName) -> Response:
        """The policy file, the pipelines and the settings apply again."""
        name = checked_name(lane)
        if not await app.domains.clear(name):
            near = did_you_mean(name, app.rules.politeness.overrides)
            raise NotFound(f"No operator rules are set for {name!r}.{near} Set one with `forager lanes set {name} …`.")
        await app.rules.refresh()
        return answer(request, {"cleared": name})


def _ruled(app: App, lane: str, named: set[str]) -> str:
    """Return the name under which the rules are stored. Refuses site-only rules for an API's lane."""
    name = checked_name(lane)
    if app.rules.politeness.is_api(name) and (useless := sorted(named - set(API_FIELDS))):
        reason = f"is for sites; {name} is an API, which has {', '.join(API_FIELDS)}"
        raise Rejected(f"These rules do not apply to {name}.", fields=[FieldError(key, reason) for key in useless])
    return name


_ONE: dict[str, Any] = {
    "response_model": Envelope[LaneDetail],
    "responses": {200: example(LANE_DETAIL), **failures(404, body=True)},
}
