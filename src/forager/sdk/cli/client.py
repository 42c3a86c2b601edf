"""The API client of the commands: data in, data out, errors as exceptions of `core/errors.py`.

A `Transport` carries the requests: over HTTP to a running Forager, or to the same application in this process. Commands
do not see the difference, so there is one code path to test.
"""

import math
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote, urlencode

import orjson

from forager.core.errors import (
    Conflict,
    FieldError,
    ForagerError,
    NotFound,
    Rejected,
    StoreFull,
    StoreUnavailable,
)

# Errors that exist only on the command line, in addition to the tree of `core/errors.py`. Each message names the
# remedy.


class ApiUnreachable(ForagerError):
    """The API does not answer."""


class KeyRefused(ForagerError):
    """The API does not accept the service key."""


class ServerFault(ForagerError):
    """The API failed with an internal error."""


class JobNotDone(ForagerError):
    """The job failed or was paused."""


class ProblemFound(ForagerError):
    """A check found something wrong."""


API = "/api/v1"
KEY_HEADER = "X-Service-Key"
PAGE = 500
"""Page size when a whole list is read."""
SAFE = range(-(1 << 63), 1 << 64)
"""Largest integer that every JSON reader represents exactly."""


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class ListPage:
    data: Any
    meta: Mapping[str, Any] = field(default_factory=dict)
    is_repeated: bool = False
    """True if the job was already created by an earlier request with the same idempotency key."""


class Transport(Protocol):
    where: str
    """The target of requests, for error messages."""

    async def __call__(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> ApiAnswer: ...


class Api:
    def __init__(self, transport: Transport, key: str) -> None:
        self._transport = transport
        self._key = key

    async def get(self, path: str, /, **query: Any) -> Any:
        return (await self.ask("GET", path, query=query)).data

    async def post(self, path: str, body: Any = None) -> Any:
        return (await self.ask("POST", path, body=body)).data

    async def create(self, path: str, body: Any, *, idempotency_key: str | None) -> ListPage:
        """Like `post`; the returned page also contains whether the idempotency key was used before."""
        headers = {"Idempotency-Key": _in_header(idempotency_key)} if idempotency_key else {}
        return await self.ask("POST", path, body=body, headers=headers)

    async def put(self, path: str, body: Any) -> Any:
        return (await self.ask("PUT", path, body=body)).data

    async def patch(self, path: str, body: Any) -> Any:
        return (await self.ask("PATCH", path, body=body)).data

    async def delete(self, path: str) -> Any:
        return (await self.ask("DELETE", path)).data

    async def download(self, path: str) -> ApiAnswer:
        """Return a file as it is, with its headers."""
        answer = await self._transport("GET", API + path, {KEY_HEADER: self._key}, b"")
        if answer.status >= 400:
            _opened(answer, self._transport.where, has_key=bool(self._key))
        return answer

    async def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> ApiAnswer:
        """Send a request as it is, with the key, and return the answer as it is."""
        return await self._transport(method, target, {**headers, KEY_HEADER: self._key}, body)

    async def pages(self, path: str, /, **query: Any) -> AsyncIterator[list[Any]]:
        """Yield the pages of a list, following `next_cursor`."""
        cursor: Any = None
        while True:
            page = await self.ask("GET", path, query={"limit": PAGE, **query, "cursor": cursor})
            yield page.data
            cursor = page.meta.get("next_cursor")
            if cursor is None:
                return

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> ListPage:
        given = {name: _text(value) for name, value in (query or {}).items() if value is not None}
        target = API + path + (f"?{urlencode(given)}" if given else "")
        sent = {KEY_HEADER: self._key, "Accept": "application/json", **(headers or {})}
        content = b""
        if body is not None:
            content = _encoded(body)
            sent["Content-Type"] = "application/json"
        answer = await self._transport(method, target, sent, content)
        return _opened(answer, self._transport.where, has_key=bool(self._key))


def part(name: str) -> str:
    """Quote a name as one segment of a path. Raises `Rejected` for an empty one, which would name another path."""
    if not name:
        raise Rejected("A name is empty. Give one.")
    return quote(_readable(name), safe="")


def _opened(answer: ApiAnswer, where: str, *, has_key: bool = True) -> ListPage:
    """Return the data of the envelope, or raise the error that it contains."""
    try:
        envelope = orjson.loads(answer.body) if answer.body else {"success": answer.status < 400, "data": None}
        if not isinstance(envelope, dict):
            raise ValueError("not an object")
    except ValueError:
        excerpt = answer.body[:200].decode("utf-8", "replace")
        raise ServerFault(
            f"{where} answered {answer.status} with a body that is not from Forager: {excerpt!r}"
        ) from None
    fields = envelope.get("meta") or {}
    if answer.status < 400 and envelope.get("success", True):
        return ListPage(envelope.get("data"), fields, answer.headers.get("idempotent-replayed") == "true")
    raise _error(answer.status, _message(envelope.get("error")), fields, where, has_key=has_key)


def _error(status: int, message: str, meta: Mapping[str, Any], where: str, *, has_key: bool) -> ForagerError:
    if status in (401, 403):
        problem = "refused the service key" if has_key else "requires a service key, and none is set"
        return KeyRefused(
            f"{where} {problem}. Set FORAGER_SERVICE_KEY to the key of that Forager"
            " (it is in service.key of its data folder)."
        )
    if status == 404:
        return NotFound(message)
    if status == 409:
        return Conflict(message)
    if status == 507:
        return StoreFull(message)
    if status == 503:
        return StoreUnavailable(message)
    if status < 500:
        wrong = [FieldError(str(each["field"]), str(each["message"])) for each in meta.get("fields") or ()]
        return Rejected(message, fields=wrong)
    asked = meta.get("request_id")
    return ServerFault(f"{where} failed: {message}" + (f" (request {asked}; see its log)" if asked else ""))


def _message(error: Any) -> str:
    if isinstance(error, Mapping):
        return str(error.get("message") or error.get("code") or "no reason was given")
    return str(error or "no reason was given")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else _readable(str(value))


def _readable(text: str) -> str:
    """Return the text, or raise if it is not valid UTF-8 (invalid bytes of a command line become lone surrogates)."""
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise Rejected(f"{text!r} is not valid UTF-8 text. Write it again in a terminal that uses UTF-8.")
    return text


def _in_header(key: str) -> str:
    if re.fullmatch(r"[\x21-\x7e]+", key) is None:
        raise Rejected(f"The idempotency key {key!r} cannot be sent. Use printable ASCII characters without blanks.")
    return key


def _encoded(body: Any) -> bytes:
    """Encode as JSON. Values that JSON cannot represent are reported with their field here, because orjson does not
    name it and writes NaN as null."""
    wrong = [
        FieldError(name, f"{value} is out of range; give an ordinary number")
        for name, value in _numbers(body)
        if (value not in SAFE if isinstance(value, int) else not math.isfinite(value))
    ]
    if wrong:
        raise Rejected("The request is not valid.", fields=wrong)
    try:
        return orjson.dumps(body)
    except TypeError as error:
        raise Rejected(f"The request cannot be sent: {error}. Write it again in UTF-8.") from error


def _numbers(value: Any, name: str = "") -> Iterator[tuple[str, int | float]]:
    """Yield every number in a body with the name of its field."""
    if isinstance(value, int | float):
        yield name, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _numbers(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _numbers(inner, name)
