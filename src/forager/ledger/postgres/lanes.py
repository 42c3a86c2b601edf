"""Lane ownership: a lane belongs to one session at a time, or sleeps until it has work.

The danger is a lost wake-up: an owner sees no work and puts its lane to sleep while a submission is still uncommitted;
that work would then wait for ever. So a transaction that creates work holds the lane's row (shared) until its commit.
One that puts a lane to sleep locks the row exclusively, and then searches for work in a new statement, which sees
everything that was committed while it waited for the lock.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import orjson

from forager.core.ids import IS_WITHOUT_TASKS
from forager.core.ledger import Away, Demand, GivenLane, OwnedLane, Session
from forager.core.regions import MARK
from forager.ledger.catalog import DEFAULT_QUEUE, Catalog
from forager.ledger.postgres.connection import NOW, Connections, Db, TryAgain, pairs, tell
from forager.ledger.rules.changes import before_month, day_and_hour
from forager.ledger.rules.jobs import Encoded
from forager.ledger.rules.scheduling import (
    MOST_FREE,
    Holder,
    ServingSession,
    fair_share,
    free_by_queue,
    has_no_task,
    room_by_queue,
    served,
)
from forager.ledger.tables.regions import OF_LANE
from forager.sdk.queries import loads

# Lanes whose limits are per worker (`Lane.scope` is `worker`): any number of sessions may use them at once.
#
# The owner of such a lane is 0, which is never the number of a session. So it is neither free nor owned: fair shares,
# lanes without an owner and rescues leave it out without a condition of their own. Its tasks are leased with SKIP
# LOCKED like all others. While it is awake (`wake_at` has passed) it has work, and sessions that do not use it yet may
# join. The one that finds nothing more to do in it leaves, and puts it to sleep unless there is work after all, exactly
# as an owner gives a lane back.


SHARED = 0
"""The `owner` of shared lanes. Sessions are numbered from 1."""
# Few lanes are shared, so all of them are read, by ix_lanes_owner.
_SHARED_AWAKE = "owner = 0 AND NOT paused AND id <> ALL($2::bigint[])"
TO_JOIN = f"EXISTS (SELECT 1 FROM lanes WHERE {_SHARED_AWAKE} AND wake_at <= {NOW})"
"""True if a shared lane outside `$2` has work."""
_ANYWHERE = f"queue NOT LIKE '%{MARK}%'"
"""The lane is not pinned to a region (`core/regions.py`): a session that serves every queue serves these."""
_JOIN = f"""
SELECT id, name, queue FROM lanes
WHERE {_SHARED_AWAKE} AND wake_at <= $1
  AND CASE WHEN $3::text[] IS NULL THEN {_ANYWHERE} ELSE queue = ANY($3::text[]) END
ORDER BY wake_at, id LIMIT $4
"""


async def join_lanes(db: Db, session: Session, known: Collection[int], now: int, most: int) -> list[OwnedLane]:
    """Return shared lanes of the session's queues that have work, except those that it uses already."""
    queues = None if session.queues is None else list(session.queues)
    rows = await db.fetch(_JOIN, now, list(known), queues, most)
    return [OwnedLane(number, name, {}, queue=queue, shared=True) for number, name, queue in rows]


# Not `owner IS NULL`: the planner would walk ix_lanes_wake_at, all sleeping lanes, for each of these.
_IS_ASLEEP = "coalesce(l.owner, 0) = 0 AND (l.wake_at IS NULL OR l.wake_at > x.at)"
_ASLEEP = f"""
SELECT l.id FROM unnest($1::bigint[], $2::bigint[]) AS x(id, at) JOIN lanes l ON l.id = x.id WHERE {_IS_ASLEEP}
"""
# `asleep` is that of the locked row, which another transaction may have changed meanwhile.
_WAKE = f"""
WITH locked AS MATERIALIZED (
  SELECT l.id, x.at, {_IS_ASLEEP} AS asleep FROM unnest($1::bigint[], $2::bigint[]) AS x(id, at)
  JOIN lanes l ON l.id = x.id ORDER BY l.id FOR NO KEY UPDATE OF l)
UPDATE lanes l SET wake_at = o.at FROM locked o WHERE l.id = o.id AND o.asleep
"""
_HOLD = f"""
SELECT {_IS_ASLEEP} AS asleep FROM unnest($1::bigint[], $2::bigint[]) AS x(id, at) JOIN lanes l ON l.id = x.id
ORDER BY l.id FOR SHARE OF l
"""
MOST_RUNS = 8
"""Maximum of statements that wake and hold lanes in turns. If there would be more, none is only held."""
# The lowest turn of what waits in a lane; without ready work, of what is due first.
_TURN = """
coalesce((SELECT f.turn FROM flows f WHERE f.lane_id = {lane} AND NOT f.paused ORDER BY f.turn LIMIT 1),
         (SELECT j.turn FROM queue q JOIN jobs j ON j.id = q.job_id WHERE q.lane_id = {lane} AND q.state = 1
          ORDER BY q.due LIMIT 1), 0)
"""
_AWAKE = "owner IS NULL AND wake_at <= $1 AND NOT paused"
_AWAKE_ANYWHERE = f"{_AWAKE} AND {_ANYWHERE}"
_SHARED = f"EXISTS (SELECT 1 FROM sessions o WHERE o.id <> $1 AND o.wants > 0 AND o.lease_until >= {NOW})"
_BY_QUEUE = f"EXISTS (SELECT 1 FROM sessions o WHERE o.queues IS NOT NULL AND o.lease_until >= {NOW})"
ALIVE = f"""
SELECT {NOW} AS now, {_SHARED} AS shared, {_BY_QUEUE} AS by_queue, {TO_JOIN} AS to_join
FROM sessions s WHERE s.id = $1 FOR KEY SHARE OF s
"""
"""Locks a living session's row until the commit. Returns whether other sessions want lanes, whether some session serves
some queues only, and whether a shared lane outside `$2` has work."""
# Lanes without tasks, such as those of sinks, are not part of the fair share.
_HOLDERS = f"""
SELECT s.id, (SELECT count(*) FROM lanes WHERE owner = s.id AND NOT {IS_WITHOUT_TASKS}), s.wants
FROM sessions s WHERE s.lease_until >= $1
"""
_SERVERS = "SELECT id, wants, queues FROM sessions WHERE lease_until >= $1"
_HELD_BY_QUEUE = f"""
SELECT owner, queue, count(*) FROM lanes WHERE owner = ANY($1::bigint[]) AND NOT {IS_WITHOUT_TASKS}
GROUP BY owner, queue
"""
_FREE_BY_QUEUE = free_by_queue("$1", "$2")
_FREE = f"SELECT count(*) FROM (SELECT 1 FROM lanes WHERE {_AWAKE_ANYWHERE} LIMIT $2) a"
_MORE_THAN = f"SELECT count(*) > $2 FROM (SELECT 1 FROM lanes WHERE {_AWAKE_ANYWHERE} LIMIT $2 + 1) a"
_TAKE = """
WITH pick AS MATERIALIZED (SELECT id FROM lanes l WHERE {awake} ORDER BY {order} LIMIT $2 FOR UPDATE SKIP LOCKED),
chosen AS MATERIALIZED (SELECT id, row_number() OVER () AS place FROM pick),
taken AS (UPDATE lanes SET owner = $3, epoch = epoch + 1, wake_at = NULL
  WHERE id = ANY(ARRAY(SELECT id FROM chosen)) AND owner IS NULL RETURNING id, name, state, epoch, queue)
SELECT t.id, t.name, t.state, t.epoch, t.queue FROM taken t JOIN chosen c ON c.id = t.id ORDER BY c.place
"""
_BEST = f"{_TURN.format(lane='l.id')}, wake_at"
_TAKE_ALL = _TAKE.format(awake=_AWAKE_ANYWHERE, order="wake_at")
_TAKE_BEST = _TAKE.format(awake=_AWAKE_ANYWHERE, order=_BEST)
# One walk of ix_lanes_queue_wake_at per queue, each with its own limit ($4 queues, $5 limits).
_TAKE_FROM = """
WITH pick AS MATERIALIZED (
  SELECT f.id, f.turn, f.wake_at FROM unnest($4::text[], $5::bigint[]) AS q(name, room) CROSS JOIN LATERAL (
    SELECT l.id, {turn} AS turn, l.wake_at FROM lanes l WHERE l.queue = q.name AND {awake}
    ORDER BY {order} LIMIT least(q.room, $2) FOR UPDATE OF l SKIP LOCKED) f),
chosen AS MATERIALIZED (
  SELECT id, row_number() OVER (ORDER BY turn, wake_at) AS place FROM pick ORDER BY turn, wake_at LIMIT $2),
taken AS (UPDATE lanes SET owner = $3, epoch = epoch + 1, wake_at = NULL
  WHERE id = ANY(ARRAY(SELECT id FROM chosen)) AND owner IS NULL RETURNING id, name, state, epoch, queue)
SELECT t.id, t.name, t.state, t.epoch, t.queue FROM taken t JOIN chosen c ON c.id = t.id ORDER BY c.place
"""
_TAKE_ALL_FROM = _TAKE_FROM.format(awake=_AWAKE, turn="0", order="l.wake_at")
_TAKE_BEST_FROM = _TAKE_FROM.format(awake=_AWAKE, turn=_TURN.format(lane="l.id"), order=_BEST)
_MORE_THAN_FROM = f"""
SELECT count(*) > $2 FROM unnest($3::text[]) AS q(name) CROSS JOIN LATERAL (
  SELECT 1 FROM lanes l WHERE l.queue = q.name AND {_AWAKE} LIMIT $2 + 1) a
"""
_WAITING = f"SELECT {_TURN.format(lane='l.id')} AS turn FROM lanes l WHERE {_AWAKE_ANYWHERE} ORDER BY turn LIMIT $2"
_WAITING_IN = f"""
SELECT {_TURN.format(lane="l.id")} AS turn FROM lanes l WHERE l.queue = ANY($3::text[]) AND {_AWAKE}
ORDER BY turn LIMIT $2
"""
_OWN = f"SELECT x.id, {_TURN.format(lane='x.id')} FROM unnest($1::bigint[]) AS x(id)"
_TAKE_ONE = f"""
UPDATE lanes SET epoch = epoch + (owner IS NULL)::int, owner = CASE WHEN owner = 0 THEN 0 ELSE $1 END,
  wake_at = CASE WHEN owner = 0 THEN wake_at END
WHERE id = $2 AND coalesce(owner, $1) IN ($1, 0) AND NOT paused AND ({_ANYWHERE} OR queue = ANY($3::text[]))
RETURNING id, name, state, epoch, queue, owner = 0 AS shared
"""
_STRAYED = f"""
SELECT id FROM lanes WHERE owner = $1 AND NOT ({_ANYWHERE} OR queue = ANY($2::text[]))
"""
_OWNED_BUT_UNKNOWN = f"""
SELECT id, name, state, epoch, queue FROM lanes WHERE owner = $1 AND id <> ALL($2::bigint[]) AND NOT {IS_WITHOUT_TASKS}
ORDER BY id LIMIT $3
"""
_SPENT = """
SELECT lane_id, coalesce(sum(spent_hour) FILTER (WHERE day = $2 AND hour = $3), 0)::bigint,
       coalesce(sum(spent) FILTER (WHERE day = $2), 0)::bigint, sum(spent)::bigint
FROM spending WHERE lane_id = ANY($1::bigint[]) AND day > $4 GROUP BY lane_id
"""
# One row per day. It also holds the spending of the last hour with spending, so that caps per hour need no rows of
# their own.
_ADD_SPENDING = """
INSERT INTO spending (lane_id, day, spent, hour, spent_hour) SELECT x.id, $3, x.spent, $4, x.spent
FROM unnest($1::bigint[], $2::bigint[]) AS x(id, spent) ORDER BY x.id
ON CONFLICT (lane_id, day) DO UPDATE SET spent = spending.spent + excluded.spent, hour = excluded.hour,
  spent_hour = excluded.spent_hour + CASE WHEN spending.hour = excluded.hour THEN spending.spent_hour ELSE 0 END
"""
# Suspects and ready work that is not paused need an owner at once, a waiting task when it is due.
WAKE_AT = """
CASE WHEN EXISTS (SELECT 1 FROM queue q WHERE q.lane_id = l.id AND q.state = 8)
       OR EXISTS (SELECT 1 FROM flows f WHERE f.lane_id = l.id AND NOT f.paused AND EXISTS
            (SELECT 1 FROM queue q WHERE q.lane_id = f.lane_id AND q.job_id = f.job_id AND q.state = 0))
     THEN {now} ELSE (SELECT min(q.due) FROM queue q WHERE q.lane_id = l.id AND q.state = 1) END
"""
_GIVE = f"""
UPDATE lanes l SET owner = CASE WHEN l.owner = 0 THEN 0 END,
  state = CASE WHEN l.owner = 0 THEN l.state ELSE x.state::json END, wake_at = (
    SELECT greatest(w.at, $4, x.not_before) FROM (SELECT {WAKE_AT.format(now="$4")} AS at) w WHERE w.at IS NOT NULL)
FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS x(id, state, not_before) WHERE l.id = x.id
"""


async def wake(db: Db, lanes: Mapping[int, int]) -> None:
    """Announce work, now or at the given moment, in lanes that this session may not own: wake the lane or notify its
    owner.

    Lanes are locked in the order of their numbers: shared if they are awake, so that submissions do not wait for each
    other. A shared lock is never raised to an exclusive one, because two transactions that both try wait for each
    other: one that finds its lane asleep under a shared lock begins again.
    """
    if not lanes:
        return
    numbers = sorted(lanes)
    asleep = {row[0] for row in await db.fetch(_ASLEEP, numbers, [lanes[n] for n in numbers])}
    runs = [(sleeps, list(run)) for sleeps, run in groupby(numbers, asleep.__contains__)]
    for sleeps, run in runs if len(runs) <= MOST_RUNS else [(True, numbers)]:
        moments = [lanes[n] for n in run]
        if sleeps:
            await db.execute(_WAKE, run, moments)
        elif any(row[0] for row in await db.fetch(_HOLD, run, moments)):
            raise TryAgain("a lane was put to sleep")
    await tell(db)


async def take(db: Db, session: Session, now: int, most: int, *, shared: bool, by_queue: bool) -> list[OwnedLane]:
    """Take lanes with work. If there are more than can be taken, the lowest turn comes first, then the lane that has
    waited longest. `shared`: whether other sessions also want lanes. `by_queue`: some session serves some queues
    only."""
    if session.queues is not None or (shared and by_queue):
        return await _take_by_queue(db, session, now, most, shared=shared)
    if shared:
        share, held = await _share(db, session.id, now, wants=most)
        most = most if share is None else min(most, share - held)
        if most <= 0:
            return []
    which = _TAKE_BEST if await db.fetchval(_MORE_THAN, now, most) else _TAKE_ALL
    return await _owned(db, await db.fetch(which, now, most, session.id), now)


async def _take_by_queue(db: Db, session: Session, now: int, most: int, *, shared: bool) -> list[OwnedLane]:
    limits = dict.fromkeys(session.queues or (), most)
    if shared:
        room = await _room(db, session.id, now, wants=most)
        limits = {queue: most if more is None else more for queue, more in room.items() if more is None or more > 0}
    if not limits:
        return []
    queues = list(limits)
    which = _TAKE_BEST_FROM if await db.fetchval(_MORE_THAN_FROM, now, most, queues) else _TAKE_ALL_FROM
    return await _owned(db, await db.fetch(which, now, most, session.id, queues, list(limits.values())), now)


async def surplus(db: Db, session: int) -> dict[str | None, int]:
    """Return how many lanes the session has above its fair share, by queue if some session serves some queues only."""
    row = await db.fetchrow(f"SELECT {NOW} AS now, {_SHARED} AS shared, {_BY_QUEUE} AS by_queue", session)
    if row is None or not row["shared"]:
        return {}
    if row["by_queue"]:
        room = await _room(db, session, row["now"])
        return {queue: -more for queue, more in room.items() if more is not None and more < 0}
    share, held = await _share(db, session, row["now"])
    return {} if share is None or held <= share else {None: held - share}


async def strayed(db: Db, session: Session) -> list[int]:
    """Return the lanes that the session owns although their region has workers of its own again."""
    return [row[0] for row in await db.fetch(_STRAYED, session.id, list(session.queues or ()))]


async def queues_of_lanes(db: Db, session: int) -> dict[int, str]:
    return pairs(await db.fetch("SELECT id, queue FROM lanes WHERE owner = $1", session))


async def _share(db: Db, session: int, now: int, wants: int | None = None) -> tuple[int | None, int]:
    """Return the session's fair share of lanes, and its number of lanes. `wants`: the additional lanes that it could
    use, if it reports that now."""
    holders = {row[0]: Holder(*row) for row in await db.fetch(_HOLDERS, now)}
    own = holders.get(session, Holder(session, 0, 0))
    if wants is not None:
        own = holders[session] = replace(own, wants=wants)
    return fair_share(session, holders.values(), await db.fetchval(_FREE, now, MOST_FREE)), own.held


async def _room(db: Db, session: int, now: int, wants: int | None = None) -> dict[str, int | None]:
    """Return how many more lanes of each queue the session may take (`room_by_queue`)."""
    rows = await db.fetch(_SERVERS, now)
    held: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for owner, queue, count in await db.fetch(_HELD_BY_QUEUE, [row[0] for row in rows]):
        held[owner][queue] = count
    servers = [
        ServingSession(number, said if wants is None or number != session else wants, served(queues), held[number])
        for number, said, queues in rows
    ]
    return room_by_queue(session, servers, pairs(await db.fetch(_FREE_BY_QUEUE, now, MOST_FREE)))


async def demand(db: Db, session: Session, lanes: Sequence[int], most: int) -> Demand:
    own = pairs(await db.fetch(_OWN, lanes)) if lanes else {}
    if not most or session.queues == ():
        return Demand(own)
    now = await db.fetchval(f"SELECT {NOW}")
    if session.queues is None:
        return Demand(own, [row[0] for row in await db.fetch(_WAITING, now, most)])
    return Demand(own, [row[0] for row in await db.fetch(_WAITING_IN, now, most, list(session.queues))])


async def take_one(db: Db, session: Session, now: int, lane: int) -> OwnedLane | Away:
    """Take one lane, whether or not it has work. Also returns a lane that the session owns already."""
    row = await db.fetchrow(_TAKE_ONE, session.id, lane, list(session.queues or ()))
    if row is not None:
        (owned,) = await _owned(db, [tuple(row)[:-1]], now)
        return replace(owned, epoch=1, shared=True) if row["shared"] else owned
    return Away.PAUSED if await db.fetchval("SELECT paused FROM lanes WHERE id = $1", lane) else Away.ELSEWHERE


async def owned_but_unknown(db: Db, session: int, known: Iterable[int], now: int, most: int) -> list[OwnedLane]:
    """Return lanes that the session owns without knowing it, because the answer of a `take` was lost."""
    return await _owned(db, await db.fetch(_OWNED_BUT_UNKNOWN, session, list(known), most), now)


async def give(db: Db, session: int, lanes: Mapping[int, GivenLane], now: int) -> None:
    rows = await db.fetch(
        "SELECT id FROM lanes WHERE id = ANY($1::bigint[]) AND owner IN ($2, 0) ORDER BY id FOR UPDATE",
        sorted(lanes),
        session,
    )
    mine = [row[0] for row in rows]
    given = [lanes[lane] for lane in mine]
    await db.execute(_GIVE, mine, [_text(each.state) for each in given], [each.not_before for each in given], now)


async def keep_states(db: Db, session: int, states: Mapping[int, Mapping[str, Any]]) -> None:
    numbers = sorted(states)
    await db.fetch(
        "SELECT id FROM lanes WHERE id = ANY($1::bigint[]) AND owner = $2 ORDER BY id FOR NO KEY UPDATE",
        numbers,
        session,
    )
    await db.execute(
        "UPDATE lanes l SET state = x.state::json FROM unnest($1::bigint[], $2::text[]) AS x(id, state)"
        " WHERE l.id = x.id AND l.owner = $3",
        numbers,
        [_text(states[n]) for n in numbers],
        session,
    )


async def add_spending(db: Db, spent: Mapping[int, int], now: int) -> None:
    lanes = sorted(lane for lane, amount in spent.items() if amount)
    if lanes:
        await db.execute(_ADD_SPENDING, lanes, [spent[lane] for lane in lanes], *day_and_hour(now))


_DECIDE_QUEUE = f"""
WITH late AS MATERIALIZED (
  SELECT l.id, x.queue FROM unnest($1::bigint[], $2::text[]) AS x(id, queue) JOIN lanes l ON l.id = x.id
  WHERE l.queue = '{DEFAULT_QUEUE}' AND {has_no_task("queue")} ORDER BY l.id FOR NO KEY UPDATE OF l)
UPDATE lanes l SET queue = late.queue FROM late WHERE l.id = late.id
"""


# A new lane is in the queue of its region from the start: no other worker may send its first requests.
_CREATE = f"""
INSERT INTO lanes (name, queue, owner)
SELECT l.name, l.queue || coalesce((
  SELECT '{MARK}' || p.region FROM region_pins p WHERE {OF_LANE} ORDER BY length(p.lane) DESC LIMIT 1), ''), l.owner
FROM unnest($1::text[], $2::text[], $3::bigint[]) AS l(name, queue, owner)
ORDER BY l.name ON CONFLICT (name) DO NOTHING
"""


class LaneNumbers:
    """The numbers of lanes by name. A lane is created at its first mention, in its own transaction: an unused lane does
    no harm, and submissions do not wait for each other's lanes. The catalog has the queue and scope of a new lane."""

    def __init__(self, connections: Connections, catalog: Catalog) -> None:
        self._connections = connections
        self._catalog = catalog
        self.known: dict[str, int] = {}
        """Lanes that were requested for a task, so that their queues are decided."""
        self._without_task: dict[str, int] = {}
        """Lanes that were requested without a task."""

    async def learn(self, names: Iterable[str]) -> Mapping[str, int]:
        """Return the numbers of these lanes. The first task of a new lane may still decide on its queue."""
        known, others = self.known, self._without_task
        wanted = list(names)
        unknown = {name: None for name in wanted if name not in known and name not in others}
        if unknown:
            others.update(await self._make(unknown))
        return {name: known[name] if name in known else others[name] for name in wanted}

    async def learn_for(self, plans: Iterable[Encoded]) -> Mapping[str, int]:
        """Return the numbers of the lanes of these tasks, among others. A lane that is new, or in the default queue
        without a task, gets the queue that is declared for it or for the task's pipeline."""
        return await self.learn_named({plan.lane: plan.kind for plan in plans if plan.lane not in self.known})

    async def learn_named(self, kinds: Mapping[str, str]) -> Mapping[str, int]:
        """Return the numbers of lanes by name, each given with the kind of a task. A new lane gets the queue for that
        kind."""
        unknown = {name: kind for name, kind in kinds.items() if name not in self.known}
        if unknown:
            self.known.update(await self._make(unknown))
        return self.known

    async def _make(self, kinds: Mapping[str, str | None]) -> dict[str, int]:
        queues = {name: self._catalog.queue_of(name, kinds[name]) for name in sorted(kinds)}
        return await self._connections.run(lambda db: self._write(db, queues))

    async def _write(self, db: Db, queues: Mapping[str, str]) -> dict[str, int]:
        names = list(queues)
        owners = [SHARED if self._catalog.is_shared(name) else None for name in names]
        await db.execute(
            _CREATE,
            names,
            list(queues.values()),
            owners,
        )
        rows = await db.fetch("SELECT name, id, queue FROM lanes WHERE name = ANY($1::text[])", names)
        late = {number: queues[name] for name, number, queue in rows if queue == DEFAULT_QUEUE != queues[name]}
        if late:
            await db.execute(_DECIDE_QUEUE, list(late), list(late.values()))
        return {name: number for name, number, _ in rows}


async def _owned(db: Db, rows: Sequence[Any], now: int) -> list[OwnedLane]:
    if not rows:
        return []
    day, hour = day_and_hour(now)
    spent = await db.fetch(_SPENT, [row[0] for row in rows], day, hour, before_month(day))
    sums = {lane: (in_hour, in_day, in_month) for lane, in_hour, in_day, in_month in spent}
    return [
        OwnedLane(number, name, loads(state) or {}, epoch, *sums.get(number, (0, 0, 0)), queue)
        for number, name, state, epoch, queue in rows
    ]


def _text(state: Mapping[str, Any]) -> str:
    return orjson.dumps(state).decode()


# Flows: the jobs with ready work in each lane. One row per (lane, job), so that a lease never scans tasks to find jobs.
#
# A flow may exist without ready work (a lease finds nothing and removes it), but ready work without a flow would wait
# for ever. So a transaction that makes work ready also writes the flow, and thereby locks its row; one that removes a
# flow locks it first and then searches for ready work in a new statement, which sees everything committed meanwhile.


Flow = tuple[int, int]
"""(lane, job)"""

# DO UPDATE although nothing changes, to lock the row: otherwise a lease could remove it meanwhile.
_ADD = """
INSERT INTO flows (lane_id, job_id, turn, paused)
SELECT x.lane_id, x.job_id, j.turn, j.state NOT IN ('queued', 'running') OR j.drain IS NOT NULL
FROM unnest($1::bigint[], $2::bigint[]) AS x(lane_id, job_id) JOIN jobs j ON j.id = x.job_id
ORDER BY x.lane_id, x.job_id
ON CONFLICT (lane_id, job_id) DO UPDATE SET turn = excluded.turn
"""
_LOCK = """
SELECT f.lane_id, f.job_id FROM unnest($1::bigint[], $2::bigint[]) AS x(lane_id, job_id)
JOIN flows f ON f.lane_id = x.lane_id AND f.job_id = x.job_id FOR UPDATE OF f SKIP LOCKED
"""
_REMOVE = """
DELETE FROM flows f USING unnest($1::bigint[], $2::bigint[]) AS x(lane_id, job_id)
WHERE f.lane_id = x.lane_id AND f.job_id = x.job_id AND NOT EXISTS
  (SELECT 1 FROM queue q WHERE q.lane_id = x.lane_id AND q.job_id = x.job_id AND q.state = 0)
"""


async def add_flows(db: Db, flows: Iterable[Flow]) -> None:
    """Add flows. Call this before any row of a job is locked: pausing a job locks flows first as well."""
    wanted = sorted(set(flows))
    if wanted:
        await db.execute(_ADD, [lane for lane, _ in wanted], [job for _, job in wanted])


# In one walk: two would lock a low lane after a high one, and deadlock with a settlement that adds both.
_ADD_AND_LOCK_ALL = """
INSERT INTO flows (lane_id, job_id, turn, paused)
SELECT x.lane_id, x.job_id, j.turn, j.state NOT IN ('queued', 'running') OR j.drain IS NOT NULL
FROM (SELECT * FROM unnest($1::bigint[], $2::bigint[]) UNION
      SELECT lane_id, job_id FROM flows WHERE job_id = ANY($3::bigint[])) AS x(lane_id, job_id)
JOIN jobs j ON j.id = x.job_id ORDER BY x.lane_id, x.job_id
ON CONFLICT (lane_id, job_id) DO UPDATE SET turn = excluded.turn RETURNING lane_id, job_id
"""
_SET_PAUSED = """
UPDATE flows f SET paused = $3 FROM unnest($1::bigint[], $2::bigint[]) AS x(lane_id, job_id)
WHERE f.lane_id = x.lane_id AND f.job_id = x.job_id
"""


async def add_flows_and_lock_all(db: Db, flows: Iterable[Flow], jobs: Collection[int]) -> list[Flow]:
    """Add flows, and lock all flows of these jobs. Returns the flows of these jobs.

    Call this before any lane or job is locked, and `set_paused` with the result once the jobs are.
    """
    wanted = sorted(set(flows))
    rows = await db.fetch(_ADD_AND_LOCK_ALL, [lane for lane, _ in wanted], [job for _, job in wanted], list(jobs))
    return [(row[0], row[1]) for row in rows if row[1] in jobs]


async def set_paused(db: Db, flows: Sequence[Flow], *, paused: bool) -> None:
    """Stop or resume offering the ready work of flows that this transaction has locked.

    Flows of the same jobs that appeared meanwhile are left alone: to lock them now would be against the order.
    """
    await db.execute(_SET_PAUSED, [lane for lane, _ in flows], [job for _, job in flows], paused)


async def remove_exhausted(db: Db, flows: Collection[Flow]) -> None:
    """Remove flows without ready work. Never waits: a flow that another transaction has locked is about to get some."""
    if not flows:
        return
    mine = await db.fetch(_LOCK, [lane for lane, _ in flows], [job for _, job in flows])
    if mine:
        await db.execute(_REMOVE, [row[0] for row in mine], [row[1] for row in mine])


async def pause_flows(db: Db, jobs: Collection[int], *, paused: bool) -> list[int]:
    """Stop or resume offering the jobs' ready work. Returns their lanes."""
    rows = await db.fetch(
        "UPDATE flows SET paused = $2 WHERE (lane_id, job_id) IN (SELECT lane_id, job_id FROM flows"
        " WHERE job_id = ANY($1::bigint[]) ORDER BY lane_id, job_id FOR UPDATE) RETURNING lane_id",
        list(jobs),
        paused,
    )
    return sorted({row[0] for row in rows})
