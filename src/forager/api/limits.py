"""What a request may be made of: at most so many bytes, no NUL in its address, JSON that a ledger can keep.

Refuses before a route is reached. Never repairs: what is wrong is named, so that the caller can.
"""

from collections.abc import Callable, Coroutine
from typing import Any

import orjson
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from forager.api.envelope import refusal

MOST_BYTES = 2 * 1024 * 1024
"""A job with 50,000 ZIPs is half a megabyte."""


class SizeLimit:
    def __init__(self, app: ASGIApp, most: int = MOST_BYTES) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if b"%00" in scope.get("raw_path", b"") or b"%00" in scope["query_string"] or "\0" in scope["path"]:
            await refusal(scope, 422, "invalid", "The URL contains a NUL character; remove it.")(scope, receive, send)
            return
        got = 0

        async def counted() -> Message:
            nonlocal got
            message = await receive()
            got += len(message.get("body", b""))
            if got > self._most:
                raise _too_large(self._most)
            return message

        if _announced(scope) > self._most:
            refused = _too_large(self._most)
            await refusal(scope, 413, "too_large", refused.detail)(scope, receive, send)
            return
        await self._app(scope, counted, send)


class JsonRequest(Request):
    """Strict and quick JSON: no lone surrogates, no NaN, no NUL, integers of any length without a trap."""

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            body = await self.body()
            self._json = orjson.loads(body)
            if b"\\u0000" in body and _has_nul(self._json):
                raise HTTPException(422, "The body holds text with a NUL character, which no store keeps; remove it.")
        return self._json


class JsonRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        run = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await run(JsonRequest(request.scope, request.receive))

        return strict


def _announced(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value[:20])
    return 0


def _too_large(most: int) -> HTTPException:
    return HTTPException(413, f"The request has more than {most:,} bytes. Split it into several jobs.")


def _has_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any(_has_nul(k) or _has_nul(v) for k, v in value.items())
    return isinstance(value, list) and any(map(_has_nul, value))
