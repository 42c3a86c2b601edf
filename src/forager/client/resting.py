"""Reads the embedded store while no process has it, for the few commands that must answer at once.

Opening the application loads the web framework, the database library and every pipeline, which takes more than a
second. A command that only reads can try this first: a query over the file is answered in milliseconds. Nothing is
written, and whatever is not certain (a process has the store, a crash left a log behind, another schema) is left to the
application.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forager.core.database import Dialect, Row

if TYPE_CHECKING:
    from forager.settings import Settings


class RestingStore:
    """The part of `Database` that queries of reports use, over a file that no process writes."""

    dialect: Dialect = "sqlite"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def fetch(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        """Raises `LookupError` if the file cannot answer, such as one of another schema."""
        try:
            cursor = self._connection.execute(sql, values or {})
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]
        except sqlite3.Error as error:
            raise LookupError(str(error)) from error


@contextmanager
def resting_store(settings: "Settings") -> Iterator[RestingStore | None]:
    """Yield the store of the data folder, or None if the folder has none. Raises `LookupError` where the application
    has to answer: a Forager runs, another process has the store, or it was not closed in order."""
    from forager.client.connect import find_running, has_up
    from forager.ledger.sqlite.lock import has_store, read_owner

    if settings.database_url is not None or find_running(settings) is not None or has_up(settings.home):
        raise LookupError("a Forager may be running")
    if not has_store(settings.home):
        yield None
        return
    path = settings.home / "ledger.db"
    if read_owner(settings.home / "lock") is not None or _has_log(path):
        raise LookupError("the store is in use")
    if path.stat().st_mode & 0o077:  # other users could read it
        with suppress(PermissionError):
            path.chmod(0o600)
    # `immutable`: nothing is created next to the file, not even for a moment. A process that opened it meanwhile could
    # move pages under us; the query then fails as a whole, and the application answers.
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
    try:
        yield RestingStore(connection)
    finally:
        connection.close()


def _has_log(path: Path) -> bool:
    with suppress(FileNotFoundError):
        return path.with_name(f"{path.name}-wal").stat().st_size > 0
    return False
