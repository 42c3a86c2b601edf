"""Group commit for small transactions: those that arrive during a commit are committed together next.

Every new job writes a change, and change numbers are assigned under a row lock that is held until the commit: alone,
each job would wait for the disk sync of the one before. A command that fails is rolled back to its own savepoint; the
others continue.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from forager.core.errors import StoreFull, StoreUnavailable
from forager.ledger.postgres.connection import COLLISIONS, Connections, Db, translated_errors
from forager.ledger.shared.changelog import news_so_far
from forager.ledger.shared.command_batch import Asked, take_step

T = TypeVar("T")
Item = TypeVar("Item")

MOST_IN_A_GROUP = 64


class CommitGroup:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._waiting: deque[Asked] = deque()
        self._leader: asyncio.Task[None] | None = None

    async def run_together(self, command: Callable[[Db, Sequence[Item]], Awaitable[Sequence[T]]], item: Item) -> T:
        """Run a command in the next group. Returns when that is committed.

        One call handles all items that wait for this command, and returns a result for each. If it fails, it is rolled
        back and called for each item alone.
        """
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(Asked(command, (item,), done))
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

    async def _commit(self, group: list[Asked]) -> None:
        try:
            ends = await self._connections.run(lambda db: _each(db, group))
        except Exception as error:  # noqa: BLE001 - passed to the waiting caller
            ends = [error] * len(group)
        for asked, end in zip(group, ends, strict=True):
            if asked.future.done():
                continue  # its caller was cancelled
            if isinstance(end, Exception):
                asked.future.set_exception(end)
            else:
                asked.future.set_result(end)


async def _each(db: Db, group: Sequence[Asked]) -> list[Any]:
    if len(group) == 1:
        return list(await _call(db, group))
    ends: list[Any] = []
    waiting = deque(group)
    while waiting:
        ends += await _end_of(db, take_step(waiting, MOST_IN_A_GROUP))
    return ends


async def _end_of(db: Db, step: Sequence[Asked]) -> list[Any]:
    news = news_so_far()
    heard = len(news)
    try:
        async with translated_errors(), db.transaction():
            return list(await _call(db, step))
    except (*COLLISIONS, StoreUnavailable, StoreFull):
        raise  # not these members' doing: the group is tried again, or lost, as a whole
    except Exception as error:  # noqa: BLE001 - passed to the waiting caller
        del news[heard:]
        if len(step) == 1:
            return [error]
    return [end for asked in step for end in await _end_of(db, [asked])]


async def _call(db: Db, step: Sequence[Asked]) -> Sequence[Any]:
    ends: Sequence[Any] = await step[0].command(db, [item for asked in step for item in asked.items])
    return ends
