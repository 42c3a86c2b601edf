"""Operators' rules for domains, stored in the table `domains`. Precedence is not decided here.

A row is never deleted: clearing empties it, and its time of change informs every worker.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from forager.core.database import Database, Row
from forager.core.errors import FieldError, Rejected
from forager.core.hosts import checked_host
from forager.core.invalid import field_errors
from forager.core.regions import MARK
from forager.core.rules import FIELDS, Overrides, RobotsFile, Rules
from forager.sdk.queries import QueryPage, Walk, walk

HOURS = ("allowed_hours_start", "allowed_hours_end")
RULE_COLUMNS = (*(name for name in FIELDS if name != "allowed_hours"), *HOURS)
_COLUMNS = f"domain_name, base_url, is_active, {', '.join(RULE_COLUMNS)}, created_at, updated_at"
_SPEAKS = f"({' OR '.join(f'{column} IS NOT NULL' for column in RULE_COLUMNS)})"
# A change always moves the row's own time on, even twice in a millisecond: `changed_since` counts on it.
_MOVED_ON = (
    "updated_at = CASE WHEN CAST(:now AS BIGINT) > domains.updated_at THEN CAST(:now AS BIGINT)"
    " ELSE domains.updated_at + 1 END"
)
_TYPES = {
    "tokens_per_interval": "DOUBLE PRECISION",
    "interval_seconds": "DOUBLE PRECISION",
    "crawl_delay_seconds": "DOUBLE PRECISION",
    "proxy_cooldown_seconds": "DOUBLE PRECISION",
    "respect_robots_txt": "BOOLEAN",
    "use_proxies": "BOOLEAN",
    "via": "BOOLEAN",
    "block_resources": "TEXT",
}
"""SQL types of the values; the others are INTEGER. Without a type, PostgreSQL cannot determine that of a NULL."""


@dataclass(frozen=True, slots=True)
class Domain:
    name: str
    rules: Rules
    base_url: str | None
    """Base URL of the site; information only."""
    is_active: bool
    """Switched on by the operator: nothing is sent to a domain that is off, whatever its rules."""
    created_at: datetime
    updated_at: datetime


class Domains:
    def __init__(self, database: Database, now_ms: Callable[[], Awaitable[int]]) -> None:
        self._database = database
        self._now_ms = now_ms

    async def get(self, name: str) -> Domain | None:
        """Return the override of a domain, or None."""
        rows = await self._database.fetch(
            f"SELECT {_COLUMNS} FROM domains WHERE domain_name = :name AND {_SPEAKS}", {"name": name}
        )
        return _domain(rows[0]) if rows else None

    async def list(self, *, cursor: str | None = None, limit: int = 100) -> QueryPage[Domain]:
        """Return the domains with rules, by name."""
        plan = Walk("overrides", f"SELECT {_COLUMNS} FROM domains", ("domain_name",), where=(_SPEAKS,))
        rows, following = await walk(self._database, plan, cursor, limit)
        return QueryPage(items=[_domain(row) for row in rows], next_cursor=following)

    async def set(self, name: str, changes: Mapping[str, Any]) -> Domain:
        """Change the given rules; None removes one. The others stay as they are.

        The result is validated as a whole, so that one change cannot contradict another. Raises `Rejected`, naming the
        fields.
        """
        before = await self.get(name)
        rules_before = before.rules.model_dump() if before else {}
        columns = [column for key in changes for column in (HOURS if key == "allowed_hours" else (key,))]
        return await self._write(name, _checked({**rules_before, **changes}), columns)

    async def replace(self, name: str, rules: Rules) -> Domain:
        """Replace all rules of a domain."""
        return await self._write(name, rules, RULE_COLUMNS)

    async def _write(self, name: str, rules: Rules, columns: Sequence[str]) -> Domain:
        """Write only these columns, so that two operators can change different rules at the same time."""
        every = _values(rules)
        new = "".join(f", CAST(:{column} AS {_TYPES.get(column, 'INTEGER')})" for column in columns)
        rows = await self._database.write(
            f"INSERT INTO domains (domain_name, created_at, updated_at{''.join(f', {c}' for c in columns)})"
            f" VALUES (:name, :now, :now{new}) ON CONFLICT (domain_name) DO UPDATE SET"
            f" {_MOVED_ON}{''.join(f', {c} = excluded.{c}' for c in columns)}"
            f" RETURNING {_COLUMNS}",
            {"name": checked_name(name), "now": await self._now_ms(), **{c: every[c] for c in columns}},
        )
        return _domain(rows[0])

    async def clear(self, name: str) -> bool:
        """Remove all rules of a domain. Returns False if there were none."""
        rows = await self._database.write(
            f"UPDATE domains SET {', '.join(f'{column} = NULL' for column in RULE_COLUMNS)},"
            f" {_MOVED_ON} WHERE domain_name = :name AND {_SPEAKS} RETURNING domain_name",
            {"name": name, "now": await self._now_ms()},
        )
        return bool(rows)

    async def switch(self, name: str, *, active: bool) -> None:
        """Switch a domain on or off; its rules stay. Writes nothing if nothing changes."""
        now = {"name": checked_name(name), "now": await self._now_ms()}
        if active:
            await self._database.write(
                f"UPDATE domains SET is_active = true, {_MOVED_ON} WHERE domain_name = :name AND NOT is_active", now
            )
            return
        await self._database.write(
            "INSERT INTO domains (domain_name, is_active, created_at, updated_at) VALUES (:name, false, :now, :now)"
            f" ON CONFLICT (domain_name) DO UPDATE SET is_active = false, {_MOVED_ON} WHERE domains.is_active",
            now,
        )

    async def changed_since(self, marker: int | None) -> Overrides | None:
        """Return all overrides if any has changed since `marker`; None if none has.

        The marker is the sum of all times of change, read from their index. Every change makes it larger. The latest
        time alone would miss a transaction that began earlier and committed later.
        """
        rows = await self._database.fetch("SELECT CAST(coalesce(sum(updated_at), 0) AS BIGINT) AS marker FROM domains")
        now = int(rows[0]["marker"])
        if now == marker:
            return None
        overrides = await self._database.fetch(f"SELECT {_COLUMNS} FROM domains WHERE {_SPEAKS} OR NOT is_active")
        speaking = (row for row in overrides if any(row[column] is not None for column in RULE_COLUMNS))
        rules = {row["domain_name"]: _rules(row) for row in speaking}
        return Overrides(now, rules, frozenset(row["domain_name"] for row in overrides if not row["is_active"]))


def checked_name(name: str) -> str:
    """Return a domain, or the name of an API's lane, in canonical form."""
    try:
        return checked_host(name)
    except ValueError as error:
        raise Rejected(
            f"{name[:80]!r} is not the name of a lane: {error}.", fields=[FieldError("lane", str(error))]
        ) from None


def _checked(values: Mapping[str, Any]) -> Rules:
    try:
        return Rules.model_validate(dict(values))
    except ValidationError as error:
        raise Rejected("The rules are not valid.", fields=field_errors(error)) from error


def _values(rules: Rules) -> dict[str, Any]:
    hours, blocked = rules.allowed_hours, rules.block_resources
    return {
        **{name: getattr(rules, name) for name in RULE_COLUMNS if name in FIELDS},
        "block_resources": None if blocked is None else ",".join(blocked),
        "allowed_hours_start": None if hours is None else hours.start,
        "allowed_hours_end": None if hours is None else hours.end,
    }


def _domain(row: Row) -> Domain:
    return Domain(
        row["domain_name"],
        _rules(row),
        row["base_url"],
        bool(row["is_active"]),
        datetime.fromtimestamp(row["created_at"] / 1000, UTC),
        datetime.fromtimestamp(row["updated_at"] / 1000, UTC),
    )


def _rules(row: Row) -> Rules:
    """Read the rules of a row. They were checked when written; a row that was damaged by hand must not stop the others'
    rules."""
    values = {name: row[name] for name in RULE_COLUMNS if name in FIELDS and row[name] is not None}
    for flag in ("respect_robots_txt", "use_proxies", "via"):
        if flag in values:
            values[flag] = bool(values[flag])
    if "block_resources" in values:
        values["block_resources"] = tuple(name for name in values["block_resources"].split(",") if name)
    if row["allowed_hours_start"] is not None and row["allowed_hours_end"] is not None:
        values["allowed_hours"] = {"start": row["allowed_hours_start"], "end": row["allowed_hours_end"]}
    try:
        return Rules.model_validate(values)
    except ValidationError as error:
        wrong = {problem["loc"][0] for problem in error.errors()}
        return Rules.model_validate({name: value for name, value in values.items() if name not in wrong})


# The robots.txt files in the ledger: one row per origin, on either database. Never on a hot path: once per origin.


OF_USE_MS = 7 * 24 * 3600 * 1000
"""A copy is valid for a day and refreshed while its site is used: one that was not refreshed for a week is useless."""
PRUNED_AT_ONCE = 100
"""Maximum files that a sweep removes: a file can have 500 KiB."""


class LedgerRobots:
    """Implements `core.rules.RobotsStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, origin: str) -> RobotsFile | None:
        rows = await self._database.fetch(
            "SELECT origin, tried_at, status, body, good_at FROM robots WHERE origin = :origin", {"origin": origin}
        )
        return RobotsFile(**rows[0]) if rows else None

    async def keep(self, file: RobotsFile) -> None:
        """Store a file. If two processes try at once, the later answer stays, whichever is written last."""
        await self._database.write(
            "INSERT INTO robots (origin, tried_at, status, body, good_at)"
            " VALUES (:origin, :tried_at, :status, :body, :good_at)"
            " ON CONFLICT (origin) DO UPDATE SET tried_at = excluded.tried_at, status = excluded.status,"
            " body = excluded.body, good_at = excluded.good_at WHERE robots.tried_at <= excluded.tried_at",
            {
                "origin": file.origin,
                "tried_at": file.tried_at,
                "status": file.status,
                "body": file.body,
                "good_at": file.good_at,
            },
        )


# Brings the queues and scopes of existing lanes up to date with the declarations of the pipelines.
#
# A lane gets its queue and scope when it is created. If an earlier version created it, or if a pipeline now declares
# another queue or scope, it is changed at the start of a process that works. Lanes of sites are not declared by name: a
# lane without tasks gets the queue of the pipeline of its next task.


_EXACT = "name = :name"
_FAMILY = "substr(name, 1, CAST(:length AS INTEGER)) = :name"
# A lane that is pinned to a region stays there: `celery@eu` is the queue `celery` (core/regions.py).
_QUEUE = f"UPDATE lanes SET queue = :queue WHERE queue <> :queue AND queue NOT LIKE :queue || '{MARK}%' AND "
_NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
# A session that owns the lane continues with it, in parallel with the others. Awake: an owned lane has no moment to
# wake at.
_SHARE = f"UPDATE lanes SET owner = 0, state = NULL, wake_at = {_NOW} WHERE owner IS DISTINCT FROM 0 AND "
_OWN = f"UPDATE lanes SET owner = NULL, wake_at = {_NOW} WHERE owner = 0 AND "


async def follow_declared(database: Database, queues: Mapping[str, str], shared: Collection[str] = ()) -> None:
    """Set queue and scope of every lane that a pipeline declares, by name or by family (`prefix:*`). `shared`: the
    lanes with limits per worker; only PostgreSQL stores the difference."""
    for name, queue in queues.items():
        prefix = name.removesuffix("*")
        which, values = (_EXACT, {"name": name}) if prefix == name else (_FAMILY, {"name": prefix})
        more = {} if prefix == name else {"length": len(prefix)}
        await database.write(_QUEUE + which, {**values, **more, "queue": queue})
        if database.dialect == "postgresql":
            await database.write((_SHARE if name in shared else _OWN) + which, {**values, **more})
