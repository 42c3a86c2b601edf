"""A reviews job as it happens, by server-sent events: `account`, `location`, `review`, then `end`.

Every event carries the number of its change: a reader that reconnects with `Last-Event-ID` misses nothing and gets
nothing twice. A reader holds one page of changes in memory, however fast the job is.
"""

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Header, Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from forager.core.change import Change
from forager.core.errors import FieldError, NotFound, Rejected
from forager.core.secret import Secret
from forager.pipelines.reviews import reports
from forager.pipelines.reviews.pipeline import checked_token
from forager.pipelines.reviews.records import Account, Location, Review
from forager.pipelines.reviews.wiring import review_job, submit_token
from forager.sdk.http.envelope import Envelope, answer, refusal
from forager.sdk.http.routes import Router, example, failures
from forager.sdk.http.streams import (
    HEARTBEAT,
    MOST_NUMBER,
    RECONNECT_MS,
    EventStream,
    Frames,
    TaskWaiter,
    comment,
    frame,
    is_foreign,
)
from forager.sdk.service import Service

# The findings of a reviews job, in order and in pages: for programs that poll instead of reading an event stream.


_FIELDS = {record.kind: tuple(record.model_fields) for record in (Account, Location, Review)}
KINDS = tuple(_FIELDS)
MOST = 1_000

After = Annotated[int, Query(ge=0, le=MOST_NUMBER, description="Begin after this number; 0: at the beginning.")]
Limit = Annotated[int, Query(ge=1, le=MOST, description="Number of events at most.")]


def event_data(change: Change) -> dict[str, Any] | None:
    """Return a record as an event shows it: every field, unknown ones as null, with its job, as in `reviews-raw`.

    None if the record has been removed since.
    """
    body = change.body
    if body is None:
        return None
    return {"job_id": change.job, **{name: body.get(name) for name in _FIELDS[change.kind]}}


class ReviewEvent(BaseModel):
    number: int
    event: str = Field(description="account, location or review")
    data: dict[str, Any]


class ReviewEvents(BaseModel):
    events: list[ReviewEvent]
    last: int = Field(description="Continue after this number.")
    ended: bool = Field(description="True if the job has ended and this page is its last.")


def add_events(router: Router, service: Service) -> None:
    @router.get(
        "/review-fetch/{job_id}/events",
        summary="List what a reviews job has found, in order",
        response_model=Envelope[ReviewEvents],
        responses={200: _EVENTS, **failures(404)},
    )
    async def list_review_events(request: Request, job_id: UUID, after: After = 0, limit: Limit = 200) -> Response:
        """The same events as the stream, with the same numbers. Poll it until `ended`."""
        # First the job, then its changes: no change of a job that was seen as ended is missed.
        ended = (await review_job(service, job_id)).finished_at is not None
        changes = await service.ledger.changes(after, limit, job=job_id, kinds=KINDS)
        events = [
            {"number": each.id, "event": each.kind, "data": data}
            for each in changes
            if (data := event_data(each)) is not None
        ]
        last = changes[-1].id if changes else after
        return answer(request, {"events": events, "last": last, "ended": ended and len(changes) < limit})


JOB = "0f1c9b52-6a7e-4d0e-8e63-0a2f3c5b7d11"
_EVENTS = example(
    {
        "events": [{"number": 7, "event": "account", "data": {"job_id": JOB, "account_id": "1"}}],
        "last": 7,
        "ended": False,
    }
)


PAGE = 200
LOOK_EVERY = 0.25
MOST_STREAMS = 500

LastEventId = Annotated[int | None, Header(ge=0, le=MOST_NUMBER, description="The last number that was received.")]
Token = Annotated[
    str | None,
    Query(description="Starts a job for this token, or joins its open one. Prefer POST: a URL is logged by proxies."),
]
JobId = Annotated[UUID | None, Query(description="Streams this job.")]


def add_stream(router: APIRouter, service: Service, waiter: TaskWaiter) -> None:
    streams = _Streams()

    @router.get(
        "/demo/stream/nested",
        summary="Watch a reviews job, nested",
        response_class=Response,
        responses={200: _STREAM, **failures(400, 403, 404, 429)},
    )
    async def stream_reviews(
        request: Request, access_token: Token = None, job_id: JobId = None, last_event_id: LastEventId = None
    ) -> Response:
        """Sends `account`, `location` and `review` events as they are found, and `end` with the job's state and
        counts. A client that reconnects with the same token joins its open job."""
        if (access_token is None) == (job_id is None):
            problem = FieldError("access_token", "give access_token or job_id, one of them")
            raise Rejected(f"{problem.field}: {problem.message}", fields=[problem])
        if is_foreign(request):
            return refusal(request.scope, 403, "foreign_origin", "Streams are for pages of this server only.")
        if streams.open >= MOST_STREAMS:
            return refusal(request.scope, 503, "busy", "Too many streams are open.", headers={"Retry-After": "10"})
        if job_id is not None:
            job = (await review_job(service, job_id)).id
        else:
            token = access_token or ""
            if (refused := _refused(request, token)) is not None:
                return refused
            job = await _job_of(service, Secret(token))
        accepts = request.app.state.service_key.accepts
        events = _Events(service, streams, accepts, job, last_event_id or 0)
        return EventStream(events.frames, waiter.closing)


async def _job_of(service: Service, token: Secret) -> UUID:
    """Return the open job of a token, by the token's keyed fingerprint; otherwise a new one."""
    made = await submit_token(service, token, key=f"review-token/{service.fingerprint(token)}", until_end=True)
    return made.job


def _refused(request: Request, token: str) -> Response | None:
    """Return the 400 for what cannot be a token, as the routes that take it in a body do; None if it can be one."""
    try:
        checked_token(token)
    except ValueError as error:
        problem = FieldError("access_token", str(error))
        return refusal(request.scope, 400, "invalid", f"{problem.field}: {problem.message}", fields=[problem])
    return None


class _Streams:
    def __init__(self) -> None:
        self.open = 0


class _Events:
    """The frames of one reader."""

    def __init__(self, service: Service, streams: _Streams, accepts: Any, job: UUID, cursor: int) -> None:
        self._service = service
        self._streams = streams
        self._accepts = accepts
        self._job = job
        self._cursor = cursor

    async def frames(self, scope: Scope) -> Frames:
        self._streams.open += 1
        try:
            async for part in self._of(scope):
                yield part
        finally:
            self._streams.open -= 1

    async def _of(self, scope: Scope) -> Frames:
        quiet = 0.0
        yield b"retry: %d\n\n" % RECONNECT_MS + frame("job", {"job_id": self._job})
        while self._accepts(scope):
            # First the job, then its changes: of a job that was seen as ended no change is missed.
            try:
                job = await self._service.reports.job(self._job)
            except NotFound:
                yield frame("end", {"job_id": self._job, "status": "removed"}, self._cursor)
                return
            ended = job.finished_at is not None
            changes = await self._service.ledger.changes(self._cursor, PAGE, job=self._job, kinds=KINDS)
            if changes:
                self._cursor, quiet = changes[-1].id, 0.0
                yield b"".join(map(_event, changes))
            elif ended:
                counts = await reports.counts(self._service.database, self._job)
                end = {"job_id": self._job, "status": job.state, **counts, "failures": job.failed}
                yield frame("end", end, self._cursor)
                return
            elif quiet >= HEARTBEAT:
                quiet = 0.0
                yield comment("still here")
            if len(changes) < PAGE and not ended:
                await self._service.clock.sleep(LOOK_EVERY)
                quiet += LOOK_EVERY


def _event(change: Change) -> bytes:
    data = event_data(change)
    return b"" if data is None else frame(change.kind, data, change.id)


_STREAM: dict[str, Any] = {
    "description": "Events, each with the number of its change.",
    # Without a schema: that of an event stream would be the schema of each event, which differ.
    "content": {"text/event-stream": {"example": "id: 7\nevent: account\ndata: {}\n\n"}},
}


# The page `/demo`: a form for an access token, and the job's accounts, locations and reviews as they are found.
#
# It is one file without references, whose style and script are named by their hashes. A browser signs in to it as to
# `/docs`; the page then holds a ticket for the few routes that it calls, never the service key.


PATH = "/demo"


def page_router() -> Router:
    router = Router()

    @router.get(PATH, include_in_schema=False)
    async def show_demo(request: Request) -> Response:
        page, headers = _page()
        ticket: str = request.app.state.service_key.ticket("demo", request.scope)
        return Response(page.replace("{ticket}", ticket), headers=headers, media_type="text/html")

    return router


@cache
def _page() -> tuple[str, dict[str, str]]:
    """Return the page without its ticket, and its headers."""
    style, script, page = (_file(name) for name in ("demo.css", "demo.js", "demo.html"))
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; connect-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    headers = {"Content-Security-Policy": policy, "Referrer-Policy": "no-referrer"}
    return page.replace("{style}", style).replace("{script}", script), headers


def _file(name: str) -> str:
    return (files("forager.pipelines.reviews") / "page" / name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
