"""Connections to PostgreSQL: transactions that are retried after a deadlock, and translation of the driver's errors.

Connections of the hot path have their own planner settings, because the tables change faster than their statistics.
Reports use other connections: those settings would make them slow.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import asyncpg

from forager.core.errors import StoreError, StoreFull, StoreOutdated, StoreUnavailable
from forager.core.faults import Faults
from forager.core.new_job import JobNews
from forager.ledger.postgres.pooled import connection_with
from forager.ledger.schema.search_path import split_search_path
from forager.ledger.shared.changelog import collect_news

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

T = TypeVar("T")
Db: TypeAlias = "PoolConnectionProxy[asyncpg.Record]"
Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"

# Plans are made once, for a queue that is neither empty nor big, and walk indexes only. Statistics of a table that
# fills and empties many times between two ANALYZE would mislead the planner (a lease of 162 ms instead of 10).
HOT_SETTINGS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    "jit": "off",
    "application_name": "forager",
}
# A report walks an index in its order and stops after a page. With stale statistics the planner would rather collect a
# whole job through a bitmap and sort it.
REPORT_SETTINGS = {
    "enable_bitmapscan": "off",
    "jit": "off",
    "idle_in_transaction_session_timeout": "60s",
    "application_name": "forager reports",
}
SHORTEST_PAUSE, LONGEST_PAUSE = 2.0, 15.0
"""Limits, in seconds, of `_most_idle`. A process that is merely slow must not lose its transactions."""
HOT_CONNECTIONS = 8
REPORT_CONNECTIONS = 4
TRIES = 5
COMMAND_SECONDS = 60.0
CONNECT_SECONDS = 10.0
_POOL: dict[str, Any] = {
    "max_inactive_connection_lifetime": 0,
    "command_timeout": COMMAND_SECONDS,
    "timeout": CONNECT_SECONDS,
}

NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
"""The only clock of this ledger: a worker's own may be wrong by a day."""


def pairs(rows: Iterable[asyncpg.Record]) -> dict[Any, Any]:
    """Rows of two columns as a dictionary."""
    return {row[0]: row[1] for row in rows}


class TryAgain(Exception):
    """Another transaction has changed something that this one had read before."""


COLLISIONS = (TryAgain, asyncpg.DeadlockDetectedError, asyncpg.SerializationError)


class Connections:
    def __init__(self, hot: Pool, reports: Pool, faults: Faults, *, pooled: bool = False) -> None:
        self.hot = hot
        self.reports = reports
        self._faults = faults
        self._pooled = pooled
        self.tell: Callable[[Sequence[JobNews]], None] | None = None
        """Called with what a transaction has done to jobs, after its commit."""

    @classmethod
    async def open(cls, url: str, faults: Faults, *, lease: float = 30.0, pooled: bool = False) -> "Connections":
        pool = _pool_behind_pooler if pooled else _pool
        hot_settings = {**HOT_SETTINGS, "idle_in_transaction_session_timeout": f"{_most_idle(lease) * 1000:.0f}ms"}
        async with translated_errors():
            hot = await pool(url, 1, HOT_CONNECTIONS, hot_settings)
            try:
                # Most commands and many workers read no report: the first that is read connects.
                reports = await pool(url, 0, REPORT_CONNECTIONS, REPORT_SETTINGS)
            except BaseException:
                hot.terminate()
                raise
        return cls(hot, reports, faults, pooled=pooled)

    async def run(self, command: Callable[[Db], Awaitable[T]]) -> T:
        """Run a command in one transaction. Returns when that is committed.

        A command may be run again from its start after a conflict, so it must keep no state in between.
        """
        for tried in range(1, TRIES + 1):
            try:
                async with translated_errors():
                    return await self._run_once(command)
            except COLLISIONS as collision:
                if tried == TRIES:
                    raise StoreError(f"Other transactions were in the way {TRIES} times: {collision}") from collision
        raise AssertionError("unreachable")

    async def _run_once(self, command: Callable[[Db], Awaitable[T]]) -> T:
        news = collect_news()
        async with self.hot.acquire() as db:
            async with db.transaction():
                result = await command(db)
                self._faults.at("before-commit")
            if news and self.tell is not None:
                self.tell(news)
            self._faults.at("after-commit")
            return result

    @asynccontextmanager
    async def reading(self, *, by_keys: bool = False) -> AsyncIterator[Db]:
        """Give a connection for one statement that only reads: one of those for reports; with `by_keys` one of the hot
        path, which walks indexes only. Behind a pooler it is a transaction, because the settings of the connection, and
        the server itself, are the same only until a transaction's end."""
        pool = self.hot if by_keys else self.reports
        async with (
            translated_errors(),
            pool.acquire() as db,
            db.transaction(readonly=True) if self._pooled else nullcontext(),
        ):
            yield db

    @asynccontextmanager
    async def reading_together(self) -> AsyncIterator[Db]:
        """Give a connection for reports, in a transaction that may have settings of its own."""
        async with translated_errors(), self.reports.acquire() as db, db.transaction(readonly=True):
            yield db

    async def close(self) -> None:
        """Close the connections without waiting: uncommitted transactions are retried by their callers."""
        for pool in (self.hot, self.reports):
            try:
                await asyncio.wait_for(pool.close(), CONNECT_SECONDS)
            except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                pool.terminate()


def _most_idle(lease: float) -> float:
    """Return the seconds after which the server ends a transaction whose process has stopped in the middle of it.

    Such a transaction holds rows for which all others wait: the tail row, and the row of its own session, which a
    rescue needs. It must end well before the lease does, so that everything is rescued within one lease plus five
    seconds.
    """
    return min(LONGEST_PAUSE, max(SHORTEST_PAUSE, lease / 2))


async def _pool(url: str, least: int, most: int, settings: dict[str, str]) -> Pool:
    pool: Pool = await asyncpg.create_pool(
        url,
        min_size=least,
        max_size=most,
        statement_cache_size=256,
        max_cached_statement_lifetime=0,
        server_settings=settings,
        reset=_nothing_to_reset,
        **_POOL,
    )
    return pool


async def _pool_behind_pooler(url: str, least: int, most: int, settings: dict[str, str]) -> Pool:
    address, search_path = split_search_path(url)
    own = {name: value for name, value in settings.items() if name != "application_name"}
    pool: Pool = await asyncpg.create_pool(
        address,
        min_size=least,
        max_size=most,
        statement_cache_size=0,  # a statement prepared on one server is unknown to the next, or is another client's
        server_settings={"application_name": settings["application_name"]},  # a pooler passes this one on
        connection_class=connection_with(own if search_path is None else {**own, "search_path": search_path}),
        reset=_nothing_to_reset,
        **_POOL,
    )
    return pool


async def _nothing_to_reset(_: object) -> None:
    """Skip the reset of a connection: we leave no state behind on one, and it would cost a round trip per
    transaction."""


@asynccontextmanager
async def translated_errors() -> AsyncIterator[None]:
    """Translate asyncpg's errors to ours; no other module does."""
    try:
        yield
    except (asyncpg.DeadlockDetectedError, asyncpg.SerializationError):
        raise
    except asyncpg.DiskFullError as error:
        raise StoreFull(
            f"The disk of the ledger's database is full ({error}). Free some space; work goes on by itself."
        ) from error
    except (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError) as error:
        raise StoreOutdated(f"The ledger's schema does not fit ({error}). Run `forager db upgrade`.") from error
    except _GONE as error:
        if isinstance(error, ValueError):  # asyncpg's word for a value that does not fit its column
            raise StoreError(f"The ledger refused a value: {error}") from error
        message = str(error) or type(error).__name__
        raise StoreUnavailable(
            f"The ledger's database does not answer: {message}. Work goes on by itself when it does."
        ) from error
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise StoreError(f"The ledger refused a statement: {error}") from error


_GONE = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InternalClientError,
    asyncpg.InterfaceError,
)
