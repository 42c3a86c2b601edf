"""Requests of the client: where they go, how answers are read, and which of them may be sent again.

Over HTTP to a running Forager, or to an application that this process opens in a data folder. There, an engine runs
while the connection is open, from the first request that waits for work.

A request is sent again after a lost connection, a 429 or a 503, if that is safe: it changes nothing, or it carries an
idempotency key, by which Forager recognises the repeat. Requests that create work always carry one.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload
from urllib.parse import quote, urlencode
from uuid import uuid4

import orjson

from forager.client.errors import ApiError, ApiInvalid, ApiNoAnswer, ApiUnavailable, error_of
from forager.core.errors import FieldError
from forager.sdk.cli.client import KEY_HEADER, ApiAnswer, ApiUnreachable

if TYPE_CHECKING:
    import aiohttp

    from forager.sdk.cli.invocation import LocalEngine

T = TypeVar("T")

TIMEOUT = 130.0
"""Seconds for one request: a page that is waited for may take two minutes."""
PATIENCE = 30.0
"""Seconds during which repeatable requests are sent again."""
FIRST_WAIT, LONGEST_WAIT = 0.2, 5.0
SAFE_METHODS = frozenset({"GET", "PUT", "DELETE"})
NEEDS_ENGINE = frozenset({"/api/v1/scrape/sync", "/api/v1/demo/nested"})
"""Requests that are answered when work is done: an engine must be running."""

Send = Callable[[str, str, Mapping[str, str], bytes], Awaitable[ApiAnswer]]


@dataclass(frozen=True, slots=True)
class ListOf(Sequence[T], Generic[T]):
    """One page of a list. `next_cursor` is the `cursor` of the next one; None at the end."""

    items: Sequence[T]
    next_cursor: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        return self.items[index]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One frame of a stream of server-sent events."""

    event: str
    data: Any
    id: str | None = None


@dataclass(frozen=True, slots=True)
class ApiResult:
    """The data of an answer, and what the API adds to it."""

    data: Any
    meta: Mapping[str, Any]
    is_repeated: bool = False
    """True if an earlier request with the same idempotency key had created it."""


class ApiConnection:
    """Opened by the first request. Give `url` and `key`, or a data folder (`home`), or neither: then the settings
    decide, as for commands."""

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        home: str | Path | None = None,
        settings: Mapping[str, object] | None = None,
        timeout: float = TIMEOUT,
        patience: float = PATIENCE,
        send: Send | None = None,
    ) -> None:
        if url is not None and home is not None:
            raise ValueError("Give the url of a running Forager, or the home of its data, not both.")
        if url is not None and not url.startswith(("http://", "https://")):
            raise ValueError(f"url: {url!r} should begin with http:// or https://")
        self._url = url.rstrip("/") if url else None
        self._key = key
        self._home = None if home is None else Path(home).absolute()
        self._settings = dict(settings or {})
        self._timeout = timeout
        self._patience = patience
        self._stack = AsyncExitStack()
        self._given = send
        self._send: Send | None = send
        self._session: aiohttp.ClientSession | None = None
        self._engine: LocalEngine | None = None
        self._opening = asyncio.Lock()
        self._engine_runs = False

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        idempotency_key: str | None = None,
        has_key: bool = False,
    ) -> ApiResult:
        """Send any request and return its data. `path` begins with `/api/v1`, or with the name of a route below it.

        `has_key`: the route takes an idempotency key, so one is made if none is given. Raises an `ApiError`.
        """
        answer = await self._answered(method, path, query, body, idempotency_key, has_key=has_key)
        if not answer.body:
            return ApiResult(None, {})
        envelope = orjson.loads(answer.body)
        if not isinstance(envelope, dict) or "data" not in envelope:
            return ApiResult(envelope, {})
        replayed = answer.headers.get("idempotent-replayed") == "true"
        return ApiResult(envelope["data"], envelope.get("meta") or {}, replayed)

    async def data(self, method: str, path: str, **asked: Any) -> Any:
        return (await self.request(method, path, **asked)).data

    async def page(self, method: str, path: str, **asked: Any) -> ListOf[Any]:
        got = await self.request(method, path, **asked)
        return ListOf(got.data, got.meta.get("next_cursor"), got.meta)

    async def pages(self, path: str, query: Mapping[str, Any] | None = None) -> AsyncIterator[list[Any]]:
        """Yield the pages of a list, following its cursor."""
        cursor: str | None = None
        while True:
            page = await self.page("GET", path, query={"limit": 500, **(query or {}), "cursor": cursor})
            yield list(page)
            if (cursor := page.next_cursor) is None:
                return

    async def file(self, method: str, path: str, **asked: Any) -> bytes:
        """Return an answer as it is."""
        return (await self._answered(method, path, asked.get("query"), None, None)).body

    async def events(
        self, method: str, path: str, *, query: Mapping[str, Any] | None = None
    ) -> AsyncIterator[ServerEvent]:
        """Yield the frames of a stream as they come. Needs a running Forager."""
        await self.open()
        if self._session is None:
            raise ApiInvalid("Streams need a running Forager: give its url. `changes.follow` works without one.")
        headers = {KEY_HEADER: self._key or "", "Accept": "text/event-stream"}
        async with self._session.request(method, f"{self._url}{_target(path, query)}", headers=headers) as got:
            if got.status >= 400:
                raise error_of(got.status, _lower(got.headers), await got.read(), str(self._url))
            lines: list[str] = []
            async for raw in got.content:
                line = raw.decode("utf-8").rstrip("\r\n")
                if line:
                    lines.append(line)
                elif frame := _frame(lines):
                    yield frame
                    lines = []
                else:
                    lines = []

    async def work(self) -> None:
        """Make sure that jobs are worked on: run an engine here if this process has opened the store."""
        await self.open()
        async with self._opening:
            if self._engine is not None and not self._engine_runs:
                await self._stack.enter_async_context(self._engine.running())
                self._engine_runs = True

    async def open(self) -> None:
        """Open the connection. Further calls do nothing."""
        async with self._opening:
            if self._send is None:
                self._send = await (self._over_http() if self._url else self._from_settings())

    async def close(self) -> None:
        """Close the connection; an engine in this process first finishes the tasks in flight."""
        stack, self._stack = self._stack, AsyncExitStack()
        self._send, self._session, self._engine = self._given, None, None
        self._engine_runs = False
        await stack.aclose()

    async def _over_http(self) -> Send:
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=self._timeout)
        session = await self._stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
        self._session = session
        if self._key is None:
            from forager.app.config import load_settings
            from forager.secrets.service_key import service_key_for

            settings = load_settings(self._settings)
            self._key = service_key_for(settings.home, settings.service_key)

        async def send(method: str, target: str, headers: Mapping[str, str], body: bytes) -> ApiAnswer:
            own = {**headers, KEY_HEADER: self._key or ""}
            try:
                async with session.request(
                    method, f"{self._url}{target}", headers=own, data=body or None, allow_redirects=False
                ) as got:
                    return ApiAnswer(got.status, _lower(got.headers), await got.read())
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                said = str(error) or type(error).__name__
                problem = f"Forager at {self._url} does not answer ({said}). Is `forager up` running?"
                raise ApiNoAnswer(problem) from error

        return send

    async def _from_settings(self) -> Send:
        from forager.app.config import load_settings
        from forager.client.connect import reach

        settings = load_settings({**self._settings, **({"home": self._home} if self._home else {})})
        reached = await self._stack.enter_async_context(reach(settings, store="created"))
        self._engine = reached.engine
        return reached.api.send

    async def _answered(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: Any,
        idempotency_key: str | None,
        *,
        has_key: bool = False,
    ) -> ApiAnswer:
        target = _target(path, query)
        await self.open()
        if target.partition("?")[0] in NEEDS_ENGINE:
            await self.work()
        send = self._send
        assert send is not None  # noqa: S101 - `open` has set it
        headers = {"Accept": "application/json"}
        if has_key or idempotency_key:
            headers["Idempotency-Key"] = idempotency_key or str(uuid4())
        content = b""
        if body is not None:
            content, headers["Content-Type"] = _encoded(body), "application/json"
        safe = method in SAFE_METHODS or "Idempotency-Key" in headers
        give_up, pause = time.monotonic() + self._patience, FIRST_WAIT
        while True:
            try:
                answer = await send(method, target, headers, content)
            except ApiUnreachable as error:
                failure: ApiError = ApiNoAnswer(error.message)
            except ApiNoAnswer as error:
                failure = error
            else:
                if answer.status < 400:
                    return answer
                failure = error_of(answer.status, answer.headers, answer.body, self._url or "Forager")
            wait = failure.retry_after if failure.retry_after is not None else pause
            worth = isinstance(failure, ApiNoAnswer | ApiUnavailable)
            if not (safe and worth) or time.monotonic() + wait > give_up:
                raise failure
            await asyncio.sleep(wait)
            pause = min(pause * 2, LONGEST_WAIT)


def part(name: str) -> str:
    """Quote a name as one segment of a path. Raises `ApiInvalid` for an empty one, which would name another path."""
    if not name:
        raise ApiInvalid("A name in the path is empty.", code="invalid", fields=[FieldError("path", "is empty")])
    return quote(str(name), safe="")


def _target(path: str, query: Mapping[str, Any] | None) -> str:
    given = {name: _text(value) for name, value in (query or {}).items() if value is not None}
    own = path.startswith(("/api/", "/health", "/readiness", "/metrics", "/openapi.json", "/llms"))
    whole = path if own else f"/api/v1/{path.lstrip('/')}"
    return whole + (f"?{urlencode(given)}" if given else "")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _encoded(body: Any) -> bytes:
    try:
        return orjson.dumps(body, default=_plain)
    except TypeError as error:
        raise ApiInvalid(f"The body cannot be sent as JSON: {error}.", code="invalid") from error


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _frame(lines: Sequence[str]) -> ServerEvent | None:
    """Read the lines of one frame; None for a comment."""
    fields: dict[str, list[str]] = {}
    for line in lines:
        name, _, value = line.partition(":")
        fields.setdefault(name, []).append(value.removeprefix(" "))
    if "data" not in fields:
        return None
    text = "\n".join(fields["data"])
    try:
        data = orjson.loads(text)
    except ValueError:
        data = text
    return ServerEvent(fields.get("event", ["message"])[-1], data, fields.get("id", [None])[-1])
