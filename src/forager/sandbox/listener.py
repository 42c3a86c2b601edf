"""A port of this machine that answers: what small sandbox servers share. Binds the loopback address only."""

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Self

from forager.core.errors import Rejected
from forager.sandbox.wire import Connection, Request

LOOPBACK = "127.0.0.1"
BACKLOG = 4096


async def listen(make: Callable[[], Connection], port: int) -> asyncio.Server:
    """A server on this port, 0 for a free one."""
    try:
        return await asyncio.get_running_loop().create_server(make, LOOPBACK, port, backlog=BACKLOG)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise Rejected(
            f"The sandbox cannot listen on port {port}: {why}."
            " Choose another with --port (or the option of that upstream, such as --site-port), or 0 for a free one."
        ) from error


class Listener(ABC):
    """`async with` starts and stops it. Its port stays its own if it is stopped and started again."""

    def __init__(self, port: int = 0) -> None:
        self.port = port
        self._server: asyncio.Server | None = None
        self._connections: set[Connection] = set()

    async def start(self) -> None:
        if self._server is None:
            make = partial(Connection, self._receive, self._connections)
            self._server = await listen(make, self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Nobody listens any more, and every connection ends."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self._connections):
            connection.leave()
        await asyncio.sleep(0)  # the transports close in the loop's next turn

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def endpoint(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @property
    def endpoints(self) -> tuple[str, ...]:
        return (self.endpoint,)

    def url(self, path: str = "/") -> str:
        return f"http://{self.endpoint}{path}"

    @abstractmethod
    def _receive(self, request: Request, connection: Connection) -> None: ...
