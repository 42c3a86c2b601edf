"""Lane ownership: a lane belongs to one session at a time, or sleeps until it has work. This module decides which lanes
may be taken, in which order.

If more lanes have work than can be taken, the lowest turn comes first, then the lane that has waited longest. Jobs age
(see the sweep), so that none waits for ever behind a lower turn.
"""

import sqlite3
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from forager.core.lane_names import IS_WITHOUT_TASKS
from forager.core.ledger import Away, Demand, GivenLane, OwnedLane
from forager.kit.queries import loads
from forager.ledger.shared.fair_share import MOST_FREE, Holder, fair_share
from forager.ledger.shared.spending import before_month, day_and_hour
from forager.ledger.sqlite.writer_state import Memory, wake

_AWAKE = "SELECT id FROM lanes WHERE owner IS NULL AND wake_at <= ? AND NOT paused ORDER BY wake_at LIMIT ?"
_TAKE = """
UPDATE lanes SET owner = ?1, epoch = epoch + 1, wake_at = NULL WHERE id IN (SELECT value FROM json_each(?2))
  AND EXISTS (SELECT 1 FROM sessions WHERE id = ?1) RETURNING id, name, state, epoch
"""
_TAKE_ONE = """
UPDATE lanes SET epoch = epoch + (owner IS NULL), owner = ?1, wake_at = NULL
WHERE id = ?2 AND coalesce(owner, ?1) = ?1 AND NOT paused AND EXISTS (SELECT 1 FROM sessions WHERE id = ?1)
RETURNING id, name, state, epoch
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
    """Extend a session, store the states of its lanes, and note how many more it wants. Returns False if it is lost."""
    row = db.execute("SELECT wants FROM sessions WHERE id = ?", (session,)).fetchone()
    if row is None:
        return False
    db.execute("UPDATE sessions SET lease_until = ?, wants = ? WHERE id = ?", (until, wants, session))
    kept = [(orjson.dumps(state).decode(), lane, session) for lane, state in states.items()]
    db.executemany("UPDATE lanes SET state = ? WHERE id = ? AND owner = ?", kept)
    if wants and not row[0]:
        memory.flows.grew = True  # another session may have to make room
    return True


def take(db: sqlite3.Connection, memory: Memory, session: int, most: int) -> list[OwnedLane]:
    now = memory.now_ms()
    if others_want(db, session):
        share, held = _share(db, session, now, wants=most)
        most = most if share is None else min(most, share - held)
        if most <= 0:
            return []
    awake = [row[0] for row in db.execute(_AWAKE, (now, most + 1))]
    if len(awake) > most:
        awake = [lane for _, lane in _by_turn(db, memory, now)][:most]
    taken = {row[0]: row for row in db.execute(_TAKE, (session, orjson.dumps(awake).decode())).fetchall()}
    return [_owned(db, taken[lane], now) for lane in awake if lane in taken]


def some_awake(db: sqlite3.Connection, memory: Memory) -> bool:
    return db.execute(_AWAKE, (memory.now_ms(), 1)).fetchone() is not None


def others_want(db: sqlite3.Connection, session: int) -> bool:
    return db.execute(_OTHERS_WANT, (session,)).fetchone() is not None


def surplus(db: sqlite3.Connection, memory: Memory, session: int) -> int:
    """Return how many lanes the session has above its fair share."""
    if not others_want(db, session):
        return 0
    share, held = _share(db, session, memory.now_ms())
    return 0 if share is None else max(0, held - share)


def _share(db: sqlite3.Connection, session: int, now: int, wants: int | None = None) -> tuple[int | None, int]:
    """Return the session's fair share of lanes, and how many it has. `wants`: how many more it could use, if it reports
    that now."""
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


def demand(db: sqlite3.Connection, memory: Memory, lanes: Sequence[int], most: int) -> Demand:
    waiting = [turn for turn, _ in _by_turn(db, memory, memory.now_ms())] if most else []
    return Demand({lane: _turn(db, memory, lane) for lane in lanes}, waiting[:most])


def _by_turn(db: sqlite3.Connection, memory: Memory, now: int) -> list[tuple[int, int]]:
    """Return (turn, lane) of all lanes that could be taken; lanes of one turn keep the order in which they woke up."""
    awake = db.execute(_AWAKE, (now, ALL)).fetchall()
    return sorted(((_turn(db, memory, lane), lane) for (lane,) in awake), key=lambda each: each[0])


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
    number, name, state, epoch = row
    return OwnedLane(number, name, loads(state) or {}, epoch, *_spent(db, number, now))


def _spent(db: sqlite3.Connection, lane: int, now: int) -> tuple[int, int, int]:
    """Return what the lane has spent in this UTC hour, day and month."""
    day, hour = day_and_hour(now)
    in_hour, in_day, in_month = db.execute(_SPENT, (day, hour, lane, before_month(day))).fetchone()
    return in_hour, in_day, in_month
