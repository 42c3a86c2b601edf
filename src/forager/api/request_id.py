"""The outermost layer of every request: it assigns an id, counts the request, logs its end, and turns a defect into a
plain 500.

It reads only the request line and the client's own id, which it writes to the log and nowhere else. Details of a defect
appear only in the log.
"""

import time
from collections.abc import Callable
from uuid import uuid4

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from forager.kit.http.envelope import refusal

log = structlog.get_logger("forager.api")

Counted = Callable[[str, str, int, float], None]
"""(method, route template, status, seconds)."""

LONGEST_CLIENT_ID = 128
UNMATCHED = "unmatched"
FIXED_HEADERS = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))


class RequestIds:
    def __init__(self, app: ASGIApp, count: Counted) -> None:
        self._app = app
        self._count = count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        own_id = str(uuid4())
        scope.setdefault("state", {})["request_id"] = own_id
        started = time.perf_counter()
        status = 0

        async def stamped(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", own_id.encode()), *FIXED_HEADERS]
            await send(message)

        try:
            with structlog.contextvars.bound_contextvars(request_id=own_id):
                await self._app(scope, receive, stamped)
        except Exception as error:
            log.error("a request failed by a defect", request_id=own_id, path=scope["path"], exc_info=error)
            if status == 0:
                await _plain_500(scope)(scope, receive, stamped)
        finally:
            self._end(scope, own_id, status, time.perf_counter() - started)

    def _end(self, scope: Scope, own_id: str, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", UNMATCHED)
        self._count(scope["method"], route, status, seconds)
        log.debug(
            "request",
            request_id=own_id,
            client_request_id=client_request_id(scope),
            method=scope["method"],
            route=route,
            status=status,
            ms=round(seconds * 1000, 1),
        )


def client_request_id(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            return str(value[:LONGEST_CLIENT_ID].decode("latin-1"))
    return None


def _plain_500(scope: Scope) -> ASGIApp:
    return refusal(
        scope,
        500,
        "defect",
        "Something went wrong inside Forager. The log has the details under this request id; please report it.",
    )
