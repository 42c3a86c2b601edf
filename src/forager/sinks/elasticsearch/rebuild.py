"""Builds an index from the records while searches and the sink continue with the one before.

A new index is filled from the current records, after noting the end of the log. Then the log is followed from that
position to its end, the alias moves to the new index in one step, and the log is followed again: until the alias moved,
the sink wrote newer changes to the old index. Every document carries the number of a change as its version, so the
order in which these writes arrive does not matter.

The progress of a rebuild is a row of the table `search_rebuilds`, so an interrupted one continues. The row also names
the process that builds: a second rebuild is refused until the first has ended or has made no progress for a while.
"""

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from forager.core.errors import Conflict, ForagerError
from forager.core.ledger import Ledger
from forager.sdk.delivery import Indexed
from forager.sdk.queries import last_change
from forager.sinks.elasticsearch.client import Alias, Client
from forager.sinks.elasticsearch.documents import Documents, IndexDocument, write
from forager.sinks.log_cursor import witness_of

log = structlog.get_logger("forager.sinks")

AT_ONCE = 1_000
HOLD = 60_000
"""Milliseconds for which a rebuild is held from one step to the next; a step takes far less."""
BETWEEN = 15_000
"""Milliseconds for which it is held between two parts, so that the same caller can request the next one."""
_LOCK = 0x736561726368
"""The advisory lock under which the table is created."""
_TABLE = """
CREATE TABLE IF NOT EXISTS search_rebuilds (
    alias TEXT PRIMARY KEY, target TEXT NOT NULL, filled BIGINT NOT NULL, followed BIGINT NOT NULL,
    holder TEXT NOT NULL, held_until BIGINT NOT NULL
)
"""


@dataclass(slots=True)
class _State:
    """A row of `search_rebuilds`."""

    target: str
    """The index that is being built."""
    filled: int
    """Records up to this id are in it."""
    followed: int
    """Changes up to this one are in it."""
    began: int = 0
    """The last change when the index was created: the records that it was filled from include everything up to it."""


class Rebuild:
    """Rebuilds of one index. Any process may request a part; one at a time works."""

    def __init__(self, client: Client, ledger: Ledger, indexed: Indexed, alias: Alias) -> None:
        self._client = client
        self._ledger = ledger
        self._database = ledger.database
        self._kind = indexed.record.kind
        self._alias = alias
        self._documents = Documents(indexed, ledger.database)
        self._holder = os.urandom(8).hex()
        self._is_busy = False

    async def part(self, most: int, *, go_on: bool = False) -> int:
        """Begin a rebuild, or continue with one that was interrupted, for about `most` records and changes.

        Returns how many are left; 0 when the alias names the new index and the one before is removed. Raises `Conflict`
        if a rebuild is under way; with `go_on`, only if another process works on it.
        """
        if self._is_busy:
            raise self._under_way()
        self._is_busy = True
        try:
            state = await self._take(go_on=go_on)
            try:
                await self._ensure_index(state)
                left = await self._advance(state, most)
            except BaseException:
                with contextlib.suppress(ForagerError):
                    await self._hold(state, 0)  # interrupted: any process may continue at once
                raise
            if left:
                await self._hold(state, BETWEEN)
            return left
        finally:
            self._is_busy = False

    async def complete(self) -> None:
        """Complete a rebuild that was interrupted after the alias had moved.

        Follow the log again: changes that the sink wrote to the old index until the alias moved are missing in the new
        one.
        """
        await self._create_table()
        rows = await self._database.fetch(
            "SELECT target FROM search_rebuilds WHERE alias = :alias", {"alias": self._alias.name}
        )
        if rows and await self._alias.names(rows[0]["target"]):
            with contextlib.suppress(Conflict):  # the process that moved the alias is about to do it
                while await self.part(AT_ONCE, go_on=True):
                    pass

    async def _advance(self, state: _State, most: int) -> int:
        last, budget = await self._documents.last(), most
        while state.filled < last and budget > 0:
            end = min(state.filled + AT_ONCE, last)
            await self._write(state, await self._documents.between(state.filled, end, state.began))
            state.filled, budget = end, budget - AT_ONCE
            await self._hold(state, HOLD)
        tail = await last_change(self._database)
        while state.followed < tail and budget > 0 and state.filled >= last:
            await self._follow(state, tail)
            budget -= AT_ONCE
        if left := max(0, last - state.filled) + max(0, tail - state.followed):
            return left
        await self._finish(state)
        return 0

    async def _finish(self, state: _State) -> None:
        await self._alias.move_to(state.target)
        tail = await last_change(self._database)  # what the sink wrote until now may be in the index before
        while state.followed < tail:
            await self._follow(state, tail)
        await self._alias.remove_all_but(state.target)
        await self._database.write(
            "DELETE FROM search_rebuilds WHERE alias = :alias AND holder = :holder",
            {"alias": self._alias.name, "holder": self._holder},
        )

    async def _follow(self, state: _State, tail: int) -> None:
        """Index the records of the next changes after `followed`, up to `tail`."""
        batch = await self._ledger.changes(state.followed, AT_ONCE, kinds={self._kind}, until=tail, bodies=False)
        await self._write(state, await self._documents.by_keys({change.key: change.id for change in batch}))
        state.followed = batch[-1].id if len(batch) == AT_ONCE else tail
        await self._hold(state, HOLD)

    async def _write(self, state: _State, documents: Sequence[IndexDocument]) -> None:
        refused = (await write(self._client, state.target, documents)).refused
        if refused:
            key, reason = next(iter(refused.items()))
            log.error("search_records_left_out", records=len(refused), key=key[:100], reason=reason)

    async def target(self) -> str | None:
        """Return the index that a rebuild is filling; None if there is no rebuild, or if it has not begun to."""
        await self._database.write(_TABLE)
        rows = await self._database.fetch(
            "SELECT target FROM search_rebuilds WHERE alias = :alias", {"alias": self._alias.name}
        )
        known = [row["target"] for row in rows if await self._alias.meta(row["target"]) is not None]
        return known[0] if known else None

    # ── whose rebuild it is ──

    async def _take(self, *, go_on: bool) -> _State:
        name, now = self._alias.name, await self._ledger.now_ms()
        await self._create_table()
        rows = await self._database.fetch(
            "SELECT held_until FROM search_rebuilds WHERE alias = :alias", {"alias": name}
        )
        if not rows:
            await self._alias.current()  # raises `Conflict` if the name is taken
            await self._database.write(
                "INSERT INTO search_rebuilds (alias, target, filled, followed, holder, held_until)"
                " VALUES (:alias, :target, 0, 0, '', 0) ON CONFLICT (alias) DO NOTHING",
                {"alias": name, "target": await self._alias.next_index()},
            )
        mine = "OR holder = :holder" if go_on else ""
        values = {"alias": name, "holder": self._holder, "now": now, "until": now + HOLD}
        taken = await self._database.write(
            "UPDATE search_rebuilds SET holder = :holder, held_until = :until"
            f" WHERE alias = :alias AND (held_until <= :now {mine}) RETURNING target, filled, followed",
            values,
        )
        if not taken:
            raise self._under_way()
        return _State(**taken[0])

    async def _create_table(self) -> None:
        """Two processes may create it at the same moment, which PostgreSQL refuses one of them without a lock."""
        if self._database.dialect == "postgresql":
            await self._database.write(f"DO $do$ BEGIN PERFORM pg_advisory_xact_lock({_LOCK}); {_TABLE}; END $do$")
        else:
            await self._database.write(_TABLE)

    async def _ensure_index(self, state: _State) -> None:
        """Create the index of a rebuild that begins. One with another definition starts again, as does one whose unseen
        changes were pruned while it made no progress."""
        meta = await self._alias.meta(state.target)
        if meta is not None and meta["definition"] == self._alias.definition:
            state.began = int(meta["began"])
            state.followed = max(state.followed, state.began)
            if await self._has_all_after(state.followed):
                return
            state.target = await self._alias.next_index()
        state.began = state.followed = await last_change(self._database)
        state.filled = 0
        await self._alias.create(state.target, state.began, await witness_of(self._ledger, state.began))
        await self._hold(state, HOLD)

    async def _has_all_after(self, change: int) -> bool:
        """Return whether no change after this one has been pruned."""
        (row,) = await self._database.fetch("SELECT min(id) AS first FROM changes")
        first = await last_change(self._database) + 1 if row["first"] is None else int(row["first"])
        return first <= change + 1

    async def _hold(self, state: _State, milliseconds: int) -> None:
        """Store how far the rebuild has come. Raises `Conflict` if another process has taken it over."""
        rows = await self._database.write(
            "UPDATE search_rebuilds SET target = :target, filled = :filled, followed = :followed, held_until = :until"
            " WHERE alias = :alias AND holder = :holder RETURNING alias",
            {
                "alias": self._alias.name,
                "holder": self._holder,
                "target": state.target,
                "filled": state.filled,
                "followed": state.followed,
                "until": await self._ledger.now_ms() + milliseconds,
            },
        )
        if not rows:
            raise self._under_way()

    def _under_way(self) -> Conflict:
        return Conflict(
            f"The index {self._alias.name!r} is being rebuilt. Wait until that has ended; a rebuild that was"
            " interrupted can go on after a minute."
        )
