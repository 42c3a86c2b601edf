"""Proxies under test: a pool on a real ledger, and checks whose outcome a test decides."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from forager.core.clock import Clock
from forager.core.proxies import ProxyEndpoint
from forager.core.secret import Secret
from forager.fetch.guard import EgressGuard
from forager.fetch.proxies.check import ProxyCheckResult
from forager.fetch.proxies.pool import ProxyPool
from forager.ledger.tables.proxies import ProxyTable
from forager.secrets.sealing import sealer_for
from tests.support.rig import Rig

CANARY_USER = "canary-user-3f9b"
CANARY_PASSWORD = "canary-p@ss-77d1"
CANARIES = (CANARY_USER, CANARY_PASSWORD, "canary-p%40ss-77d1", "canary")
CANARY_ADDRESS = f"http://{CANARY_USER}:canary-p%40ss-77d1@203.0.112.7:8080"


def endpoint(n: int = 1, *, secret: bool = True) -> ProxyEndpoint:
    user, password = (Secret(CANARY_USER), Secret(CANARY_PASSWORD)) if secret else (None, None)
    return ProxyEndpoint("http", f"proxy{n}.example", 8080, user, password)


def table_on(rig: Rig, home: Path) -> ProxyTable:
    return ProxyTable(rig.ledger.database, rig.ledger.now_ms, sealer_for(home))


@dataclass
class DecidedCheck:
    """A check whose outcome the test decides: the network is the injected part here."""

    well: Callable[[int], bool] = lambda _: True
    asked: list[int] = field(default_factory=list)
    region: str | None = None

    async def __call__(self, proxy: int, endpoint: ProxyEndpoint) -> ProxyCheckResult:
        self.asked.append(proxy)
        return ProxyCheckResult(self.well(proxy), 5, self.region, None if self.well(proxy) else "no connection")


async def pool_on(
    table: ProxyTable,
    clock: Clock,
    check: DecidedCheck | None = None,
    *,
    given: Sequence[ProxyEndpoint] = (),
    allow: Sequence[str] = (),
) -> ProxyPool:
    pool = ProxyPool(table, clock, EgressGuard(allow), check or DecidedCheck(), given=given)
    await pool.open()
    return pool
