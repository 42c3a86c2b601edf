"""The state of one proxy in this process, and its counters since the last flush. In memory only."""

from dataclasses import dataclass, field

from forager.core.proxies import MOST_FAILURES, ProxyEndpoint, ProxyUse


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
