"""Lanes, sessions, and how the ledger stands as a whole."""

from collections import Counter
from datetime import date, datetime
from typing import Any

from pydantic import Field

from forager.core.database import Database, Row
from forager.core.errors import NotFound
from forager.core.ids import IS_WITHOUT_TASKS
from forager.core.ledger import SHIFT
from forager.core.waiting import Waiting
from forager.ledger.reports.jobs import public_job_state
from forager.sdk.queries import MOST, QueryPage, Walk, at, last_change, loads, walk
from forager.sdk.reports import Report


class LaneReport(Report):
    """A site or API with its own rates and limits."""

    name: str
    owner: str | None = Field(description="The session that owns the lane now.")
    shared: bool = Field(
        default=False,
        description="True if every worker uses the lane at once, with limits of its own; it has no owner.",
    )
    paused: bool
    wake_at: datetime | None = Field(description="No session owns the lane; one may take it from this time on.")
    state: dict[str, Any] = Field(description="Rate and breaker, as its owner last stored them.")
    waiting: Waiting | None = Field(default=None, description="Why the lane sends nothing now; null if it may send.")
    per_second: float | None = Field(
        default=None,
        description="Requests per second that the answering process has sent there in the last half minute; null if"
        " it has sent none since its start.",
    )


class Spending(Report):
    day: date = Field(description="UTC")
    spent: int


class SessionReport(Report):
    """One living worker process."""

    id: int
    name: str
    started_at: datetime
    lease_until: datetime


class PipelineLoad(Report):
    """The open work of one pipeline."""

    queued: int = Field(description="Tasks of open jobs that wait.")
    running: int = Field(description="Tasks of open jobs in flight.")
    waiting_since: datetime | None = Field(description="Creation time of the oldest job without an attempt.")


class QueueLoad(Report):
    """The lanes of one queue that have work and no owner."""

    lanes: int = Field(description="Number of these lanes.")
    since: datetime = Field(description="Time since which the longest waiting lane could be taken.")


class Health(Report):
    """The state of the ledger, in figures that are cheap to read."""

    open_jobs: dict[str, int] = Field(description="Jobs that have not ended, by state.")
    queued: int = Field(description="Tasks of open jobs that wait.")
    running: int = Field(description="Tasks of open jobs in flight.")
    dead_letters: int = Field(description="Failed tasks that are not discarded, counted up to 1,000.")
    sessions: int
    last_change: int = Field(description="Number of the newest change.")
    pipelines: dict[str, PipelineLoad] = Field(description="Open work by pipeline; those without any are left out.")


COUNTED_TO = 1_000
"""Each is looked up in its table, so counting all of them would cost more than the figure is worth."""
LANES_LOOKED_AT = 10_000
EVERY_QUEUE = "all"
SHARED = 0
"""The `owner` of lanes that every worker uses at once."""

_BROKEN = "CAST(state AS TEXT) LIKE '%open_for%'"
# A paused job and one whose tasks are still being written wait for something else than a worker.
_OPEN = """
SELECT pipeline, state, drain, count(*) AS jobs, sum(queued) AS queued, sum(running) AS running,
       min(CASE WHEN state = 'queued' AND drain IS NULL AND queued > 0 THEN created_at END) AS waiting_since
FROM jobs WHERE finished_at IS NULL GROUP BY pipeline, state, drain
"""
# A lane that every worker uses has no owner; it waits if no living session serves its queue.
_WAITING_LANES = f"""
SELECT queue, count(*) AS lanes, min(wake_at) AS since FROM (
  SELECT queue, wake_at FROM (
    SELECT queue, wake_at FROM lanes WHERE owner IS NULL AND wake_at <= :now AND NOT paused
    ORDER BY wake_at LIMIT {LANES_LOOKED_AT}) a
  UNION ALL
  SELECT l.queue, l.wake_at FROM lanes l WHERE l.owner = {SHARED} AND l.wake_at <= :now AND NOT l.paused
    AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.lease_until >= :now
      AND (s.queues IS NULL OR s.queues LIKE '%"' || l.queue || '"%'))) w
GROUP BY queue
"""
_IDLE = PipelineLoad(queued=0, running=0, waiting_since=None)
_LANE = "SELECT id, name, owner, paused, wake_at, state FROM lanes"


async def list_lanes(db: Database, *, cursor: str | None, limit: int) -> QueryPage[LaneReport]:
    """List lanes by name. Lanes that never hold a task are left out."""
    sessions = "LEFT JOIN sessions s ON s.id = w.owner"
    of_work = (f"NOT {IS_WITHOUT_TASKS}",)
    plan = Walk("lanes", _LANE, ("name",), of_work, columns="w.*, s.name AS session", joins=sessions)
    rows, following = await walk(db, plan, cursor, limit)
    return QueryPage(items=[_lane(row) for row in rows], next_cursor=following)


async def one_lane(db: Database, name: str) -> LaneReport | None:
    """None where no job has used it yet."""
    rows = await db.fetch(
        f"SELECT w.*, s.name AS session FROM ({_LANE} WHERE name = :name) w LEFT JOIN sessions s ON s.id = w.owner",
        {"name": name},
    )
    return _lane(rows[0]) if rows else None


async def spending(db: Database, lane: str, *, days: int) -> list[Spending]:
    """Return a lane's spending by UTC day, newest first; days without spending are left out."""
    lanes = await db.fetch("SELECT id FROM lanes WHERE name = :name", {"name": lane})
    if not lanes:
        raise NotFound(f"There is no lane {lane!r}. A lane appears with the first job that uses it.")
    rows = await db.fetch(
        "SELECT day, spent FROM spending WHERE lane_id = :lane ORDER BY day DESC LIMIT :days",
        {"lane": lanes[0]["id"], "days": days},
    )
    return [Spending(day=_day(row["day"]), spent=row["spent"]) for row in rows]


async def list_sessions(db: Database) -> list[SessionReport]:
    rows = await db.fetch(f"SELECT id, name, started_at, lease_until FROM sessions ORDER BY id LIMIT {MOST}")
    times = ("started_at", "lease_until")
    return [SessionReport(**{**row, **{name: at(row[name]) for name in times}}) for row in rows]


async def health(db: Database) -> Health:
    open_jobs: Counter[str] = Counter()
    pipelines: dict[str, PipelineLoad] = {}
    for row in await db.fetch(_OPEN):
        open_jobs[public_job_state(row["state"], row["drain"])] += row["jobs"]
        before = pipelines.get(row["pipeline"], _IDLE)
        pipelines[row["pipeline"]] = PipelineLoad(
            queued=before.queued + int(row["queued"]),
            running=before.running + int(row["running"]),
            waiting_since=at(row["waiting_since"]) or before.waiting_since,  # only one of its rows has it
        )
    dead = await db.fetch(
        f"SELECT count(*) AS n FROM (SELECT 1 AS one FROM dead_letters WHERE NOT hidden LIMIT {COUNTED_TO}) w"
    )
    sessions = await db.fetch("SELECT count(*) AS n FROM sessions")
    return Health(
        open_jobs=open_jobs,
        queued=sum(load.queued for load in pipelines.values()),
        running=sum(load.running for load in pipelines.values()),
        dead_letters=dead[0]["n"],
        sessions=sessions[0]["n"],
        last_change=await last_change(db),
        pipelines=pipelines,
    )


async def circuits(db: Database, now: int) -> dict[str, str]:
    """Lanes whose breaker is not closed, by name: open, or half_open when its time is over."""
    states: dict[str, str] = {}
    for row in await db.fetch(f"SELECT name, state FROM lanes WHERE {_BROKEN} ORDER BY name LIMIT {COUNTED_TO}"):
        known = (loads(row["state"]) or {}).get("breaker") or {}
        if isinstance(left := known.get("open_for"), int | float):
            states[row["name"]] = "open" if known.get("at", now) + left * 1000 > now else "half_open"
    return states


async def waiting_by_queue(db: Database, now: int) -> dict[str, QueueLoad]:
    """Return the lanes that have work and no owner, by queue, of those that have waited longest. Queues without any are
    left out. A lane that every worker uses counts while no session serves its queue."""
    rows = await db.fetch(_WAITING_LANES, {"now": now})
    return {row["queue"]: QueueLoad(lanes=row["lanes"], since=at(row["since"])) for row in rows}


async def sessions_by_queue(db: Database, now: int) -> dict[str, int]:
    """Return how many living sessions serve each queue. Those that serve every queue are counted as `EVERY_QUEUE`."""
    served: Counter[str] = Counter()
    for row in await db.fetch(
        "SELECT queues, count(*) AS n FROM sessions WHERE lease_until >= :now GROUP BY queues", {"now": now}
    ):
        for queue in [EVERY_QUEUE] if row["queues"] is None else loads(row["queues"]):
            served[queue] += row["n"]
    return dict(served)


async def shifts_by_queue(db: Database, now: int) -> dict[str, int]:
    """Return how many Celery shifts run for each queue."""
    running: Counter[str] = Counter()
    sql = f"SELECT queues FROM sessions WHERE lease_until >= :now AND queues IS NOT NULL AND name LIKE '{SHIFT}%'"
    for row in await db.fetch(sql, {"now": now}):
        running.update(loads(row["queues"]))
    return dict(running)


def _lane(row: Row) -> LaneReport:
    return LaneReport(
        name=row["name"],
        owner=row["session"],
        shared=row["owner"] == SHARED,
        paused=bool(row["paused"]),
        wake_at=at(row["wake_at"]),
        state=loads(row["state"]) or {},
    )


def _day(number: int) -> date:
    return datetime.strptime(str(number), "%Y%m%d").date()  # noqa: DTZ007 - a day, not a moment
