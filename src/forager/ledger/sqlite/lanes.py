"""Lane ownership: a lane belongs to one session at a time, or sleeps until it has work. This module decides which lanes
may be taken, in which order.

If more lanes have work than can be taken, the lowest turn comes first, then the lane that has waited longest. Jobs age
(see the sweep), so that none waits for ever behind a lower turn.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from forager.core.ids import IS_WITHOUT_TASKS
from forager.core.ledger import Away, Demand, GivenLane, OwnedLane, Session
from forager.ledger.rules.changes import before_month, day_and_hour
from forager.ledger.rules.scheduling import (
    MOST_FREE,
    SQLITE_HINT,
    Holder,
    ServingSession,
    fair_share,
    free_by_queue,
    room_by_queue,
    served,
)
from forager.ledger.sqlite.state import Memory, wake
from forager.sdk.queries import loads

_AWAKE = "SELECT id FROM lanes WHERE owner IS NULL AND wake_at <= ? AND NOT paused ORDER BY wake_at LIMIT ?"
# One walk of ix_lanes_queue_wake_at per queue; the literals are ours.
_AWAKE_IN = """
SELECT id FROM (SELECT l.id, l.wake_at FROM json_each(?1) q CROSS JOIN lanes l
  ON l.queue = q.value AND l.owner IS NULL AND l.wake_at <= ?2 AND NOT l.paused) ORDER BY wake_at LIMIT ?3
"""
_BY_QUEUE = "SELECT 1 FROM sessions WHERE queues IS NOT NULL AND lease_until >= ? LIMIT 1"
_SERVERS = "SELECT id, wants, queues FROM sessions WHERE lease_until >= ?"
_HELD_BY_QUEUE = f"""
SELECT owner, queue, count(*) FROM lanes WHERE owner IN (SELECT id FROM sessions) AND NOT {IS_WITHOUT_TASKS}
GROUP BY owner, queue
"""
_FREE_BY_QUEUE = free_by_queue("?1", "?2", SQLITE_HINT)
_TAKE = """
UPDATE lanes SET owner = ?1, epoch = epoch + 1, wake_at = NULL WHERE id IN (SELECT value FROM json_each(?2))
  AND EXISTS (SELECT 1 FROM sessions WHERE id = ?1) RETURNING id, name, state, epoch, queue
"""
_TAKE_ONE = """
UPDATE lanes SET epoch = epoch + (owner IS NULL), owner = ?1, wake_at = NULL
WHERE id = ?2 AND coalesce(owner, ?1) = ?1 AND NOT paused AND EXISTS (SELECT 1 FROM sessions WHERE id = ?1)
RETURNING id, name, state, epoch, queue
"""
_OTHERS_WANT = "SELECT 1 FROM sessions WHERE id <> ? AND wants > 0 LIMIT 1"
# Lanes without tasks, such as those of sinks, are not part of the fair share.
_HOLDERS = f"""
SELECT s.id, (SELECT count(*) FROM lanes WHERE owner = s.id AND NOT {IS_WITHOUT_TASKS}), s.wants
FROM sessions s WHERE s.lease_until >= ?
"""
_FREE = f"SELECT count(*) FROM ({_AWAKE})"
_GIVE = "UPDATE lanes SET owner = NULL, wake_at = ?, state = ? WHERE id = ? AND owner = ?"
_ASLEEP = """
SELECT id FROM lanes WHERE id IN (SELECT value FROM json_each(?)) AND owner IS NULL AND wake_at IS NULL
"""
# For a lane without ready work: the turn of the task that is due first.
_NEXT_TURN = """
SELECT j.turn FROM tasks t JOIN jobs j ON j.id = t.job_id WHERE t.state = 1 AND t.lane_id = ? ORDER BY t.due LIMIT 1
"""
_SPENT = """
SELECT coalesce(sum(spent_hour) FILTER (WHERE day = ?1 AND hour = ?2), 0),
       coalesce(sum(spent) FILTER (WHERE day = ?1), 0), coalesce(sum(spent), 0)
FROM spending WHERE lane_id = ?3 AND day > ?4
"""
ALL = -1


def beat(
    db: sqlite3.Connection,
    memory: Memory,
    session: int,
    until: int,
    states: Mapping[int, Mapping[str, Any]],
    wants: int,
) -> bool:
    """Extend a session, store the states of its lanes, and note the number of additional lanes that it wants. Returns
    False if it is lost."""
    row = db.execute("SELECT wants FROM sessions WHERE id = ?", (session,)).fetchone()
    if row is None:
        return False
    db.execute("UPDATE sessions SET lease_until = ?, wants = ? WHERE id = ?", (until, wants, session))
    kept = [(orjson.dumps(state).decode(), lane, session) for lane, state in states.items()]
    db.executemany("UPDATE lanes SET state = ? WHERE id = ? AND owner = ?", kept)
    if wants and not row[0]:
        memory.flows.grew = True  # another session may have to make room
    return True


def take(db: sqlite3.Connection, memory: Memory, session: Session, most: int) -> list[OwnedLane]:
    now = memory.now_ms()
    shared = others_want(db, session.id)
    if session.queues is None and not (shared and _some_serve_few(db, now)):
        if shared:
            share, held = _share(db, session.id, now, wants=most)
            most = most if share is None else min(most, share - held)
        chosen = _choose(db, memory, now, most, None)
    else:
        limits: dict[str, int | None] = dict.fromkeys(session.queues or ())
        limits = _room(db, session.id, now, wants=most) if shared else limits
        free = [queue for queue, more in limits.items() if more is None]
        chosen = [lane for queue in free for lane in _choose(db, memory, now, most, [queue])]
        for queue, more in limits.items():
            chosen += _choose(db, memory, now, min(most, more), [queue]) if more is not None else []
        chosen = _best(db, memory, chosen)[:most] if len(chosen) > most else chosen
    taken = {row[0]: row for row in db.execute(_TAKE, (session.id, orjson.dumps(chosen).decode())).fetchall()}
    return [_owned(db, taken[lane], now) for lane in chosen if lane in taken]


def some_awake(db: sqlite3.Connection, memory: Memory, session: Session) -> bool:
    return bool(_awake(db, memory.now_ms(), 1, session.queues))


def others_want(db: sqlite3.Connection, session: int) -> bool:
    return db.execute(_OTHERS_WANT, (session,)).fetchone() is not None


def surplus(db: sqlite3.Connection, memory: Memory, session: int) -> dict[str | None, int]:
    """Return how many lanes the session has above its fair share, by queue if some session serves some queues only."""
    now = memory.now_ms()
    if not others_want(db, session):
        return {}
    if _some_serve_few(db, now):
        room = _room(db, session, now)
        return {queue: -more for queue, more in room.items() if more is not None and more < 0}
    share, held = _share(db, session, now)
    return {} if share is None or held <= share else {None: held - share}


def queues_of_lanes(db: sqlite3.Connection, session: int) -> dict[int, str]:
    return dict(db.execute("SELECT id, queue FROM lanes WHERE owner = ?", (session,)).fetchall())


def _awake(db: sqlite3.Connection, now: int, most: int, queues: Sequence[str] | None) -> list[int]:
    """Return up to `most` lanes that could be taken, of these queues, longest awake first."""
    if queues is None:
        return [row[0] for row in db.execute(_AWAKE, (now, most))]
    return [row[0] for row in db.execute(_AWAKE_IN, (orjson.dumps(queues).decode(), now, most))]


def _choose(db: sqlite3.Connection, memory: Memory, now: int, most: int, queues: Sequence[str] | None) -> list[int]:
    """Return the lanes to take: the lowest turn first if there are more than `most`."""
    if most <= 0:
        return []
    awake = _awake(db, now, most + 1, queues)
    return awake if len(awake) <= most else _best(db, memory, _awake(db, now, ALL, queues))[:most]


def _best(db: sqlite3.Connection, memory: Memory, lanes: Sequence[int]) -> list[int]:
    return sorted(lanes, key=lambda lane: _turn(db, memory, lane))


def _some_serve_few(db: sqlite3.Connection, now: int) -> bool:
    """Return whether some living session serves some queues only."""
    return db.execute(_BY_QUEUE, (now,)).fetchone() is not None


def _room(db: sqlite3.Connection, session: int, now: int, wants: int | None = None) -> dict[str, int | None]:
    """Return how many more lanes of each queue the session may take (`room_by_queue`)."""
    held: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for owner, queue, count in db.execute(_HELD_BY_QUEUE):
        held[owner][queue] = count
    servers = [
        ServingSession(number, said if wants is None or number != session else wants, served(queues), held[number])
        for number, said, queues in db.execute(_SERVERS, (now,))
    ]
    return room_by_queue(session, servers, dict(db.execute(_FREE_BY_QUEUE, (now, MOST_FREE)).fetchall()))


def _share(db: sqlite3.Connection, session: int, now: int, wants: int | None = None) -> tuple[int | None, int]:
    """Return the session's fair share of lanes, and its number of lanes. `wants`: the additional lanes that it could
    use, if it reports that now."""
    holders = {row[0]: Holder(*row) for row in db.execute(_HOLDERS, (now,))}
    own = holders.get(session, Holder(session, 0, 0))
    if wants is not None:
        own = holders[session] = replace(own, wants=wants)
    (free,) = db.execute(_FREE, (now, MOST_FREE)).fetchone()
    return fair_share(session, holders.values(), free), own.held


def take_one(db: sqlite3.Connection, memory: Memory, session: int, name: str) -> OwnedLane | Away:
    number = memory.lane_id(db, name)
    row = db.execute(_TAKE_ONE, (session, number)).fetchone()
    if row is not None:
        return _owned(db, row, memory.now_ms())
    (paused,) = db.execute("SELECT paused FROM lanes WHERE id = ?", (number,)).fetchone()
    return Away.PAUSED if paused else Away.ELSEWHERE


def give(db: sqlite3.Connection, memory: Memory, session: int, lanes: Mapping[int, GivenLane]) -> None:
    now, suspected = memory.now_ms(), _suspected(db)
    for lane, given in lanes.items():
        at = _wakes_at(memory, lane, suspected, now)
        at = at if at is None else max(at, now, given.not_before or 0)  # never before those that wait already
        if db.execute(_GIVE, (at, orjson.dumps(given.state).decode(), lane, session)).rowcount and at is not None:
            memory.wakes(at)


def wake_sleepers(db: sqlite3.Connection, memory: Memory) -> int:
    """Wake lanes that sleep although they have ready work, and count them. This should never happen; the count makes
    such a defect visible.

    Only lanes with work are examined: most lanes that ever existed are idle.
    """
    woken = 0
    now, suspected = memory.now_ms(), _suspected(db)
    busy = orjson.dumps(list(memory.flows.with_work() | suspected)).decode()
    for (lane,) in db.execute(_ASLEEP, (busy,)).fetchall():
        at = _wakes_at(memory, lane, suspected, now)
        if at is not None:
            wake(db, memory, lane, at)
            woken += 1
    return woken


def demand(db: sqlite3.Connection, memory: Memory, session: Session, lanes: Sequence[int], most: int) -> Demand:
    awake = _awake(db, memory.now_ms(), ALL, session.queues) if most else []
    waiting = sorted(_turn(db, memory, lane) for lane in awake)
    return Demand({lane: _turn(db, memory, lane) for lane in lanes}, waiting[:most])


def _turn(db: sqlite3.Connection, memory: Memory, lane: int) -> int:
    turn = memory.flows.lowest_turn(lane)
    if turn is None:
        row = db.execute(_NEXT_TURN, (lane,)).fetchone()
        turn = row[0] if row else 0
    return int(turn)


def _wakes_at(memory: Memory, lane: int, suspected: Container[int], now: int) -> int | None:
    """Return when a lane without an owner has work: now, when its first waiting task is due, or never."""
    if memory.flows.has_work(lane) or lane in suspected:
        return now
    return memory.flows.next_due.get(lane)


def _suspected(db: sqlite3.Connection) -> set[int]:
    """Lanes with tasks whose worker died."""
    return {row[0] for row in db.execute("SELECT DISTINCT lane_id FROM tasks WHERE state = 8")}


def _owned(db: sqlite3.Connection, row: tuple[Any, ...], now: int) -> OwnedLane:
    number, name, state, epoch, queue = row
    return OwnedLane(number, name, loads(state) or {}, epoch, *_spent(db, number, now), queue)


def _spent(db: sqlite3.Connection, lane: int, now: int) -> tuple[int, int, int]:
    """Return what the lane has spent in this UTC hour, day and month."""
    day, hour = day_and_hour(now)
    in_hour, in_day, in_month = db.execute(_SPENT, (day, hour, lane, before_month(day))).fetchone()
    return in_hour, in_day, in_month
