"""Every error that Forager raises on purpose, in one tree. Its two working branches decide what happens next.

Each has a message for people, and a reason and an error type for programs (`core/states.py`).

ForagerError
├── Transient            the same call may succeed later: the engine retries
│   ├── RateLimited      the upstream answered 429: the lane slows down, no attempt is burned
│   ├── TimedOut         no answer in time: what it cost is unknown
│   ├── Unreachable      no connection: the name does not resolve, or nothing listens there
│   │   └── NameUnknown  the name servers do not have the name: another attempt soon will not change that
│   ├── ProxyFailed      the proxy, not the site: another one may work
│   └── BrowserCrashed   the browser died under the page: it is replaced
├── Short                we are short of something ourselves: the task waits, no attempt is burned
│   ├── Capped           a cap on spending is reached: the task waits until its period ends
│   ├── PoolExhausted    no browser became free in time
│   └── NoHealthyProxies all proxies are unhealthy or switched off
├── Permanent            the same call will fail again: the task becomes a dead letter
│   ├── Refused          the egress guard or a cap refused the request before or while it was made
│   ├── CircuitOpen      the lane's breaker is open, and the step does not wait
│   ├── CredentialsMissing there are no credentials for this site
│   ├── BlobMissing      a stored page is gone or damaged: fetch it again
│   ├── ParseFailed      a page could not be read within its limits, or killed the process that read it
│   └── Undecodable      a row of the ledger does not fit its class any more
├── Disallowed           robots.txt disallows it: the task is skipped
├── Unconfigured         an operator must act: the job is paused, its task stays queued
├── Busy                 the request is valid, but there is no room for it now: try again later
│   └── Stopping         … because we are shutting down
├── ServiceAway          a service other than the ledger, which a request needs, does not answer: try again later
├── Rejected             the request is invalid: field and remedy are named
│   ├── NotFound
│   └── Conflict
└── StoreError           the ledger itself
    ├── StoreLocked      another process owns the embedded store
    ├── StoreFull        no space left on the disk
    ├── StoreOutdated    the schema is older or newer than this program
    ├── StoreMisplaced   this process does not have the store of pages that belongs to the ledger
    ├── SealBroken       a secret in it cannot be decrypted: another key, another row, or changed
    └── StoreUnavailable the database does not answer
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from forager.core.states import ErrorType, Reason

# Retry policies, as values. `engine/waits.py` applies them.


@dataclass(frozen=True, slots=True)
class Retry:
    """Number of retries of a transient failure, and the delays before them. Delays double up to `cap`; jitter adds up
    to 10 %."""

    times: int = 3
    first: float = 5.0
    cap: float = 900.0
    delays: tuple[float, ...] | None = None
    """A table instead of the three values above: one delay per retry, and as many retries as it has entries."""

    @property
    def limit(self) -> int:
        """Return how many retries there are."""
        return self.times if self.delays is None else len(self.delays)

    def delay(self, number: int) -> float:
        """Return the seconds before retry `number` (from 1); beyond a table's end, its last delay."""
        if self.delays:
            return self.delays[min(number, len(self.delays)) - 1]
        return min(self.cap, self.first * 2.0 ** min(number - 1, 64))


@dataclass(frozen=True, slots=True)
class Evidence:
    """The response of a failed attempt, kept with its dead letter."""

    body: bytes
    content_type: str = "text/plain"
    screenshot: bytes | None = None
    """A PNG of the page, if a browser visited it."""


class ForagerError(Exception):
    """Something went wrong in Forager."""

    reason: str | None = None
    """The reason, for programs: a `core.states.Reason`, or one that its pipeline declares."""
    error_type: ErrorType = ErrorType.INTERNAL
    """The category of the failure. Both default to the values of the class."""
    where: str | None = None
    """The subject of the message, such as a URL without its query; `message` begins with it."""

    def __init__(self, message: str = "", *, reason: str | None = None, error_type: ErrorType | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").strip())
        if reason is not None:
            self.reason = reason
        if error_type is not None:
            self.error_type = error_type

    @property
    def message(self) -> str:
        """Return the error message."""
        text = str(self.args[0])
        return text if self.where is None else f"{self.where}: {text}"

    def at(self, where: str) -> Self:
        """Prefix the message with where the error happened. Returns the error."""
        self.where = where if self.where is None else f"{where}: {self.where}"
        return self

    def __str__(self) -> str:
        return self.message


class Transient(ForagerError):
    """The call failed in a way that may pass."""

    error_type = ErrorType.NETWORK
    maybe_done = False
    """True if the upstream may have executed and charged the call although no answer arrived."""

    def __init__(
        self,
        message: str = "",
        *,
        maybe_done: bool = False,
        facts: Mapping[str, int] | None = None,
        reason: str | None = None,
        error_type: ErrorType | None = None,
        retry: Retry | None = None,
    ) -> None:
        """`retry`: delays for this failure, instead of the step's or the lane's; attempts are counted together."""
        super().__init__(message, reason=reason, error_type=error_type)
        self.retry = retry
        self.maybe_done = maybe_done or type(self).maybe_done
        self.facts = dict(facts or {})


class RateLimited(Transient):
    """The upstream limits the rate of calls.

    Burns no attempt. Without `retry_after`, the waits double from 1 to 60 s, or follow `retry`, until the step's
    patience is exhausted.
    """

    reason = Reason.RATE_LIMITED
    error_type = ErrorType.HTTP

    def __init__(
        self,
        message: str = "",
        *,
        retry_after: float | None = None,
        facts: Mapping[str, int] | None = None,
        retry: Retry | None = None,
    ) -> None:
        super().__init__(message or "The upstream limits the rate of calls.", facts=facts, retry=retry)
        self.retry_after = retry_after


class TimedOut(Transient):
    """The upstream did not answer in time."""

    reason = Reason.TIMED_OUT
    maybe_done = True


class Unreachable(Transient):
    """No connection came about: the name does not resolve, or nothing listens there. Nothing was sent."""

    reason = Reason.UNREACHABLE


class NameUnknown(Unreachable):
    """The name servers answered that there is no such name."""


class ProxyFailed(Transient):
    """The proxy could not be used."""

    reason = Reason.PROXY_FAILED


class BrowserCrashed(Transient):
    """The browser died while it was on the page."""

    reason = Reason.BROWSER_CRASHED
    error_type = ErrorType.INTERNAL
    maybe_done = True


class Short(ForagerError):
    """Something of our own is short."""


class Capped(Short):
    """A cap on spending leaves no money for the request."""

    reason = Reason.LIMIT

    def __init__(self, message: str = "", *, wait: float) -> None:
        """`wait`: seconds until the period of the cap ends."""
        super().__init__(message)
        self.wait = wait


class PoolExhausted(Short):
    """No browser became free in time."""

    reason = Reason.POOL_EXHAUSTED


class NoHealthyProxies(Short):
    """No proxy can be used."""

    reason = Reason.NO_HEALTHY_PROXIES
    error_type = ErrorType.NETWORK


class Permanent(ForagerError):
    """The call failed and would fail again."""

    def __init__(
        self,
        message: str = "",
        *,
        evidence: Evidence | None = None,
        cost: int = 0,
        facts: Mapping[str, int] | None = None,
        reason: str | None = None,
        error_type: ErrorType | None = None,
    ) -> None:
        super().__init__(message, reason=reason, error_type=error_type)
        self.evidence = evidence
        self.cost = cost
        self.facts = dict(facts or {})


class Refused(Permanent):
    """The request was refused by our own rules."""

    reason = Reason.EGRESS_REFUSED
    error_type = ErrorType.VALIDATION


class CircuitOpen(Permanent):
    """Too many calls to this site failed; it is left alone for a while."""

    reason = Reason.CIRCUIT_OPEN
    error_type = ErrorType.BLOCKED


class CredentialsMissing(Permanent):
    """There are no credentials of this provider for this workspace."""

    reason = Reason.CREDENTIALS_MISSING


class BlobMissing(Permanent):
    """A stored page is gone or damaged. Fetch it again."""

    reason = Reason.BLOB_MISSING
    error_type = ErrorType.STORAGE


class ParseFailed(Permanent):
    """A page could not be read within its limits."""

    reason = Reason.PARSE_LATE
    error_type = ErrorType.PARSE


class Undecodable(Permanent):
    """A stored task does not fit its class any more."""

    reason = Reason.UNDECODABLE
    error_type = ErrorType.VALIDATION


class Disallowed(ForagerError):
    """robots.txt disallows the URL."""

    reason = Reason.ROBOTS
    error_type = ErrorType.BLOCKED


class Unconfigured(ForagerError):
    """Something that only a person can provide is missing."""

    reason = Reason.UNCONFIGURED


class Busy(ForagerError):
    """There is no room for it now."""


class Stopping(Busy):
    """Forager is shutting down. Retry when it is back."""


class ServiceAway(ForagerError):
    """A service that the request needs, such as an external search index, does not answer."""

    error_type = ErrorType.NETWORK


@dataclass(frozen=True, slots=True)
class FieldError:
    field: str
    message: str


class Rejected(ForagerError):
    """The request is not valid."""

    def __init__(self, message: str, *, fields: Sequence[FieldError] = ()) -> None:
        super().__init__(message)
        self.fields = tuple(fields)


class NotFound(Rejected):
    """There is no such thing."""


class Conflict(Rejected):
    """It contradicts what is already there."""


class StoreError(ForagerError):
    """The ledger failed."""

    reason = Reason.STORE_AWAY
    error_type = ErrorType.STORAGE


class StoreLocked(StoreError):
    """Another process owns the embedded store."""


class StoreFull(StoreError):
    """The disk that holds the ledger is full."""


class StoreMisplaced(StoreError):
    """This process does not have the store of pages that belongs to the ledger. The message has the remedy, and nothing
    that a caller of the API must not see."""


class StoreOutdated(StoreError):
    """The ledger's schema does not fit this program."""


class SealBroken(StoreError):
    """A secret in the ledger does not open."""


class StoreUnavailable(StoreError):
    """The ledger's database does not answer."""


@contextmanager
def unknown_names_are_final() -> Iterator[None]:
    """Turn `NameUnknown` into `Permanent`: the next attempts would get the same answer from the name servers.

    Name servers that do not answer are another error, which is retried. An upstream API that is configured once and
    must exist (places, listings) does not use this: a fault of our own name servers would fail its whole job.
    """
    try:
        yield
    except NameUnknown as error:
        message = f"{error.message} Check the URL, and the name servers of this machine."
        raise Permanent(message, facts=error.facts, reason=error.reason, error_type=error.error_type) from error
