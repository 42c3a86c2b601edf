"""Settles tasks in one transaction: state, followers, children, records, changes, counters, cost.

Every settlement must pass the fence first: its row must still be in the queue under the claim that the settlement
carries. A worker can be late without knowing it (a paused machine, a long garbage collection, a lost connection), and
meanwhile its session is rescued and another worker runs the task under a new claim. The late outcome must then have no
effect at all, or records, costs and children would count twice. So the fence is the statement that locks the row in the
same transaction that writes the effects; a check before it could be out of date by the commit.

Locks are taken in the order tasks → children → flows → lanes → records → jobs → tail. Every transaction keeps to this
order; any other could deadlock.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import orjson

from forager.core.errors import Rejected
from forager.core.ledger import Settlement
from forager.core.states import AFTER_FAILED, CANCELLED, ErrorType, Reason, TaskState
from forager.core.table import Effect
from forager.ledger.catalog import Catalog, body_of, screenshot_of
from forager.ledger.postgres.changes import logged_task_changes, write_changes, write_counters
from forager.ledger.postgres.connection import (
    Db,
    numbered,
    numbers,
    pairs,
    unless_all,
)
from forager.ledger.postgres.lanes import Flow, add_flows, add_flows_and_lock_all, add_spending, set_paused, wake
from forager.ledger.postgres.records import keep_rejected, store_in_order, store_records, update_unseen
from forager.ledger.postgres.tasks import insert_tasks, release_followers, skip_followers, skip_tasks
from forager.ledger.rules.changes import COUNTER_OF, Deltas, NewChange
from forager.ledger.rules.end_hooks import (
    COLUMNS,
    DIED,
    ENDED_JOB,
    ENDED_TASK,
    GIVEN_BACK,
    LOST,
    EndedJob,
    EndedTask,
    after_jobs,
    after_tasks,
    attempt_rows,
    log_refused,
    refuse_foreign,
)
from forager.ledger.rules.jobs import SPARED, Encoded, encode
from forager.ledger.rules.records import Unseen, clean, clean_or_none
from forager.ledger.rules.scheduling import NewWait, in_vain, wait_or_give_up
from forager.sdk.queries import folded

_SPARED = SPARED.format(job="$1", succeeded="$2::bool")
_NOT_WELL = COUNTER_OF.keys() - {TaskState.COMPLETED}
Children = Sequence[tuple[int, Encoded]]
"""(job, plan)"""


@dataclass(slots=True)
class PendingWrites:
    """Collects what a transaction has done and must still write before its commit."""

    now: int
    deltas: Deltas = field(default_factory=Deltas)
    changes: list[NewChange] = field(default_factory=list)
    fenced: list[int] = field(default_factory=list)
    ready: set[Flow] = field(default_factory=set)
    """Work that became ready …"""
    promoted: set[Flow] = field(default_factory=set)
    """… and work in the session's own lanes that became due."""
    due: dict[int, int] = field(default_factory=dict)
    """Due time of postponed work, by lane."""
    halted: dict[int, str] = field(default_factory=dict)
    """Jobs to be paused, and why."""
    draining: set[int] = field(default_factory=set)
    """Jobs that got new tasks although they are being drained."""
    rows: list[Effect] = field(default_factory=list)
    """Effects of settlements on plain tables …"""
    hooked: list[Effect] = field(default_factory=list)
    """… and those of hooks."""

    def sleep_until(self, due: Mapping[int, int]) -> None:
        """Note that tasks of these lanes wait for these moments."""
        for lane, at in due.items():
            self.due[lane] = min(at, self.due.get(lane, at))


def children_of(settlements: Sequence[Settlement], catalog: Catalog) -> dict[int, list[Encoded]]:
    """Encode the children of each settlement, by its task."""
    return {s.lease.task_id: encode(s.tasks, catalog) for s in settlements if s.tasks}


async def settle_tasks(
    db: Db,
    catalog: Catalog,
    settlements: Sequence[Settlement],
    children: Mapping[int, list[Encoded]],
    lanes: Mapping[str, int],
    effect: PendingWrites,
) -> list[Settlement]:
    """Write everything that locks rows of tasks. Returns the settlements that passed the fence."""
    drains = await _drains(db, settlements)
    live, followed = await _pass_the_fence(db, settlements, drains, effect)
    if live:
        await _settle_neighbours(db, live, followed, effect)
        new = [(s.lease.job_id, plan) for s in live for plan in children.get(s.lease.task_id, ())]
        if new:
            await _add_children(db, catalog, new, lanes, drains, effect)
    return live


async def settle_rest(
    db: Db, catalog: Catalog, live: list[Settlement], own_lanes: frozenset[int], effect: PendingWrites
) -> None:
    """Write everything else, except the jobs' rows and the change log, which are written last, together with the
    leases."""
    if effect.halted:
        flows = await add_flows_and_lock_all(db, effect.ready | effect.promoted, effect.halted)
        await set_paused(db, flows, paused=True)
    else:
        await add_flows(db, effect.ready | effect.promoted)
    if not live:
        return
    foreign = {lane: effect.now for lane, _ in effect.ready if lane not in own_lanes}
    await wake(db, {**{lane: at for lane, at in effect.due.items() if lane not in own_lanes}, **foreign})
    await _spend(db, live, effect)
    await _keep_evidence(db, live, effect.now + catalog.evidence_ms)
    await keep_attempts(db, live)
    await _store(db, catalog, live, effect)
    if effect.deltas.ends or effect.deltas.logged:
        changes, effect.hooked = await after_ends(db, catalog, effect.deltas, effect.now)
        effect.changes.extend(changes)


async def _store(db: Db, catalog: Catalog, live: list[Settlement], effect: PendingWrites) -> None:
    rare = [s for s in live if s.extras is not None]
    if rare:
        await keep_rejected(db, rare, effect.deltas, effect.now)
        effect.changes.extend(await store_in_order(db, catalog, live, effect.deltas, effect.now))
        effect.rows = [row for s in rare if s.extras is not None for row in s.extras.effects]
        return
    seen = [(s.lease.job_id, s.records) for s in live if s.records]
    if seen:
        effect.changes.extend(await store_records(db, catalog, seen, effect.deltas, effect.now))


async def _drains(db: Db, settlements: Sequence[Settlement]) -> dict[int, str]:
    """Return which jobs are being drained. Queried only if needed: for tasks that go back to the queue, and for new
    ones."""
    jobs = sorted({s.lease.job_id for s in settlements if s.state not in COUNTER_OF or s.tasks})
    if not jobs:
        return {}
    return pairs(await db.fetch("SELECT id, drain FROM jobs WHERE id = ANY($1::bigint[]) AND drain IS NOT NULL", jobs))


async def _pass_the_fence(
    db: Db, settlements: Sequence[Settlement], drains: Mapping[int, str], effect: PendingWrites
) -> tuple[list[Settlement], set[int]]:
    """Return the settlements that pass, and which of their tasks have followers by now (the lease may be older)."""
    first: dict[int, Settlement] = {}
    for s in settlements:
        if s.lease.task_id in first:
            effect.fenced.append(s.lease.task_id)
        else:
            first[s.lease.task_id] = s
    ends = [s for s in first.values() if s.state in COUNTER_OF or drains.get(s.lease.job_id) == CANCELLED]
    back = [s for s in first.values() if not (s.state in COUNTER_OF or drains.get(s.lease.job_id) == CANCELLED)]
    waits = await _wait_or_give_up(db, back, effect.now)
    ends += [s for s in back if s.state in COUNTER_OF]
    returned = await _put_back(db, [s for s in back if s.state not in COUNTER_OF], effect)
    await _note_waits(db, [wait for wait in waits if wait[2] in returned])
    followed = {**await _end(db, ends, effect), **returned}
    live = []
    for number, s in first.items():
        if number in followed:
            live.append(s)
        else:
            effect.fenced.append(number)
    return live, {number for number, has in followed.items() if has}


async def _end(db: Db, ends: list[Settlement], effect: PendingWrites) -> dict[int, bool]:
    """Take the tasks out of the queue. Returns those that passed, and whether they are followed."""
    if not ends:
        return {}
    states = [s.state if s.state in COUNTER_OF else TaskState.CANCELLED for s in ends]
    errors, reasons, types = _whys(ends, states)
    row = await db.fetchrow(
        _END,
        numbers([s.lease.task_id for s in ends]),
        numbers([s.lease.claim for s in ends]),
        unless_all(TaskState.COMPLETED, states),
        unless_all(0, [s.cost for s in ends]),
        unless_all(0, [s.guessed for s in ends]),
        unless_all(None, errors),
        unless_all(None, reasons),
        unless_all(None, types),
        unless_all(None, [_facts(s) for s in ends]),
        effect.now,
    )
    passed = _passed(row)
    await bury(
        db, [s.lease.task_id for s in ends if s.state is TaskState.FAILED and s.lease.task_id in passed], effect.now
    )
    live = [(s, state) for s, state in zip(ends, states, strict=True) if s.lease.task_id in passed]
    for state in dict.fromkeys(states):
        effect.deltas.note((s.lease.task_id for s, its in live if its is state), state)
    _count(effect.deltas, [(s, COUNTER_OF[state]) for s, state in live])
    for s, _ in live:
        if s.state not in COUNTER_OF and s.burned:
            effect.deltas.add(s.lease.job_id, retries=1)
    return passed


def _passed(row: Any) -> dict[int, bool]:
    """Return two arrays, since a group has hundreds: the tasks that passed, and those of them with followers."""
    return {**dict.fromkeys(row[0] or (), False), **dict.fromkeys(row[1] or (), True)}


async def bury(db: Db, tasks: Sequence[int], now: int) -> None:
    """Insert dead letters into their index table."""
    if tasks:
        await db.execute("INSERT INTO dead (task_id, ended_at) SELECT unnest($1::bigint[]), $2", tasks, now)


async def _put_back(db: Db, back: list[Settlement], effect: PendingWrites) -> dict[int, bool]:
    """Return retries, snoozes and halts to the queue."""
    if not back:
        return {}
    dues = [effect.now + round(s.wait * 1000) if s.wait > 0 else None for s in back]
    passed = pairs(
        await db.fetch(
            _PUT_BACK,
            [s.lease.task_id for s in back],
            [s.lease.claim for s in back],
            [int(TaskState.READY if due is None else TaskState.WAITING) for due in dues],
            dues,
            [0 if s.burned else 1 for s in back],
            [s.cost for s in back],
            [s.guessed for s in back],
            [_facts(s) for s in back],
            *([column[n] for column in map(_said, back)] for n in range(3)),
        )
    )
    for s, due in zip(back, dues, strict=True):
        lease = s.lease
        if lease.task_id not in passed:
            continue
        _count(effect.deltas, [(s, "queued")])
        effect.deltas.add(lease.job_id, retries=int(s.burned))
        if s.halt is not None and not await _is_spared(db, s):
            effect.halted.setdefault(lease.job_id, clean(s.halt))
        if due is None:
            effect.ready.add((lease.lane, lease.job_id))
        else:
            effect.sleep_until({lease.lane: due})
    return passed


async def _is_spared(db: Db, s: Settlement) -> bool:
    """Return whether the job of a halt is one that it does not pause."""
    if s.spares == "none":
        return False
    return await db.fetchval(_SPARED, s.lease.job_id, s.spares == "succeeded") is not None


async def _wait_or_give_up(db: Db, back: Sequence[Settlement], now: int) -> list[NewWait]:
    """Fail tasks whose patience is used up; return what to store about the others."""
    vain = in_vain(back)
    if not vain:
        return []
    rows = await db.fetch(
        "SELECT id, waited, waited_until FROM tasks WHERE id = ANY($1::bigint[])", [s.lease.task_id for s in vain]
    )
    return wait_or_give_up(vain, {row[0]: (row[1], row[2]) for row in rows}, now)


async def _note_waits(db: Db, waits: Sequence[NewWait]) -> None:
    """Store the waits of tasks whose rows this transaction has locked already."""
    if waits:
        await db.execute(
            "UPDATE tasks t SET waited = x.waited, waited_until = x.until"
            " FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS x(waited, until, id) WHERE t.id = x.id",
            *(list(column) for column in zip(*waits, strict=True)),
        )


def _count(deltas: Deltas, settled: Iterable[tuple[Settlement, str]]) -> None:
    """Sum the counters first: a group has hundreds of settlements but few jobs."""
    sums: dict[tuple[int, str], list[int]] = {}
    for s, counter in settled:
        lease = s.lease
        so_far = sums.get((lease.job_id, counter))
        if so_far is None:
            so_far = sums[lease.job_id, counter] = [0, 0, 0, 0]
        so_far[0] += 1
        so_far[1] += lease.price
        so_far[2] += s.cost
        so_far[3] += s.guessed
    for (job, counter), (count, price, cost, guessed) in sums.items():
        deltas.add(job, running=-count, reserved=-price, spent=cost, guessed=guessed, **{counter: count})


async def _settle_neighbours(db: Db, live: list[Settlement], followed: set[int], effect: PendingWrites) -> None:
    """Skip tasks that need not run, release the followers of completed tasks, and skip those of the others."""
    for (reason, message), names in _skips(live).items():
        await skip_tasks(db, names, reason, message, effect.deltas, effect.now)
    well = [s.lease.task_id for s in live if s.lease.task_id in followed and s.state is TaskState.COMPLETED]
    if well:
        ready, due = await release_followers(db, well, effect.now)
        effect.ready |= ready
        effect.sleep_until(due)
    badly = [s.lease.task_id for s in live if s.lease.task_id in followed and s.state in _NOT_WELL]
    skipped = await skip_followers(db, badly, AFTER_FAILED, effect.deltas, effect.now)
    effect.deltas.note(skipped, TaskState.SKIPPED)


def _skips(live: list[Settlement]) -> dict[tuple[str, str], list[tuple[int, str, str]]]:
    """Return the names of tasks to skip, by reason and message."""
    by_reason: defaultdict[tuple[str, str], list[tuple[int, str, str]]] = defaultdict(list)
    for s in live:
        for skip in s.skip:
            by_reason[clean(skip.reason), clean(skip.message or skip.reason)].append(
                (s.lease.job_id, s.lease.kind, clean(skip.key))
            )
    return by_reason


async def _add_children(
    db: Db,
    catalog: Catalog,
    new: Children,
    lanes: Mapping[str, int],
    drains: Mapping[int, str],
    effect: PendingWrites,
) -> None:
    once = {(job, plan.kind, plan.key): (job, plan) for job, plan in reversed(new)}
    plans = list(reversed(once.values()))
    written = await insert_tasks(db, plans, lanes, one_open=catalog.one_open, offered=catalog.offered)
    effect.deltas.note_back(written.offered, TaskState.READY)
    effect.ready |= written.ready
    effect.sleep_until(written.due)
    written.count_in(effect.deltas)
    effect.draining |= written.count.keys() & drains.keys()
    await skip_followers(db, sorted(written.dead_ends), AFTER_FAILED, effect.deltas, effect.now)


async def _spend(db: Db, live: list[Settlement], effect: PendingWrites) -> None:
    spent: defaultdict[int, int] = defaultdict(int)
    for s in live:
        if s.cost:
            spent[s.lease.lane] += s.cost
    await add_spending(db, spent, effect.now)


async def _keep_evidence(db: Db, live: list[Settlement], until: int) -> None:
    kept = [
        (s.lease.task_id, clean(e.content_type), body_of(e), screenshot_of(e))
        for s in live
        if (e := s.evidence) is not None
    ]
    if kept:
        await db.execute(_KEEP_EVIDENCE, *([k[n] for k in kept] for n in range(4)), until)


def _whys(ends: Sequence[Settlement], states: Sequence[TaskState]) -> Sequence[Sequence[str | None]]:
    """Errors, reasons and error types. In most groups all have ended well: nothing is then made one by one."""
    errors, reasons = [s.error for s in ends], [s.reason for s in ends]
    usual = len(ends)
    if (states.count(TaskState.COMPLETED), errors.count(None), reasons.count(None)) == (usual, usual, usual):
        return errors, reasons, errors
    whys = [_said(s) if s.state in COUNTER_OF else (CANCELLED, CANCELLED, None) for s in ends]
    return list(zip(*whys, strict=True))


def _said(s: Settlement) -> tuple[str | None, str | None, str | None]:
    """Error, reason and error type."""
    return clean_or_none(s.error), s.reason, s.error_type


def _facts(s: Settlement) -> str | None:
    return orjson.dumps(s.facts).decode() if s.facts else None


# The fence is the claim alone: an additional `state = 3` would make the planner scan the whole running index.
_END = """
WITH q AS (
  DELETE FROM queue q
  USING unnest($1::text::bigint[], $2::text::bigint[], $3::smallint[], $4::bigint[], $5::bigint[], $6::text[],
               $7::text[], $8::text[], $9::text[]) AS x(id, claim, state, cost, guessed, error, reason, type, facts)
  WHERE q.task_id = x.id AND q.claim = x.claim
  RETURNING x.id, x.state, x.cost, x.guessed, x.error, x.reason, x.type, x.facts, q.attempt, q.claim, q.claimed_at),
t AS (UPDATE tasks t SET state = coalesce(q.state, 4), cost = t.cost + coalesce(q.cost, 0),
  guessed = t.guessed + coalesce(q.guessed, 0), error = q.error, reason = q.reason, error_type = q.type,
  facts = q.facts::json, ended_at = $10, attempt = q.attempt, claim = q.claim, claimed_at = q.claimed_at,
  together = NULL
FROM q WHERE t.id = q.id RETURNING t.id, t.followed)
SELECT array_agg(id), array_agg(id) FILTER (WHERE followed) FROM t
"""
_PUT_BACK = """
WITH q AS (
  UPDATE queue q SET state = x.state, due = x.due, attempt = q.attempt - x.unburned, claim = NULL, claimed_at = NULL,
    session_id = NULL
  FROM unnest($1::bigint[], $2::bigint[], $3::smallint[], $4::bigint[], $5::smallint[], $6::bigint[], $7::bigint[],
              $8::text[], $9::text[], $10::text[], $11::text[])
    AS x(id, claim, state, due, unburned, cost, guessed, facts, error, reason, type)
  WHERE q.task_id = x.id AND q.claim = x.claim
  RETURNING x.id, x.claim, x.cost, x.guessed, x.error, x.reason, x.type, x.facts, q.attempt)
UPDATE tasks t SET cost = t.cost + q.cost, guessed = t.guessed + q.guessed, error = q.error, reason = q.reason,
  error_type = q.type, facts = q.facts::json, attempt = q.attempt, claim = q.claim, together = NULL
FROM q WHERE t.id = q.id RETURNING t.id, t.followed
"""
_KEEP_EVIDENCE = """
INSERT INTO evidence (task_id, content_type, body, screenshot, kept_until)
SELECT x.*, $5 FROM unnest($1::bigint[], $2::text[], $3::bytea[], $4::bytea[]) AS x(id, content_type, body, screenshot)
ORDER BY x.id
ON CONFLICT (task_id) DO UPDATE SET content_type = excluded.content_type, body = excluded.body,
  screenshot = excluded.screenshot, kept_until = excluded.kept_until
"""


# Writing the log of attempts: those that ended here, and those that died with their worker.


_KEEP = f"""
INSERT INTO attempts ({COLUMNS})
SELECT * FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[],
                     $8::text[], $9::text[])
"""
# Selects kinds that keep every attempt, and the tasks that are given up now.
_LOST = f"""
INSERT INTO attempts ({COLUMNS})
SELECT q.task_id, q.attempt, q.claimed_at, greatest(0, $2 - q.claimed_at), $3, $4, $5, $6, NULL
FROM queue q JOIN tasks t ON t.id = q.task_id
WHERE q.task_id = ANY($1::bigint[]) AND (t.kind = ANY($7::text[]) OR q.task_id = ANY($8::bigint[]))
"""


async def keep_attempts(db: Db, live: Sequence[Settlement]) -> None:
    if rows := attempt_rows(live):
        await db.execute(_KEEP, *([row[n] for row in rows] for n in range(len(rows[0]))))


async def keep_lost(
    db: Db, kinds: Collection[str], tasks: Sequence[int], given_up: Sequence[int], now: int, *, crashed: bool
) -> None:
    """Log the attempts that a dead session still held. `given_up` are tasks that have crashed alone for the last
    time."""
    if kinds or given_up:
        why = (LOST, Reason.CRASHED, ErrorType.INTERNAL, DIED) if crashed else (GIVEN_BACK, None, None, None)
        await db.execute(_LOST, tasks, now, *why, list(kinds), given_up)


# End hooks: the consequences of ended tasks and jobs, and the effects of settlements on plain tables.
#
# Rows of plain tables are locked after those of jobs and before the tail, in the order of their tables and keys.


_TASKS = f"SELECT {ENDED_TASK} FROM tasks WHERE id = ANY($1::bigint[]) AND kind = ANY($2::text[]) ORDER BY id"
_JOBS = f"SELECT {ENDED_JOB} FROM jobs WHERE id = ANY($1::bigint[]) AND pipeline = ANY($2::text[]) ORDER BY id"
_REFUSED = (Rejected, asyncpg.IntegrityConstraintViolationError, asyncpg.DataError, ValueError)


async def after_ends(db: Db, catalog: Catalog, deltas: Deltas, now: int) -> tuple[list[NewChange], list[Effect]]:
    """Run the hooks of the tasks that ended, and write their updates of records. Returns changes, those of the tasks
    themselves included, and effects."""
    told = await logged_task_changes(db, catalog, deltas)
    if not deltas.ends:
        return told, []
    rows = await db.fetch(_TASKS, sorted(deltas.ends), [*catalog.on_end])
    followed = after_tasks(catalog, [EndedTask(*row) for row in rows], now)
    unseen = [Unseen(job, record, None) for job, aftermath in followed for record in aftermath.updates]
    changes = await update_unseen(db, catalog, unseen, now) if unseen else []
    return [*changes, *told], [effect for _, aftermath in followed for effect in aftermath.effects]


async def close(
    db: Db,
    catalog: Catalog,
    deltas: Deltas,
    now: int,
    *,
    leased: Collection[int] = (),
    changes: Sequence[NewChange] = (),
    effects: Sequence[Effect] = (),
    hooked: Sequence[Effect] = (),
) -> None:
    """The last part of a transaction: the jobs' rows, plain tables, the change log, in this order.

    `leased`: jobs that have tasks running now. `effects`: those of settlements. `hooked`: those of hooks, which must
    never be the reason why the transaction fails.
    """
    ended = await write_counters(db, deltas, now, leased=leased)
    if effects:
        refuse_foreign(catalog, effects)
        await _write_effects(db, effects)
    if ended and catalog.on_job_end:
        rows = await db.fetch(_JOBS, [change.job_id for change in ended], [*catalog.on_job_end])
        hooked = [*hooked, *after_jobs(catalog, [EndedJob(*row) for row in rows], now)]
    if hooked:
        await _write_effects_or_log(db, catalog, hooked)
    await write_changes(db, [*changes, *ended], now)


async def _write_effects(db: Db, effects: Iterable[Effect]) -> None:
    for write in folded(effects):
        sql, values = numbered(write.sql, write.values)
        await db.execute(sql, *values)


async def _write_effects_or_log(db: Db, catalog: Catalog, effects: Sequence[Effect]) -> None:
    """Write all effects together. If the store refuses one, write them one by one and log each refusal."""
    try:
        refuse_foreign(catalog, effects)
        async with db.transaction():  # a savepoint
            await _write_effects(db, effects)
    except _REFUSED:
        for effect in effects:
            try:
                refuse_foreign(catalog, [effect])
                async with db.transaction():
                    await _write_effects(db, [effect])
            except _REFUSED as error:
                log_refused(effect, error)
