"""Calls an ASGI application in this process, as a server would: one request, one complete response, no network.

Only for finite responses; an endless stream (SSE) would never return.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import unquote

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


async def call(
    application: Application, method: str, target: str, headers: Mapping[str, str], body: bytes
) -> tuple[int, dict[str, str], bytes]:
    """Send a request for `target` (path and query). Returns the status, the headers (names in lower case) and the
    body."""
    path, _, query = target.partition("?")
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode("ascii"),
        "query_string": query.encode("ascii"),
        "root_path": "",
        "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()],
        "client": ("127.0.0.1", 0),
        "server": ("127.0.0.1", 0),
        "state": {},
    }
    to_send = [body]
    answered = asyncio.Event()
    status = 500
    answer_headers: dict[str, str] = {}
    parts: list[bytes] = []

    async def receive() -> Message:
        if to_send:
            return {"type": "http.request", "body": to_send.pop(), "more_body": False}
        await answered.wait()  # never report a disconnect: the framework would cut the response short
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
            for name, value in message.get("headers", ()):
                answer_headers[name.decode("latin-1").lower()] = value.decode("latin-1")
        elif message["type"] == "http.response.body":
            parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                answered.set()

    await application(scope, receive, send)
    return status, answer_headers, b"".join(parts)
