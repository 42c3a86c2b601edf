"""Named API keys with roles, and the log of what was done with them, on either database.

A key is random, so its SHA-256 reveals nothing about it, and finds it in one look-up. The key itself is shown once,
when it is made, and stored nowhere.
"""

import hashlib
import re
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from forager.core.database import Database, Row
from forager.core.errors import Conflict, FieldError, Rejected
from forager.core.ids import no_such
from forager.sdk.queries import QueryPage, Walk, at, walk

Role = Literal["admin", "operator", "viewer"]
ROLES: tuple[Role, ...] = get_args(Role)
RESERVED_NAME = "service key"
"""The name of the first admin key, which is stored in a file."""
PREFIX = "forager_"
"""Prefix of every named key, so that scanners for leaked secrets find it."""
MOST_KEYS = 1_000
ID_LENGTH = 32
"""Number of characters of a key's hash in its id."""
KEPT_DAYS = 400
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}")
_SHOWN = "name, role, hash, created_at, created_by, last_used_at"
_ADD = """
INSERT INTO api_keys (name, role, hash, created_at, created_by) VALUES (:name, :role, :hash, :now, :by)
ON CONFLICT DO NOTHING RETURNING name
"""
_ROTATE = "UPDATE api_keys SET hash = :hash, last_used_at = NULL WHERE name = :name RETURNING name"
_LOGGED = "at, key_name, method, path, status, request_id"


@dataclass(frozen=True, slots=True)
class StoredKey:
    name: str
    role: Role
    hash: str
    created_at: datetime
    created_by: str
    last_used_at: datetime | None


@dataclass(frozen=True, slots=True)
class LoggedAction:
    """One write, with the name of the key that it was made with."""

    at: datetime
    key_name: str
    method: str
    path: str
    status: int
    request_id: str


def hash_of(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


class KeyTable:
    def __init__(self, database: Database, now_ms: Callable[[], Awaitable[int]]) -> None:
        self._database = database
        self._now_ms = now_ms

    async def list(self) -> list[StoredKey]:
        """Return every key, by name."""
        rows = await self._database.fetch(f"SELECT {_SHOWN} FROM api_keys ORDER BY name LIMIT {MOST_KEYS}")
        return [_key(row) for row in rows]

    async def add(self, name: str, role: Role, *, by: str) -> tuple[StoredKey, str]:
        """Make a key and return it with its text, which cannot be read again. Raises `Rejected` or `Conflict`."""
        if not _NAME.fullmatch(name) or name == RESERVED_NAME:
            problem = "must be 1 to 64 letters, digits, spaces, `.`, `_` or `-`, and not the name of the service key"
            raise Rejected(f"name: {problem}.", fields=[FieldError("name", problem)])
        text = f"{PREFIX}{secrets.token_urlsafe(32)}"
        values = {"name": name, "role": role, "hash": hash_of(text), "now": await self._now_ms(), "by": by}
        if not await self._database.write(_ADD, values):
            raise Conflict(f"There is a key {name!r} already. Revoke it first, or choose another name.")
        return next(key for key in await self.list() if key.name == name), text

    async def rotate(self, name: str) -> tuple[StoredKey, str]:
        """Give a key another text, and return both. The old text is refused from now on. Raises `NotFound`."""
        text = f"{PREFIX}{secrets.token_urlsafe(32)}"
        if not await self._database.write(_ROTATE, {"name": name, "hash": hash_of(text)}):
            raise no_such("key", name, [key.name for key in await self.list()], "See `forager keys list`.")
        return next(key for key in await self.list() if key.name == name), text

    async def revoke(self, name: str) -> None:
        """Remove a key. Raises `NotFound`."""
        if not await self._database.write("DELETE FROM api_keys WHERE name = :name RETURNING name", {"name": name}):
            raise no_such("key", name, [key.name for key in await self.list()], "See `forager keys list`.")

    async def used(self, ids: Sequence[str]) -> None:
        """Note that these keys, named by the beginning of their hash, were used just now."""
        now = await self._now_ms()
        for each in ids:
            await self._database.write(
                "UPDATE api_keys SET last_used_at = :now WHERE hash LIKE :hash", {"now": now, "hash": f"{each}%"}
            )

    async def log(self, actions: Sequence[LoggedAction]) -> None:
        """Store some writes together."""
        columns = _LOGGED.split(", ")
        rows = ", ".join(f"({', '.join(f':{name}{number}' for name in columns)})" for number in range(len(actions)))
        values: dict[str, object] = {}
        for number, action in enumerate(actions):
            values |= {f"{name}{number}": getattr(action, name) for name in columns}
            values[f"at{number}"] = round(action.at.timestamp() * 1000)
        await self._database.write(f"INSERT INTO actions ({_LOGGED}) VALUES {rows}", values)

    async def actions(self, *, key: str | None, cursor: str | None, limit: int) -> QueryPage[LoggedAction]:
        """Return what was done, newest first; by one key, or by all."""
        where = ("key_name = :key",) if key is not None else ()
        values = {"key": key} if key is not None else {}
        plan = Walk("actions", f"SELECT id, {_LOGGED} FROM actions", ("id",), where, values=values, descending=True)
        rows, following = await walk(self._database, plan, cursor, limit)
        return QueryPage(items=[_action(row) for row in rows], next_cursor=following)

    async def forget(self) -> None:
        """Remove what is older than it is kept."""
        before = await self._now_ms() - KEPT_DAYS * 86_400_000
        await self._database.write("DELETE FROM actions WHERE at < :before", {"before": before})


def _key(row: Row) -> StoredKey:
    return StoredKey(
        name=row["name"],
        role=row["role"],
        hash=row["hash"],
        created_at=_moment(row["created_at"]),
        created_by=row["created_by"],
        last_used_at=at(row["last_used_at"]),
    )


def _action(row: Row) -> LoggedAction:
    names = ("key_name", "method", "path", "status", "request_id")
    return LoggedAction(at=_moment(row["at"]), **{name: row[name] for name in names})


def _moment(milliseconds: int) -> datetime:
    moment = at(milliseconds)
    assert moment is not None  # noqa: S101 - the column is never NULL
    return moment
