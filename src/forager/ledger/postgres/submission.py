"""Runs a submission: whole or in chunks, once per Idempotency-Key, however many callers there are at once."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from forager.core.errors import StoreError
from forager.core.faults import Faults
from forager.core.ledger import NewJob, Submitted
from forager.core.task import Plan
from forager.ledger.catalog import Catalog
from forager.ledger.postgres.connection import Connections, Db
from forager.ledger.postgres.group import CommitGroup
from forager.ledger.postgres.lanes import LaneNumbers
from forager.ledger.postgres.submit import (
    JobRow,
    Repeated,
    begin_planning,
    check_room,
    create_whole,
    end_planning,
    find_repeat,
    give_up_planning,
    write_chunk,
)
from forager.ledger.postgres.tasks import TaskName
from forager.ledger.shared.job_creation import BEING_WRITTEN, IN_ONE_GO
from forager.ledger.shared.plan_encoding import Planned, Whole

SHARED = 200
"""Jobs of up to so many tasks share a commit with others."""


class Submissions:
    def __init__(
        self,
        connections: Connections,
        group: CommitGroup,
        catalog: Catalog,
        lanes: LaneNumbers,
        faults: Faults,
    ) -> None:
        self._connections = connections
        self._group = group
        self._queues: defaultdict[str, CommitGroup] = defaultdict(lambda: CommitGroup(connections))
        """One lock per pipeline with a bounded queue: one submission at a time waits for the queue's lock in the
        database."""
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._catalog = catalog
        self._lanes = lanes
        self._faults = faults

    async def write(self, job: NewJob, plan: Iterable[Plan]) -> Submitted:
        planned = await Planned.read(plan, self._catalog)
        while True:
            repeat = await self._repeat(job)
            if isinstance(repeat, Submitted):
                return repeat
            if repeat is None:
                # The losers of a race for the key search again and find the winner's job.
                with contextlib.suppress(Repeated):
                    if planned.whole:
                        return await self._write_whole(Whole(job, planned.first))
                    return await self._write_in_chunks(job, planned)
            await asyncio.sleep(BEING_WRITTEN)  # the same job is being written now: how big it is will be known soon

    async def _repeat(self, job: NewJob) -> object:
        if job.idempotency_key is None:
            return None
        return await self._connections.run(lambda db: find_repeat(db, job))

    async def _write_whole(self, whole: Whole) -> Submitted:
        job, plans = whole
        await self._lanes.learn_for(plans)
        if len(plans) > SHARED:
            async with self._turn_of(job):
                (submitted,) = await self._connections.run(lambda db: self._create(db, [whole]))
            return submitted
        # A queue's lock is taken first in a transaction, so never behind what another member of a group has locked.
        group = self._queues[job.pipeline] if job.limits.bounds_queue else self._group
        return await group.run_together(self._create, whole)

    def _turn_of(self, job: NewJob) -> contextlib.AbstractAsyncContextManager[Any]:
        """Serialise submissions to a bounded queue here: waiting for the lock in the database would hold a connection
        each, and the heartbeat could get none."""
        return self._locks[job.pipeline] if job.limits.bounds_queue else contextlib.nullcontext()

    async def _create(self, db: Db, new: Sequence[Whole]) -> Sequence[Submitted]:
        await check_room(db, [(job, len(plans)) for job, plans in new])
        submitted = await create_whole(db, new, self._lanes.known, self._catalog, hasten=True)
        self._faults.at("job-written")
        return submitted

    async def _write_in_chunks(self, job: NewJob, planned: Planned) -> Submitted:
        async def begin(db: Db) -> JobRow:
            await check_room(db, [(job, IN_ONE_GO + 1)])  # how many it has is not known yet: at least so many
            return await begin_planning(db, job)

        async with self._turn_of(job):
            row = await self._connections.run(begin)
        try:
            total = await self._write_chunks(row, planned)
            await self._connections.run(lambda db: end_planning(db, row, total))
        except Exception:
            with contextlib.suppress(StoreError):
                await self._connections.run(lambda db: give_up_planning(db, row.number))
            raise
        return Submitted(UUID(row.public_id), total, created=True)

    async def _write_chunks(self, row: JobRow, planned: Planned) -> int:
        known: dict[TaskName, int] = {}
        total = 0
        async with contextlib.aclosing(planned.chunks()) as chunks:
            async for chunk in chunks:
                lanes = await self._lanes.learn_for(chunk)
                known.clear()  # a predecessor in an earlier chunk is looked up in the table
                kinds = self._catalog.one_open
                write = partial(write_chunk, job=row, plans=chunk, lanes=lanes, known=known, one_open=kinds)
                total += await self._connections.run(write)
                self._faults.at("chunk-written")
        return total
