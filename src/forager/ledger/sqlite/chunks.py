"""Submits a big job in chunks, one transaction each. Nothing of it can be leased before the last one."""

import contextlib
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar
from uuid import UUID

from forager.core.errors import StoreError
from forager.core.faults import Faults
from forager.core.ledger import NewJob, Submitted
from forager.ledger.shared.job_creation import IN_ONE_GO
from forager.ledger.shared.plan_encoding import Encoded, Planned
from forager.ledger.sqlite.submit import (
    Repeat,
    begin_planning,
    check_room,
    end_planning,
    find_repeat,
    give_up_planning,
    write_chunk,
)
from forager.ledger.sqlite.writer_state import Memory

T = TypeVar("T")


class Run(Protocol):
    """Runs a command in a transaction of the one writer."""

    def __call__(self, command: Callable[[sqlite3.Connection], T], /) -> Awaitable[T]: ...


async def submit_in_chunks(
    run: Run, memory: Callable[[], Memory], job: NewJob, planned: Planned, faults: Faults
) -> Submitted | None:
    """Write the job, or return the earlier one with the same Idempotency-Key; None while that one is being written.

    `memory` returns what the writer knows now: a rollback replaces it.
    """

    def begin(db: sqlite3.Connection) -> Repeat | tuple[int, UUID]:
        repeat = find_repeat(db, job, memory().now_ms())
        if repeat is not None:
            return repeat
        check_room(db, [(job, IN_ONE_GO + 1)])  # how many it has is not known yet: at least so many
        return begin_planning(db, memory(), job)

    begun = await run(begin)
    if isinstance(begun, Repeat):
        return begun.told()
    (number, public_id), total = begun, 0

    def write(chunk: Sequence[Encoded], db: sqlite3.Connection) -> int:
        return write_chunk(db, memory(), number, job.limits.turn, chunk, faults)

    try:
        async with contextlib.aclosing(planned.chunks()) as chunks:
            async for chunk in chunks:
                total += await run(partial(write, chunk))
        await run(lambda db: end_planning(db, memory(), number, public_id, total))
    except Exception:
        with contextlib.suppress(StoreError):
            await run(lambda db: give_up_planning(db, number))
        raise
    return Submitted(public_id, total, created=True)
