"""Hearing of new work from other processes. A lost notification costs at most one poll of whoever waits, never work."""

import asyncio
import contextlib

import asyncpg

from forager.ledger.postgres.connection import CONNECT_SECONDS, Db

CHANNEL = "forager_work"
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
# The last: what the driver says when the connection goes away between two of its own steps.
LOST = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


async def tell(db: Db) -> None:
    """Say, with this transaction's commit, that there is work for somebody else. It delays the commits of others that
    say so too: never in a turn that feeds only its own session."""
    await db.execute(f"NOTIFY {CHANNEL}")


class Listener:
    def __init__(self, url: str) -> None:
        self._url = url
        self._arrived = asyncio.Event()
        self._task = asyncio.create_task(self._listen_for_ever(), name="ledger-listen")

    async def wait(self, timeout: float) -> None:
        try:
            await asyncio.wait_for(self._arrived.wait(), timeout)
        except TimeoutError:
            return
        self._arrived.clear()

    def arrived(self) -> None:
        self._arrived.set()

    async def close(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _listen_for_ever(self) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                await self._listen_once()
                pause = FIRST_PAUSE
            except LOST:
                pause = min(pause * 2, LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _listen_once(self) -> None:
        """Until the connection is lost."""
        lost = asyncio.Event()
        db = await asyncpg.connect(
            self._url, timeout=CONNECT_SECONDS, server_settings={"application_name": "forager listener"}
        )
        try:
            db.add_termination_listener(lambda _: lost.set())
            await db.add_listener(CHANNEL, lambda *_: self._arrived.set())
            self._arrived.set()  # something may have been said while nobody listened
            await lost.wait()
        finally:
            db.terminate()
