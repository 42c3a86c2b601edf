"""The proxies in the ledger, on either database: stored with user and password encrypted, counted by several processes.

Only `endpoint` returns the credentials in plain text, for dialling; listings, errors and log lines never contain them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import orjson

from forager.core.database import Database, Row
from forager.core.errors import Conflict, NotFound, SealBroken, StoreError
from forager.core.proxies import MOST_FAILURES, Proxy, ProxyEndpoint, ProxySource, ProxyUse
from forager.core.secret import HEAD, Seal, SealedFor, Secret, key_id_of

T = TypeVar("T")

TABLE = "proxies"
SEALED = ("username", "password")
AT_ONCE = 50

_SHOWN = (
    "id, protocol, url, port, username IS NOT NULL AS authenticated, region, source, is_active, healthy, disabled,"
    " failure_count, success_count, failures, bytes, avg_response_time_ms, last_used_at, last_success_at,"
    " last_failure_at, last_check_at, created_at, updated_at, fingerprint"
)


class ProxyTable:
    """Implements `core.proxies.ProxyStore` and `core.secret.SealedTable`."""

    def __init__(self, database: Database, now_ms: Callable[[], Awaitable[int]], sealer: Seal) -> None:
        self._database = database
        self._now_ms = now_ms
        self._sealer = sealer

    # ── what an operator does ──

    async def list(self) -> Sequence[Proxy]:
        return [_proxy(row) for row in await self._database.fetch(f"SELECT {_SHOWN} FROM proxies ORDER BY id")]

    async def get(self, proxy: int) -> Proxy:
        rows = await self._database.fetch(f"SELECT {_SHOWN} FROM proxies WHERE id = :id", {"id": proxy})
        return _proxy(_expected(proxy, rows))

    async def add(self, endpoint: ProxyEndpoint, *, source: ProxySource) -> Proxy:
        known = self._sealer.fingerprints(_address(endpoint))
        rows = await self._database.write(_insert(len(known)), await self._values(endpoint, source, known))
        if not rows:
            raise Conflict("This proxy is there already. `forager proxies list` shows it.")
        if self._sealer.fingerprints(_address(endpoint))[0] != known[0]:
            # The keys were rotated while this was written, and the rotation may not have seen the row.
            await self._seal_anew(rows[0]["id"], known[0], endpoint)
        return await self.get(rows[0]["id"])

    async def set(self, proxy: int, *, is_active: bool | None = None, region: str | None = None) -> Proxy:
        rows = await self._database.write(
            "UPDATE proxies SET is_active = coalesce(CAST(:is_active AS BOOLEAN), is_active), updated_at = :now,"
            " region = CASE WHEN CAST(:region AS TEXT) IS NULL THEN region ELSE nullif(CAST(:region AS TEXT), '') END"
            " WHERE id = :id RETURNING id",
            {"id": proxy, "is_active": is_active, "region": region, "now": await self._now_ms()},
        )
        _expected(proxy, rows)
        return await self.get(proxy)

    async def remove(self, proxy: int) -> None:
        _expected(proxy, await self._database.write("DELETE FROM proxies WHERE id = :id RETURNING id", {"id": proxy}))

    async def keep_only(self, endpoints: Sequence[ProxyEndpoint], *, add_only: bool) -> None:
        there = {row.fingerprint: row for row in await self.list()}
        wanted: set[str] = set()
        missing: dict[str, ProxyEndpoint] = {}
        for endpoint in endpoints:
            prints = self._sealer.fingerprints(_address(endpoint))
            wanted.update(prints)
            known = next((there[each] for each in prints if each in there), None)
            if known is None:
                missing[prints[0]] = endpoint
            elif known.source == "settings" and endpoint.region and endpoint.region != known.region:
                await self.set(known.id, region=endpoint.region)
        refused = [error for _, error in await _in_parts(list(missing.values()), self._add_unless_there)]
        if not add_only:
            left = [row for mark, row in there.items() if row.source == "settings" and mark not in wanted]
            refused += [error for _, error in await _in_parts(left, self._remove_if_there)]
        if refused:
            raise refused[0]

    # ── what the pool writes ──

    async def endpoint(self, proxy: int) -> ProxyEndpoint:
        return self._opened(await self._whole(proxy))

    async def record(self, uses: Sequence[ProxyUse]) -> Sequence[ProxyUse]:
        now = await self._now_ms()
        left = await _in_parts(uses, lambda use: self._database.write(_RECORD, _use_values(use, now)))
        return [use for use, _ in left]

    async def claim_check(self, proxy: int, *, every: float) -> bool:
        now = await self._now_ms()
        rows = await self._database.write(
            "UPDATE proxies SET last_check_at = :now"
            " WHERE id = :id AND (last_check_at IS NULL OR last_check_at <= :before) RETURNING id",
            {"id": proxy, "now": now, "before": now - round(every * 1000)},
        )
        return bool(rows)

    async def checked(self, proxy: int, *, passed: bool, region: str | None = None) -> None:
        count = "0" if passed else "failure_count + 1"
        state = "true, disabled = false" if passed else f"false, disabled = disabled OR {count} > {MOST_FAILURES}"
        await self._database.write(
            f"UPDATE proxies SET healthy = {state}, failure_count = {count}, last_check_at = :now, updated_at = :now,"
            " region = coalesce(region, CAST(:region AS TEXT)) WHERE id = :id",
            {"id": proxy, "region": region, "now": await self._now_ms()},
        )

    # ── a change of keys ──

    async def stale(self) -> int:
        return len([row for row in await self._all() if self._is_stale(row)])

    async def key_ids(self) -> frozenset[str]:
        heads = [f"SELECT substr({column}, 1, {HEAD}) AS head FROM proxies" for column in SEALED]
        rows = await self._database.fetch(" UNION ".join(heads))
        return frozenset(key_id_of(row["head"]) for row in rows if row["head"] is not None)

    async def reseal(self) -> int:
        stale = [row for row in await self._all() if self._is_stale(row)]
        for row in stale:
            await self._seal_anew(row["id"], row["fingerprint"], self._opened(row))
        return len(stale)

    def _is_stale(self, row: Row) -> bool:
        """The fingerprint is written together with the sealed values, so it stands for both."""
        return bool(row["fingerprint"] != self._sealer.fingerprints(_address(self._opened(row)))[0])

    async def _seal_anew(self, proxy: int, before: str, endpoint: ProxyEndpoint) -> None:
        """Seal a row again, unless it was removed or resealed meanwhile. If the new fingerprint exists already, a
        process with other keys has added the same proxy, and this row is deleted."""
        values = await self._values(endpoint, "operator", self._sealer.fingerprints(_address(endpoint))[:1])
        same = "SELECT 1 FROM proxies other WHERE other.fingerprint = :known0 AND other.id <> :id"
        sealed = {name: values[name] for name in ("known0", *SEALED)} | {"id": proxy, "before": before}
        done = await self._database.write(
            "UPDATE proxies SET fingerprint = :known0, username = CAST(:username AS TEXT),"
            f" password = CAST(:password AS TEXT) WHERE id = :id AND fingerprint = :before AND NOT EXISTS ({same})"
            " RETURNING id",
            sealed,
        )
        if not done:
            await self._database.write(
                f"DELETE FROM proxies WHERE id = :id AND fingerprint = :before AND EXISTS ({same})",
                {name: sealed[name] for name in ("id", "before", "known0")},
            )

    # ── inside ──

    async def _add_unless_there(self, endpoint: ProxyEndpoint) -> None:
        try:
            await self.add(endpoint, source="settings")
        except Conflict:
            return  # another process has the same settings

    async def _remove_if_there(self, row: Proxy) -> None:
        await self._database.write(
            "DELETE FROM proxies WHERE id = :id AND fingerprint = :fingerprint",
            {"id": row.id, "fingerprint": row.fingerprint},
        )

    async def _all(self) -> Sequence[Row]:
        return await self._database.fetch(f"SELECT {_WHOLE} FROM proxies ORDER BY id")

    async def _whole(self, proxy: int) -> Row:
        rows = await self._database.fetch(f"SELECT {_WHOLE} FROM proxies WHERE id = :id", {"id": proxy})
        return _expected(proxy, rows)

    async def _values(self, endpoint: ProxyEndpoint, source: ProxySource, known: Sequence[str]) -> dict[str, Any]:
        return {
            **{f"known{n}": fingerprint for n, fingerprint in enumerate(known)},
            "protocol": endpoint.protocol,
            "url": endpoint.host,
            "port": endpoint.port,
            "username": self._sealed(endpoint.username, "username", known[0]),
            "password": self._sealed(endpoint.password, "password", known[0]),
            "region": endpoint.region,
            "source": source,
            "now": await self._now_ms(),
        }

    def _sealed(self, secret: Secret | None, field: str, row: str) -> str | None:
        return None if secret is None else self._sealer.seal(secret.reveal(), SealedFor(TABLE, row, field))

    def _opened(self, row: Row) -> ProxyEndpoint:
        """Decrypt an endpoint. The fingerprint covers the whole address, so that a password is never sent to a host
        that was replaced in the database."""
        mark = row["fingerprint"]
        user, password = (
            Secret(self._sealer.unseal(row[name], SealedFor(TABLE, mark, name))) if row[name] is not None else None
            for name in SEALED
        )
        endpoint = ProxyEndpoint(row["protocol"], row["url"], row["port"], user, password, row["region"])
        if mark not in self._sealer.fingerprints(_address(endpoint)):
            raise SealBroken(
                f"The proxy {row['id']} was changed in the database, or its key is not here."
                f" Run: forager proxies remove {row['id']}, and add it again."
            )
        return endpoint


def _latest(column: str, value: str) -> str:
    """Return SQL that keeps the later moment, because another process may have stored one."""
    return f"{column} = CASE WHEN {value} > coalesce({column}, 0) THEN {value} ELSE {column} END"


_WHOLE = "id, fingerprint, protocol, url, port, username, password, region"

# The mean is over the successes. A failure older than the last check is ignored.
_RECORD = f"""
UPDATE proxies SET
  success_count = success_count + CAST(:successes AS BIGINT),
  failures = failures + CAST(:failures AS BIGINT),
  bytes = bytes + CAST(:bytes AS BIGINT),
  avg_response_time_ms = CASE WHEN CAST(:successes AS BIGINT) = 0 THEN avg_response_time_ms
    ELSE (coalesce(avg_response_time_ms, 0) * success_count + CAST(:elapsed_ms AS DOUBLE PRECISION))
      / (success_count + CAST(:successes AS BIGINT)) END,
  failure_count = CASE WHEN CAST(:successes AS BIGINT) = 0 THEN failure_count ELSE 0 END
    + CAST(:in_a_row AS INTEGER),
  healthy = healthy AND NOT (coalesce(CAST(:failed_at AS BIGINT), -1) >= coalesce(last_check_at, 0)),
  disabled = disabled OR (
    CASE WHEN CAST(:successes AS BIGINT) = 0 THEN failure_count ELSE 0 END + CAST(:in_a_row AS INTEGER)
    > {MOST_FAILURES}),
  {_latest("last_used_at", "CAST(:used_at AS BIGINT)")},
  {_latest("last_success_at", "CAST(:succeeded_at AS BIGINT)")},
  {_latest("last_failure_at", "CAST(:failed_at AS BIGINT)")},
  updated_at = :now
WHERE id = :id"""


def _insert(known: int) -> str:
    marks = ", ".join(f":known{n}" for n in range(known))
    return (
        "INSERT INTO proxies"
        " (fingerprint, protocol, url, port, username, password, region, source, created_at, updated_at)"
        " SELECT CAST(:known0 AS TEXT), CAST(:protocol AS TEXT), CAST(:url AS TEXT), CAST(:port AS INTEGER),"
        " CAST(:username AS TEXT), CAST(:password AS TEXT), CAST(:region AS TEXT), CAST(:source AS TEXT),"
        " CAST(:now AS BIGINT), CAST(:now AS BIGINT)"
        f" WHERE NOT EXISTS (SELECT 1 FROM proxies WHERE fingerprint IN ({marks}))"
        " ON CONFLICT (fingerprint) DO NOTHING RETURNING id"
    )


def _use_values(use: ProxyUse, now: int) -> dict[str, Any]:
    def at(ago: int | None) -> int | None:
        return None if ago is None else now - ago

    return {
        "id": use.proxy,
        "successes": use.successes,
        "failures": use.failures,
        "in_a_row": use.failures_since_success,
        "elapsed_ms": float(use.elapsed_ms),
        "bytes": use.bytes,
        "used_at": at(use.used_ms_ago),
        "succeeded_at": at(use.succeeded_ms_ago),
        "failed_at": at(use.failed_ms_ago),
        "now": now,
    }


def _address(endpoint: ProxyEndpoint) -> str:
    secrets = [each.reveal() if each else None for each in (endpoint.username, endpoint.password)]
    return orjson.dumps([endpoint.protocol, endpoint.host, endpoint.port, *secrets]).decode()


def _proxy(row: Row) -> Proxy:
    plain = {name: value for name, value in row.items() if name != "url"}
    for name in ("authenticated", "is_active", "healthy", "disabled"):
        plain[name] = bool(plain[name])
    return Proxy(**plain, host=row["url"])


def _expected(proxy: int, rows: Sequence[Row]) -> Row:
    if not rows:
        raise NotFound(f"There is no proxy {proxy}. See `forager proxies list`.")
    return rows[0]


async def _in_parts(items: Sequence[T], work: Callable[[T], Awaitable[Any]]) -> Sequence[tuple[T, StoreError]]:
    """Write in parts: some at once, so that they share a commit, but not all, so that other writers are not delayed.
    Returns what the store refused."""
    refused: list[tuple[T, StoreError]] = []
    for start in range(0, len(items), AT_ONCE):
        part = items[start : start + AT_ONCE]
        for item, ended in zip(part, await asyncio.gather(*map(work, part), return_exceptions=True), strict=True):
            if isinstance(ended, StoreError):
                refused.append((item, ended))
            elif isinstance(ended, BaseException):
                raise ended
    return refused
