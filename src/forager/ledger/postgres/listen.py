"""Notifications from other processes: new work, and jobs that have ended. A lost notification only delays a waiter
until its next poll; so does a pooler, through which none arrives."""

import asyncio
import contextlib
from collections.abc import Callable, Collection
from typing import Any

import asyncpg

from forager.ledger.postgres.connection import CONNECT_SECONDS, Db

CHANNEL = "forager_work"
ENDED = "forager_ended"
MOST_NAMED = 400
"""A notification holds 8,000 bytes: if more jobs than this end at once, none is named."""
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
# The last: what the driver says when the connection goes away between two of its own steps.
LOST = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


async def tell(db: Db) -> None:
    """Notify other processes, with this transaction's commit, that there is work. Notifications serialise commits, so a
    transaction whose work is only for its own session must not send one."""
    await db.execute(f"NOTIFY {CHANNEL}")


class Listener:
    """Listens on a connection of its own. Without a URL it receives nothing, and its waiters poll."""

    def __init__(self, url: str | None) -> None:
        self._arrived = asyncio.Event()
        self._tell: list[Callable[[Collection[int]], None]] = []
        self._task = asyncio.create_task(self._listen_for_ever(url), name="ledger-listen") if url else None

    async def wait(self, timeout: float) -> None:
        try:
            await asyncio.wait_for(self._arrived.wait(), timeout)
        except TimeoutError:
            return
        self._arrived.clear()

    def arrived(self) -> None:
        self._arrived.set()

    def when_jobs_end(self, tell: Callable[[Collection[int]], None]) -> None:
        self._tell.append(tell)

    async def close(self) -> None:
        if self._task is None:
            return
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _listen_for_ever(self, url: str) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                await self._listen_once(url)
                pause = FIRST_PAUSE
            except LOST:
                pause = min(pause * 2, LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _listen_once(self, url: str) -> None:
        """Listen until the connection is lost."""
        lost = asyncio.Event()
        db = await asyncpg.connect(
            url, timeout=CONNECT_SECONDS, server_settings={"application_name": "forager listener"}
        )
        try:
            db.add_termination_listener(lambda _: lost.set())
            await db.add_listener(CHANNEL, lambda *_: self._arrived.set())
            await db.add_listener(ENDED, self._jobs_ended)
            self._arrived.set()  # a notification may have been missed while not connected
            self._jobs_ended()
            await lost.wait()
        finally:
            db.terminate()

    def _jobs_ended(self, *message: Any) -> None:
        """Report ended jobs, with their numbers if they were named."""
        named = message[-1] if message else ""
        jobs = [int(number) for number in named.split(",")] if named else []
        for tell in self._tell:
            tell(jobs)
