"""The gate before every route: it finds the caller, checks the role of the key, and logs writes.

An `admin` may do everything. An `operator` runs and steers: jobs, tasks, schedules, lanes, sinks; it manages no keys
and no proxies, adds and removes no sinks, and removes no data. A `viewer` reads.
"""

import asyncio
import re
import time
from contextlib import suppress
from datetime import UTC, datetime

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from forager.api.auth import OPEN_PATHS, OPEN_PREFIX, SERVICE, KeyOwner, ServiceKey, denied
from forager.core.errors import StoreError
from forager.ledger.tables.api_keys import KeyTable, LoggedAction, Role
from forager.sdk.http.envelope import refusal, request_id

log = structlog.get_logger("forager.api")

LOOK_SECONDS = 2.0
"""Seconds until a key that another process revoked is refused."""
USED_SECONDS = 60.0
FORGET_SECONDS = 3600.0
MOST_AT_ONCE = 100
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
READS = re.compile(r"/api/v1/(?:[a-z-]+/)*(?:plan|compare|preview)|/mcp")
"""POST routes that change nothing themselves: they need a body. The tools of an agent call the API with the agent's own
key, so that each call is checked, and logged, by itself."""
ADMIN_ONLY = re.compile(r"/api/v1/(?:keys|actions)(?:/.*)?")
"""For every method: only administrators may see or change permissions."""
ADMIN_WRITES = re.compile(r"/api/v1/(?:proxies|prune|archive|blobs)(?:/.*)?|/api/v1/(?:sinks|channels)")

STEERING = re.compile(r"/api/v1/(?:lanes|dead|regions|proxies)(?:/.*)?")
"""Writes after which other lanes wait, or other tasks have failed permanently."""


class KeyGate:
    """Refuses requests without a key, and those that the key's role does not allow. Every other write is logged."""

    def __init__(self, app: ASGIApp, key: ServiceKey, keys: "KeyRing") -> None:
        self._app = app
        self._key = key
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008, "reason": "Forager has no websockets."})
            return
        await self._keys.refresh()
        if scope["path"] in OPEN_PATHS or scope["path"].startswith(OPEN_PREFIX):
            await self._app(scope, receive, send)
            return
        caller = self._key.caller(scope)
        if caller is None:
            await denied(scope)(scope, receive, send)
            return
        scope.setdefault("state", {})["caller"] = caller
        self._keys.used(caller)
        if problem := refusal_of(caller.name, caller.role, scope["method"], scope["path"]):
            await refusal(scope, 403, "forbidden", problem)(scope, receive, send)
        elif is_read(scope["method"], scope["path"]):
            await self._app(scope, receive, send)
        else:
            await self._keys.recorded(caller, self._app, scope, receive, send)


class KeyRing:
    """The named keys of the store, as cached in this process, and the log of writes."""

    def __init__(self, key: ServiceKey, table: KeyTable) -> None:
        self._key = key
        self.table = table
        self._looked_at: float | None = None
        self._used: dict[str, float] = {}
        """Time at which the use of a key was last written."""
        self._noting: set[asyncio.Future[None]] = set()
        self._forgot_at = time.monotonic()
        self._pending: list[LoggedAction] = []
        self._writing = asyncio.Lock()
        self.steered = 0
        """Number of changes to waiting work by callers of this process."""

    async def refresh(self, *, now: bool = False) -> None:
        """Read the stored keys, at most every few seconds. While the store is away, the known ones stay valid."""
        moment = time.monotonic()
        if not now and self._looked_at is not None and moment - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = moment
        with suppress(StoreError):
            self._key.know(await self.table.list())

    def used(self, caller: KeyOwner) -> None:
        """Note the use of a named key; it is written at most once a minute."""
        if caller is not SERVICE and time.monotonic() - self._used.get(caller.id, -USED_SECONDS) >= USED_SECONDS:
            self._used[caller.id] = time.monotonic()
            noting = asyncio.ensure_future(self._note(caller))
            self._noting.add(noting)
            noting.add_done_callback(self._noting.discard)

    async def _note(self, caller: KeyOwner) -> None:
        with suppress(StoreError):
            await self.table.used([caller.id])

    async def recorded(self, caller: KeyOwner, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Run a write, and put it in the log with what came of it."""
        status = 500

        async def seen(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await app(scope, receive, seen)
        finally:
            at, path = datetime.now(UTC), scope["path"][:500]
            self.steered += status < 400 and STEERING.fullmatch(path) is not None
            self._pending.append(LoggedAction(at, caller.name, scope["method"], path, status, request_id(scope)))
            await self._write()

    async def _write(self) -> None:
        """Store what waits. Writes that end together are stored together."""
        async with self._writing:
            actions, self._pending = self._pending[:MOST_AT_ONCE], self._pending[MOST_AT_ONCE:]
            if actions:
                try:
                    await self.table.log(actions)
                    if time.monotonic() - self._forgot_at > FORGET_SECONDS:
                        self._forgot_at = time.monotonic()
                        await self.table.forget()
                except StoreError as error:
                    log.warning("actions_not_logged", actions=len(actions), error=str(error))


# The permissions of a role: decided by the method and the path of a request alone.


def is_read(method: str, path: str) -> bool:
    """Return whether a request changes nothing."""
    return method in SAFE or (method == "POST" and READS.fullmatch(path) is not None)


def refusal_of(name: str, role: Role, method: str, path: str) -> str | None:
    """Return why a role does not allow a request; None if it does."""
    if role == "admin":
        return None
    if ADMIN_ONLY.fullmatch(path):
        return f"The key {name!r} is {_a(role)}: keys and the log of actions are for admins."
    if is_read(method, path):
        return None
    if role == "viewer":
        return f"The key {name!r} is {_a(role)}, which may only read. Use the key of an operator or an admin."
    is_removal = method == "DELETE" and re.fullmatch(r"/api/v1/(?:sinks|channels)/[^/]+", path) is not None
    if ADMIN_WRITES.fullmatch(path) or is_removal:
        return f"The key {name!r} is {_a(role)}, which runs and steers. This needs the key of an admin."
    return None


def _a(role: str) -> str:
    return f"an {role}" if role[0] in "ao" else f"a {role}"
