"""Reports the moment at which a request is sent: after the connection is open, when its bytes are written.

A lane counts by that moment. If it counted from the call, a request with a slow connection could arrive together with
the requests of the next window.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import aiohttp
from aiohttp.client_reqrep import ClientRequest
from aiohttp.connector import Connection

leaving: ContextVar[Callable[[], None] | None] = ContextVar("leaving", default=None)
"""Set during one request, in its own task; aiohttp's writer task inherits it."""


class LeavingRequest(ClientRequest):
    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        answer = await super().send(conn)
        if not self.body:  # nothing more to write: the request has only headers
            _tell()
        return answer

    async def write_bytes(self, *handed: Any, **named: Any) -> None:
        _tell()
        await super().write_bytes(*handed, **named)


def _tell() -> None:
    told = leaving.get()
    if told is not None:
        told()
