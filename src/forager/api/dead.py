"""Routes for dead letters, the tasks that failed permanently: list, show, retry, discard."""

import asyncio
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.api.examples import DEAD, DEAD_DETAIL, DEAD_REASON
from forager.api.jobs import Requeued, check_pipeline
from forager.app.application import App
from forager.core.errors import Conflict, FieldError, NotFound, Rejected
from forager.core.states import ErrorType
from forager.core.states import Reason as Reasons
from forager.ledger.reports import MOST, DeadLetter, DeadLetterDetail, DeadReason, Why
from forager.sdk.http.envelope import Envelope, ResultPage, answer, page
from forager.sdk.http.routes import Router, WhyQuery, example, failures

JOBS_AT_ONCE = 8
"""Jobs whose dead letters are requeued at the same time."""
JOBS_NAMED = 10
MISTYPED = 0.85
"""Minimum similarity at which an unknown reason is a misspelled known one: `timedout` is 0.94 of `timed_out`."""
CANCELLED = "Their job was cancelled. Submit it again, or discard them: forager dead discard TASK"
ENDED = "Their job has ended and needs a new secret. See how to send it: forager dead retry TASK"
GONE = "They were retried or removed by another request."


class DeadQuery(WhyQuery):
    job: UUID | None = Field(default=None, description="Only those of this job.")
    pipeline: str | None = Field(default=None, max_length=100, description="Only those of this pipeline.")


class DeadFilter(BaseModel):
    """Filters of dead letters. Filters that are left out match all of them."""

    model_config = ConfigDict(extra="forbid")

    job: UUID | None = Field(default=None, description="Only those of this job.")
    pipeline: str | None = Field(default=None, max_length=100, description="Only those of this pipeline.")
    reason: str | None = Field(
        default=None, max_length=64, pattern="^[a-z][a-z0-9_]*$", description="Only this reason."
    )
    error_type: ErrorType | None = Field(default=None, description="Only failures of this type.")


class RetryBody(DeadFilter):
    """The dead letters to run again. Filters that are left out match all of them."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "timed_out"}]})

    limit: int = Field(default=500, ge=1, le=MOST, description="Dead letters in one request, newest first.")
    cursor: str | None = Field(
        default=None,
        max_length=2_000,
        pattern="^[A-Za-z0-9_-]+$",
        description="`next_cursor` of the previous answer: continues there.",
    )


Reason = Literal["job_cancelled", "secret_required", "gone"]


class PassedOver(BaseModel):
    """Dead letters that were not requeued, by reason."""

    reason: Reason
    letters: int
    message: str = Field(description="Meaning of the reason, and the remedy.")
    jobs: list[UUID] = Field(description=f"Their jobs; at most {JOBS_NAMED}.")


class RetriedMany(Requeued):
    letters: int = Field(description="Dead letters that were run again.")
    passed_over: list[PassedOver]
    next_cursor: str | None = Field(description="The `cursor` of the next request; null when all have been looked at.")


class Discarded(BaseModel):
    discarded: UUID


PICTURE: dict[str, Any] = {
    "description": "A PNG.",
    "content": {"image/png": {"schema": {"type": "string", "format": "binary"}, "example": "\x89PNG…"}},
}
HARMLESS = {"Content-Security-Policy": "default-src 'none'; sandbox"}
"""The evidence may be hostile. `nosniff`, which every answer has, keeps a browser from guessing another type."""


async def _check_reason(app: App, reason: str | None) -> None:
    """Raise `Rejected` for a reason that no dead letter has and that is all but a known one. Pipelines have reasons of
    their own, so that one that resembles no other is not refused: it may be of a failure that has not happened yet."""
    if reason is None or reason in set(Reasons):
        return
    stored = {each.reason for each in await app.reports.dead_reasons(job=None, pipeline=None, why=Why()) if each.reason}
    known = stored | set(Reasons)
    near = get_close_matches(reason, sorted(known), 1, cutoff=MISTYPED)
    if reason not in known and near:
        problem = FieldError("reason", f"no dead letter has the reason {reason!r}. Did you mean {near[0]!r}?")
        raise Rejected(f"reason: {problem.message}", fields=[problem])


def dead_router(app: App) -> Router:
    router = Router(prefix="/api/v1/dead", tags=["dead letters"])

    @router.get(
        "",
        summary="List dead letters",
        response_model=ResultPage[DeadLetter],
        responses={200: example([DEAD], next_cursor=None), **failures(404)},
    )
    async def list_dead(request: Request, asked: Annotated[DeadQuery, Query()]) -> Response:
        """Newest first. An unknown pipeline is refused, as is a reason that looks like a mistyped one."""
        await check_pipeline(app, asked.pipeline)
        await _check_reason(app, asked.reason)
        letters = await app.reports.dead(
            job=asked.job,
            pipeline=asked.pipeline,
            why=Why(asked.reason, asked.error_type),
            cursor=asked.cursor,
            limit=asked.limit,
        )
        return page(request, letters.items, letters.next_cursor)

    @router.get(
        "/reasons",
        summary="Count dead letters by reason",
        response_model=Envelope[list[DeadReason]],
        responses={200: example([DEAD_REASON]), **failures(404)},
    )
    async def count_dead(request: Request, asked: Annotated[DeadFilter, Query()]) -> Response:
        """Totals by pipeline, reason and type of error, most first. An unknown pipeline is refused."""
        await check_pipeline(app, asked.pipeline)
        await _check_reason(app, asked.reason)
        why = Why(asked.reason, asked.error_type)
        return answer(request, await app.reports.dead_reasons(job=asked.job, pipeline=asked.pipeline, why=why))

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
        responses={
            200: example({"requeued": 14, "letters": 12, "passed_over": [], "next_cursor": None}),
            **failures(404, body=True),
        },
    )
    async def retry_many(request: Request, body: RetryBody) -> Response:
        """Selects dead letters by filter, newest first, and also requeues the tasks that were skipped because of
        them. One request looks at `limit` of them; repeat it with `cursor` set to `next_cursor` until that is null.

        Letters that cannot be requeued are counted in `passed_over` with the reason: their job was cancelled, or it has
        ended and needs a new secret, such as the access token of a reviews job."""
        await _check_reason(app, body.reason)
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


async def _retry(app: App, asked: RetryBody) -> RetriedMany:
    """Requeue one page, a transaction for each job. A task that fails again meanwhile sorts before the page, so none is
    requeued twice by those who follow the cursor."""
    await check_pipeline(app, asked.pipeline)
    why = Why(asked.reason, asked.error_type)
    page = await app.reports.dead(
        job=asked.job, pipeline=asked.pipeline, why=why, cursor=asked.cursor, limit=asked.limit
    )
    by_job: dict[UUID, list[DeadLetter]] = {}
    for letter in page.items:
        by_job.setdefault(letter.job, []).append(letter)
    turns = asyncio.Semaphore(JOBS_AT_ONCE)
    done = RetriedMany(requeued=0, letters=0, passed_over=[], next_cursor=page.next_cursor)

    async def retry(job: UUID, letters: Sequence[DeadLetter]) -> None:
        async with turns:
            try:
                if not await app.retries.is_possible(letters[0].pipeline, job):
                    return _pass_over(done, "secret_required", ENDED, job, len(letters))
                # Added after the await: `+= await` reads the sum before it, and jobs that end meanwhile would be lost.
                requeued = await app.ledger.retry_tasks([letter.id for letter in letters])
                done.requeued += requeued
                done.letters += len(letters)
            except Conflict:
                _pass_over(done, "job_cancelled", CANCELLED, job, len(letters))
            except NotFound:
                _pass_over(done, "gone", GONE, job, len(letters))

    async with asyncio.TaskGroup() as group:
        for job, letters in by_job.items():
            group.create_task(retry(job, letters))
    return done


def _pass_over(done: RetriedMany, reason: Reason, message: str, job: UUID, letters: int) -> None:
    for each in done.passed_over:
        if each.reason == reason:
            each.letters += letters
            each.jobs = [*each.jobs, job][:JOBS_NAMED]
            return
    done.passed_over.append(PassedOver(reason=reason, letters=letters, message=message, jobs=[job]))
