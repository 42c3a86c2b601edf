"""Sinks in the ledger: how far each has come in the log, how it is doing, and which changes it has refused.

Two tables, on either database: `cursors` (one row per sink) and `set_aside` (one row per refused change). Never on a
hot path: a sink writes once per batch.
"""

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

import orjson

from forager.core.database import Database, Row
from forager.core.errors import Conflict, NotFound
from forager.core.ids import SINK_LANES, sink_lane
from forager.core.sink import FULL_TOO_LONG, STALLED_AFTER, SetAside, SinkPosition, SinkRow, SinkStatus
from forager.sdk.queries import QueryPage, Walk, at, loads, walk

RATE_OVER = 60.0
"""Seconds over which a sink's rate is averaged, with exponential decay."""
LONGEST_ERROR = 1_000

_POSITION = """
SELECT t.change AS last, c.position, l.id AS lane, l.owner, l.paused,
  EXISTS (SELECT 1 FROM set_aside a WHERE a.sink = :sink AND a.retry) AS retries
FROM tail t LEFT JOIN cursors c ON c.sink = :sink LEFT JOIN lanes l ON l.name = :lane
"""
# The fence: a session that has lost the sink's lane can no longer move it. A position that was removed with its sink is
# not stored again by a delivery that is still under way, because it would keep changes from being pruned: the removal
# pauses the lane first, and a new position is stored only for a lane that is not paused. A WHERE must be before
# ON CONFLICT, or SQLite takes the latter for a join.
_ADVANCE = """
INSERT INTO cursors (sink, position, moved_at, delivered, rate)
SELECT CAST(:sink AS TEXT), CAST(:position AS BIGINT), CAST(:now AS BIGINT), CAST(:delivered AS BIGINT),
  CAST(:rate AS DOUBLE PRECISION)
WHERE (CAST(:session AS BIGINT) IS NULL
  OR EXISTS (SELECT 1 FROM lanes WHERE name = :lane AND owner = CAST(:session AS BIGINT)))
  AND (EXISTS (SELECT 1 FROM cursors k WHERE k.sink = :sink)
    OR (coalesce(CAST(:expected AS BIGINT), 0) = 0 AND (CAST(:session AS BIGINT) IS NULL
      OR NOT EXISTS (SELECT 1 FROM lanes WHERE name = :lane AND paused))))
ON CONFLICT (sink) DO UPDATE SET position = excluded.position, moved_at = excluded.moved_at,
  delivered = cursors.delivered + excluded.delivered, rate = excluded.rate, failures = 0, retry_at = NULL,
  failing_since = NULL
WHERE cursors.position = coalesce(CAST(:expected AS BIGINT), cursors.position)
RETURNING position
"""
_FAILED = """
INSERT INTO cursors (sink, position, moved_at, failures, error, error_at, retry_at, failing_since)
SELECT CAST(:sink AS TEXT), 0, CAST(:now AS BIGINT), CAST(:failures AS INTEGER), CAST(:error AS TEXT),
  CAST(:error_at AS BIGINT), CAST(:retry_at AS BIGINT),
  CASE WHEN CAST(:failures AS INTEGER) > 0 THEN CAST(:now AS BIGINT) END
WHERE EXISTS (SELECT 1 FROM cursors k WHERE k.sink = :sink)
  OR NOT EXISTS (SELECT 1 FROM lanes WHERE name = :lane AND paused)
ON CONFLICT (sink) DO UPDATE SET failures = excluded.failures, error = excluded.error, error_at = excluded.error_at,
  retry_at = excluded.retry_at,
  failing_since = CASE WHEN excluded.failures > 0 THEN coalesce(cursors.failing_since, excluded.failing_since) END
"""
_SET_ASIDE = """
INSERT INTO set_aside (sink, change_id, tries, error, at) VALUES (:sink, :change, :tries, :error, :now)
ON CONFLICT (sink, change_id) DO UPDATE SET tries = set_aside.tries + excluded.tries, error = excluded.error,
  at = excluded.at, retry = false
"""
_STATUS = """
SELECT n.name, t.change AS last, c.position, c.moved_at, c.delivered, c.rate, c.failures, c.error, c.error_at,
  c.retry_at, c.failing_since, l.paused, s.name AS owner,
  (SELECT count(*) FROM set_aside a WHERE a.sink = n.name) AS set_aside,
  (SELECT o.at FROM changes o WHERE o.id > coalesce(c.position, 0) ORDER BY o.id LIMIT 1) AS oldest
FROM ({names}) n CROSS JOIN tail t LEFT JOIN cursors c ON c.sink = n.name
LEFT JOIN lanes l ON l.name = '{lanes}' || n.name LEFT JOIN sessions s ON s.id = l.owner ORDER BY n.name
"""
_REFUSED = "SELECT sink, change_id, tries, error, at, retry FROM set_aside"


class SinkTable:
    """Implements `core.sink.Cursors`, and the queries of operators about sinks."""

    def __init__(self, database: Database, now_ms: Callable[[], Awaitable[int]]) -> None:
        self._database = database
        self._now_ms = now_ms

    # ── for the engine ──

    async def position(self, sink: str) -> SinkPosition:
        (row,) = await self._database.fetch(_POSITION, {"sink": sink, "lane": sink_lane(sink)})
        return SinkPosition(
            cursor=row["position"] or 0,
            last=row["last"],
            lane=row["lane"],
            owner=row["owner"],
            paused=bool(row["paused"]),
            retries=bool(row["retries"]),
        )

    async def advance(
        self,
        sink: str,
        cursor: int,
        *,
        expected: int | None = None,
        session: int | None = None,
        delivered: int = 0,
        rate: float = 0.0,
    ) -> bool:
        values = {
            "sink": sink,
            "lane": sink_lane(sink),
            "position": cursor,
            "expected": expected,
            "session": session,
            "delivered": delivered,
            "rate": rate,
            "now": await self._now_ms(),
        }
        return bool(await self._database.write(_ADVANCE, values))

    async def failed(
        self, sink: str, error: str, *, failures: int, retry_in: float | None, seconds_ago: float = 0.0
    ) -> None:
        now = await self._now_ms()
        values = {
            "sink": sink,
            "lane": sink_lane(sink),
            "failures": failures,
            "error": error[:LONGEST_ERROR],
            "now": now,
            "error_at": now - round(seconds_ago * 1000),
            "retry_at": None if retry_in is None else now + round(retry_in * 1000),
        }
        await self._database.write(_FAILED, values)

    async def set_aside(self, sink: str, change: int, *, tries: int, error: str) -> None:
        values = {"sink": sink, "change": change, "tries": tries, "error": error[:LONGEST_ERROR]}
        await self._database.write(_SET_ASIDE, {**values, "now": await self._now_ms()})

    async def to_retry(self, sink: str, limit: int) -> Sequence[int]:
        rows = await self._database.fetch(
            "SELECT change_id FROM set_aside WHERE sink = :sink AND retry ORDER BY change_id LIMIT :limit",
            {"sink": sink, "limit": limit},
        )
        return [row["change_id"] for row in rows]

    async def taken(self, sink: str, change: int) -> None:
        await self._database.write(
            "DELETE FROM set_aside WHERE sink = :sink AND change_id = :change", {"sink": sink, "change": change}
        )

    # ── for operators ──

    async def statuses(self, names: Sequence[str] = ()) -> list[SinkStatus]:
        """Return the status of these sinks, and of every other sink of the ledger, by name."""
        values = {f"name{number}": name for number, name in enumerate(names)}
        asked = [f"SELECT CAST(:{key} AS TEXT)" for key in values]
        known = " UNION ".join(["SELECT sink AS name FROM cursors", *asked])
        rows = await self._database.fetch(_STATUS.format(names=known, lanes=SINK_LANES), values)
        now = await self._now_ms()
        return [_status(row, now) for row in rows]

    async def refused(self, sink: str, *, cursor: str | None = None, limit: int = 100) -> QueryPage[SetAside]:
        """List the refused changes of a sink that wait for a decision, oldest first."""
        plan = Walk(
            f"set aside by {sink}",
            _REFUSED,
            ("change_id",),
            ("sink = :sink",),
            columns="w.*, c.kind, c.key, c.op, coalesce(j.public_id, p.public_id) AS public_id",
            joins="JOIN changes c ON c.id = w.change_id LEFT JOIN jobs j ON j.id = c.job_id"
            " LEFT JOIN past_jobs p ON p.id = c.job_id",
            values={"sink": sink},
        )
        rows, following = await walk(self._database, plan, cursor, limit)
        return QueryPage(items=[_refused(row) for row in rows], next_cursor=following)

    async def replay(self, sink: str, after: int) -> None:
        """Move a sink to a position in the log. Changes after it that the sink refused are delivered again."""
        await self.advance(sink, after)
        await self._database.write(
            "DELETE FROM set_aside WHERE sink = :sink AND change_id > :after", {"sink": sink, "after": after}
        )

    async def forget(self, sink: str) -> None:
        """Remove everything that is kept about a sink: it would start from the first change again."""
        for table in ("set_aside", "cursors"):
            await self._database.write(f"DELETE FROM {table} WHERE sink = :sink", {"sink": sink})

    async def retry(self, sink: str, change: int | None = None) -> int:
        """Deliver what was set aside again: one change, or all. Returns how many. Raises `NotFound` if the one is not
        set aside."""
        return await self._decide("UPDATE set_aside SET retry = true", sink, change)

    async def discard(self, sink: str, change: int | None = None) -> int:
        """Forget what was set aside: it is not delivered to this sink. Returns how many. Raises `NotFound` likewise."""
        return await self._decide("DELETE FROM set_aside", sink, change)

    async def _decide(self, verb: str, sink: str, change: int | None) -> int:
        condition = "" if change is None else " AND change_id = :change"
        values: dict[str, Any] = {"sink": sink, **({} if change is None else {"change": change})}
        rows = await self._database.write(f"{verb} WHERE sink = :sink{condition} RETURNING change_id", values)
        if change is not None and not rows:
            raise NotFound(f"The sink {sink!r} has not set change {change} aside. See `forager sinks refused {sink}`.")
        return len(rows)


def _status(row: Row, now: int) -> SinkStatus:
    cursor, moved = row["position"] or 0, row["moved_at"]
    behind = max(0, row["last"] - cursor)
    lag = max(0, now - row["oldest"]) / 1000 if behind and row["oldest"] is not None else 0.0
    failures, paused = row["failures"] or 0, bool(row["paused"])
    quiet = 0.0 if moved is None else max(0, now - moved) / 1000
    return SinkStatus(
        name=row["name"],
        cursor=cursor,
        behind=behind,
        lag=lag,
        delivered=row["delivered"] or 0,
        rate=round((row["rate"] or 0.0) * math.exp(-quiet / RATE_OVER), 3),
        owner=row["owner"],
        paused=paused,
        failures=failures,
        error=row["error"],
        error_at=at(row["error_at"]),
        retry_at=at(row["retry_at"]),
        moved_at=at(moved),
        failing_since=at(row["failing_since"]),
        set_aside=row["set_aside"],
        stalled=not paused and _has_stalled(row, now, lag, quiet),
    )


def _has_stalled(row: Row, now: int, lag: float, quiet: float) -> bool:
    """Return whether a sink that is not paused should make health red.

    The age of its oldest undelivered change does not decide this alone: a new sink starts with the whole log.
    """
    if row["failures"]:
        return min(lag, quiet) > STALLED_AFTER
    if row["retry_at"] is None:
        return False
    # It is full, since the stored time of its last error. It still moves by a batch now and then.
    full_for: float = (now - row["error_at"]) / 1000
    return min(lag, full_for) > FULL_TOO_LONG


def _refused(row: Row) -> SetAside:
    when = at(row["at"])
    assert when is not None  # noqa: S101 - the column is never NULL
    return SetAside(
        sink=row["sink"],
        change=row["change_id"],
        kind=row["kind"],
        key=row["key"],
        op=row["op"],
        job=UUID(row["public_id"]) if row["public_id"] else None,
        tries=row["tries"],
        error=row["error"],
        at=when,
        retry=bool(row["retry"]),
    )


# The rows of the table `sinks`: which sinks an operator has added. Never on a hot path.


_INSERT = """
INSERT INTO sinks (name, type, kinds, pipelines, options, created_at)
VALUES (:name, :type, :kinds, :pipelines, :options, :now) ON CONFLICT (name) DO NOTHING RETURNING name
"""


_WHERE = "$where"
"""The key under which the condition of a row is stored among its options: no option of a type can have this name."""


class SinkRows:
    """Adds, lists and removes rows. Positions in the log belong to `SinkTable`."""

    def __init__(self, database: Database, table: SinkTable, now_ms: Callable[[], Awaitable[int]]) -> None:
        self._database = database
        self._table = table
        self._now_ms = now_ms

    async def all(self) -> Sequence[SinkRow]:
        """Return every row, by name."""
        rows = await self._database.fetch(
            "SELECT name, type, kinds, pipelines, options, created_at FROM sinks ORDER BY name"
        )
        return [_sink_row(row) for row in rows]

    async def add(self, row: SinkRow, *, after: int = 0) -> None:
        """Add a sink whose deliveries begin after this change. Raises `Conflict` if there is a row of that name.

        The caller pauses the sink's lane meanwhile: a process that sees the row before its position must not begin at
        the first change."""
        values = {
            "name": row.name,
            "type": row.type,
            "kinds": _names(row.kinds),
            "pipelines": _names(row.pipelines),
            "options": orjson.dumps({**row.options, **({_WHERE: row.where} if row.where else {})}).decode(),
            "now": await self._now_ms(),
        }
        if not await self._database.write(_INSERT, values):
            raise Conflict(f"There is a sink {row.name!r} already. Remove it first, or choose another name.")
        await self._table.replay(row.name, after)

    async def remove(self, name: str) -> None:
        """Remove a row, if there is one. `forget` removes the rest, when its deliveries have ended."""
        await self._database.write("DELETE FROM sinks WHERE name = :name", {"name": name})

    async def forget(self, name: str) -> None:
        """Remove the position of a sink and the changes that it refused."""
        await self._table.forget(name)

    async def statuses(self, names: Sequence[str]) -> list[SinkStatus]:
        """Return the status of these sinks, and of every other sink of the ledger."""
        return await self._table.statuses(names)

    async def is_delivered(self, name: str) -> bool:
        """Return whether a living session delivers this sink now."""
        return (await self._table.position(name)).owner is not None


def _names(names: frozenset[str] | None) -> str | None:
    return None if names is None else orjson.dumps(sorted(names)).decode()


def _sink_row(row: Row) -> SinkRow:
    kinds, pipelines, options = loads(row["kinds"]), loads(row["pipelines"]), dict(loads(row["options"]))
    where = options.pop(_WHERE, None)
    return SinkRow(
        row["name"],
        row["type"],
        kinds=None if kinds is None else frozenset(kinds),
        pipelines=None if pipelines is None else frozenset(pipelines),
        options=options,
        where=where,
        created_at=at(row["created_at"]),
    )
