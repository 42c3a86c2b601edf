"""A simulated unblocking service: `GET /v1/?key=…&url=…` fetches the page of that address and answers with it.

It fetches from this machine only, so it is useless to others. A test can make it refuse the key, report that there is
no credit, answer 429, or fail. Its header `X-Cost` contains the cost of a request.
"""

import asyncio
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp

from forager.sandbox.wire import HTML, LOOPBACK, Connection, PortListener, WireRequest

PATH = "/v1/"
COST_HEADER = "X-Cost"


@dataclass(frozen=True, slots=True)
class Unblocked:
    """A request as it was received."""

    url: str
    headers: dict[str, str]
    status: int
    """Status of the answer."""


class SimulatedUnblocker(PortListener):
    """`async with SimulatedUnblocker("key") as service:` then `service.trouble(402, 500)` for the next two requests."""

    def __init__(self, key: str | None = None, *, port: int = 0, cost: int = 1) -> None:
        super().__init__(port)
        self.key = key
        self.cost = cost
        """Value of the header `X-Cost`."""
        self.log: list[Unblocked] = []
        self._trouble: list[int] = []
        self._running: set[asyncio.Task[None]] = set()

    @property
    def template(self) -> str:
        """The value of `FORAGER_VIA_URL`."""
        return self.url(f"{PATH}?key={{key}}&url={{url}}")

    def trouble(self, *statuses: int) -> None:
        """The next requests get these statuses, in turn; 0 cuts the connection."""
        self._trouble.extend(statuses)

    def _receive(self, request: WireRequest, connection: Connection) -> None:
        asked = parse_qs(request.query)
        url = (asked.get("url") or [""])[0]
        headers = {name.decode(): value.decode("latin-1") for name, value in request.headers.items()}
        if self.key is not None and asked.get("key") != [self.key]:
            self._refuse(401, url, headers, connection)
        elif self._trouble:
            self._refuse(self._trouble.pop(0), url, headers, connection)
        elif urlsplit(url).hostname != LOOPBACK:
            self._refuse(400, url, headers, connection)
        else:
            task = asyncio.get_running_loop().create_task(self._fetched(url, headers, connection))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    def _refuse(self, status: int, url: str, headers: dict[str, str], connection: Connection) -> None:
        self.log.append(Unblocked(url, headers, status))
        connection.send(status, b'{"error": "in trouble"}') if status else connection.cut()

    async def _fetched(self, url: str, headers: dict[str, str], connection: Connection) -> None:
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            body: bytes = await answer.read()
            kind: Any = answer.headers.get("Content-Type", HTML.decode())
        told = f"{COST_HEADER}: {self.cost}\r\nX-Final-Url: {answer.url}\r\n"
        self.log.append(Unblocked(url, headers, answer.status))
        connection.send(answer.status, body, str(kind).encode(), told.encode())
