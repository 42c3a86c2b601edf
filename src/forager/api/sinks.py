"""Routes for sinks: list, show, pause, resume, replay, and the changes that a sink refused."""

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Path, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.api.examples import REFUSED_CHANGE, SINK
from forager.app import App
from forager.core.errors import Conflict, FieldError, NotFound, Rejected
from forager.core.lane_names import sink_lane
from forager.core.sink import SinkStatus
from forager.kit.http.envelope import Envelope, Page, answer, page
from forager.kit.http.json_route import JsonRoute
from forager.kit.http.openapi import example, failures
from forager.kit.http.params import PageQuery
from forager.kit.http.routes import Router

MOST_NUMBER = 2**63 - 1

SinkName = Annotated[str, Path(max_length=100, description="The sink's name.", examples=["webhook"])]
ChangeNumber = Annotated[
    int | None,
    Query(alias="change", ge=1, le=MOST_NUMBER, description="Only this change (default: all refused changes)."),
]


class SinkReport(BaseModel):
    name: str
    configured: bool = Field(description="Whether the settings of this process configure it.")
    state: Literal["delivering", "failing", "paused", "idle"] = Field(
        description="`idle`: no process delivers it now. `failing`: its last try failed, and it is tried again."
    )
    cursor: int = Field(description="Number of the last change that it has passed.")
    behind: int = Field(description="Changes in the log after that, of any kind.")
    lag_seconds: float = Field(description="Age of the oldest of these, in seconds.")
    delivered: int = Field(description="Changes delivered, including repeated deliveries.")
    rate: float = Field(description="Changes delivered per second, averaged over about a minute.")
    owner: str | None = Field(description="The session that delivers it now.")
    failures: int = Field(description="Failed tries since the last that succeeded.")
    error: str | None = Field(description="The last error, even if a later try succeeded.")
    error_at: datetime | None
    retry_at: datetime | None = Field(description="When the next try is due, while it fails.")
    moved_at: datetime | None
    set_aside: int = Field(description="Refused changes that wait for a decision.")


class RefusedChange(BaseModel):
    """A change that a sink refused. Delivery went on with the changes after it."""

    change: int = Field(description="Its number in the log.")
    kind: str
    key: str
    op: str
    job: UUID | None
    tries: int
    error: str
    at: datetime
    retry: bool = Field(description="Whether it will be delivered again shortly.")


class ReplayBody(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"after": 0}]})

    after: int = Field(
        default=0, ge=0, le=MOST_NUMBER, description="Begin after this change number (0 = deliver the whole log)."
    )


class Decided(BaseModel):
    changes: int = Field(description="Number of changes affected.")


class Forgotten(BaseModel):
    forgotten: str


def sinks_router(app: App) -> Router:
    router = Router(prefix="/api/v1/sinks", tags=["sinks"], route_class=JsonRoute)
    _add_looking(router, app)
    _add_moving(router, app)
    _add_refused(router, app)
    return router


def _add_looking(router: Router, app: App) -> None:
    @router.get(
        "",
        summary="List sinks",
        response_model=Envelope[list[SinkReport]],
        responses={200: example([SINK]), **failures()},
    )
    async def list_sinks(request: Request) -> Response:
        """Sinks that are configured, and sinks that the ledger remembers from before."""
        statuses = await app.sinks.statuses(list(app.deliveries))
        return answer(request, [_report(app, status) for status in statuses])

    @router.get("/{sink}", summary="Show a sink", **_ONE)
    async def show_sink(request: Request, sink: SinkName) -> Response:
        return answer(request, _report(app, await _status(app, sink)))

    @router.delete(
        "/{sink}",
        summary="Forget a sink",
        response_model=Envelope[Forgotten],
        responses={200: example({"forgotten": "files"}), **failures(404, 409)},
    )
    async def forget_sink(request: Request, sink: SinkName) -> Response:
        """Removes the position and the refused changes of a sink that is no longer configured. Until then, its position
        keeps changes from being pruned."""
        await _status(app, sink)
        if sink in app.deliveries:
            raise Conflict(f"The sink {sink!r} is configured. Take it out of the settings first, or pause it.")
        await app.sinks.forget(sink)
        return answer(request, {"forgotten": sink})


def _add_moving(router: Router, app: App) -> None:
    @router.post("/{sink}/pause", summary="Pause a sink", **_ONE)
    async def pause_sink(request: Request, sink: SinkName) -> Response:
        """Delivers nothing after the current batch until the sink is resumed. Its position in the log is kept."""
        await _status(app, sink)
        await app.ledger.pause_lane(sink_lane(sink), paused=True)
        return answer(request, _report(app, await _status(app, sink)))

    @router.post("/{sink}/resume", summary="Resume a sink", **_ONE)
    async def resume_sink(request: Request, sink: SinkName) -> Response:
        """Continues from its position in the log."""
        await _status(app, sink)
        await app.ledger.pause_lane(sink_lane(sink), paused=False)
        return answer(request, _report(app, await _status(app, sink)))

    @router.post("/{sink}/replay", summary="Deliver changes to a sink again", **_ONE)
    async def replay_sink(request: Request, sink: SinkName, body: ReplayBody) -> Response:
        """Moves the sink's position in the log: back to deliver changes again, or forward to leave some out. Changes
        that the sink already has are not duplicated, because each takes effect once."""
        status = await _status(app, sink)
        last = status.cursor + status.behind
        if body.after > last:
            problem = FieldError("after", f"the newest change is {last}; give a number up to that")
            raise Rejected(f"after: {problem.message}.", fields=[problem])
        await app.sinks.replay(sink, body.after)
        return answer(request, _report(app, await _status(app, sink)))


def _add_refused(router: Router, app: App) -> None:
    decided: dict[str, Any] = {
        "response_model": Envelope[Decided],
        "responses": {200: example({"changes": 1}), **failures(404)},
    }

    @router.get(
        "/{sink}/refused",
        summary="List what a sink has refused",
        response_model=Page[RefusedChange],
        responses={200: example([REFUSED_CHANGE], next_cursor=None), **failures(404)},
    )
    async def list_refused(request: Request, sink: SinkName, asked: Annotated[PageQuery, Query()]) -> Response:
        """Sorted by change number."""
        await _status(app, sink)
        changes = await app.sinks.refused(sink, cursor=asked.cursor, limit=asked.limit)
        shown = [RefusedChange.model_validate(asdict(each)) for each in changes.items]
        return page(request, shown, changes.next_cursor)

    @router.post("/{sink}/refused/retry", summary="Deliver refused changes again", **decided)
    async def retry_refused(request: Request, sink: SinkName, change: ChangeNumber = None) -> Response:
        """Each is tried once more. A change that is refused again stays in the list."""
        await _status(app, sink)
        return answer(request, {"changes": await app.sinks.retry(sink, change)})

    @router.post("/{sink}/refused/discard", summary="Discard refused changes", **decided)
    async def discard_refused(request: Request, sink: SinkName, change: ChangeNumber = None) -> Response:
        """They are removed from the list and not delivered to this sink. The log keeps them."""
        await _status(app, sink)
        return answer(request, {"changes": await app.sinks.discard(sink, change)})


async def _status(app: App, name: str) -> SinkStatus:
    for status in await app.sinks.statuses(list(app.deliveries)):
        if status.name == name:
            return status
    raise NotFound(f"There is no sink {name!r}. `forager sinks list` shows those there are.")


def _report(app: App, status: SinkStatus) -> SinkReport:
    state: Literal["delivering", "failing", "paused", "idle"] = "delivering"
    if status.paused:
        state = "paused"
    elif status.failures:
        state = "failing"
    elif status.owner is None:
        state = "idle"
    known = asdict(status)
    lag = known.pop("lag")
    known.pop("paused")
    return SinkReport(**known, lag_seconds=lag, state=state, configured=status.name in app.deliveries)


_ONE: dict[str, Any] = {
    "response_model": Envelope[SinkReport],
    "responses": {200: example(SINK), **failures(404, body=True)},
}
