"""The change log by API: a page at a time, with a wait for new changes, and as a stream of server-sent events."""

from collections.abc import Collection
from datetime import datetime
from time import monotonic
from typing import Annotated, Any
from uuid import UUID

from fastapi import Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from forager.api.auth import ServiceKey
from forager.api.change_feed import ChangeFeed, ChangePage
from forager.api.events import MOST_STREAMS, After, LastEventId
from forager.api.examples import CHANGE
from forager.api.feed import Feeds
from forager.api.openapi import STREAM
from forager.core.errors import FieldError, Rejected
from forager.core.names import unknown_choice
from forager.kit.change_json import change_json
from forager.kit.http.envelope import Envelope, answer, refusal
from forager.kit.http.event_stream import HEARTBEAT, RECONNECT_MS, EventStream, Frames, comment, frame, is_foreign
from forager.kit.http.openapi import example, failures
from forager.kit.http.routes import Router

PAGE = 100
LOOK_AGAIN = 1.0
"""Seconds after which a waiting request checks that the server is not closing."""

Kinds = Annotated[
    str | None,
    Query(max_length=1_000, description="Kinds of changes, separated by commas (default: all).", examples=["job"]),
]
Limit = Annotated[int, Query(ge=1, le=1_000, description="Maximum number of changes.")]
Wait = Annotated[float, Query(ge=0, le=60, allow_inf_nan=False, description="Seconds to wait if there is none yet.")]


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
        request: Request, after: After = 0, kinds: Kinds = None, limit: Limit = PAGE, wait: Wait = 0.0
    ) -> Response:
        """Changes after a number, in order. `meta.next_after` is the `after` of the next page, also when this page is
        empty because of `kinds`; `meta.last` is the newest change. With `wait`, the answer comes as soon as there is a
        change, and after `wait` seconds at the latest."""
        wanted = _checked(kinds, known)
        found = await feed.page(after, limit, wanted)
        if not found.changes and wait:
            if feed.readers + feeds.streams >= MOST_STREAMS:
                return _busy(request)
            found = await _awaited(found, limit, wanted, wait)
        items = [change_json(change) for change in found.changes]
        return answer(request, items, next_after=found.upto, last=found.last)

    async def _awaited(found: ChangePage, limit: int, wanted: frozenset[str] | None, wait: float) -> ChangePage:
        give_up = monotonic() + wait
        async with feed.reading():
            while not found.changes and not feeds.closing.is_set() and (left := give_up - monotonic()) > 0:
                if await feed.moved(found.last, min(left, LOOK_AGAIN)):
                    found = await feed.page(found.upto, limit, wanted)
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
