"""Group commit for small transactions: those that come while one is being committed are committed together next.

Every job that is created writes a change, and change numbers are given under one row's lock until the commit: alone,
each would wait for the disk of the one before. A member that fails is undone by its own savepoint; the others go on.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from forager.core.errors import StoreFull, StoreUnavailable
from forager.ledger.postgres.connection import COLLISIONS, Connections, Db, translated_errors

T = TypeVar("T")
Command = Callable[[Db], Awaitable[Any]]

MOST_IN_A_GROUP = 64


class CommitGroup:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._waiting: deque[tuple[Command, asyncio.Future[Any]]] = deque()
        self._leader: asyncio.Task[None] | None = None

    async def run(self, command: Callable[[Db], Awaitable[T]]) -> T:
        """Run a command in the next group; returns when that is on the server's disk."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((command, done))
        if self._leader is None:
            self._leader = asyncio.create_task(self._lead())
        return await done

    async def _lead(self) -> None:
        try:
            while self._waiting:
                group = [self._waiting.popleft() for _ in range(min(MOST_IN_A_GROUP, len(self._waiting)))]
                await self._commit(group)
        finally:
            self._leader = None

    async def _commit(self, group: list[tuple[Command, asyncio.Future[Any]]]) -> None:
        try:
            ends = await self._connections.run(lambda db: _each(db, [command for command, _ in group]))
        except Exception as error:  # noqa: BLE001 - handed to whoever waits for it
            ends = [error] * len(group)
        for (_, done), end in zip(group, ends, strict=True):
            if done.done():
                continue  # whoever wanted it has gone
            if isinstance(end, Exception):
                done.set_exception(end)
            else:
                done.set_result(end)


async def _each(db: Db, commands: list[Command]) -> list[Any]:
    if len(commands) == 1:
        return [await commands[0](db)]
    ends: list[Any] = []
    for command in commands:
        try:
            async with translated_errors(), db.transaction():
                ends.append(await command(db))
        except (*COLLISIONS, StoreUnavailable, StoreFull):
            raise  # not this member's doing: the group is tried again, or lost, as a whole
        except Exception as error:  # noqa: BLE001 - handed to whoever waits for it
            ends.append(error)
    return ends
