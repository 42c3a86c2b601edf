"""PostgreSQL as the destination of a sink: a server of its own for each test process, a database for each test."""

import asyncio
import atexit
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.support.postgres import Postgres, PostgresUnavailable, running_postgres

NAMED = "postgres-target"
"""The file in a test's folder that names the database, for its processes."""


@cache
def server() -> Postgres:
    """Return one server for all tests of this process. Skips the test if there is none; in CI that is a failure."""
    stack = ExitStack()
    try:
        found = stack.enter_context(running_postgres())
    except PostgresUnavailable as missing:
        if os.environ.get("CI"):
            pytest.fail(str(missing))
        pytest.skip(str(missing))
    atexit.register(stack.close)
    return found


def url_of(folder: Path) -> str:
    """The database of a test: the one that its folder names, otherwise a new one."""
    named = folder / NAMED
    if not named.exists():
        named.write_text(server().create_database())
    return named.read_text()


def name_server(folder: Path) -> None:
    """Start the server here, so that it outlives the processes of a test."""
    url_of(folder)


def rows_of(folder: Path, sql: str) -> list[dict[str, Any]]:
    """The rows of a query in the schema `forager`; none if its table is not there. For use inside an event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(_fetch(url_of(folder), sql))).result()


async def _fetch(url: str, sql: str) -> list[dict[str, Any]]:
    db = await asyncpg.connect(url, server_settings={"search_path": "forager"})
    try:
        return [dict(row) for row in await db.fetch(sql)]
    except asyncpg.UndefinedTableError:
        return []
    finally:
        await db.close()
