"""The course of one submission: whole or in chunks, once per Idempotency-Key however many callers come together."""

import asyncio
import contextlib
from collections.abc import Iterable
from uuid import UUID

from forager.core.errors import StoreError
from forager.core.faults import Faults
from forager.core.ledger import NewJob, Submitted
from forager.core.task import Plan
from forager.ledger.catalog import Catalog
from forager.ledger.creation import BEING_WRITTEN, IN_ONE_GO
from forager.ledger.planned import Encoded, Planned
from forager.ledger.postgres.connection import Connections, Db
from forager.ledger.postgres.group import CommitGroup
from forager.ledger.postgres.lanes import LaneNumbers
from forager.ledger.postgres.submit import (
    JobRow,
    Repeated,
    check_room,
    find_repeat,
    give_up_planning,
    insert_job,
    open_job,
    submit_whole,
    write_chunk,
)
from forager.ledger.postgres.tasks import TaskName

SHARED = 200
"""Jobs of up to so many tasks share a commit with others."""


class Submission:
    def __init__(
        self,
        connections: Connections,
        group: CommitGroup,
        catalog: Catalog,
        lanes: LaneNumbers,
        faults: Faults,
        job: NewJob,
    ) -> None:
        self._connections = connections
        self._group = group
        self._catalog = catalog
        self._lanes = lanes
        self._faults = faults
        self._job = job

    async def write(self, plan: Iterable[Plan]) -> Submitted:
        planned = await Planned.read(plan, self._catalog)
        while True:
            repeat = await self._repeat()
            if isinstance(repeat, Submitted):
                return repeat
            if repeat is None:
                # The losers of a race for the key look again: they find the winner's job.
                with contextlib.suppress(Repeated):
                    return await (self._write_whole(planned.first) if planned.whole else self._write_in_chunks(planned))
            await asyncio.sleep(BEING_WRITTEN)  # the same job is being written now: how big it is will be known soon

    async def _repeat(self) -> object:
        if self._job.idempotency_key is None:
            return None
        return await self._connections.run(lambda db: find_repeat(db, self._job))

    async def _write_whole(self, plans: list[Encoded]) -> Submitted:
        lanes = await self._lanes.learn(plan.lane for plan in plans)

        async def command(db: Db) -> Submitted:
            submitted = await submit_whole(db, self._job, plans, lanes)
            self._faults.at("job-written")
            return submitted

        # A queue's lock is taken first in a transaction, so never behind what another member of a group has locked.
        alone = len(plans) > SHARED or self._job.limits.most_queued is not None
        return await (self._connections.run if alone else self._group.run)(command)

    async def _write_in_chunks(self, planned: Planned) -> Submitted:
        async def begin(db: Db) -> JobRow:
            await check_room(db, self._job, IN_ONE_GO + 1)  # how many it has is not known yet: at least so many
            return await insert_job(db, self._job)

        row = await self._connections.run(begin)
        try:
            total = await self._write_chunks(row, planned)
            await self._connections.run(lambda db: open_job(db, row, total))
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
                lanes = await self._lanes.learn(plan.lane for plan in chunk)
                known.clear()  # a predecessor in an earlier chunk is looked up in the table
                total += await self._connections.run(lambda db, e=chunk, n=lanes: write_chunk(db, row, e, n, known))  # type: ignore[misc]
                self._faults.at("chunk-written")
        return total
