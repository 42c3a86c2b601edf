"""Computes how many lanes a session should have while other sessions want some. Pure."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson

from forager.core.ledger import Settlement
from forager.core.regions import region_of
from forager.core.states import ALONE_CRASHES, WAITING_CRASHES, ErrorType, Reason, TaskState

MOST_FREE = 10_000
"""Maximum number of lanes without an owner that are counted: more make no difference."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A living session: how many lanes it has, and how many more it could use."""

    session: int
    held: int
    wants: int


@dataclass(frozen=True, slots=True)
class ServingSession:
    """A living session and the queues that it serves, with the number of its lanes by queue."""

    session: int
    wants: int
    queues: frozenset[str] | None
    """None: all queues without a region."""
    held: Mapping[str, int] = field(default_factory=dict)

    def serves(self, queue: str) -> bool:
        """Return whether it takes lanes of this queue."""
        return region_of(queue) is None if self.queues is None else queue in self.queues


def fair_share(session: int, holders: Iterable[Holder], free: int) -> int | None:
    """Return the fair number of lanes of this session; None (unlimited) if no other session needs lanes.

    All owned lanes, and the `free` ones with work, are shared in equal parts; what a session cannot use of its part
    goes to the others. Parts are rounded up, so that the last lane stays where it is.
    """
    known = {each.session: each for each in holders}
    if session not in known or not any(each.wants > 0 for each in known.values() if each.session != session):
        return None
    demands = {each.session: each.held + each.wants for each in known.values()}
    left = sum(each.held for each in known.values()) + free
    for number, (who, demand) in enumerate(sorted(demands.items(), key=lambda each: each[1])):
        part = left / (len(demands) - number)
        if demand > part:
            return math.ceil(part) if demands[session] > part else demands[session]
        if who == session:
            return demand
        left -= demand
    return demands[session]


def room_by_queue(session: int, servers: Iterable[ServingSession], free: Mapping[str, int]) -> dict[str, int | None]:
    """Return, for each queue that the session serves, how many more lanes it may take: negative if it has too many,
    None if it is unlimited.

    Each queue is shared among the sessions that serve it. A session could not use lanes of other queues, so they must
    not count: they would be kept for it and stay without an owner.
    """
    known = {each.session: each for each in servers}
    own = known.get(session)
    if own is None:
        return {}
    queues = {*free, *own.held, *(own.queues or ())}
    room: dict[str, int | None] = {}
    for queue in sorted(queue for queue in queues if own.serves(queue)):
        holders = [Holder(s.session, s.held.get(queue, 0), s.wants) for s in known.values() if s.serves(queue)]
        share = fair_share(session, holders, free.get(queue, 0))
        room[queue] = None if share is None else share - own.held.get(queue, 0)
    return room


def served(queues: str | None) -> frozenset[str] | None:
    """Read the column `sessions.queues`."""
    return None if queues is None else frozenset(orjson.loads(queues))


def written(queues: Sequence[str] | None) -> str | None:
    """Return the value of the column `sessions.queues`."""
    return None if queues is None else orjson.dumps(list(queues)).decode()


# Counts the lanes that could be taken, by queue, in SQL that both databases read.
#
# It runs whenever a session takes lanes while some session serves some queues only, so it must not read every lane. The
# queues are found by one step in ix_lanes_queue_wake_at each, and the lanes of each are counted up to a limit. Pairs
# are compared because PostgreSQL might otherwise walk ix_lanes_wake_at, all lanes of the other queues, for one small
# queue.


SQLITE_HINT = "INDEXED BY ix_lanes_queue_wake_at"
"""SQLite would read all lanes without an owner through ix_lanes_owner to find a queue."""


def free_by_queue(now: str, most: str, hint: str = "") -> str:
    """Return a query for `queue` and `lanes`: the number of lanes with work and no owner, at most `most`. Queues
    without such lanes are left out. `now` and `most` are placeholders; SQLite needs the `hint`."""
    return f"""
WITH RECURSIVE queues (name) AS (
  SELECT (SELECT l.queue FROM lanes AS l {hint} WHERE l.owner IS NULL ORDER BY l.queue LIMIT 1)
  UNION ALL
  SELECT (SELECT l.queue FROM lanes AS l {hint} WHERE l.owner IS NULL AND l.queue > q.name ORDER BY l.queue LIMIT 1)
  FROM queues q WHERE q.name IS NOT NULL),
free AS MATERIALIZED (
  SELECT q.name AS queue, (
    SELECT count(*) FROM (
      SELECT 1 FROM lanes AS l {hint} WHERE l.owner IS NULL AND NOT l.paused
        AND (l.queue, l.wake_at) >= (q.name, 0) AND (l.queue, l.wake_at) <= (q.name, {now})
      ORDER BY l.queue, l.wake_at LIMIT {most}) a) AS lanes
  FROM queues q WHERE q.name IS NOT NULL)
SELECT queue, lanes FROM free WHERE lanes > 0
"""


# Finds out whether a lane without a decided queue may still get one.
#
# A lane that is first mentioned by a pause, a redirect or a request has no task whose pipeline could decide on its
# queue, so it is in the default one. The first task that arrives moves it to the queue of its pipeline.


def has_no_task(table: str) -> str:
    """Return a condition on `lanes l`: nothing in it is ready, waiting, suspect or running. `table` holds the open
    tasks. Each part reads one index; the tasks that run in a lane belong to its owner's session."""
    of_lane = f"SELECT 1 FROM {table} t WHERE t.lane_id = l.id AND t.state"
    parts = [f"{of_lane} = {state}" for state in (0, 1, 8)] + [f"{of_lane} = 3 AND t.session_id = l.owner"]
    return " AND ".join(f"NOT EXISTS ({part})" for part in parts)


# Maximum of due tasks that become ready in one transaction.
#
# After an outage, or with plans that share a moment, a million may be due at once. Making all of them ready in one
# transaction would stall everything for seconds, so each one takes a page, shared between the lanes that have some. The
# rest follows in the next transaction.


PAGE = 500
"""Tasks that one transaction makes ready, over all lanes. This costs about as much as leasing them."""
LEAST = 50
"""Minimum per lane, as long as the page lasts: fewer would not be worth a statement."""


def promoted_pages(lanes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield (lane, number of its due tasks to take) for these lanes, in this order. Each has some."""
    left = PAGE
    each = max(LEAST, -(-PAGE // max(1, len(lanes))))
    for lane in lanes:
        if left <= 0:
            return
        yield lane, min(each, left)
        left -= each


# Patience: decides when a task that only waits fails. It applies to waits that burn no attempt.
#
# Only the waits themselves count, not the calendar: a night outside the allowed hours, a spent cap, a paused job or a
# stopped process between two waits count for almost nothing.


SHARE = 24
"""Between the end of a wait and the next attempt, a task is in the queue. That time counts against its patience up to
this fraction (one part of 24), so that no task is given up before it had at least this number of attempts."""

Known = Mapping[int, tuple[int | None, int | None]]
"""Maps a task to `waited` and `waited_until` of its row."""
NewWait = tuple[int, int, int]
"""`waited`, `waited_until`, task."""


def in_vain(settlements: Iterable[Settlement]) -> list[Settlement]:
    """Return the settlements that postpone a task without an attempt."""
    return [s for s in settlements if s.patience is not None or s.give_up_at is not None]


def wait_or_give_up(settlements: Iterable[Settlement], known: Known, now: int) -> list[NewWait]:
    """Return the rows to write for tasks that wait again. The settlements of the others are changed to failed."""
    waits: list[NewWait] = []
    for s in settlements:
        waited = _waited(s, *known.get(s.lease.task_id, (None, None)), now)
        until = now + round(s.wait * 1000)
        if s.give_up_at is not None:
            enough = until > s.give_up_at
        else:
            enough = s.patience is not None and waited >= s.patience * 1000
        if enough:
            s.state, s.error, s.wait = TaskState.FAILED, _last_words(s, waited), 0.0
            s.reason, s.error_type = s.reason or Reason.GAVE_UP, s.error_type or ErrorType.INTERNAL
        else:
            waits.append((waited + until - now, until, s.lease.task_id))
    return waits


def _waited(s: Settlement, waited: int | None, until: int | None, now: int) -> int:
    """Return the total wait: the waits themselves, and a limited part of the time since the last one."""
    since = 0 if until is None else max(0, now - until)
    if s.patience is not None:
        since = min(since, round(s.patience * 1000 / SHARE))
    return (waited or 0) + since


def _last_words(s: Settlement, waited: int) -> str:
    error = f"{(s.error or 'It had to wait').rstrip('. ')}."
    spent = f"after {_duration(waited)} of waiting" if waited >= 1000 else "because it would have to wait too long"
    return f"{error} Given up {spent}; retry it when the cause is removed: forager jobs retry, or forager dead retry."


def _duration(milliseconds: int) -> str:
    seconds = milliseconds / 1000
    for length, name in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {name}"
    return f"{seconds:.0f} seconds"


# Selects the suspects that run next. Pure, the same for both stores.
#
# The smallest group goes first, as many as may run together, within the limits of their jobs and the room of their
# lanes.


MOST_SUSPECTS = 4_096
"""Maximum of suspects that are read; no group can be larger."""


class Suspect(NamedTuple):
    """A row of the stores' query, in its order."""

    task: int
    lane: int
    together: int
    price: int
    job: int
    running: int
    concurrency: int | None
    max_cost: int | None
    committed: int


def group_size(died_together: int) -> int:
    """Return the size of the next group of suspects: half of those that crashed together, at most `MOST_SUSPECTS`."""
    return max(1, min(MOST_SUSPECTS, died_together // 2))


def is_given_up(crashes: int, waiting: int, *, waits: bool | None) -> bool:
    """Return whether another crash makes a dead letter of a task that crashed alone before: `crashes` times with its
    own code running, `waiting` times while it waited for an answer. `waits`: which of the two it was now. Each kind has
    its own limit, because kills from outside nearly always hit a task that waits."""
    return waiting + 1 >= WAITING_CRASHES if waits else crashes + 1 >= ALONE_CRASHES


def crash_error(crashes: int) -> str:
    return f"Its worker died {crashes} times while it ran nothing but this task."


def choose(suspects: Iterable[Suspect], room: Mapping[int, int] | None) -> tuple[list[int], set[int]]:
    """Return the tasks to lease, and the jobs that cannot pay for even one more and have nothing in flight."""
    chosen: list[int] = []
    broke: set[int] = set()
    group: int | None = None
    committed: dict[int, int] = {}
    company: defaultdict[int, int] = defaultdict(int)
    in_lane: defaultdict[int, int] = defaultdict(int)
    for s in suspects:
        if group is not None and (s.together != group or len(chosen) >= group):
            break
        if s.concurrency is not None and s.running + company[s.job] >= s.concurrency:
            continue
        if room is not None and in_lane[s.lane] >= room.get(s.lane, 0):
            continue
        would_be = committed.get(s.job, s.committed) + s.price
        if s.max_cost is not None and would_be > s.max_cost:
            if s.running == 0 and s.job not in committed:
                broke.add(s.job)
            continue
        committed[s.job] = would_be
        company[s.job] += 1
        in_lane[s.lane] += 1
        group = s.together
        chosen.append(s.task)
    return chosen, broke
