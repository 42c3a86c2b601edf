"""One ClickHouse server over its HTTP interface: statements, inserts, and what its errors mean for the caller."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from forager.core.errors import Permanent, Transient

LONGEST_REASON = 300
BAD_DATA = frozenset({6, 26, 27, 33, 38, 41, 53, 69, 70, 72, 117, 130, 131, 349, 407, 552})
"""Codes of ClickHouse for a value that a column cannot hold. Only these blame a change: every other error (no rights, a
table that is read-only, too many parts, no memory) may pass."""
MISSING = frozenset({16, 60, 81, 47, 36})
"""Codes for a column, a table or a database that is not there (any more)."""
DATES = {"date_time_input_format": "best_effort", "input_format_null_as_default": "0"}


class TableMissing(Transient):
    """A table or a column is not there. It is created before the next write."""


@dataclass(frozen=True, slots=True)
class ClickHouseServer:
    url: str
    database: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: Path | None = None
    timeout: float = 60.0


class ClickHouseClient:
    """Sends statements. Connections stay open between them; `close` it at the end."""

    def __init__(self, server: ClickHouseServer) -> None:
        self.server = server
        self._session: aiohttp.ClientSession | None = None

    async def run(self, sql: str, *, in_database: bool = True) -> None:
        """Run a statement without a result. Raises `Transient`."""
        await self._send(sql, None, {}, in_database=in_database)

    async def read(self, sql: str, *, in_database: bool = True, **values: str) -> list[dict[str, Any]]:
        """Return the rows of a query; `{name:String}` in it stands for a value. Raises `Transient`."""
        parameters = {f"param_{name}": value for name, value in values.items()}
        content = await self._send(f"{sql} FORMAT JSONEachRow", None, parameters, in_database=in_database)
        return [orjson.loads(line) for line in content.splitlines() if line]

    async def insert(self, table: str, lines: bytes) -> None:
        """Insert lines of JSON into a table: all of them, or none of those in one partition and block.

        Raises `TableMissing` if the table or a column is not there, `Permanent` for a value that its column cannot
        hold, `Transient` otherwise.
        """
        await self._send(f"INSERT INTO {quoted(table)} FORMAT JSONEachRow", lines, DATES, a_row_may_be_wrong=True)

    async def close(self) -> None:
        """Close the connections. A later statement opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _send(
        self,
        sql: str,
        data: bytes | None,
        parameters: Mapping[str, str],
        *,
        in_database: bool = True,
        a_row_may_be_wrong: bool = False,
    ) -> bytes:
        # With `wait_end_of_query`, the status is sent after the statement has ended: an error cannot come after a 200.
        query = {"wait_end_of_query": "1", **parameters}
        if in_database:
            query["database"] = self.server.database
        if data is None:
            body = sql.encode()
        else:
            query["query"], body = sql, data
        try:
            async with self._open().post(self.server.url + "/", data=body, params=query) as response:
                status, content = response.status, await response.read()
                code = response.headers.get("X-ClickHouse-Exception-Code", "")
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            why = str(error) or f"no answer within {self.server.timeout:g} s"
            raise Transient(f"ClickHouse ({self.server.url}) cannot be reached: {why}.") from error
        if status != 200 or code:
            raise self._refusal(status, code, content, a_row_may_be_wrong)
        return content

    def _refusal(self, status: int, code: str, content: bytes, a_row_may_be_wrong: bool) -> Exception:
        why = content[:LONGEST_REASON].decode(errors="replace").strip() or "no reason given"
        number = int(code) if code.isdigit() else 0
        message = f"ClickHouse ({self.server.url}) answered {status}: {why}"
        if number in MISSING:
            return TableMissing(message)
        if a_row_may_be_wrong and number in BAD_DATA:
            return Permanent(message)
        if status in (401, 403) or number in (192, 193, 194, 497, 516):
            return Transient(f"{message} Check the FORAGER_CLICKHOUSE_ settings and the rights of this user.")
        return Transient(message)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            server = self.server
            # Headers, not the URL: a password in a query string would be in the access logs of every proxy.
            headers = {"X-ClickHouse-User": server.username} if server.username else {}
            if server.password:
                headers["X-ClickHouse-Key"] = server.password
            trusted = None if server.ca_file is None else ssl.create_default_context(cafile=str(server.ca_file))
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=trusted or True),
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=server.timeout),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session


def quoted(name: str) -> str:
    """Quote an identifier. Raises `ValueError` for a name that a quote cannot hold."""
    if "`" in name or "\\" in name or "\n" in name:
        raise ValueError(f"{name!r} is not a valid identifier")
    return f"`{name}`"
