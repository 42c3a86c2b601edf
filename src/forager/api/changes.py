"""The change log by API: a page at a time, with a wait for new changes, and as a stream of server-sent events."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from time import monotonic
from typing import Annotated, Any
from uuid import UUID

import structlog
from fastapi import Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from forager.api.auth import ServiceKey
from forager.api.events import MOST_STREAMS, After, Feeds, LastEventId
from forager.api.examples import CHANGE
from forager.api.openapi import STREAM
from forager.core.change import Change
from forager.core.database import Database
from forager.core.errors import FieldError, ForagerError, Rejected
from forager.core.ids import unknown_choice
from forager.core.ledger import Ledger
from forager.sdk.delivery import change_json
from forager.sdk.http.envelope import Envelope, answer, refusal
from forager.sdk.http.routes import Router, example, failures
from forager.sdk.http.streams import HEARTBEAT, RECONNECT_MS, EventStream, Frames, comment, frame, is_foreign
from forager.sdk.queries import last_change

# The end of the change log. It is polled once for all readers that wait: four times a second, while there is one.


log = structlog.get_logger("forager.api")

LOOK_EVERY = 0.25
PAGES_AT_ONCE = 2
"""Pages that are read at the same time for all readers, so that other requests are served between them."""


@dataclass(frozen=True, slots=True)
class ChangePage:
    changes: Sequence[Change]
    upto: int
    """The number after which the next page begins: every wanted change up to it is in this page."""
    last: int
    """The newest change in the log."""


class ChangeFeed:
    """Pages of the log, and a wait for the next change."""

    def __init__(self, ledger: Ledger, database: Database) -> None:
        self.readers = 0
        """Readers that wait or stream now."""
        self._ledger = ledger
        self._database = database
        self._last = 0
        self._moved = asyncio.Event()
        self._turns = asyncio.Semaphore(PAGES_AT_ONCE)
        self._looking: asyncio.Task[None] | None = None

    async def page(self, after: int, limit: int, kinds: frozenset[str] | None, job: UUID | None = None) -> ChangePage:
        """Return at most `limit` changes of these kinds (None: of all), or of this job, after a number."""
        async with self._turns:
            last = await last_change(self._database)
            changes = await self._ledger.changes(after, limit, job=job, kinds=kinds, until=last) if after < last else ()
        full = len(changes) == limit
        return ChangePage(changes, changes[-1].id if full else max(after, last), last)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Watch the end of the log while the block runs."""
        self.readers += 1
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        try:
            yield
        finally:
            self.readers -= 1
            if self.readers == 0 and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    async def moved(self, since: int, timeout: float) -> bool:
        """Wait, inside `reading`, until the log is longer than `since`. Returns False if it is not after `timeout`
        seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self._last <= since:
                    await self._moved.wait()
                return True
        return False

    async def _look(self) -> None:
        failing = False
        while True:
            try:
                last = await last_change(self._database)
            except ForagerError as error:
                if not failing:
                    log.warning("change_log_unreadable", error=error.message)
                failing = True
            else:
                failing = False
                if last != self._last:
                    self._last = last
                    moved, self._moved = self._moved, asyncio.Event()
                    moved.set()
            await asyncio.sleep(LOOK_EVERY)


PAGE = 100
LOOK_AGAIN = 1.0
"""Seconds after which a waiting request checks that the server is not closing."""

Kinds = Annotated[
    str | None,
    Query(max_length=1_000, description="Kinds of changes, separated by commas (default: all).", examples=["job"]),
]
Limit = Annotated[int, Query(ge=1, le=1_000, description="Maximum number of changes.")]
Wait = Annotated[float, Query(ge=0, le=60, allow_inf_nan=False, description="Seconds to wait for a first change.")]


class ChangeItem(BaseModel):
    id: int = Field(description="Its number: dense, in the order of commits.")
    kind: str = Field(description="`job`, `task`, or the kind of a record.")
    key: str
    op: str = Field(description="`new`, `changed` or `gone` for a record; what happened to a job or a task.")
    version: int
    scope: str = Field(description="`job` if each job has a record of its own under this key.")
    job: UUID | None
    pipeline: str | None
    at: datetime
    body: dict[str, Any] | None


def changes_router(feed: ChangeFeed, feeds: Feeds, key: ServiceKey, records: Collection[str]) -> Router:
    """Return the router. `records` lists the record kinds that exist."""
    router = Router(prefix="/api/v1/changes", tags=["changes"])
    known = frozenset({"job", "task", *records})

    @router.get(
        "",
        summary="Read the change log",
        response_model=Envelope[list[ChangeItem]],
        responses={200: example([CHANGE], next_after=CHANGE["id"], last=CHANGE["id"]), **failures()},
    )
    async def list_changes(
        request: Request,
        after: After = 0,
        kinds: Kinds = None,
        limit: Limit = PAGE,
        wait: Wait = 0.0,
        job: Annotated[UUID | None, Query(description="Only changes that this job caused.")] = None,
    ) -> Response:
        """Changes after a number, in order. `meta.next_after` is the `after` of the next page, also when this page is
        empty because of `kinds`; `meta.last` is the newest change. With `wait`, the answer comes as soon as there is a
        change, and after `wait` seconds at the latest."""
        wanted = _checked(kinds, known)
        found = await feed.page(after, limit, wanted, job)
        if not found.changes and wait:
            if feed.readers + feeds.streams >= MOST_STREAMS:
                return _busy(request)
            found = await _awaited(found, limit, wanted, wait, job)
        items = [change_json(change) for change in found.changes]
        return answer(request, items, next_after=found.upto, last=found.last)

    async def _awaited(
        found: ChangePage, limit: int, wanted: frozenset[str] | None, wait: float, job: UUID | None
    ) -> ChangePage:
        give_up = monotonic() + wait
        async with feed.reading():
            while not found.changes and not feeds.closing.is_set() and (left := give_up - monotonic()) > 0:
                if await feed.moved(found.last, min(left, LOOK_AGAIN)):
                    found = await feed.page(found.upto, limit, wanted, job)
        return found

    @router.get(
        "/events",
        summary="Stream the change log",
        response_class=Response,
        responses={200: STREAM, **failures(403)},
    )
    async def stream_changes(
        request: Request, after: After = 0, kinds: Kinds = None, last_event_id: LastEventId = None
    ) -> Response:
        """The same as server-sent events: a `change` frame for each, numbered (`id:`), so that a reconnect goes on from
        `Last-Event-ID`. The stream never ends by itself."""
        wanted = _checked(kinds, known)
        if is_foreign(request):
            return refusal(request.scope, 403, "foreign_origin", "Streams are for pages of this server only.")
        if feed.readers + feeds.streams >= MOST_STREAMS:
            return _busy(request)
        cursor = after if last_event_id is None else last_event_id
        return EventStream(lambda scope: _frames(feed, key, scope, cursor, wanted), feeds.closing)

    return router


async def _frames(
    feed: ChangeFeed, key: ServiceKey, scope: Scope, cursor: int, wanted: frozenset[str] | None
) -> Frames:
    yield b"retry: %d\n\n" % RECONNECT_MS
    async with feed.reading():
        while key.accepts(scope):
            found = await feed.page(cursor, PAGE, wanted)
            cursor = found.upto
            if found.changes:
                yield b"".join(frame("change", change_json(change), change.id) for change in found.changes)
            elif not await feed.moved(found.last, HEARTBEAT):
                yield comment("still here")


def _checked(kinds: str | None, known: frozenset[str]) -> frozenset[str] | None:
    wanted = frozenset(kind.strip() for kind in (kinds or "").split(",") if kind.strip())
    if unknown := sorted(wanted - known):
        problem = FieldError("kinds", unknown_choice("kind", unknown[0], known))
        raise Rejected(f"kinds: {problem.message}.", fields=[problem])
    return wanted or None


def _busy(request: Request) -> Response:
    return refusal(request.scope, 503, "busy", "Too many streams are open.", headers={"Retry-After": "10"})
