"""Retention on request: count or remove old data now, instead of waiting for the background loop."""

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.app import App
from forager.core.retention import Pruned
from forager.kit.http.envelope import Envelope, answer
from forager.kit.http.json_route import JsonRoute
from forager.kit.http.openapi import example, failures
from forager.kit.http.routes import Router

SECONDS = 5.0
"""Time limit of one request. `more` in the response then asks for another."""


class PruneBody(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"dry_run": True}]})

    dry_run: bool = Field(default=False, description="Only count what would be removed.")


class PrunedReport(BaseModel):
    jobs: int = Field(description="Finished jobs.")
    tasks: int = Field(description="Their tasks.")
    messages: int = Field(description="Webhooks that were delivered or discarded.")
    rejected: int = Field(description="Rows that failed validation.")
    attempts: int = Field(description="Attempts of tasks in the log.")
    changes: int = Field(description="Changes that every sink has passed. In a dry run, a few of them may stay.")
    records: int = Field(description="Records of jobs that were removed.")
    more: bool = Field(description="Whether old data is left because the time limit was reached: call again.")


SHOWN: dict[str, int] = {"jobs": 12, "tasks": 10_940, "messages": 37, "rejected": 0, "attempts": 211}
SHOWN |= {"changes": 0, "records": 0}


def retention_router(app: App) -> Router:
    router = Router(prefix="/api/v1", tags=["retention"], route_class=JsonRoute)

    @router.post(
        "/prune",
        summary="Remove old data",
        response_model=Envelope[PrunedReport],
        responses={200: example({**SHOWN, "more": False}), **failures(body=True)},
    )
    async def prune(request: Request, body: PruneBody) -> Response:
        """Removes everything that is older than the settings keep it. With `dry_run`, only counts it."""
        pruned = await app.prunable() if body.dry_run else await _prune(app)
        return answer(request, PrunedReport(**{name: getattr(pruned, name) for name in PrunedReport.model_fields}))

    return router


async def _prune(app: App) -> Pruned:
    sum_, ends = Pruned(more=True), app.clock.monotonic() + SECONDS
    while sum_.more and app.clock.monotonic() < ends:
        sum_ += await app.prune()
    return sum_
