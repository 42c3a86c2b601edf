"""Connects to Forager: to the one that is running on this store, or to one opened for this command alone.

The embedded store belongs to one process. If that process has an API, the command goes through it; if it has none, the
command ends with an error that names the process.
"""

import asyncio
import http.client
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from forager.core.errors import StoreLocked
from forager.sdk.cli import render
from forager.sdk.cli.client import Api, ApiAnswer, ApiUnreachable
from forager.sdk.cli.invocation import Reached, StoreUse

if TYPE_CHECKING:
    from forager.app.application import App
    from forager.settings import Settings


# Calls an ASGI application in this process, as a server would: one request, one complete response, no network.
#
# Only for finite responses; an endless stream (SSE) would never return.


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


# Sends a command's requests to the API: over HTTP to a running Forager, or by a call in this process.


REQUEST_SECONDS = 60.0
PATIENCE = 20.0
"""Seconds for which requests are retried while Forager does not answer: its supervisor may be restarting it."""
ASK_AGAIN_EVERY = 0.2


class HttpTransport:
    """Sends requests to a running Forager, with the standard library alone, because importing a larger client would
    take longer than the request.

    `find` is called again when there is no answer, because the address may change with a restart. `patience`: seconds
    for which a request without an answer is repeated.
    """

    def __init__(self, find: Callable[[], str | None], patience: float = PATIENCE) -> None:
        self._find = find
        self._patience = patience
        self.where = find() or "no address"

    async def __call__(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> ApiAnswer:
        give_up = time.monotonic() + self._patience
        while True:
            self.where = self._find() or self.where
            try:
                return await asyncio.to_thread(_send, self.where, method, target, headers, body)
            except _NotSent as error:
                if time.monotonic() > give_up:
                    raise ApiUnreachable(_no_answer(self.where, str(error))) from error
            except (OSError, http.client.HTTPException) as error:
                # A request that was sent may have been executed, so only requests that change nothing are repeated.
                if method != "GET" or time.monotonic() > give_up:
                    late = isinstance(error, TimeoutError)
                    why = "no answer in time" if late else str(error) or type(error).__name__
                    raise ApiUnreachable(_no_answer(self.where, why)) from error
            await asyncio.sleep(ASK_AGAIN_EVERY)


class _NotSent(Exception):
    """The connection failed, so nothing was sent."""


def _send(where: str, method: str, target: str, headers: Mapping[str, str], body: bytes) -> ApiAnswer:
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
        return ApiAnswer(got.status, {name.lower(): value for name, value in got.getheaders()}, got.read())
    finally:
        connection.close()


class LocalTransport:
    """Calls the application in this process."""

    where = "this process"

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> ApiAnswer:
        sized = {**headers, "Host": "127.0.0.1"}
        if body:
            sized["Content-Length"] = str(len(body))
        status, answered, content = await call(self._application, method, target, sized, body)
        return ApiAnswer(status, answered, content)


def _no_answer(where: str, reason: str) -> str:
    return f"Forager at {where} does not answer ({reason}). Is `forager up` running? Check with `forager doctor`."


WAIT_FOR_OWNER = 3.0
"""Seconds to wait for the store while another short command has it open."""
WAIT_FOR_START = 30.0
"""Seconds to wait for the address of an `up` that is starting or restarting."""
LOOK_AGAIN_EVERY = 0.05
LOCAL_KEY = "in-process-call"
"""Service key of the in-process application. It cannot be called from outside, but still requires a key."""


@asynccontextmanager
async def reach(settings: "Settings", *, debug: bool = False, store: StoreUse = "existing") -> AsyncIterator[Reached]:
    """Yield the API for this store: that of a running Forager, or one opened for this command."""
    async with AsyncExitStack() as stack:
        yield await _first_that_answers(settings, stack, debug=debug, store=store)


def find_running(settings: "Settings") -> str | None:
    """Return the API's URL: from the settings, else from the lock of the process that owns this store; None if there is
    none."""
    from forager.ledger.sqlite.lock import read_owner

    if settings.api_url is not None:
        return settings.api_url
    if settings.database_url is not None:
        return None  # PostgreSQL supports many processes, so this one may open the store as well
    owner = read_owner(settings.home / "lock")
    return owner.url if owner else None


class AppEngine:
    """`LocalEngine` of the SDK: the engine of an `App` that this process has opened."""

    def __init__(self, app: "App") -> None:
        self._app = app

    @asynccontextmanager
    async def running(self) -> AsyncIterator["asyncio.Task[None]"]:
        """Run the engine. Raises `StoreMisplaced` if the pages that it would store belong to another ledger."""
        from forager.app.wiring import check_blobs

        await check_blobs(self._app.settings, self._app.database)
        async with self._app.engine(schedules=False, service=False) as task:
            yield task

    async def give_back(self) -> None:
        await self._app.worker.drain(0)

    async def has_notified(self) -> bool:
        return await self._app.has_delivered()


def over_http(find: Callable[[], str | None], key: str, patience: float = PATIENCE) -> Api:
    """Yield the API of a running Forager; `find` returns its address."""
    return Api(HttpTransport(find, patience), key)


@asynccontextmanager
async def in_process(
    settings: "Settings", *, debug: bool = False, store: StoreUse = "created"
) -> AsyncIterator[Reached]:
    """Open the store in this process and yield its API, which is called directly.

    Unless `store` is `created`, a missing store is an error: the folder or the database may be the wrong one.
    """
    from forager.api import create_api
    from forager.app.compose import open_app
    from forager.logging import quiet_logs

    quiet_logs(debug=debug, settings=settings)
    async with open_app(settings, may_create=store == "created") as app:
        api = Api(LocalTransport(create_api(app, key=LOCAL_KEY, one_command=True)), LOCAL_KEY)
        # On PostgreSQL, other processes may work on the store without our noticing.
        yield Reached(api, AppEngine(app), is_alone=settings.database_url is None)


async def _first_that_answers(settings: "Settings", stack: AsyncExitStack, *, debug: bool, store: StoreUse) -> Reached:
    began = time.monotonic()
    if store != "created" and not _has_store(settings):
        if store == "existing":
            from forager.ledger.sqlite.lock import no_store

            raise no_store(settings.home)
        elsewhere = stack.enter_context(TemporaryDirectory(prefix="forager-"))
        settings, store = settings.model_copy(update={"home": Path(elsewhere)}), "created"
    while True:
        if find_running(settings) is not None:
            from forager.secrets.service_key import service_key_for

            return Reached(
                over_http(lambda: find_running(settings), service_key_for(settings.home, settings.service_key))
            )
        waited = time.monotonic() - began
        if settings.database_url is None and has_up(settings.home):
            if waited > WAIT_FOR_START:
                raise locked_by_up(settings.home)
        else:
            try:
                with render.busy("Opening the store …"):
                    return await stack.enter_async_context(in_process(settings, debug=debug, store=store))
            except StoreLocked:
                if waited > WAIT_FOR_OWNER:
                    raise
        await asyncio.sleep(LOOK_AGAIN_EVERY)


def _has_store(settings: "Settings") -> bool:
    """Return False if the embedded store does not exist and no Forager that runs could have it."""
    from forager.ledger.sqlite.lock import has_store

    known = settings.database_url is not None or settings.api_url is not None
    return known or has_store(settings.home) or has_up(settings.home)


# A lock file that shows that a `forager up` supervises this data folder, even while its child is being restarted.
#
# Without it, a command that starts at that moment would open the store itself, and the restarted child would find it
# locked.


@contextmanager
def up_lock(home: Path) -> Iterator[None]:
    """Hold the lock while the block runs. The system releases it when the supervisor dies."""
    from forager.ledger.sqlite.lock import StoreLock

    lock = StoreLock(_up_path(home))
    try:
        lock.take()
    except StoreLocked:
        raise locked_by_up(home) from None
    try:
        yield
    finally:
        lock.release()


def has_up(home: Path) -> bool:
    """Return whether a `forager up` supervises this data folder."""
    from forager.ledger.sqlite.lock import read_owner

    return read_owner(_up_path(home)) is not None


def locked_by_up(home: Path) -> StoreLocked:
    """Return the error for a store that a `forager up` owns."""
    from forager.ledger.sqlite.lock import read_owner

    owner = read_owner(home / "lock") or read_owner(_up_path(home))
    who = f"process {owner.pid}" if owner else "another process"
    return StoreLocked(
        f"The embedded store in {home} belongs to one process, and {who} (`forager up`) has it. Commands find it by"
        " themselves; for several processes use PostgreSQL (FORAGER_DATABASE_URL)."
    )


def _up_path(home: Path) -> Path:
    return home / "pids" / "up"
