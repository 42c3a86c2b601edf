"""Connections to PostgreSQL: transactions that are retried after a deadlock, and translation of the driver's errors.

Connections of the hot path have their own planner settings, because the tables change faster than their statistics.
Reports use other connections: those settings would make them slow.
"""

import asyncio
import contextlib
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

import asyncpg
import orjson

from forager.core.clock import Faults
from forager.core.database import Dialect, Row
from forager.core.errors import StoreError, StoreFull, StoreOutdated, StoreUnavailable
from forager.core.ledger import JobNews
from forager.ledger.rules.changes import collect_news, news_so_far
from forager.ledger.rules.jobs import QueuedCommand, take_step
from forager.ledger.schema.connect import split_search_path

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy


# Connections behind a pooler in transaction mode, such as PgBouncer.
#
# Such a pooler assigns a server to a client at the start of each transaction, so nothing may outlive one: no prepared
# statement, no setting of the session, no session lock. Everything that a transaction needs is set at its start.


if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection  # the driver's own class takes no type parameter


class PooledConnection(Connection):
    """A connection that sends its settings together with each BEGIN, which costs no further round trip."""

    settings: ClassVar[str] = ""

    async def execute(self, query: str, *args: object, timeout: float | None = None) -> str:
        if query.startswith("BEGIN"):  # the driver begins every transaction with this method; a savepoint is not one
            query += self.settings
        return await super().execute(query, *args, timeout=timeout)


def connection_with(settings: dict[str, str]) -> type[PooledConnection]:
    """Return the class of connections whose transactions have these settings."""
    each = [f"set_config('{name}', {_literal(value)}, true)" for name, value in settings.items()]
    return type("PooledConnection", (PooledConnection,), {"settings": f" SELECT {', '.join(each)};"})


def _literal(value: str) -> str:
    doubled = value.replace("'", "''")
    return f"'{doubled}'"


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
    """Return rows of two columns as a dictionary."""
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
    """Return the seconds after which the server ends the transaction of a process that has stopped in the middle of it.

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
            f"The disk of the ledger's database is full ({error}). Free some space; work then resumes by itself."
        ) from error
    except (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError) as error:
        raise StoreOutdated(f"The ledger's schema does not fit ({error}). Run `forager db upgrade`.") from error
    except _GONE as error:
        if isinstance(error, ValueError):  # asyncpg's word for a value that does not fit its column
            raise StoreError(f"The ledger refused a value: {error}") from error
        message = str(error) or type(error).__name__
        raise StoreUnavailable(
            f"The ledger's database does not answer: {message}. Work resumes by itself when it does."
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


# Portable SQL has `:name` values; PostgreSQL requires `$1`. Quoted text and casts (`::bigint`) are not changed.


_TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|::|:([A-Za-z_]\w*)")


def numbered(sql: str, values: Mapping[str, Any] | None) -> tuple[str, list[Any]]:
    """Return the statement with numbers, and its values in their order."""
    text, names = _rewritten(sql)
    have = values or {}
    return text, [have[name] for name in names]


@lru_cache(maxsize=1024)
def _rewritten(sql: str) -> tuple[str, tuple[str, ...]]:
    names: list[str] = []

    def replace(token: re.Match[str]) -> str:
        name = token[1]
        if name is None:
            return token[0]
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    return _TOKEN.sub(replace, sql), tuple(names)


# `Database` on PostgreSQL, for everything that is not a hot path: on connections without the hot path's planner
# settings.


SEARCH_SETTINGS = (
    "SET LOCAL enable_bitmapscan = on; SET LOCAL plan_cache_mode = force_custom_plan;"
    " SET LOCAL max_parallel_workers_per_gather = 0"  # several processes for one search would slow down all others
)


class PostgresDatabase:
    dialect: Dialect = "postgresql"

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def fetch(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        text, ordered = numbered(sql, values)
        async with self._connections.reading() as db:
            return [dict(row) for row in await db.fetch(text, *ordered)]

    async def fetch_tuples(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Any]:
        text, ordered = numbered(sql, values)
        async with self._connections.reading() as db:
            return await db.fetch(text, *ordered)

    async def fetch_by_keys(self, sql: str, keys: Mapping[str, Sequence[str]]) -> Sequence[Row]:
        """Read on a connection of the hot path, whose planner settings allow nothing but index scans and nested loops:
        a list of 100 keys makes the planner prefer a scan of a table of some 10,000 rows, which takes longer."""
        text, ordered = numbered(_with_arrays(sql), keys)
        async with self._connections.reading(by_keys=True) as db:
            return [dict(row) for row in await db.fetch(text, *ordered)]

    async def fetch_by_words(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        """Read with planner settings of its own, for one transaction: reports may use no bitmap scan, and a full-text
        index has no other; a plan for any words is ten times slower for most of them."""
        text, ordered = numbered(sql, values)
        async with self._connections.reading_together() as db:
            await db.execute(SEARCH_SETTINGS)
            return [dict(row) for row in await db.fetch(text, *ordered)]

    async def fetch_fresh(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        return await self.fetch(sql, values)

    async def write(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        text, ordered = numbered(sql, values)
        rows = await self._connections.run(lambda db: db.fetch(text, *ordered))
        return [dict(row) for row in rows]


@lru_cache(maxsize=256)
def _with_arrays(sql: str) -> str:
    return re.sub(r"\bIN (:[A-Za-z_]\w*)", r"= ANY(\1::text[])", sql)


# Encodes long arrays as parameters. The driver inspects each element of a list several times, but sends a text as it
# is.
#
# Numbers without NULL are sent in PostgreSQL's array syntax, which the statement casts: `$1::text::bigint[]`. Columns
# of other types are sent as JSON, which the statement unpacks with `rows_from`.


def numbers(values: Iterable[int]) -> str:
    """Return numbers (without NULL) in PostgreSQL's array syntax."""
    return f"{{{','.join(map(str, values))}}}"


def unless_all(usual: T, values: Sequence[T]) -> Sequence[T] | None:
    """Return None if every value is the usual one: `unnest` then yields NULLs, which the statement replaces by it."""
    return None if values.count(usual) == len(values) else values


def as_json(values: Sequence[Any]) -> str | None:
    """Encode a column of texts, numbers and booleans, or of JSON values. Returns None if every value is None."""
    if values[0] is None and values.count(None) == len(values):
        return None
    try:
        return orjson.dumps(values).decode()
    except TypeError as error:  # a number beyond 64 bits, half a character
        raise StoreError(f"The ledger refused a value: {error}") from error


def documents(values: Sequence[str | None]) -> str | None:
    """Encode a column of JSON texts, which are stored unchanged."""
    if values[0] is None and values.count(None) == len(values):
        return None
    return f"[{','.join(['null' if value is None else value for value in values])}]"


def rows_from(columns: Sequence[tuple[str, bool]], first: int = 1) -> str:
    """Return the FROM item that unpacks these columns, given as (name, whether it holds documents), from parameters in
    that order.

    A NULL parameter yields NULL for each row, as long as another parameter is not NULL. Scalars are text and must be
    cast.
    """
    calls = [
        f"json_array_elements{'' if documents_ else '_text'}(${n}::json)"
        for n, (_, documents_) in enumerate(columns, first)
    ]
    return f"ROWS FROM ({', '.join(calls)})"


def document(column: str) -> str:
    """Return SQL that maps a JSON null to NULL."""
    return f"CASE WHEN json_typeof({column}) <> 'null' THEN {column} END"


# Notifications from other processes: new work, and jobs that have ended. A lost notification only delays a waiter until
# its next poll; so does a pooler, through which none arrives.


CHANNEL = "forager_work"
ENDED = "forager_ended"
MOST_NAMED = 400
"""A notification holds 8,000 bytes: if more jobs than this end at once, none is named."""
FIRST_PAUSE = 0.1
LISTEN_PAUSE = 2.0
# The last one is raised by the driver when the connection is lost between two of its own steps.
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
                pause = min(pause * 2, LISTEN_PAUSE)
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


# Group commit for small transactions: those that arrive during a commit are committed together next.
#
# Every new job writes a change, and change numbers are assigned under a row lock that is held until the commit: alone,
# each job would wait for the disk sync of the one before. A command that fails is rolled back to its own savepoint; the
# others continue.


Item = TypeVar("Item")

MOST_IN_A_GROUP = 64


class CommitGroup:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._waiting: deque[QueuedCommand] = deque()
        self._leader: asyncio.Task[None] | None = None

    async def run_together(self, command: Callable[[Db, Sequence[Item]], Awaitable[Sequence[T]]], item: Item) -> T:
        """Run a command in the next group. Returns when that is committed.

        One call handles all items that wait for this command, and returns a result for each. If it fails, it is rolled
        back and called for each item alone.
        """
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(QueuedCommand(command, (item,), done))
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

    async def _commit(self, group: list[QueuedCommand]) -> None:
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


async def _each(db: Db, group: Sequence[QueuedCommand]) -> list[Any]:
    if len(group) == 1:
        return list(await _call(db, group))
    ends: list[Any] = []
    waiting = deque(group)
    while waiting:
        ends += await _end_of(db, take_step(waiting, MOST_IN_A_GROUP))
    return ends


async def _end_of(db: Db, step: Sequence[QueuedCommand]) -> list[Any]:
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


async def _call(db: Db, step: Sequence[QueuedCommand]) -> Sequence[Any]:
    ends: Sequence[Any] = await step[0].command(db, [item for asked in step for item in asked.items])
    return ends
