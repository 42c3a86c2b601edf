"""Routes for dead letters, the tasks that failed for good: list, show, retry, discard."""

from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.api.examples import DEAD, DEAD_DETAIL
from forager.api.jobs import Requeued
from forager.api.pipeline_filter import check_pipeline
from forager.app import App
from forager.core.reasons import ErrorType
from forager.kit.http.envelope import Envelope, Page, answer, page
from forager.kit.http.openapi import example, failures
from forager.kit.http.params import WhyQuery
from forager.kit.http.routes import Router
from forager.ledger.reports import MOST, DeadLetter, DeadLetterDetail, Why

MOST_LEFT_OUT = 10_000
"""Dead letters that a bulk retry passes over before it ends."""


class DeadQuery(WhyQuery):
    job: UUID | None = Field(default=None, description="Only those of this job.")
    pipeline: str | None = Field(default=None, max_length=100, description="Only those of this pipeline.")


class RetryBody(BaseModel):
    """Which dead letters to run again. Filters that are left out match all of them."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"reason": "timed_out"}]})

    job: UUID | None = Field(default=None, description="Only those of this job.")
    pipeline: str | None = Field(default=None, max_length=100, description="Only those of this pipeline.")
    reason: str | None = Field(
        default=None, max_length=64, pattern="^[a-z][a-z0-9_]*$", description="Only this reason."
    )
    error_type: ErrorType | None = Field(default=None, description="Only failures of this type.")
    limit: int = Field(default=10_000, ge=1, le=10_000, description="Maximum number of dead letters, newest first.")


class RetriedMany(Requeued):
    letters: int = Field(description="Dead letters that were run again.")
    left_out: int = Field(
        description="Dead letters that were left out because their job has ended and needs a new secret."
        " The search ends after 10,000 of them: a narrower filter reaches others."
    )


class Discarded(BaseModel):
    discarded: UUID


PICTURE: dict[str, Any] = {
    "description": "A PNG.",
    "content": {"image/png": {"schema": {"type": "string", "format": "binary"}, "example": "\x89PNG…"}},
}
HARMLESS = {"Content-Security-Policy": "default-src 'none'; sandbox"}
"""The evidence may be hostile. `nosniff`, which every answer has, keeps a browser from guessing another type."""


def dead_router(app: App) -> Router:
    router = Router(prefix="/api/v1/dead", tags=["dead letters"])

    @router.get(
        "",
        summary="List dead letters",
        response_model=Page[DeadLetter],
        responses={200: example([DEAD], next_cursor=None), **failures(404)},
    )
    async def list_dead(request: Request, asked: Annotated[DeadQuery, Query()]) -> Response:
        """Newest first. An unknown pipeline is refused."""
        await check_pipeline(app, asked.pipeline)
        letters = await app.reports.dead(
            job=asked.job,
            pipeline=asked.pipeline,
            why=Why(asked.reason, asked.error_type),
            cursor=asked.cursor,
            limit=asked.limit,
        )
        return page(request, letters.items, letters.next_cursor)

    @router.get(
        "/{task_id}",
        summary="Show a dead letter",
        response_model=Envelope[DeadLetterDetail],
        responses={200: example(DEAD_DETAIL), **failures(404)},
    )
    async def show_dead(request: Request, task_id: UUID) -> Response:
        """Includes the task's input and the evidence. Evidence is what a remote server sent: treat it as untrusted."""
        return answer(request, await app.reports.dead_letter(task_id))

    @router.get(
        "/{task_id}/screenshot",
        summary="Show the page of a dead letter",
        response_class=Response,
        responses={200: PICTURE, **failures(404)},
    )
    async def show_screenshot(task_id: UUID) -> Response:
        """The browser's screenshot at the moment of the failure. Kept as long as the evidence."""
        return Response(await app.reports.screenshot(task_id), headers=HARMLESS, media_type="image/png")

    @router.post(
        "/{task_id}/retry",
        summary="Run a dead letter again",
        response_model=Envelope[Requeued],
        responses={200: example({"requeued": 1}), **failures(404, 409)},
    )
    async def retry_dead(request: Request, task_id: UUID) -> Response:
        """Also requeues the tasks that were skipped because of it. 422 if its job has ended and needs a new secret."""
        return answer(request, {"requeued": await app.retries.task(task_id)})

    @router.post(
        "/retry",
        summary="Run many dead letters again",
        response_model=Envelope[RetriedMany],
        responses={200: example({"requeued": 14, "letters": 12, "left_out": 0}), **failures(404, body=True)},
    )
    async def retry_many(request: Request, body: RetryBody) -> Response:
        """Selects dead letters by filter, newest first, and also requeues the tasks that were skipped because of
        them. Leaves out those of ended jobs that need a new secret, such as the access token of a reviews job, and
        counts them in `left_out`."""
        return answer(request, await _retry(app, body))

    discarded: dict[str, Any] = {
        "response_model": Envelope[Discarded],
        "responses": {200: example({"discarded": DEAD["id"]}), **failures(404)},
    }

    @router.post("/{task_id}/discard", summary="Discard a dead letter", **discarded)
    @router.delete("/{task_id}", summary="Discard a dead letter", operation_id="delete_dead", **discarded)
    async def discard_dead(request: Request, task_id: UUID) -> Response:
        """Hides it from the list. The job's counters stay as they are."""
        await app.ledger.discard(task_id)
        return answer(request, {"discarded": task_id})

    return router


async def _retry(app: App, asked: RetryBody) -> dict[str, int]:
    """Requeue page by page. A task that fails again meanwhile sorts before the current page, so none is requeued
    twice. The work is bounded whatever the letters are: pages are full, and a page asks once for each of its jobs."""
    await check_pipeline(app, asked.pipeline)
    requeued = letters = left_out = 0
    cursor: str | None = None
    while letters < asked.limit and left_out < MOST_LEFT_OUT:
        page = await app.reports.dead(
            job=asked.job,
            pipeline=asked.pipeline,
            why=Why(asked.reason, asked.error_type),
            cursor=cursor,
            limit=MOST,
        )
        possible = await _retryable(app, page.items)
        for letter in page.items:
            if letters == asked.limit or left_out == MOST_LEFT_OUT:
                break
            if letter.job in possible:
                requeued += await app.ledger.retry_task(letter.id)
                letters += 1
            else:
                left_out += 1
        cursor = page.next_cursor
        if cursor is None:
            break
    return {"requeued": requeued, "letters": letters, "left_out": left_out}


async def _retryable(app: App, letters: Sequence[DeadLetter]) -> set[UUID]:
    """Return the jobs of these letters whose tasks can be retried without a secret."""
    pipelines = {letter.job: letter.pipeline for letter in letters}
    return {job for job, pipeline in pipelines.items() if await app.retries.is_possible(pipeline, job)}
