"""Streams a job's changes and progress as server-sent events. Changes are numbered and can be resumed; progress frames
only carry the current counters.

Everything is bounded: a reader holds one page of frames, and is disconnected if it accepts nothing for half a minute or
if its key is revoked.
"""

from collections.abc import Collection, Mapping
from typing import Annotated, Any
from uuid import UUID

from fastapi import Header, Query
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from forager.api.auth import ServiceKey
from forager.api.feed import PAGE, Feeds, JobFeed
from forager.api.openapi import STREAM
from forager.core.errors import FieldError, Rejected
from forager.core.names import unknown_choice
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
from forager.kit.http.routes import Router

MOST_STREAMS = 2_000

After = Annotated[int, Query(ge=0, le=MOST_NUMBER, description="Begin after this change number (0 = at the first).")]
JOB, TASK = "job", "task"
Kind = Annotated[
    str | None,
    Query(max_length=64, description="Only changes of this kind: `job`, `task` or a record kind.", examples=["job"]),
]
LastEventId = Annotated[
    int | None,
    Header(ge=0, le=MOST_NUMBER, description="Last change received; takes precedence over `after`."),
]


def events_router(feeds: Feeds, key: ServiceKey, records: Collection[str]) -> Router:
    """Return the router. `records` lists the record kinds that exist."""
    router = Router(tags=["jobs"])
    kinds = (JOB, TASK, *sorted(records))

    @router.get(
        "/api/v1/jobs/{job_id}/events",
        summary="Watch a job",
        response_class=Response,
        responses={
            200: STREAM,
            204: {"description": "The job has ended, and the caller has received everything."},
            **failures(403, 404),
        },
    )
    async def watch_job(
        request: Request, job_id: UUID, after: After = 0, kind: Kind = None, last_event_id: LastEventId = None
    ) -> Response:
        """`change` frames are numbered (`id:`) and resume after a reconnect from `Last-Event-ID`.

        `progress` frames are not numbered: they carry the counters, at most four times a second, when these have
        changed. When the job has ended, `end` is the last frame and the stream closes; a reconnect from there gets a
        204.
        """
        if kind is not None and kind not in kinds:
            problem = FieldError("kind", unknown_choice("kind", kind, kinds))
            raise Rejected(f"kind: {problem.message}", fields=[problem])
        if is_foreign(request):
            return refusal(request.scope, 403, "foreign_origin", "Streams are for pages of this server only.")
        if feeds.streams >= MOST_STREAMS:
            return refusal(request.scope, 503, "busy", "Too many streams are open.", headers={"Retry-After": "10"})
        cursor = after if last_event_id is None else last_event_id
        async with feeds.watch(job_id) as feed:
            if cursor and feed.seen.ended and not await feed.changes_after(cursor):
                return Response(status_code=204)
        return EventStream(JobEvents(feeds, key, job_id, cursor, kind).frames, feeds.closing)

    return router


class JobEvents:
    """Produces the frames for one reader of a job's stream, starting after a given change."""

    def __init__(self, feeds: Feeds, key: ServiceKey, job: UUID, cursor: int, kind: str | None) -> None:
        self._feeds = feeds
        self._key = key
        self._job = job
        self._cursor = cursor
        self._kind = kind

    async def frames(self, scope: Scope) -> Frames:
        async with self._feeds.watch(self._job) as feed:
            async for part in self._of(feed, scope):
                yield part

    async def _of(self, feed: JobFeed, scope: Scope) -> Frames:
        cursor = self._cursor
        shown: Mapping[str, Any] | None = None
        yield b"retry: %d\n\n" % RECONNECT_MS
        while self._key.accepts(scope):
            seen = feed.seen
            changes = await feed.changes_after(cursor)
            if changes:
                cursor = changes[-1].id
                wanted = [change.frame for change in changes if self._kind in (None, change.kind)]
                yield b"".join(wanted) or comment("changes of other kinds")
            if seen.progress != shown:
                shown = seen.progress
                yield frame("progress", shown)
            if len(changes) == PAGE:
                continue
            if seen.ended:
                yield frame("end", shown, cursor)
                return
            if not await feed.moved(seen, HEARTBEAT):
                yield comment("still here")
