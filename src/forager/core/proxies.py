"""The ports for proxies: selection and results for the engine, and their storage.

The engine has only the numbers of proxies. Addresses and passwords stay in fetch and, encrypted, in the ledger.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from forager.core.secret import Secret

ProxyProtocol = Literal["http", "https", "socks5"]
"""Protocol of the proxy itself; targets may be http or https with any of them."""
ProxySource = Literal["operator", "settings"]
MOST_FAILURES = 10
"""More consecutive failures than this disable a proxy until a check passes."""


class Proxies(Protocol):
    def choose(self, rests: Callable[[int], float]) -> tuple[int | None, float]:
        """Return the least recently used healthy proxy that need not rest (now marked as used), and 0.

        `rests` returns how many seconds a proxy must still rest for this lane. If all must, returns None and the
        shortest rest; without proxies, None and 0. Raises `NoHealthyProxies` if none can be used.
        """
        ...

    def succeeded(self, proxy: int, *, elapsed_ms: int, size: int) -> None: ...

    def failed(self, proxy: int) -> None:
        """Record a failed connection: the proxy is unhealthy until a check passes."""
        ...


@dataclass(frozen=True, slots=True)
class ProxyEndpoint:
    """The address and credentials of a proxy, which a connector needs to dial it."""

    protocol: ProxyProtocol
    host: str
    """A name or an address, lower case; an IPv6 address without brackets."""
    port: int
    username: Secret | None = None
    password: Secret | None = None
    region: str | None = None
    """Two-letter code of the country from which its requests appear to come."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy without its secrets: whether it has a password, but not the password."""

    id: int
    protocol: ProxyProtocol
    host: str
    port: int
    authenticated: bool
    region: str | None
    source: ProxySource
    is_active: bool
    """Switched on by the operator; nothing else changes it."""
    healthy: bool
    disabled: bool
    failure_count: int
    """Consecutive failures."""
    success_count: int
    failures: int
    """Total number of failures."""
    bytes: int
    avg_response_time_ms: float | None
    last_used_at: int | None
    last_success_at: int | None
    last_failure_at: int | None
    last_check_at: int | None
    created_at: int
    updated_at: int
    fingerprint: str
    """Identifies the address: a number may be reused after a removal, a fingerprint is not."""


@dataclass(frozen=True, slots=True)
class ProxyUse:
    """Counters of one proxy since they were last stored. Times are ages, because the store has its own clock."""

    proxy: int
    successes: int = 0
    failures: int = 0
    failures_since_success: int = 0
    elapsed_ms: int = 0
    """Total duration of the successes."""
    bytes: int = 0
    used_ms_ago: int | None = None
    succeeded_ms_ago: int | None = None
    failed_ms_ago: int | None = None


class ProxyStore(Protocol):
    """The storage of proxies. Several processes may share it."""

    async def list(self) -> Sequence[Proxy]: ...

    async def get(self, proxy: int) -> Proxy: ...

    async def endpoint(self, proxy: int) -> ProxyEndpoint:
        """Return the endpoint with user and password in plain text. Raises `SealBroken`."""
        ...

    async def add(self, endpoint: ProxyEndpoint, *, source: ProxySource) -> Proxy:
        """Add a proxy. Raises `Conflict` if it exists already."""
        ...

    async def set(self, proxy: int, *, is_active: bool | None = None, region: str | None = None) -> Proxy:
        """Change what an operator sets. None leaves a value as it is; an empty region removes it."""
        ...

    async def remove(self, proxy: int) -> None: ...

    async def keep_only(self, endpoints: Sequence[ProxyEndpoint], *, add_only: bool) -> None:
        """Synchronise the proxies of the settings: missing ones are added and, unless `add_only`, others removed."""
        ...

    async def record(self, uses: Sequence[ProxyUse]) -> Sequence[ProxyUse]:
        """Add to the counters; a failure since the last check makes a proxy unhealthy. Returns what was not stored."""
        ...

    async def claim_check(self, proxy: int, *, every: float) -> bool:
        """Return whether this process should check the proxy now, because none has checked it for `seconds`."""
        ...

    async def checked(self, proxy: int, *, passed: bool, region: str | None = None) -> None:
        """Record a check. A passed check resets `healthy` and `disabled`; its region is stored unless an operator set
        one."""
        ...
