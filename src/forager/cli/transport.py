"""Sends a command's requests to the API: over HTTP to a running Forager, or by a call in this process."""

import asyncio
import http.client
import time
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from forager.cli.asgi import Application, call
from forager.kit.cli.client import Answer
from forager.kit.cli.errors import ApiUnreachable

REQUEST_SECONDS = 60.0
PATIENCE = 20.0
"""How long requests are retried while Forager does not answer: its supervisor may be restarting it."""
ASK_AGAIN_EVERY = 0.2


class HttpTransport:
    """Sends requests to a running Forager, with the standard library alone, because importing a larger client would
    take longer than the request.

    `find` is called again when there is no answer, because the address may change with a restart.
    """

    def __init__(self, find: Callable[[], str | None]) -> None:
        self._find = find
        self.where = find() or "no address"

    async def __call__(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        give_up = time.monotonic() + PATIENCE
        while True:
            self.where = self._find() or self.where
            try:
                return await asyncio.to_thread(_send, self.where, method, target, headers, body)
            except _NotSent as error:
                if time.monotonic() > give_up:
                    raise ApiUnreachable(_no_answer(self.where, str(error))) from error
            except TimeoutError as error:
                raise ApiUnreachable(_no_answer(self.where, "no answer in time")) from error
            except (OSError, http.client.HTTPException) as error:
                # A request that was sent may have been executed, so only requests that change nothing are repeated.
                if method != "GET" or time.monotonic() > give_up:
                    raise ApiUnreachable(_no_answer(self.where, str(error) or type(error).__name__)) from error
            await asyncio.sleep(ASK_AGAIN_EVERY)


class _NotSent(Exception):
    """The connection failed, so nothing was sent."""


def _send(where: str, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
    """Send one request on its own connection. Raises `_NotSent`, or the error that broke the connection."""
    url = urlsplit(where)
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    try:
        connection = kind(url.hostname or "", url.port, timeout=REQUEST_SECONDS)
        connection.connect()
    except (OSError, ValueError) as error:
        raise _NotSent(getattr(error, "strerror", None) or str(error)) from error
    try:
        connection.request(method, url.path.rstrip("/") + target, body or None, dict(headers))
        got = connection.getresponse()
        return Answer(got.status, {name.lower(): value for name, value in got.getheaders()}, got.read())
    finally:
        connection.close()


class LocalTransport:
    """Calls the application in this process."""

    where = "this process"

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        sized = {**headers, "Host": "127.0.0.1"}
        if body:
            sized["Content-Length"] = str(len(body))
        status, answered, content = await call(self._application, method, target, sized, body)
        return Answer(status, answered, content)


def _no_answer(where: str, reason: str) -> str:
    return f"Forager at {where} does not answer ({reason}). Is `forager up` running? Check with `forager doctor`."
