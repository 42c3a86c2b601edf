"""Streams a job's changes and progress as server-sent events. Changes are numbered and can be resumed; progress frames
only carry the current counters.

Everything is bounded: a reader holds one page of frames, and is disconnected if it accepts nothing for half a minute or
if its key is revoked.
"""

import asyncio
import contextlib
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

import structlog
from fastapi import Header, Query
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from forager.api.auth import ServiceKey
from forager.api.openapi import STREAM
from forager.core.change import Change
from forager.core.errors import FieldError, ForagerError, NotFound, Rejected
from forager.core.ids import unknown_choice
from forager.core.ledger import Ledger
from forager.ledger.reports import ChangeReport, JobReport, LedgerReports
from forager.ledger.rules.changes import COUNTED
from forager.sdk.http.envelope import refusal
from forager.sdk.http.routes import Router, failures
from forager.sdk.http.streams import (
    HEARTBEAT,
    MOST_NUMBER,
    RECONNECT_MS,
    EventStream,
    Frames,
    comment,
    frame,
    is_foreign,
)

# Encodes the frames of an event stream. Pure: a change or a value in, bytes out.


@dataclass(frozen=True, slots=True)
class Numbered:
    """A change, encoded once for all readers."""

    id: int
    kind: str
    frame: bytes


def change_frame(change: Change, job: UUID) -> Numbered:
    report = ChangeReport(
        id=change.id,
        kind=change.kind,
        key=change.key,
        op=change.op,
        version=change.version,
        job=job,
        at=datetime.fromtimestamp(change.at / 1000, UTC),
        body=None if change.body is None else dict(change.body),
    )
    return Numbered(change.id, change.kind, frame("change", report, change.id))


def progress_of(job: JobReport) -> dict[str, Any]:
    """Return the job's counters: what a progress bar needs."""
    counters = {name: getattr(job, name) for name in COUNTED}
    times = {"created_at": job.created_at, "started_at": job.started_at, "finished_at": job.finished_at}
    return {"id": job.id, "state": job.state, "reason": job.reason, **counters, **times}


# Polls each watched job once for all of its streams: four times a second, however many are open. When very many jobs
# are watched, each is polled less often, so that the total load on the ledger is bounded.
#
# A bounded tail of changes is kept in memory; a reader that is further behind reads pages from the ledger. A slow
# reader delays no other and costs one page of memory. Readers take turns at the ledger, so that hundreds of them which
# catch up leave room for other requests.


log = structlog.get_logger("forager.api")

LOOK_EVERY = 0.25
MOST_LOOKS = 200
"""Polls per second, over all watched jobs."""
PAGE = 50
TAIL = 1_000
PAGES_AT_ONCE = 2
"""Pages that are read and encoded at the same time, over all streams."""
REMOVED = "removed"
"""The state of a watched job that is no longer in the ledger."""


@dataclass(frozen=True, slots=True)
class Sight:
    """A job's state at one poll."""

    number: int
    ended: bool
    progress: Mapping[str, Any]


class JobFeed:
    def __init__(self, job: UUID, ledger: Ledger, reports: LedgerReports, turns: asyncio.Semaphore) -> None:
        self.job = job
        self.readers = 0
        self.seen = Sight(0, ended=False, progress={})
        self._ledger = ledger
        self._reports = reports
        self._turns = turns
        self._looking = asyncio.Lock()
        self._moved = asyncio.Event()
        self._tail: list[Numbered] = []
        self._tail_from: int | None = None
        """The tail holds every change of the job after this number, up to the last poll. None: no reader has caught up
        yet."""

    async def look(self) -> None:
        """Poll once. The job is read before its changes, so that no change is missed of a job that was seen as
        ended."""
        async with self._looking:
            report = await self._reports.job(self.job)
            progress, ended = progress_of(report), report.finished_at is not None
            arrived = await self._extend_tail()
            if arrived or progress != self.seen.progress or ended != self.seen.ended:
                self._show(ended, progress)

    async def look_on(self, nap: Callable[[], float]) -> None:
        """Poll until the job is removed: that ends its streams. An error of the store is logged when it begins."""
        failing = False
        while True:
            await asyncio.sleep(nap())
            try:
                await self.look()
                failing = False
            except NotFound:
                self._show(True, {"id": self.job, "state": REMOVED, "reason": "the job was removed from the ledger"})
                return
            except ForagerError as error:
                if not failing:
                    log.warning("watched_job_unreadable", job_id=str(self.job), error=error.message)
                failing = True

    def _show(self, ended: bool, progress: Mapping[str, Any]) -> None:
        self.seen = Sight(self.seen.number + 1, ended, progress)
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    async def moved(self, since: Sight, timeout: float) -> bool:
        """Wait until there is something new. Returns False if nothing happens for `timeout` seconds."""
        if self.seen.number != since.number:
            return True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._moved.wait(), timeout)
            return True
        return False

    async def changes_after(self, cursor: int) -> Sequence[Numbered]:
        """Return a page of changes. Fewer than `PAGE` means that there are no more for now."""
        if self._tail_from is not None and cursor >= self._tail_from:
            start = bisect_right(self._tail, cursor, key=lambda change: change.id)
            return self._tail[start : start + PAGE]
        async with self._turns:
            changes = [change_frame(c, self.job) for c in await self._page(cursor)]
        if len(changes) < PAGE and self._tail_from is None:
            self._tail_from = changes[-1].id if changes else cursor
        return changes

    async def _page(self, after: int) -> Sequence[Change]:
        """Read a page without the bodies of job-scoped records: a stream reports that one was found, and its own route
        returns it."""
        return await self._ledger.changes(after, PAGE, job=self.job, bodies=False)

    async def _extend_tail(self) -> bool:
        if self._tail_from is None:
            return True  # a waiting reader gets its next page from the ledger
        fetched, arrived = PAGE, 0
        while fetched == PAGE:
            last = self._tail[-1].id if self._tail else self._tail_from
            changes = await self._page(last)
            self._tail.extend(change_frame(change, self.job) for change in changes)
            fetched = len(changes)
            arrived += fetched
        if len(self._tail) > 2 * TAIL:
            self._tail_from = self._tail[-TAIL - 1].id
            del self._tail[:-TAIL]
        return arrived > 0


class Feeds:
    """The feeds of all jobs that are being watched."""

    def __init__(self, ledger: Ledger, reports: LedgerReports) -> None:
        self.closing = asyncio.Event()
        """Set when the server shuts down; every stream then ends."""
        self._ledger = ledger
        self._reports = reports
        self._turns = asyncio.Semaphore(PAGES_AT_ONCE)
        self._open: dict[UUID, tuple[JobFeed, asyncio.Task[None]]] = {}

    @property
    def streams(self) -> int:
        return sum(feed.readers for feed, _ in self._open.values())

    def nap(self) -> float:
        """Seconds between two polls of a job."""
        return max(LOOK_EVERY, len(self._open) / MOST_LOOKS)

    @asynccontextmanager
    async def watch(self, job: UUID) -> AsyncIterator[JobFeed]:
        """Yield the feed of a job, freshly polled. Raises `NotFound` if there is no such job."""
        if job not in self._open:
            feed = JobFeed(job, self._ledger, self._reports, self._turns)
            self._open[job] = feed, asyncio.create_task(feed.look_on(self.nap))
        feed, looking = self._open[job]
        feed.readers += 1
        try:
            await feed.look()
            yield feed
        finally:
            feed.readers -= 1
            if feed.readers == 0:
                del self._open[job]
                looking.cancel()


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
