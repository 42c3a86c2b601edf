"""A reviews job as it happens, by server-sent events: `account`, `location`, `review`, then `end`.

Every event carries the number of its change: a reader that reconnects with `Last-Event-ID` misses nothing and gets
nothing twice. A reader holds one page of changes in memory, however fast the job is.
"""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Header, Query
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from forager.core.change import Change
from forager.core.errors import FieldError, NotFound, Rejected
from forager.core.secret import Secret
from forager.kit.http.envelope import refusal
from forager.kit.http.event_stream import (
    HEARTBEAT,
    MOST_NUMBER,
    RECONNECT_MS,
    EventStream,
    Frames,
    comment,
    frame,
    is_foreign,
)
from forager.kit.http.openapi import failures
from forager.kit.http.task_waiter import TaskWaiter
from forager.kit.service import Service
from forager.pipelines.reviews import reports
from forager.pipelines.reviews.access import review_job, submit_token
from forager.pipelines.reviews.api_events import KINDS, event_data
from forager.pipelines.reviews.job import checked_token

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
        counts. A reader that reconnects with the same token joins the job that is open for it."""
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
    """Return the open job of a token, by the token's keyed fingerprint; a new one if there is none."""
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
