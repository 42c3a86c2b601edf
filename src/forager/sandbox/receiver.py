"""A webhook receiver that follows the documentation, and can be down, slow or failing.

Its log has every request as it came, with the verdict of the verifier. The accepted bodies, once per id, are in
`taken`: an auditor compares the two.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from forager.sandbox.wire import Connection, PortListener, WireRequest
from forager.sinks.webhook import signing


class Mood(StrEnum):
    UP = "up"
    ERROR = "error"
    """500."""
    GONE = "gone"
    """410: it refuses all further messages."""
    BUSY = "busy"
    """429, with `Retry-After`."""
    MOVED = "moved"
    """302 to `moved_to`."""
    SILENT = "silent"
    """Accepted, never answered."""
    FORGETFUL = "forgetful"
    """Accepted, then the connection ends without an answer: the sender cannot see it."""


_STATUS = {Mood.ERROR: 500, Mood.GONE: 410, Mood.BUSY: 429, Mood.MOVED: 302}


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """One request."""

    at: datetime
    """Time by the receiver's clock."""
    path: str
    headers: dict[str, str]
    body: bytes
    status: int
    """Status of the answer; 0: no answer."""
    problem: str | None
    """Reason of the verifier for refusing it."""

    @property
    def id(self) -> str:
        return self.headers.get(signing.ID, "")


class WebhookReceiver(PortListener):
    """`async with WebhookReceiver(["secret"]) as receiver:`. `mood` holds from the next request on; `stop` is down."""

    def __init__(
        self,
        secrets: Sequence[str],
        now: Callable[[], datetime] | None = None,
        tell: Callable[[ReceivedRequest], None] | None = None,
        *,
        port: int = 0,
    ) -> None:
        """Calls `tell` with every request. Port 0 is any free one."""
        super().__init__(port)
        self.mood = Mood.UP
        self.log: list[ReceivedRequest] = []
        self.taken: dict[str, bytes] = {}
        """Accepted bodies by id."""
        self.retry_after = 30
        self.moved_to = ""
        self._secrets = tuple(secrets)
        self._tell = tell
        self._now = now or (lambda: datetime.now(UTC))
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    async def arrived(self, count: int) -> None:
        """Wait until that many requests have arrived."""
        if len(self.log) < count:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append((count, future))
            await future

    def tries(self, id: str) -> list[ReceivedRequest]:  # noqa: A002 - the header's own word
        return [each for each in self.log if each.id == id]

    def _receive(self, request: WireRequest, connection: Connection) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers.items()}
        now = self._now()
        problem, id_ = self._judge(headers, request.body, now)
        status = _STATUS.get(self.mood, 200 if problem is None else 400)
        if self.mood in (Mood.UP, Mood.FORGETFUL) and id_ is not None:
            self.taken[id_] = request.body
        answered = 0 if self.mood in (Mood.SILENT, Mood.FORGETFUL) else status
        path = f"{request.path}?{request.query}" if request.query else request.path
        self._write_down(ReceivedRequest(now, path, headers, request.body, answered, problem))
        if self.mood is Mood.FORGETFUL:
            connection.cut()
        elif self.mood is not Mood.SILENT:
            connection.send(status, b"{}", more=self._more())

    def _judge(self, headers: dict[str, str], body: bytes, now: datetime) -> tuple[str | None, str | None]:
        """(what is wrong, the id if it is new)."""
        try:
            return None, signing.verify(headers, body, self._secrets, now, seen=self.taken)
        except signing.Replayed:
            return None, None
        except signing.WebhookError as error:
            return error.message, None

    def _more(self) -> bytes:
        if self.mood is Mood.BUSY:
            return b"Retry-After: %d\r\n" % self.retry_after
        return f"Location: {self.moved_to}\r\n".encode() if self.mood is Mood.MOVED else b""

    def _write_down(self, received: ReceivedRequest) -> None:
        self.log.append(received)
        if self._tell is not None:
            self._tell(received)
        for count, future in self._waiting:
            if count <= len(self.log) and not future.done():
                future.set_result(None)
