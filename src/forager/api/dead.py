"""Dead letters: tasks that failed for good. Look, retry, discard."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.api.examples import DEAD, DEAD_DETAIL
from forager.api.jobs import Requeued
from forager.app import App
from forager.kit.http.envelope import Envelope, Page, answer, page
from forager.kit.http.openapi import example, failures
from forager.kit.http.params import WhyQuery
from forager.ledger.reports import DeadLetter, DeadLetterDetail, Why


class DeadQuery(WhyQuery):
    job: UUID | None = Field(default=None, description="Only those of this job.")
    pipeline: str | None = Field(default=None, max_length=100, description="Only those of this pipeline.")


class Discarded(BaseModel):
    discarded: UUID


PICTURE: dict[str, Any] = {
    "description": "A PNG.",
    "content": {"image/png": {"schema": {"type": "string", "format": "binary"}, "example": "\x89PNG…"}},
}
HARMLESS = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox"}
"""It is a picture, whatever is in it."""


def dead_router(app: App) -> APIRouter:
    router = APIRouter(prefix="/api/v1/dead", tags=["dead letters"])

    @router.get(
        "",
        summary="List dead letters",
        response_model=Page[DeadLetter],
        responses={200: example([DEAD], next_cursor=None), **failures(404)},
    )
    async def list_dead(request: Request, asked: Annotated[DeadQuery, Query()]) -> Response:
        """Newest first."""
        found = await app.reports.dead(
            job=asked.job,
            pipeline=asked.pipeline,
            why=Why(asked.reason, asked.error_type),
            cursor=asked.cursor,
            limit=asked.limit,
        )
        return page(request, found.items, found.next_cursor)

    @router.get(
        "/{task_id}",
        summary="Show a dead letter",
        response_model=Envelope[DeadLetterDetail],
        responses={200: example(DEAD_DETAIL), **failures(404)},
    )
    async def show_dead(request: Request, task_id: UUID) -> Response:
        """With its input and what came back. Evidence is what a stranger's server sent: do not trust it."""
        return answer(request, await app.reports.dead_letter(task_id))

    @router.get(
        "/{task_id}/screenshot",
        summary="Show the page of a dead letter",
        response_class=Response,
        responses={200: PICTURE, **failures(404)},
    )
    async def show_screenshot(task_id: UUID) -> Response:
        """As a browser saw it when it failed; kept as long as the evidence."""
        return Response(await app.reports.screenshot(task_id), headers=HARMLESS, media_type="image/png")

    @router.post(
        "/{task_id}/retry",
        summary="Run a dead letter again",
        response_model=Envelope[Requeued],
        responses={200: example({"requeued": 1}), **failures(404, 409)},
    )
    async def retry_dead(request: Request, task_id: UUID) -> Response:
        """Also those tasks that were skipped because of it."""
        return answer(request, {"requeued": await app.ledger.retry_task(task_id)})

    discarded: dict[str, Any] = {
        "response_model": Envelope[Discarded],
        "responses": {200: example({"discarded": DEAD["id"]}), **failures(404)},
    }

    @router.post("/{task_id}/discard", summary="Discard a dead letter", **discarded)
    @router.delete("/{task_id}", summary="Discard a dead letter", operation_id="delete_dead", **discarded)
    async def discard_dead(request: Request, task_id: UUID) -> Response:
        """Hides it from the list; counters stay."""
        await app.ledger.discard(task_id)
        return answer(request, {"discarded": task_id})

    return router
