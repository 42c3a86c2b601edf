"""The proxies of this process: selection, statistics and health.

Selection works in memory, because every request needs it. Results are stored every few seconds, and read back together
with those of other processes. Only an operator changes `is_active`. Proxies are identified by number, never by address.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import structlog

from forager.core.clock import Clock
from forager.core.errors import (
    FieldError,
    ForagerError,
    NoHealthyProxies,
    NotFound,
    ProxyFailed,
    Refused,
    Rejected,
    SealBroken,
)
from forager.core.proxies import MOST_FAILURES, Proxy, ProxyEndpoint, ProxyStore, ProxyUse
from forager.fetch.guard import EgressGuard
from forager.fetch.proxies.check import ProxyCheckResult
from forager.fetch.proxies.tunnel import parse_endpoint, parse_file, parse_region

# The state of one proxy in this process, and its counters since the last flush. In memory only.


@dataclass(slots=True)
class Since:
    """Counters since the last flush; moments are monotonic."""

    successes: int = 0
    failures: int = 0
    in_a_row: int = 0
    elapsed_ms: int = 0
    size: int = 0
    used_at: float | None = None
    succeeded_at: float | None = None
    failed_at: float = float("-inf")

    @property
    def empty(self) -> bool:
        return self.used_at is None and not self.successes and not self.failures

    def succeeded(self, now: float, elapsed_ms: int, size: int) -> None:
        self.successes += 1
        self.in_a_row = 0
        self.elapsed_ms += elapsed_ms
        self.size += size
        self.succeeded_at = now

    def failed(self, now: float) -> None:
        self.failures += 1
        self.in_a_row += 1
        self.failed_at = now

    def then(self, later: "Since") -> "Since":
        return Since(
            self.successes + later.successes,
            self.failures + later.failures,
            later.in_a_row + (0 if later.successes else self.in_a_row),
            self.elapsed_ms + later.elapsed_ms,
            self.size + later.size,
            later.used_at if later.used_at is not None else self.used_at,
            later.succeeded_at if later.succeeded_at is not None else self.succeeded_at,
            max(self.failed_at, later.failed_at),
        )

    def use(self, proxy: int, now: float) -> ProxyUse:
        def ago(moment: float | None) -> int | None:
            return None if moment is None else round((now - moment) * 1000)

        return ProxyUse(
            proxy,
            self.successes,
            self.failures,
            self.in_a_row,
            self.elapsed_ms,
            self.size,
            ago(self.used_at),
            ago(self.succeeded_at),
            ago(self.failed_at) if self.failures else None,
        )


@dataclass(slots=True)
class Known:
    fingerprint: str
    endpoint: ProxyEndpoint | None = None
    trouble: str | None = None
    """Why there is no endpoint."""
    is_active: bool = True
    healthy: bool = True
    disabled: bool = False
    in_a_row: int = 0
    last_use: int = 0
    """Sequence number of its last use in this process; 0 if unused."""
    looked_at: float = float("-inf")
    restored_at: float = float("-inf")
    since: Since = field(default_factory=Since)

    @property
    def usable(self) -> bool:
        return self.is_active and self.healthy and not self.disabled and self.endpoint is not None

    def fail(self) -> None:
        self.healthy = False
        self.in_a_row += 1
        self.disabled = self.disabled or self.in_a_row > MOST_FAILURES

    def restore(self, now: float) -> None:
        self.healthy, self.disabled, self.in_a_row, self.restored_at = True, False, 0, now


log = structlog.get_logger("forager.proxies")

CHECK_EVERY = 60.0
WRITE_EVERY = 5.0
CHECKS_AT_ONCE = 20
Check = Callable[[int, ProxyEndpoint], Awaitable[ProxyCheckResult]]


class ProxyPool:
    """Implements `core.proxies.Proxies`. `open` it before use, `run` it in parallel with the engine, `close` it
    last."""

    def __init__(
        self,
        store: ProxyStore,
        clock: Clock,
        guard: EgressGuard,
        check: Check,
        *,
        given: Sequence[ProxyEndpoint] = (),
        regions: Collection[str] = (),
        check_every: float = CHECK_EVERY,
        write_every: float = WRITE_EVERY,
    ) -> None:
        """`regions`: use only proxies of these regions, and those without one; empty: all proxies."""
        self._store = store
        self._clock = clock
        self._guard = guard
        self._check = check
        self._regions = frozenset(region.upper() for region in regions)
        self._given = given
        self._check_every = check_every
        self._write_every = write_every
        self._known: dict[int, Known] = {}
        self._line: dict[int, Known] = {}
        """Usable proxies, least recently used first."""
        self._uses = count(1)
        self._storing = asyncio.Lock()
        self._writing: set[asyncio.Task[None]] = set()

    # ── every request ──

    def choose(self, rests: Callable[[int], float]) -> tuple[int | None, float]:
        shortest: float | None = None
        for proxy, known in self._line.items():
            rest = rests(proxy)
            if rest <= 0:
                self._used(proxy, known)
                return proxy, 0.0
            shortest = rest if shortest is None else min(shortest, rest)
        if shortest is None and self._known:
            raise NoHealthyProxies(
                f"None of {len(self._known)} proxies can be used now. `forager proxies list` shows why;"
                " a check restores those that are well again."
            )
        return None, shortest or 0.0

    def succeeded(self, proxy: int, *, elapsed_ms: int, size: int) -> None:
        if known := self._known.get(proxy):
            known.in_a_row = 0
            known.since.succeeded(self._clock.monotonic(), elapsed_ms, size)

    def failed(self, proxy: int) -> None:
        if known := self._known.get(proxy):
            known.since.failed(self._clock.monotonic())
            known.fail()
            self._line.pop(proxy, None)
            log.info("proxy_failed", proxy=proxy, in_a_row=known.in_a_row, disabled=known.disabled)

    def endpoint(self, proxy: int) -> ProxyEndpoint:
        """Return the endpoint of a proxy. Raises `ProxyFailed` if it was removed meanwhile: another one may work."""
        known = self._known.get(proxy)
        if known is None or known.endpoint is None:
            raise ProxyFailed(f"The proxy {proxy} was removed or cannot be read.")
        return known.endpoint

    @property
    def usable(self) -> int:
        return len(self._line)

    def __len__(self) -> int:
        return len(self._known)

    def _is_near(self, known: Known) -> bool:
        region = None if known.endpoint is None else known.endpoint.region
        return not self._regions or region is None or region.upper() in self._regions

    # ── an operator ──

    async def add(self, address: str, *, region: str | None = None) -> Proxy:
        endpoint = parse_endpoint(address)
        if region is not None:
            endpoint = replace(endpoint, region=parse_region(region) or None)
        self._admit(endpoint, "address")
        added = await self._store.add(endpoint, source="operator")
        await self.refresh()
        return added

    async def set(self, proxy: int, *, is_active: bool | None = None, region: str | None = None) -> Proxy:
        changed = await self._store.set(
            proxy, is_active=is_active, region=None if region is None else parse_region(region)
        )
        await self.refresh()
        return changed

    async def remove(self, proxy: int) -> None:
        await self._store.remove(proxy)
        await self.refresh()

    async def list(self) -> Sequence[Proxy]:
        """Return the stored rows plus this process's unflushed counters."""
        await self.flush()
        return await self._store.list()

    async def get(self, proxy: int) -> Proxy:
        await self.flush()
        return await self._store.get(proxy)

    async def check(self, proxy: int) -> ProxyCheckResult:
        """Check a proxy now by one real connection, regardless of recent checks."""
        await self._store.get(proxy)
        known = self._known.get(proxy)
        if known is None:
            await self.refresh()
            known = self._known.get(proxy)
        if known is None:
            raise NotFound(f"There is no proxy {proxy}. See `forager proxies list`.")
        if known.endpoint is None:
            return ProxyCheckResult(passed=False, latency_ms=0, reason=known.trouble)
        return await self._check_one(proxy, known, known.endpoint)

    # ── beside the engine ──

    async def open(self) -> None:
        """Load the stored proxies, and add those of the settings. Nothing is removed here, because this may be a
        short-lived command."""
        for endpoint in self._given:
            self._admit(endpoint, "SCRAPER_PROXY_ENDPOINTS")
        if self._given:
            await self._store.keep_only(self._given, add_only=True)
        await self.refresh()

    async def run(self) -> None:
        """Flush, refresh and check until cancelled. Proxies that the settings no longer list are removed first."""
        checks: asyncio.Task[None] | None = None
        swept = False
        try:
            while True:
                try:
                    if not swept and self._given:  # a worker without configured proxies must not remove those of others
                        await self._store.keep_only(self._given, add_only=False)
                    swept = True
                    await self.refresh()
                except ForagerError as error:
                    log.warning("proxy_counts_not_written", error=error.message)
                except Exception:
                    log.exception("proxy_upkeep_failed")
                if checks is None or checks.done():
                    checks = asyncio.create_task(self.check_due())
                await self._clock.sleep(self._write_every)
        finally:
            if checks is not None:
                checks.cancel()
                await asyncio.gather(checks, return_exceptions=True)

    async def close(self) -> None:
        try:
            await self.flush()
        except ForagerError as error:
            log.warning("proxy_counts_lost", error=error.message)

    async def check_due(self) -> None:
        """Check every proxy that is switched on and was not checked recently by any process."""
        now = self._clock.monotonic()
        due = [
            proxy
            for proxy, known in self._known.items()
            if known.is_active and known.endpoint and now - known.looked_at >= self._check_every
        ]
        room = asyncio.Semaphore(CHECKS_AT_ONCE)
        await asyncio.gather(*(self._check_if_ours(proxy, room) for proxy in due))

    async def flush(self) -> None:
        """Store this process's counters. Those that cannot be stored now are kept for the next time."""
        await self._to_its_end(self._flush)

    async def refresh(self) -> None:
        """Flush, then load the changes of other processes."""
        await self._to_its_end(self._refresh)

    # ── inside ──

    async def _to_its_end(self, work: Callable[[], Awaitable[None]]) -> None:
        """Finish even if the caller is cancelled: counters that are stored but also kept would count twice."""

        async def run() -> None:
            async with self._storing:
                await work()

        task = asyncio.create_task(run())
        self._writing.add(task)
        task.add_done_callback(self._written)
        await asyncio.shield(task)

    def _written(self, task: asyncio.Task[None]) -> None:
        self._writing.discard(task)
        if not task.cancelled():
            task.exception()  # the caller may be gone; unwritten counters are kept

    async def _refresh(self) -> None:
        await self._flush()
        rows = sorted(await self._store.list(), key=lambda row: (row.last_used_at or 0, row.id))
        new = {row.id: known for row in rows if (known := await self._met(row))}
        # No await from here on, so that a request sees either the old state or the new one. New proxies come first,
        # ordered by their use in other processes: they are unused here.
        self._known = {**new, **{proxy: known for proxy, known in self._known.items() if proxy not in new}}
        for gone in self._known.keys() - {row.id for row in rows}:
            del self._known[gone]
        for row in rows:
            self._learn(row)
        self._line_up()

    def _used(self, proxy: int, known: Known) -> None:
        known.since.used_at = self._clock.monotonic()
        known.last_use = next(self._uses)
        del self._line[proxy]
        self._line[proxy] = known

    def _line_up(self) -> None:
        """Sort the usable proxies by last use, new ones first. Called whenever one may have become usable."""
        ordered = sorted(self._known.items(), key=lambda item: item[1].last_use)
        self._line = {proxy: known for proxy, known in ordered if known.usable and self._is_near(known)}

    def _admit(self, endpoint: ProxyEndpoint, name: str) -> None:
        """Check a proxy with the guard, without a lookup; its name is resolved and checked each time it is dialled."""
        host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
        try:
            self._guard.check_url(f"http://{host}:{endpoint.port}")
        except Refused as error:
            raise Rejected(
                f"This proxy is refused: {error.message}", fields=[FieldError(name, error.message)]
            ) from None

    async def _flush(self) -> None:
        taken: dict[int, Since] = {}
        for proxy, known in self._known.items():
            if not known.since.empty:
                taken[proxy], known.since = known.since, Since()
        now = self._clock.monotonic()
        left: Sequence[ProxyUse] = [since.use(proxy, now) for proxy, since in taken.items()]
        try:
            if left:
                left = await self._store.record(left)
        finally:
            for use in left:
                if kept := self._known.get(use.proxy):
                    kept.since = taken[use.proxy].then(kept.since)

    async def _met(self, row: Proxy) -> Known | None:
        """Return the state of a proxy that is new here. Another address under a known number is another proxy."""
        before = self._known.get(row.id)
        if before is not None and before.fingerprint == row.fingerprint:
            return None
        known = Known(row.fingerprint)
        try:
            known.endpoint = await self._store.endpoint(row.id)
        except (SealBroken, NotFound) as error:
            known.trouble = error.message
            log.error("proxy_unusable", proxy=row.id, error=error.message)
        if before and before.endpoint and replace(before.endpoint, region=row.region) == known.endpoint:
            before.fingerprint = row.fingerprint  # the keys were changed, not the proxy
            return None
        return known

    def _learn(self, row: Proxy) -> None:
        known = self._known[row.id]
        if known.endpoint is not None and known.endpoint.region != row.region:
            known.endpoint = replace(known.endpoint, region=row.region)
        known.is_active = row.is_active
        known.disabled = row.disabled
        known.in_a_row = row.failure_count
        # Failures since the last flush are not in the row yet.
        known.healthy = row.healthy and known.since.failed_at <= known.restored_at
        if known.since.failures:
            known.in_a_row = known.since.in_a_row + (0 if known.since.successes else row.failure_count)
            known.disabled = known.disabled or known.in_a_row > MOST_FAILURES

    async def _check_if_ours(self, proxy: int, room: asyncio.Semaphore) -> None:
        async with room:
            known = self._known.get(proxy)
            if known is None or known.endpoint is None:
                return
            known.looked_at = self._clock.monotonic()
            try:
                if await self._store.claim_check(proxy, every=self._check_every):
                    await self._check_one(proxy, known, known.endpoint)
            except ForagerError as error:
                log.warning("proxy_not_checked", proxy=proxy, error=error.message)

    async def _check_one(self, proxy: int, known: Known, endpoint: ProxyEndpoint) -> ProxyCheckResult:
        checked = await self._check(proxy, endpoint)
        async with self._storing:
            await self._store.checked(proxy, passed=checked.passed, region=checked.region)
            known.looked_at = self._clock.monotonic()
            if checked.passed:
                known.restore(self._clock.monotonic())
            else:
                known.fail()
                log.info("proxy_check_failed", proxy=proxy, reason=checked.reason, in_a_row=known.in_a_row)
            self._line_up()
            if checked.region and endpoint.region is None:
                known.endpoint = replace(endpoint, region=checked.region)
        return checked


def given_proxies(addresses: Sequence[str], file: Path | None) -> list[ProxyEndpoint]:
    """Return the proxies of the settings, in order. Raises `Rejected` with all mistakes and where each is."""
    endpoints = [_given(text, f"SCRAPER_PROXY_ENDPOINTS[{number}]") for number, text in enumerate(addresses, 1)]
    if file is not None:
        try:
            endpoints += parse_file(file.read_text("utf-8").splitlines(), file.name)
        except (OSError, UnicodeDecodeError) as error:
            problem = getattr(error, "strerror", None) or "it is not UTF-8 text"
            message = f"the proxy file {file} cannot be read ({problem}). Correct the path or unset FORAGER_PROXY_FILE."
            raise Rejected(message, fields=[FieldError("FORAGER_PROXY_FILE", message)]) from None
    return endpoints


def _given(text: str, field: str) -> ProxyEndpoint:
    try:
        return parse_endpoint(text, field=field)
    except Rejected as error:
        raise Rejected(f"{field}: {error.message}", fields=error.fields) from None
