"""Proxies as the engine sees them: numbers to choose from, and how they did; and the port to where they are kept.

Addresses and passwords stay in fetch and, sealed, in the ledger.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from forager.core.secret import Secret

ProxyProtocol = Literal["http", "https", "socks5"]
"""How the proxy itself is spoken to; what is asked through it may be either of http and https."""
ProxySource = Literal["operator", "settings"]
MOST_FAILURES = 10
"""More in a row than this disable a proxy, until a check finds it well."""


class Proxies(Protocol):
    def choose(self, rests: Callable[[int], float]) -> tuple[int | None, float]:
        """The least recently used healthy proxy that does not rest, marked as used now, and 0.

        `rests` tells how many seconds a proxy must still rest for this lane. When all must, None and the shortest
        rest; when there are no proxies at all, None and 0. Raises `NoHealthyProxies` when none can be used.
        """
        ...

    def succeeded(self, proxy: int, *, elapsed_ms: int, size: int) -> None: ...

    def failed(self, proxy: int) -> None:
        """No connection through it: it is unhealthy until a check restores it."""
        ...


@dataclass(frozen=True, slots=True)
class ProxyEndpoint:
    """Where a proxy is and how to get in: what a connector needs to dial it."""

    protocol: ProxyProtocol
    host: str
    """A name or an address, lower case; an IPv6 address without brackets."""
    port: int
    username: Secret | None = None
    password: Secret | None = None
    region: str | None = None
    """Two letters of the country that its requests seem to come from."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy as anybody may see it: whether it has a password, never which."""

    id: int
    protocol: ProxyProtocol
    host: str
    port: int
    authenticated: bool
    region: str | None
    source: ProxySource
    is_active: bool
    """The operator's switch: nothing else moves it."""
    healthy: bool
    disabled: bool
    failure_count: int
    """In a row."""
    success_count: int
    failures: int
    """In all."""
    bytes: int
    avg_response_time_ms: float | None
    last_used_at: int | None
    last_success_at: int | None
    last_failure_at: int | None
    last_check_at: int | None
    created_at: int
    updated_at: int
    fingerprint: str
    """Another one, another address: a number may come back after a removal."""


@dataclass(frozen=True, slots=True)
class ProxyUse:
    """What happened to one proxy since it was last written down. Times are ages: the store has its own clock."""

    proxy: int
    successes: int = 0
    failures: int = 0
    failures_since_success: int = 0
    elapsed_ms: int = 0
    """Of the successes, together."""
    bytes: int = 0
    used_ms_ago: int | None = None
    succeeded_ms_ago: int | None = None
    failed_ms_ago: int | None = None


class ProxyStore(Protocol):
    """Where proxies are kept. Several processes may use the same one."""

    async def list(self) -> Sequence[Proxy]: ...

    async def get(self, proxy: int) -> Proxy: ...

    async def endpoint(self, proxy: int) -> ProxyEndpoint:
        """With user and password in plain. Raises `SealBroken`."""
        ...

    async def add(self, endpoint: ProxyEndpoint, *, source: ProxySource) -> Proxy:
        """Raises `Conflict` for one that is there."""
        ...

    async def set(self, proxy: int, *, is_active: bool | None = None, region: str | None = None) -> Proxy:
        """What an operator says; None leaves as it is, and an empty region takes it away."""
        ...

    async def remove(self, proxy: int) -> None: ...

    async def keep_only(self, endpoints: Sequence[ProxyEndpoint], *, add_only: bool) -> None:
        """Those of the settings are these: the missing are added and, unless `add_only`, the others removed."""
        ...

    async def record(self, uses: Sequence[ProxyUse]) -> Sequence[ProxyUse]:
        """Add to the counts; a failure since the last check makes it unhealthy. Gives back what was not written."""
        ...

    async def claim_check(self, proxy: int, *, every: float) -> bool:
        """Whether this process is the one to check it now: nobody did for so many seconds."""
        ...

    async def checked(self, proxy: int, *, passed: bool, region: str | None = None) -> None:
        """A passed check restores `healthy` and `disabled`; a region is noted unless an operator named one."""
        ...
