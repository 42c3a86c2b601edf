"""Routes for lanes, the sites and APIs that rates and limits apply to: list, show, pause, resume, set rules."""

from typing import Annotated, Any

from fastapi import Body, Path, Query
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from forager.api.examples import LANE, LANE_DETAIL, OVERRIDE, OVERRIDES
from forager.api.lane_detail import LaneDetail, OverrideReport, lane_detail, override_report
from forager.app import App
from forager.core.errors import FieldError, NotFound, Rejected
from forager.core.names import did_you_mean
from forager.core.rules import Rules
from forager.kit.http.envelope import Envelope, Page, answer, page
from forager.kit.http.json_route import JsonRoute
from forager.kit.http.openapi import example, failures
from forager.kit.http.params import PageQuery
from forager.kit.http.routes import Router
from forager.lane_switch import belongs_to, require_host, require_known, switch_lane
from forager.ledger.reports import LaneReport
from forager.ledger.side_tables.domains import checked_name
from forager.politeness.precedence import API_FIELDS

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
        response_model=Page[LaneReport],
        responses={200: example([LANE], next_cursor=None), **failures()},
    )
    async def list_lanes(request: Request, asked: Annotated[PageQuery, Query()]) -> Response:
        """Sorted by name. A lane appears with the first job that uses it."""
        await app.rules.refresh()
        listed = await app.reports.lanes(cursor=asked.cursor, limit=asked.limit)
        off = app.rules.politeness.inactive
        lanes = [lane.model_copy(update={"paused": lane.paused or lane.name in off}) for lane in listed.items]
        return page(request, await app.waits.lanes(lanes), listed.next_cursor)

    @router.get(
        "/overrides",
        summary="List the rules that operators have set",
        response_model=Page[OverrideReport],
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
        await require_known(app, lane, new=new)
        name = _ruled(app, lane, {key for key, value in body if value is not None})
        await app.domains.replace(name, body)
        await app.rules.refresh()
        return answer(request, await lane_detail(app, name))

    @router.patch("/lanes/{lane}/rules", summary="Change some of a lane's overrides", **_ONE)
    async def patch_rules(request: Request, lane: LaneName, body: RulesBody, new: New = False) -> Response:
        """Changes only the rules in the body; null removes one."""
        if not body.model_fields_set:
            problem = FieldError("body", f"name at least one of {', '.join(Rules.model_fields)}")
            raise Rejected("There is nothing to change.", fields=[problem])
        await require_known(app, lane, new=new)
        changes = {key: getattr(body, key) for key in body.model_fields_set}
        name = _ruled(app, lane, {key for key, value in changes.items() if value is not None})
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
