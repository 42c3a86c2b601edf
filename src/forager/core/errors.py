"""Every error that Forager raises on purpose, in one tree. Its two working branches decide what happens next.

ForagerError
├── Transient            the same call may succeed later: the engine retries
│   ├── RateLimited      the upstream asks for fewer calls: the lane slows down, no attempt is burned
│   ├── TimedOut         no answer in time: what it cost is unknown
│   ├── ProxyFailed      the proxy, not the site: another one may do
│   └── BrowserCrashed   the browser died under the page: it is replaced
├── Short                we are short of something ourselves: the task waits, no attempt is burned
│   ├── PoolExhausted    no browser became free in time
│   └── NoHealthyProxies all proxies are unhealthy or switched off
├── Permanent            the same call will fail again: the task becomes a dead letter
│   ├── Refused          the egress guard or a cap refused the request before or while it was made
│   ├── CircuitOpen      the lane's breaker is open, and the step asked not to wait
│   ├── CredentialsMissing nobody has given us a log-in for this site
│   └── Undecodable      a row of the ledger does not fit its class any more
├── Disallowed           robots.txt says no: the task is skipped
├── Unconfigured         only a person can help: the job is paused, its task stays queued
├── Busy                 nothing is wrong with what was asked for, but there is no room for it now: ask again later
│   └── Stopping         … because we are shutting down
├── Rejected             what a person asked for cannot be done: field and remedy are named
│   ├── NotFound
│   └── Conflict
└── StoreError           the ledger itself
    ├── StoreLocked      another process owns the embedded store
    ├── StoreFull        no room left on the disk
    ├── StoreOutdated    the schema is older or newer than this program
    ├── SealBroken       a secret in it does not open: another key, another place, or changed
    └── StoreUnavailable the database does not answer
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Evidence:
    """What came back, kept for a look at a dead letter."""

    body: bytes
    content_type: str = "text/plain"
    screenshot: bytes | None = None
    """A PNG of the page, where a browser was on it."""


class ForagerError(Exception):
    """Something went wrong in Forager."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or (self.__doc__ or "").strip())

    @property
    def message(self) -> str:
        return str(self.args[0])


class Transient(ForagerError):
    """The call failed in a way that may pass."""

    maybe_done = False
    """Whether the upstream may have carried the call out, and charged for it, although no answer came."""

    def __init__(self, message: str = "", *, maybe_done: bool = False, facts: Mapping[str, int] | None = None) -> None:
        super().__init__(message)
        self.maybe_done = maybe_done or type(self).maybe_done
        self.facts = dict(facts or {})


class RateLimited(Transient):
    """The upstream asked for fewer calls."""

    def __init__(self, message: str = "", *, retry_after: float | None = None, facts: Mapping[str, int] | None = None):
        super().__init__(message, facts=facts)
        self.retry_after = retry_after


class TimedOut(Transient):
    """The upstream did not answer in time."""

    maybe_done = True


class ProxyFailed(Transient):
    """The proxy could not be used."""


class BrowserCrashed(Transient):
    """The browser died while it was on the page."""

    maybe_done = True


class Short(ForagerError):
    """Something of our own is short."""


class PoolExhausted(Short):
    """No browser became free in time."""


class NoHealthyProxies(Short):
    """No proxy can be used."""


class Permanent(ForagerError):
    """The call failed and would fail again."""

    def __init__(
        self,
        message: str = "",
        *,
        evidence: Evidence | None = None,
        cost: int = 0,
        facts: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(message)
        self.evidence = evidence
        self.cost = cost
        self.facts = dict(facts or {})


class Refused(Permanent):
    """The request was refused by our own rules."""


class CircuitOpen(Permanent):
    """Too many calls to this site failed; it is left alone for a while."""


class CredentialsMissing(Permanent):
    """There are no credentials of this provider for this workspace."""


class Undecodable(Permanent):
    """A stored task does not fit its class any more."""


class Disallowed(ForagerError):
    """robots.txt says no."""


class Unconfigured(ForagerError):
    """Something that only a person can provide is missing."""


class Busy(ForagerError):
    """There is no room for it now."""


class Stopping(Busy):
    """Forager is shutting down. Ask again when it is back."""


@dataclass(frozen=True, slots=True)
class FieldError:
    field: str
    message: str


class Rejected(ForagerError):
    """What was asked for is not valid."""

    def __init__(self, message: str, *, fields: Sequence[FieldError] = ()) -> None:
        super().__init__(message)
        self.fields = tuple(fields)


class NotFound(Rejected):
    """There is no such thing."""


class Conflict(Rejected):
    """It contradicts what is already there."""


class StoreError(ForagerError):
    """The ledger failed."""


class StoreLocked(StoreError):
    """Another process owns the embedded store."""


class StoreFull(StoreError):
    """The disk that holds the ledger is full."""


class StoreOutdated(StoreError):
    """The ledger's schema does not fit this program."""


class SealBroken(StoreError):
    """A secret in the ledger does not open."""


class StoreUnavailable(StoreError):
    """The ledger's database does not answer."""
