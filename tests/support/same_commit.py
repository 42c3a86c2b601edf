"""Submissions that wait for the same commit."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from typing import Any

from forager.core.clock import Faults
from forager.core.errors import StoreError
from forager.core.ledger import Ledger
from forager.ledger.postgres import PostgresLedger
from forager.ledger.postgres.connection import CommitGroup
from forager.ledger.sqlite import SqliteLedger
from forager.ledger.sqlite.connection import Writer
from tests.support.engine import until
from tests.support.rig import Rig


def place_faults(rig: Rig, faults: Faults) -> None:
    """From now on these are reached by what is submitted."""
    if isinstance(rig.ledger, SqliteLedger):
        rig.ledger._faults = faults
    else:
        assert isinstance(rig.ledger, PostgresLedger)
        rig.ledger._submissions._faults = faults


class Writes:
    """Counts the calls that wrote submissions, from now on."""

    def __init__(self, rig: Rig) -> None:
        self.calls = 0
        place_faults(rig, self)

    def at(self, point: str) -> None:
        self.calls += point == "job-written"


async def side_by_side(rig: Rig, *asked: Awaitable[Any]) -> list[Any]:
    """Return the answer to each of these, when all of them come while others are being committed."""
    async with _busy(rig.ledger):
        waiting = [asyncio.ensure_future(each) for each in asked]
        await until(lambda: _how_many_wait(rig.ledger) == len(asked))
    return await asyncio.gather(*waiting, return_exceptions=True)


def writer_of(ledger: Ledger) -> Writer:
    assert isinstance(ledger, SqliteLedger)
    return ledger._writer


def _group_of(ledger: Ledger) -> CommitGroup:
    assert isinstance(ledger, PostgresLedger)
    return ledger._submissions._group


def _how_many_wait(ledger: Ledger) -> int:
    if isinstance(ledger, SqliteLedger):
        return writer_of(ledger)._commands.qsize()
    return len(_group_of(ledger)._waiting)


@asynccontextmanager
async def _busy(ledger: Ledger) -> AsyncIterator[None]:
    if not isinstance(ledger, SqliteLedger):
        group = _group_of(ledger)
        group._leader = asyncio.current_task()  # somebody leads already, so nobody begins
        yield
        group._leader = asyncio.create_task(group._lead())
        return

    busy, go_on = threading.Event(), threading.Event()

    def wait(db: sqlite3.Connection) -> None:
        busy.set()
        go_on.wait(60)

    holding = asyncio.create_task(writer_of(ledger).run(wait))
    await asyncio.to_thread(busy.wait, 30)
    try:
        yield
    finally:
        go_on.set()
        with suppress(StoreError):  # lost with what shares its transaction
            await holding
