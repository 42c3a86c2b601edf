"""The pins of lanes to regions, and their effect: the queue of each lane follows its pin.

Any process may call `follow`; the result does not depend on the process. It never touches a lane whose queue is right,
so that a fleet without pins pays for one small query. PostgreSQL only: an embedded store has one worker.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from forager.core.clock import Clock
from forager.core.database import Database, Row
from forager.core.errors import FieldError, Rejected, StoreError
from forager.core.ids import IS_WITHOUT_TASKS
from forager.core.regions import MARK, Pin
from forager.ledger.tables.domains import checked_name

log = structlog.get_logger("forager.ledger")

EVERY = 2.0
"""Seconds between two checks."""
NEEDS_POSTGRES = (
    "Regions need PostgreSQL, which workers on several machines share. Set FORAGER_DATABASE_URL, and see"
    " docs/regions.md."
)
_WORKERS = f"""
SELECT r.name, (SELECT count(*) FROM sessions s WHERE s.lease_until >= :now
  AND s.queues LIKE '%{MARK}' || r.name || '"%') AS workers
FROM regions r
"""
# A region is seen as long as one of its sessions lives. A worker without pins in its region is noted, so that the list
# shows it: its queues name the region.
_SEE = f"""
INSERT INTO regions (name, seen_at)
SELECT DISTINCT split_part(q.name, '{MARK}', 2), CAST(:now AS BIGINT) FROM sessions s
CROSS JOIN LATERAL json_array_elements_text(s.queues::json) AS q(name)
WHERE s.lease_until >= :now AND s.queues LIKE '%{MARK}%' AND q.name LIKE '%{MARK}%'
ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at WHERE regions.seen_at < excluded.seen_at
"""
OF_LANE = "(p.lane = l.name OR right(l.name, length(p.lane) + 1) = '.' || p.lane)"
"""The condition that a pin `p` is for a lane `l`. Of several, the longest counts."""
# A pin is in force while its region is alive, for its time after that, and without such a time for ever.
_IN_FORCE = "p.fails_over_after IS NULL OR coalesce(r.seen_at, p.created_at) + p.fails_over_after > :now"
_FOLLOW = f"""
WITH due AS MATERIALIZED (
  SELECT l.id, split_part(l.queue, '{MARK}', 1) || coalesce((
    SELECT CASE WHEN {_IN_FORCE} THEN '{MARK}' || p.region ELSE '' END
    FROM region_pins p LEFT JOIN regions r ON r.name = p.region WHERE {OF_LANE}
    ORDER BY length(p.lane) DESC LIMIT 1), '') AS queue
  FROM lanes l WHERE (EXISTS (SELECT 1 FROM region_pins p WHERE {OF_LANE}) OR l.queue LIKE '%{MARK}%')
    AND NOT {IS_WITHOUT_TASKS.replace("name", "l.name")}),
wrong AS MATERIALIZED (
  SELECT l.id, d.queue FROM due d JOIN lanes l ON l.id = d.id WHERE l.queue <> d.queue ORDER BY l.id
  FOR NO KEY UPDATE OF l)
UPDATE lanes l SET queue = w.queue FROM wrong w WHERE l.id = w.id RETURNING l.name, l.queue
"""
_LOAD = f"""
SELECT split_part(l.queue, '{MARK}', 2) AS region, count(*) AS lanes,
  count(*) FILTER (WHERE l.owner IS NOT NULL AND l.owner > 0) AS owned,
  count(*) FILTER (WHERE l.owner IS NULL AND l.wake_at <= :now AND NOT l.paused) AS waiting
FROM lanes l WHERE l.queue LIKE '%{MARK}%' GROUP BY 1
"""


@dataclass(frozen=True, slots=True)
class RegionReport:
    """A region as an operator sees it."""

    name: str
    workers: int
    """Living sessions."""
    seen_at: datetime | None
    """Time at which one of its workers was last alive; None if it never had one."""
    lanes: int
    """Lanes that only its workers take now …"""
    owned: int
    """… those that a worker has …"""
    waiting: int
    """… and those that have work and no worker."""
    pins: tuple[Pin, ...]
    failed_over: tuple[str, ...]
    """Pins that are not in force, because the region has had no worker for their time."""


class Regions:
    def __init__(self, database: Database, now_ms: Callable[[], Awaitable[int]]) -> None:
        self._database = database
        self._now_ms = now_ms

    async def pin(self, lane: str, region: str, after: float | None = None) -> Pin:
        """Pin a lane, at once also where it exists. Another pin of the same lane is replaced."""
        self._require("region")
        pin = Pin(checked_name(lane), region, after)
        await self._database.write(
            "INSERT INTO region_pins (lane, region, fails_over_after, created_at)"
            " VALUES (:lane, :region, CAST(:after AS BIGINT), :now) ON CONFLICT (lane) DO UPDATE SET"
            " region = excluded.region, fails_over_after = excluded.fails_over_after, created_at = excluded.created_at",
            {
                "lane": pin.lane,
                "region": region,
                "after": None if after is None else round(after * 1000),
                "now": await self._now_ms(),
            },
        )
        await self.follow()
        return pin

    async def unpin(self, lane: str) -> bool:
        """Let every worker take the lane again. Returns False if it was not pinned."""
        self._require("lane")
        gone = await self._database.write(
            "DELETE FROM region_pins WHERE lane = :lane RETURNING lane", {"lane": checked_name(lane)}
        )
        await self.follow()
        return bool(gone)

    async def pins(self) -> list[Pin]:
        rows = await self._database.fetch("SELECT lane, region, fails_over_after FROM region_pins ORDER BY lane")
        return [_pin(row) for row in rows]

    async def list(self) -> Sequence[RegionReport]:
        """Return every region that has or had workers or pins, by name."""
        if self._database.dialect != "postgresql":
            return []
        now = await self._now_ms()
        pins = await self._database.fetch(
            f"SELECT p.lane, p.region, p.fails_over_after, NOT ({_IN_FORCE}) AS over FROM region_pins p"
            " LEFT JOIN regions r ON r.name = p.region ORDER BY p.lane",
            {"now": now},
        )
        seen = {r["name"]: r["seen_at"] for r in await self._database.fetch("SELECT name, seen_at FROM regions")}
        workers = {r["name"]: r["workers"] for r in await self._database.fetch(_WORKERS, {"now": now})}
        load = {r["region"]: r for r in await self._database.fetch(_LOAD, {"now": now})}
        nothing = {"lanes": 0, "owned": 0, "waiting": 0}
        return [
            RegionReport(
                name,
                workers.get(name, 0),
                datetime.fromtimestamp(seen[name] / 1000, UTC) if name in seen else None,
                load.get(name, nothing)["lanes"],
                load.get(name, nothing)["owned"],
                load.get(name, nothing)["waiting"],
                tuple(_pin(row) for row in pins if row["region"] == name),
                tuple(row["lane"] for row in pins if row["region"] == name and row["over"]),
            )
            for name in sorted({*seen, *load, *(row["region"] for row in pins)})
        ]

    async def follow(self) -> int:
        """Note which regions are alive, and give each lane the queue of its pin. Returns how many changed."""
        now = {"now": await self._now_ms()}
        await self._database.write(_SEE, now)
        changed = await self._database.write(_FOLLOW, now)
        for row in changed:
            log.info("lane_moved", lane=row["name"], queue=row["queue"])
        return len(changed)  # workers notice at their next look, a second later

    async def follow_forever(self, clock: Clock) -> None:
        """Follow the pins until cancelled."""
        if self._database.dialect != "postgresql":
            return
        while True:
            try:
                await self.follow()
            except StoreError as error:
                log.warning("regions_delayed", error=error.message)
            await clock.sleep(EVERY)

    def _require(self, field: str) -> None:
        if self._database.dialect != "postgresql":
            raise Rejected(NEEDS_POSTGRES, fields=[FieldError(field, "needs PostgreSQL")])


def _pin(row: Row) -> Pin:
    after = row["fails_over_after"]
    return Pin(row["lane"], row["region"], None if after is None else after / 1000)
