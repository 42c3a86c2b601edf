"""Limits on every request: a maximum size, and no NUL in its URL. `kit.http.json_route` reads the body.

A request that breaks a limit is refused before it reaches a route. Nothing is repaired silently: the error names the
problem.
"""

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from forager.kit.http.envelope import refusal

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


def _announced(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value[:20])
    return 0


def _too_large(most: int) -> HTTPException:
    return HTTPException(413, f"The request has more than {most:,} bytes. Split it into several jobs.")
