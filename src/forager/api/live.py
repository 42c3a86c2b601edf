"""Live data for the dashboard: one event stream per browser tab with the topics that its page follows.

Topics are `overview`, `changes` (their last number), and `job:<id>`. Each is computed once a second for all readers
together, only while there are readers, and sent when it has changed.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any
from uuid import UUID

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from forager.api.auth import ServiceKey
from forager.api.events import MOST_STREAMS, Feeds
from forager.api.key_gate import KeyRing
from forager.api.overview import Overview
from forager.app.application import App
from forager.core.errors import FieldError, ForagerError, Rejected
from forager.sdk.http.envelope import encoded, refusal
from forager.sdk.http.routes import Router, failures
from forager.sdk.http.streams import HEARTBEAT, RECONNECT_MS, EventStream, Frames, comment, is_foreign

EVERY = 1.0
MOST_TOPICS = 20
LIVE: dict[str, Any] = {
    "description": "The newest message of each topic, then each change of it.",
    "content": {
        "text/event-stream": {
            "example": 'id: 7\ndata: {"topic":"changes","data":{"last":10482}}\n\n',
        }
    },
}


class LiveFeeds:
    """The newest message of each topic, shared by all streams."""

    def __init__(self, app: App, overview: Overview, feeds: Feeds, keys: KeyRing) -> None:
        self.closing = feeds.closing
        self._app = app
        self._overview = overview
        self._keys = keys
        self._readers: Counter[str] = Counter()
        self._messages: dict[str, tuple[int, bytes]] = {}
        self._bodies: dict[str, bytes] = {}
        self.streams = 0
        self._number = 0
        self._moved = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None

    async def frames(self, topics: list[str], allowed: Callable[[], bool]) -> Frames:
        """Yield the messages of these topics until the reader leaves or its key is revoked."""
        self.streams += 1
        self._readers.update(topics)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        sent: dict[str, int] = {}
        try:
            yield b"retry: %d\n\n" % RECONNECT_MS
            while allowed():
                fresh = [topic for topic in topics if self._messages.get(topic, (0, b""))[0] > sent.get(topic, 0)]
                for topic in fresh:
                    sent[topic], message = self._messages[topic]
                    yield message
                if not fresh:
                    moved = self._moved
                    with suppress(TimeoutError):
                        async with asyncio.timeout(HEARTBEAT):
                            await moved.wait()
                            continue
                    yield comment("quiet")
        finally:
            self.streams -= 1
            self._readers.subtract(topics)
            self._readers += Counter()

    async def _look(self) -> None:
        while self._readers:
            await self._keys.refresh()
            for topic in list(self._readers):
                with suppress(ForagerError):
                    self._show(topic, await self._body(topic))
            moved, self._moved = self._moved, asyncio.Event()
            moved.set()
            await asyncio.sleep(EVERY)
        self._messages.clear()
        self._bodies.clear()

    async def _body(self, topic: str) -> Any:
        if topic == "overview":
            return await self._overview.take()
        if topic == "changes":
            return {"last": (await self._app.reports.last_change())}
        job = await self._app.job_now(UUID(topic.removeprefix("job:")))
        return job.model_dump(mode="json", exclude={"params", "estimate"})

    def _show(self, topic: str, body: Any) -> None:
        data = encoded({"topic": topic, "data": body})
        if self._bodies.get(topic) != data:
            self._number += 1
            self._bodies[topic] = data
            self._messages[topic] = (self._number, b"id: %d\ndata: %s\n\n" % (self._number, data))


def live_router(live: LiveFeeds, key: ServiceKey) -> Router:
    router = Router(prefix="/api/v1", tags=["operation"])

    @router.get(
        "/live",
        summary="Stream what a dashboard shows",
        response_class=Response,
        responses={200: LIVE, **failures(403)},
    )
    async def stream(
        request: Request,
        topics: Annotated[
            str, Query(max_length=2_000, description="overview, changes, job:<id>; separated by commas.")
        ],
    ) -> Response:
        """Each event is `{"topic", "data"}`; the newest state of every topic comes first, then each change of it."""
        wanted = checked_topics(topics)
        if is_foreign(request):
            return refusal(request.scope, 403, "foreign_origin", "Streams are for pages of this server only.")
        if live.streams >= MOST_STREAMS:
            return refusal(request.scope, 503, "busy", "Too many streams are open.", headers={"Retry-After": "10"})

        def frames(scope: Scope) -> Frames:
            return live.frames(wanted, lambda: key.accepts(scope))

        return EventStream(frames, live.closing)

    return router


def checked_topics(text: str) -> list[str]:
    """Split and validate a list of topics. Raises `Rejected` with the field."""
    topics = sorted(set(filter(None, text.split(","))))
    wrong = [topic for topic in topics if not _is_topic(topic)]
    if wrong or not 1 <= len(topics) <= MOST_TOPICS:
        given = f"not {wrong[0][:60]!r}" if wrong else f"not {len(topics)} of them"
        problem = FieldError("topics", f"must be 1 to {MOST_TOPICS} of overview, changes and job:<id>, {given}")
        raise Rejected("The topics are not valid.", fields=[problem])
    return topics


def _is_topic(topic: str) -> bool:
    if topic in {"overview", "changes"}:
        return True
    try:
        return topic.startswith("job:") and topic == f"job:{UUID(topic[4:])}"
    except ValueError:
        return False
