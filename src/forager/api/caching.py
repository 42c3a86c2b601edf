"""Conditional requests: `ETag` and 304 for lists, records and searches, and answers that are kept for the next request.

It stands inside of the key's gate: a request reaches it only with a key that may make it, and an answer is kept per
role. The `ETag` contains the number of the last change of the kinds that the answer shows, which is read before the
answer is made: an answer may be newer than its `ETag`, never older. A record that is seen again without a change, and
all that depends on the time of day, are no changes; so an `ETag` also ends with its minute.
"""

import hashlib
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from forager.core.database import Database
from forager.core.errors import StoreError
from forager.sdk.queries import last_change

FRESH_SECONDS = 60
MOST_BYTES = 32 * 1024 * 1024
LARGEST = 1024 * 1024
LISTS = re.compile(r"/api/v1/(places|products|listings)")
RECORDS = re.compile(r"/api/v1/records/([a-z_]{1,100})(?:/.*)?")
HEADERS = ((b"cache-control", b"private, no-cache"), (b"vary", b"X-Service-Key, Authorization, Cookie"))
"""A browser may store an answer, but must revalidate it before each use. Shared caches must not store it."""
_SINCE = "SELECT kind, max(id) AS id FROM changes WHERE id > :after AND id <= :upto GROUP BY kind"


class LastChanges:
    """The number of the last change of each kind. Each look reads one row, and the changes since the look before."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._base: int | None = None
        self._upto = 0
        self._by_kind: dict[str, int] = {}

    async def of(self, kinds: Iterable[str]) -> int:
        """Return the number of the last change of these kinds; of any kind, for one before the first look."""
        last = await last_change(self._database)
        if self._base is None or last < self._upto:  # the first look, or a store that was restored
            self._base = self._upto = last
            self._by_kind.clear()
        if last > self._upto:
            after = self._upto
            rows = await self._database.fetch(_SINCE, {"after": after, "upto": last})
            for row in rows:
                self._by_kind[row["kind"]] = max(int(row["id"]), self._by_kind.get(row["kind"], 0))
            self._upto = max(self._upto, last)
        return max((self._by_kind.get(kind, self._base) for kind in kinds), default=self._upto)


@dataclass(frozen=True, slots=True)
class _Kept:
    etag: bytes
    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    request_id: bytes
    """The request id in the stored body. Each answer gets its own request's id in place of it."""


class ResponseCache:
    def __init__(
        self,
        app: ASGIApp,
        changes: LastChanges,
        kinds: Mapping[str, Iterable[str]],
        count: Callable[[str], None] = lambda outcome: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`kinds`: the kinds of records of each pipeline. `count` is called with `hit`, `unchanged` or `miss`."""
        self._app = app
        self._changes = changes
        self._kinds = {pipeline: tuple(some) for pipeline, some in kinds.items()}
        self._known = frozenset(kind for some in self._kinds.values() for kind in some)
        self._count = count
        self._clock = clock
        self._kept: OrderedDict[tuple[str, ...], _Kept] = OrderedDict()
        self._size = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] not in ("GET", "HEAD", "OPTIONS"):
            self._forget()  # a write of this process may concern more than records
            await self._app(scope, receive, send)
            return
        kinds = self._shown(scope["path"]) if scope["method"] == "GET" else None
        if kinds is None:
            await self._app(scope, receive, send)
            return
        caller = scope.get("state", {}).get("caller")
        key = (str(getattr(caller, "role", "")), scope["path"], scope["query_string"].decode("latin-1"))
        try:
            number = await self._changes.of(kinds)
        except StoreError:
            await self._app(scope, receive, send)
            return
        minute = int(self._clock() // FRESH_SECONDS)
        etag = f'W/"{number}-{minute}-{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}"'.encode()
        if etag in _given(scope):
            self._count("unchanged")
            await send({"type": "http.response.start", "status": 304, "headers": [(b"etag", etag), *HEADERS]})
            await send({"type": "http.response.body", "body": b""})
            return
        kept = self._kept.get(key)
        if kept is not None and kept.etag == etag:
            self._kept.move_to_end(key)
            self._count("hit")
            await _send_kept(kept, scope, send)
            return
        self._count("miss")
        await self._run(key, etag, scope, receive, send)

    async def _run(self, key: tuple[str, ...], etag: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        """Make the answer, and keep it if it is a whole and successful one."""
        headers: tuple[tuple[bytes, bytes], ...] | None = None
        parts: list[bytes] | None = []
        size = 0

        async def seen(message: Message) -> None:
            nonlocal headers, parts, size
            if message["type"] == "http.response.start":
                if message["status"] == 200:
                    headers = (*message["headers"], (b"etag", etag), *HEADERS)  # the layers outside add their own
                    message["headers"] = list(headers)
            elif parts is not None:
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > LARGEST:
                    parts = None
            await send(message)

        await self._app(scope, receive, seen)
        if headers is not None and parts is not None:
            own = str(scope["state"].get("request_id", "")).encode()
            self._keep(key, _Kept(etag, 200, headers, b"".join(parts), own))

    def _shown(self, path: str) -> tuple[str, ...] | None:
        """Return the kinds of records of which an answer depends; None for a path whose answers are not kept."""
        if match := LISTS.fullmatch(path):
            return self._kinds.get(match[1])
        if match := RECORDS.fullmatch(path):
            return (match[1],) if match[1] in self._known else None
        return None

    def _keep(self, key: tuple[str, ...], kept: _Kept) -> None:
        before = self._kept.pop(key, None)
        self._size += len(kept.body) - (0 if before is None else len(before.body))
        self._kept[key] = kept
        while self._size > MOST_BYTES:
            self._size -= len(self._kept.popitem(last=False)[1].body)

    def _forget(self) -> None:
        self._kept.clear()
        self._size = 0


async def _send_kept(kept: _Kept, scope: Scope, send: Send) -> None:
    own = str(scope["state"].get("request_id", "")).encode()
    body = kept.body.replace(kept.request_id, own, 1) if kept.request_id else kept.body
    await send({"type": "http.response.start", "status": kept.status, "headers": list(kept.headers)})
    await send({"type": "http.response.body", "body": body})


def _given(scope: Scope) -> list[bytes]:
    return [each.strip() for name, value in scope["headers"] if name == b"if-none-match" for each in value.split(b",")]
