"""The moment a request leaves: after the connection is there, when its bytes are handed over.

A lane counts by that moment. Counting from when a request was asked for would let a connection that took long arrive
together with the punctual ones of the next window.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import aiohttp
from aiohttp.client_reqrep import ClientRequest
from aiohttp.connector import Connection

leaving: ContextVar[Callable[[], None] | None] = ContextVar("leaving", default=None)
"""Set for the time of one request, in its own task; aiohttp's writing task inherits it."""


class LeavingRequest(ClientRequest):
    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        answer = await super().send(conn)
        if not self.body:  # nothing more to write: its headers were everything
            _tell()
        return answer

    async def write_bytes(self, *handed: Any, **named: Any) -> None:
        _tell()
        await super().write_bytes(*handed, **named)


def _tell() -> None:
    told = leaving.get()
    if told is not None:
        told()
