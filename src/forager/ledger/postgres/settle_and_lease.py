"""Settles what ended, leases what fits, updates the counters and numbers the changes, all in one transaction."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from forager.core.faults import Faults
from forager.core.ledger import Lease, LeaseBatch, Session, Settlement, Want
from forager.ledger.catalog import Catalog
from forager.ledger.postgres.aftermath import close
from forager.ledger.postgres.changes import job_says
from forager.ledger.postgres.connection import NOW, Db
from forager.ledger.postgres.control import pause_locked
from forager.ledger.postgres.counters import lock_jobs
from forager.ledger.postgres.lease import NEXT_CLAIM, Round, lease, promote
from forager.ledger.postgres.offers import claim_by_number
from forager.ledger.postgres.settle import Effect, settle
from forager.ledger.postgres.suspects import HAS_SUSPECTS, lease_suspects
from forager.ledger.shared.plan_encoding import Encoded

# The session's row stays locked until the commit, so that neither a rescue nor a call of an ended session can
# interfere.
_BEGIN = f"""
SELECT n.now, (SELECT id FROM sessions WHERE id = $1 FOR KEY SHARE) AS session, {HAS_SUSPECTS} AS suspects,
       {NEXT_CLAIM} AS claim,
       array(SELECT id FROM lanes WHERE id = ANY($2::bigint[]) AND owner IN ($1, 0) AND NOT paused) AS own,
       EXISTS (SELECT 1 FROM queue WHERE lane_id = ANY($2::bigint[]) AND state = 1 AND due <= n.now) AS due
FROM (SELECT {NOW} AS now) n
"""


@dataclass(slots=True)
class Worker:
    """This process's cache for one of its sessions."""

    session: Session
    lanes: set[int] = field(default_factory=set)
    """Lanes that it owns …"""
    shared: set[int] = field(default_factory=set)
    """… and those that it uses beside other sessions, which must hear of new work in them."""
    last: dict[int, int] = field(default_factory=dict)
    """The job that was served last, by lane."""
    lost_an_answer: bool = False

    def forget(self, lanes: Iterable[int]) -> None:
        for lane in lanes:
            self.lanes.discard(lane)
            self.shared.discard(lane)
            self.last.pop(lane, None)


async def settle_and_lease(
    db: Db,
    catalog: Catalog,
    worker: Worker,
    settlements: Sequence[Settlement],
    children: Mapping[int, list[Encoded]],
    lanes: Mapping[str, int],
    wants: Sequence[Want],
    faults: Faults,
) -> tuple[LeaseBatch, set[int]]:
    """Return the batch, and the jobs that must be drained afterwards."""
    session = worker.session
    begun = await db.fetchrow(_BEGIN, session.id, [want.lane for want in wants])
    if begun is None:
        raise AssertionError("a SELECT from one row has one row")
    effect = Effect(begun["now"], catalog.deltas())
    if settlements:
        await settle(db, catalog, settlements, children, lanes, frozenset(worker.lanes), effect)
    faults.at("settled")
    round_ = Round(session, begun["claim"], effect, worker.last)
    next_due: dict[int, int | None] = {}
    if wants and begun["session"] is not None:
        if begun["due"] or any(due <= effect.now for due in effect.due.values()):
            await promote(db, begun["own"], effect.now)
        own = set(begun["own"])
        if any(want.tasks for want in wants):
            wants = await claim_by_number(db, round_, wants, own)
        next_due = await lease(db, round_, wants, own)
    faults.at("leased")
    decoding = asyncio.create_task(_decoded(catalog, round_.rows))  # while the server counts
    try:
        await _finish(db, catalog, effect, {row["job_id"] for row in round_.rows})
    except BaseException:
        decoding.cancel()
        raise
    return LeaseBatch(await decoding, effect.fenced, next_due, round_.limited, begun["suspects"]), effect.draining


async def lease_suspects_and_drain(
    db: Db, catalog: Catalog, session: Session, room: Mapping[int, int] | None
) -> tuple[list[Lease], set[int]]:
    begun = await db.fetchrow(_BEGIN, session.id, [])
    if begun is None or begun["session"] is None:
        return [], set()
    effect = Effect(begun["now"])
    leases = await lease_suspects(db, catalog, session, begun["claim"], room, effect)
    await _finish(db, catalog, effect, {lease.job_id for lease in leases})
    return leases, effect.draining


async def _decoded(catalog: Catalog, rows: Sequence[Any]) -> list[Lease]:
    return catalog.leases(rows)


async def _finish(db: Db, catalog: Catalog, effect: Effect, leased: Collection[int]) -> None:
    """Write the jobs' rows and the change log, in this order and last. `leased`: jobs with newly running tasks."""
    if effect.halted:
        await lock_jobs(db, effect.deltas.jobs())
        for job, reason in sorted(effect.halted.items()):
            if await pause_locked(db, job, reason):
                effect.changes.append(await job_says(db, job, "paused", {"reason": reason}))
    await close(
        db,
        catalog,
        effect.deltas,
        effect.now,
        leased=leased,
        changes=effect.changes,
        effects=effect.rows,
        hooked=effect.hooked,
    )
