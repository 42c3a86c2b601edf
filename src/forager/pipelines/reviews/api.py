"""The reviews pipeline in the seed's words: submit a token, follow the job, retry it with a new token, read it nested.

A token arrives in a body and leaves as a secret of its job. Nothing here logs a body, repeats a token in an answer, or
puts one into a job's parameters.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Literal
from uuid import UUID

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from forager.core.errors import Busy, FieldError, Stopping
from forager.core.invalid import field_errors
from forager.core.secret import Secret
from forager.pipelines.reviews import reports
from forager.pipelines.reviews.api_logins import add_logins
from forager.pipelines.reviews.api_stream import add_events, add_stream, page_router
from forager.pipelines.reviews.api_tree import add_tree
from forager.pipelines.reviews.pipeline import NAME, AccessToken
from forager.pipelines.reviews.steps import TOKEN
from forager.pipelines.reviews.wiring import review_job, submit_token
from forager.sdk.http.envelope import JSON, Envelope, answer, encoded, refusal, request_id
from forager.sdk.http.routes import JsonRoute, Router, example, failures
from forager.sdk.http.streams import TaskWaiter
from forager.sdk.reports import JobReport
from forager.sdk.service import Service

RETRY_AFTER = {"Retry-After": "5"}
NESTED_SECONDS = 60.0
LOOK_EVERY = 0.1


class TokenBody(BaseModel):
    """An OAuth access token of a Google account, with the scope `business.manage`."""

    model_config = ConfigDict(
        extra="forbid", hide_input_in_errors=True, json_schema_extra={"examples": [{"access_token": "ya29.a0AfH6…"}]}
    )

    access_token: AccessToken = Field(description="Sealed while the job runs, deleted when it ends, never shown.")


class ReviewJobCreated(BaseModel):
    job_id: UUID
    status: Literal["queued"]
    message: Literal["Job enqueued for processing"]


class ReviewJobSeen(BaseModel):
    """The state of a job. Every count is exact at every moment."""

    job_id: UUID
    status: str = Field(description="queued, running, paused, completed, partially_completed, failed or cancelled")
    accounts: int
    locations: int
    reviews: int
    failures: int = Field(description="Pages that could not be fetched; `GET /api/v1/dead?job=…` lists them.")
    error: str | None = Field(description="Error of one of them; null if none failed.")
    rejected: int = Field(description="Rows without an id; `GET /api/v1/jobs/{job_id}/rejected` lists them.")
    pages: int = Field(description="Pages of all three stages that were found until now.")
    pages_done: int


class ReviewJobRetried(BaseModel):
    job_id: UUID
    requeued: int


def routes(service: Service, waiter: TaskWaiter) -> Router:
    whole = Router()
    router = Router(prefix="/api/v1", tags=[NAME], route_class=JsonRoute)
    _add_jobs(router, service)
    _add_nested(router, service)
    add_logins(router, service)
    add_events(router, service)
    add_tree(router, service)
    add_stream(router, service, waiter)
    whole.include_router(router)
    whole.include_router(page_router())
    return whole


def _add_jobs(router: Router, service: Service) -> None:
    @router.post(
        "/review-fetch",
        status_code=202,
        summary="Fetch the reviews of an access token",
        response_model=Envelope[ReviewJobCreated],
        responses={202: _CREATED, **failures(400, 429)},
        openapi_extra=_TOKEN_BODY,
    )
    async def fetch_reviews(request: Request) -> Response:
        """Returns as soon as the job is on disk. `GET /api/v1/review-fetch/{job_id}` follows it. With `{"login": NAME}`
        in place of a token, the access tokens are made from a stored Google login."""
        login = _login_of(await request.body())
        token = None if login is not None else await _token(request)
        if isinstance(token, Response):
            return token
        try:
            made = await submit_token(service, token, login=login)
        except Stopping:
            raise
        except Busy as busy:
            return refusal(request.scope, 429, "busy", busy.message, headers=RETRY_AFTER)
        data = {"job_id": made.job, "status": "queued", "message": "Job enqueued for processing"}
        return answer(request, data, status=202)

    @router.get(
        "/review-fetch/{job_id}",
        summary="Show a reviews job",
        response_model=Envelope[ReviewJobSeen],
        responses={200: _SEEN, **failures(404)},
    )
    async def show_review_job(request: Request, job_id: UUID) -> Response:
        job = await review_job(service, job_id)
        error, _ = await _why_failed(service, job)
        return answer(request, {**_seen(job), "error": error, **await reports.counts(service.database, job_id)})

    @router.post(
        "/review-fetch/{job_id}/retry",
        summary="Retry the failed pages of a job with a new token",
        response_model=Envelope[ReviewJobRetried],
        responses={200: _RETRIED, **failures(400, 404, 409)},
        openapi_extra=_TOKEN_BODY,
    )
    async def retry_review_job(request: Request, job_id: UUID) -> Response:
        """Queues the failed pages again. The job's first token is gone since the job ended, so a new one is needed,
        except for a job of a stored login: send `{"login": NAME}`."""
        job = await review_job(service, job_id)
        if job.params.get("login") is not None and _login_of(await request.body()) == job.params["login"]:
            return answer(request, {"job_id": job_id, "requeued": await service.retry(job_id)})
        token = await _token(request)
        if isinstance(token, Response):
            return token
        requeued = await service.retry(job_id, secrets={TOKEN: token})
        return answer(request, {"job_id": job_id, "requeued": requeued})


def _add_nested(router: Router, service: Service) -> None:
    @router.post(
        "/demo/nested",
        summary="Fetch everything a token can read, nested",
        response_class=Response,
        responses={200: _NESTED, **failures(400, 413, 429, 502, 504)},
        openapi_extra=_TOKEN_BODY,
    )
    async def fetch_nested(request: Request) -> Response:
        """Waits for the job and answers with accounts, their locations and their reviews. After 60 seconds the answer
        is 504 with the job's id, and the job continues. A job of which nothing succeeded, such as one with a token that
        Google refuses, is a 502 with the reason."""
        token = await _token(request)
        if isinstance(token, Response):
            return token
        try:
            made = await submit_token(service, token)
        except Stopping:
            raise
        except Busy as busy:
            return refusal(request.scope, 429, "busy", busy.message, headers=RETRY_AFTER)
        if not await _ended(service, made.job):
            message = (
                f"Job {made.job} has not ended within {NESTED_SECONDS:.0f} s and goes on:"
                f" GET /api/v1/demo/stream/nested?job_id={made.job}"
            )
            return refusal(request.scope, 504, "still_running", message, job_id=made.job)
        job = await service.reports.job(made.job)
        return await (_failed(request, service, job) if job.state == "failed" else nested_answer(request, service, job))


async def nested_answer(request: Request, service: Service, job: JobReport) -> Response:
    """Stream the nested output of a job. If it is too large for one answer, the error names the export instead."""
    size = await reports.nested_size(service.database, job.id)
    if size > reports.MOST_BYTES:
        export = f"GET /api/v1/export/review?job={job.id}"
        message = f"The nested output is about {size // 1_000_000} MB. Export it: {export}"
        return refusal(request.scope, 413, "too_large", message, job_id=job.id)
    return StreamingResponse(_enveloped(service, job, request), media_type=JSON)


async def _enveloped(service: Service, job: JobReport, request: Request) -> AsyncIterator[bytes]:
    yield b'{"success":true,"data":'
    async for part in reports.nested(service.database, job.id):
        yield part
    about = {"request_id": request_id(request.scope), "job_id": job.id, "status": job.state, "failures": job.failed}
    yield b',"error":null,"meta":' + encoded(about) + b"}"


async def _failed(request: Request, service: Service, job: JobReport) -> Response:
    """Return the answer for a job of which nothing succeeded: why, instead of an empty output."""
    message, reason = await _why_failed(service, job)
    return refusal(
        request.scope, 502, reason or "failed", message or f"Job {job.id} failed.", job_id=job.id, reason=reason
    )


async def _why_failed(service: Service, job: JobReport) -> tuple[str | None, str | None]:
    """Return the message and the reason of one of the job's failed tasks; None twice if none failed."""
    tasks = (await service.reports.tasks(job.id, state="failed", limit=1)).items if job.failed else []
    return (tasks[0].error, tasks[0].reason) if tasks else (None, None)


async def _ended(service: Service, job: UUID) -> bool:
    """Wait until the job has ended; False if it has not within the time that a caller waits."""
    try:
        async with asyncio.timeout(NESTED_SECONDS):
            while (await service.reports.job(job)).finished_at is None:
                await service.clock.sleep(LOOK_EVERY)
    except TimeoutError:
        return False
    return True


def _login_of(body: bytes) -> str | None:
    """Return the login that a body names; None for a body with a token."""
    try:
        given = orjson.loads(body)
    except ValueError:
        return None
    named = given.get("login") if isinstance(given, dict) and set(given) == {"login"} else None
    return named if isinstance(named, str) else None


async def _token(request: Request) -> Secret | Response:
    """Return the token of a body, or a 400 with the problem of the body (RV-1). Its value is never repeated."""
    try:
        return Secret(TokenBody.model_validate_json(await request.body()).access_token)
    except ValidationError as error:
        wrong = field_errors(error) or [FieldError("access_token", "give the OAuth access token")]
        message = f"{wrong[0].field or 'body'}: {wrong[0].message}"
        return refusal(request.scope, 400, "invalid", message, fields=wrong)


def _seen(job: JobReport) -> dict[str, Any]:
    done = job.completed + job.failed + job.skipped + job.cancelled
    return {
        "job_id": job.id,
        "status": job.state,
        "failures": job.failed,
        "rejected": job.rejected,
        "pages": job.total,
        "pages_done": done,
    }


_JOB = "0f1c9b52-6a7e-4d0e-8e63-0a2f3c5b7d11"
_TOKEN_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {
                "schema": TokenBody.model_json_schema(),
                "examples": {
                    "token": {"value": {"access_token": "ya29.a0AfH6…"}},
                    "login": {"value": {"login": "google"}},
                },
            }
        },
    }
}
_CREATED = example(
    {"job_id": _JOB, "status": "queued", "message": "Job enqueued for processing"}, description="The job is on disk."
)
_SEEN = example(
    {
        "job_id": _JOB,
        "status": "running",
        "accounts": 2,
        "locations": 40,
        "reviews": 1312,
        "failures": 0,
        "error": None,
        "rejected": 0,
        "pages": 96,
        "pages_done": 51,
    }
)
_RETRIED = example({"job_id": _JOB, "requeued": 3})
_NESTED: dict[str, Any] = {
    "description": "Accounts, their locations, their reviews.",
    "content": {
        JSON: {
            "schema": {"type": "object"},
            "example": {
                "success": True,
                "data": [{"account": {"name": "accounts/1"}, "locations": [{"location": {}, "reviews": []}]}],
                "error": None,
                "meta": {
                    "request_id": "8b0c7d1e-3f6a-4c52-9a38-6a1f1f0d9c11",
                    "job_id": _JOB,
                    "status": "completed",
                    "failures": 0,
                },
            },
        }
    },
}
