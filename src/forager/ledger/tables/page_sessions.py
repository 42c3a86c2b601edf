"""Named sessions: the cookies and the storage that a browser had at the end of a visit, for the next visit of the same
name. The state is sealed in the vault; its row contains only what may be listed.

Implements `fetch.http.fetcher.PageSessions`.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from forager.core.database import Database, Row
from forager.core.errors import NotFound, Permanent
from forager.core.http import SessionRef
from forager.core.secret import Secret, Vault
from forager.core.states import Reason
from forager.sdk.queries import at, loads

KIND = "session"
MOST_SESSIONS = 1_000
LARGEST = 1024 * 1024
"""Characters of a session's state."""
MOST_HOSTS = 50
_KEEP = """
INSERT INTO page_sessions (workspace, name, hosts, cookies, visits, created_at, used_at)
VALUES (:workspace, :name, :hosts, :cookies, 1, :now, :now)
ON CONFLICT (workspace, name) DO UPDATE SET hosts = excluded.hosts, cookies = excluded.cookies,
  visits = page_sessions.visits + 1, used_at = excluded.used_at
"""
_ONE = " WHERE workspace = :workspace AND name = :name"


@dataclass(frozen=True, slots=True)
class PageSession:
    """A session, without its state."""

    workspace: str
    name: str
    hosts: Sequence[str]
    """Domains of its cookies and of its storage."""
    cookies: int
    visits: int
    created_at: datetime | None
    used_at: datetime | None


class PageSessionTable:
    def __init__(self, database: Database, vault: Vault, now_ms: Callable[[], Awaitable[int]]) -> None:
        self._database = database
        self._vault = vault
        self._now_ms = now_ms

    async def load(self, session: SessionRef) -> Secret | None:
        """Return the state of a session; None for a new one. Raises `Permanent` if there are too many."""
        found = await self._vault.get(KIND, _key(session))
        if found is None:
            counted = await self._database.fetch("SELECT count(*) AS n FROM page_sessions")
            if counted[0]["n"] >= MOST_SESSIONS:
                raise Permanent(
                    f"There are {MOST_SESSIONS:,} sessions, which is the maximum. Remove some: forager sessions remove",
                    reason=Reason.GAVE_UP,
                )
        return found

    async def save(self, session: SessionRef, state: Secret) -> None:
        """Keep the state after a visit. Raises `Permanent` if it is too large."""
        text = state.reveal()
        if len(text) > LARGEST:
            raise Permanent(
                f"The session {session.name!r} has more than {LARGEST:,} characters of cookies and storage, so it was"
                " not kept. Remove it and begin again: forager sessions remove",
                reason=Reason.TOO_LARGE,
            )
        hosts, cookies = _listed(orjson.loads(text))
        # The state first: a row without a state would show a session that does not exist.
        await self._vault.put(KIND, _key(session), state)
        about = {"hosts": orjson.dumps(hosts).decode(), "cookies": cookies, "now": await self._now_ms()}
        await self._database.write(_KEEP, {"workspace": session.workspace, "name": session.name, **about})

    async def all(self) -> list[PageSession]:
        """Return the sessions, by workspace and name."""
        return [_row(row) for row in await self._database.fetch("SELECT * FROM page_sessions ORDER BY workspace, name")]

    async def remove(self, session: SessionRef) -> PageSession:
        """Delete a session with its state. Raises `NotFound`."""
        values = {"workspace": session.workspace, "name": session.name}
        rows = await self._database.fetch(f"SELECT * FROM page_sessions{_ONE}", values)
        await self._vault.remove(KIND, _key(session))
        if not rows:
            raise NotFound(
                f"There is no session {session.name!r} in {session.workspace!r}. See `forager sessions list`."
            )
        await self._database.write(f"DELETE FROM page_sessions{_ONE}", values)
        return _row(rows[0])


def _key(session: SessionRef) -> str:
    return f"{session.name}@{session.workspace}"  # a name has no @, so two sessions never share a key


def _listed(state: Any) -> tuple[list[str], int]:
    cookies = state.get("cookies") or []
    origins = [str(each.get("origin", "")).partition("://")[2] for each in state.get("origins") or []]
    named = {str(each.get("domain", "")).lstrip(".") for each in cookies} | set(origins)
    return sorted(name for name in named if name)[:MOST_HOSTS], len(cookies)


def _row(row: Row) -> PageSession:
    return PageSession(
        row["workspace"],
        row["name"],
        loads(row["hosts"]) or [],
        row["cookies"],
        row["visits"],
        at(row["created_at"]),
        at(row["used_at"]),
    )
