"""A job as it happens, by server-sent events. Numbered changes can be resumed; progress frames only say how it stands.

Everything is bounded: a reader holds one page of frames, one that takes nothing for half a minute is let go, and so is
one whose key was revoked.
"""

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Header, Query
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from forager.api.auth import ServiceKey
from forager.api.feed import PAGE, Feeds, JobFeed
from forager.api.frames import comment, frame
from forager.api.openapi import STREAM
from forager.core.errors import FieldError, Rejected
from forager.kit.http.envelope import refusal
from forager.kit.http.openapi import failures

HEARTBEAT = 10.0
PATIENCE = 30.0
MOST_STREAMS = 2_000
MOST_NUMBER = 2**63 - 1
RECONNECT_MS = 2_000

After = Annotated[int, Query(ge=0, le=MOST_NUMBER, description="Begin after this change; 0: at the job's first.")]
JOB = "job"
Kind = Annotated[
    str | None,
    Query(max_length=64, description="Only changes of this kind: `job`, or a kind of records.", examples=["job"]),
]
LastEventId = Annotated[
    int | None,
    Header(ge=0, le=MOST_NUMBER, description="The last number that was received, as browsers send it; before `after`."),
]


def events_router(feeds: Feeds, key: ServiceKey, records: Collection[str]) -> APIRouter:
    """`records` are the kinds of records that there are."""
    router = APIRouter(tags=["jobs"])
    kinds = (JOB, *sorted(records))

    @router.get(
        "/api/v1/jobs/{job_id}/events",
        summary="Watch a job",
        response_class=Response,
        responses={
            200: STREAM,
            204: {"description": "The job has ended, and nothing has come since."},
            **failures(403, 404),
        },
    )
    async def watch_job(
        request: Request, job_id: UUID, after: After = 0, kind: Kind = None, last_event_id: LastEventId = None
    ) -> Response:
        """`change` frames are numbered (`id:`) and come again after a reconnect from `Last-Event-ID`.

        `progress` frames are not: they carry the counters, at most four times a second, when they have moved. When
        the job has ended, `end` is the last frame and the stream closes; asking again from there is answered with 204.
        """
        if kind is not None and kind not in kinds:
            problem = FieldError("kind", f"{kind!r} is none; use one of {', '.join(kinds)}")
            raise Rejected(f"kind: {problem.message}", fields=[problem])
        if _is_foreign(request):
            return refusal(request.scope, 403, "foreign_origin", "Streams are for pages of this server only.")
        if feeds.streams >= MOST_STREAMS:
            return refusal(request.scope, 503, "busy", "Too many streams are open.", headers={"Retry-After": "10"})
        cursor = after if last_event_id is None else last_event_id
        async with feeds.watch(job_id) as feed:
            if cursor and feed.seen.ended and not await feed.changes_after(cursor):
                return Response(status_code=204)
        return EventStream(feeds, key, job_id, cursor, kind)

    return router


class EventStream(Response):
    """Ends when its frames do, when the reader leaves or takes nothing, or when the server closes."""

    def __init__(self, feeds: Feeds, key: ServiceKey, job: UUID, cursor: int, kind: str | None) -> None:
        super().__init__(headers={"X-Accel-Buffering": "no"}, media_type="text/event-stream")
        del self.headers["content-length"]
        self._feeds = feeds
        self._key = key
        self._job = job
        self._cursor = cursor
        self._kind = kind

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        pumping = asyncio.create_task(self._pump(scope, send))
        others = [asyncio.create_task(_left(receive)), asyncio.create_task(self._feeds.closing.wait())]
        try:
            await asyncio.wait({pumping, *others}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (pumping, *others):
                task.cancel()
            (ended, *_) = await asyncio.gather(pumping, *others, return_exceptions=True)
        if isinstance(ended, TimeoutError):
            return  # it takes nothing: the connection is dropped
        if isinstance(ended, Exception):
            raise ended
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pump(self, scope: Scope, send: Send) -> None:
        async with self._feeds.watch(self._job) as feed, aclosing(self._frames(feed, scope)) as frames:
            async for part in frames:
                async with asyncio.timeout(PATIENCE):
                    await send({"type": "http.response.body", "body": part, "more_body": True})

    async def _frames(self, feed: JobFeed, scope: Scope) -> AsyncGenerator[bytes, None]:
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


def _is_foreign(request: Request) -> bool:
    """A page of another site. Programs send no Origin."""
    origin = request.headers.get("origin")
    if origin is None:
        return False
    return origin.partition("://")[2].lower() != request.headers.get("host", "").lower()


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
