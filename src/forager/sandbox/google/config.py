"""Every setting of the Google Business Profile sandbox. A tenant is one Google user, named by the access token."""

import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, NamedTuple

from forager.core.errors import Rejected
from forager.sandbox.config import Knobs
from forager.sandbox.faults import Trouble
from forager.sandbox.world import Band

SERVICES = ("accounts", "locations", "reviews")
MIXED_REVIEWS = (Band(0.1, 0, 0), Band(0.6, 1, 40), Band(0.3, 41, 160))


@dataclass(frozen=True)
class Tenant:
    """The accounts of one user, and the faults of their access."""

    accounts: int = 3
    """Accounts with locations. The first is the user's PERSONAL account, the others are LOCATION_GROUPs."""
    empty_accounts: int = 1
    """Further accounts without a location: their answer is `{}`."""
    locations: int = 20
    """Different locations, spread over the accounts."""
    reviews: tuple[Band, ...] = MIXED_REVIEWS
    """Number of reviews of a location: shares of locations with their range."""
    shared_every: int = 10
    """Every n-th location of a group is also listed under the personal account; 0: no location."""
    denied_every: int = 0
    """Every n-th location answers 403 for its reviews; 0: none does."""
    gone_every: int = 0
    """Every n-th location is listed, and 404 for its reviews; 0: none is."""
    disabled: tuple[str, ...] = ()
    """Services that the user's project has not enabled: `accounts`, `locations`, `reviews`."""
    project: str = "100200300400"
    """Whose quota the calls count against. Tenants of one project share it."""
    expires_after: int | None = None
    """Calls after which each access token of this tenant expires; None: by time only."""

    @classmethod
    def from_json(cls, value: Any) -> "Tenant":
        if not isinstance(value, Mapping) or not set(value) <= {each.name for each in fields(cls)}:
            raise Rejected(f"A tenant is an object with {', '.join(each.name for each in fields(cls))}; got {value!r}")
        values = dict(value)
        if "reviews" in values:
            values["reviews"] = tuple(Band(*band) for band in values["reviews"])
        if "disabled" in values:
            values["disabled"] = tuple(values["disabled"])
        return cls(**values)

    def problem(self) -> str | None:
        """Return the mistake in these values; None if they are valid."""
        if self.accounts < 1 or self.empty_accounts < 0 or self.locations < 0:
            return "at least one account, and counts of at least 0"
        if not self.reviews or abs(sum(band.share for band in self.reviews) - 1) > 1e-6:
            return "bands of reviews whose shares add up to 1"
        if not set(self.disabled) <= set(SERVICES):
            return f"disabled services out of {', '.join(SERVICES)}"
        return None


@dataclass(frozen=True, kw_only=True)
class GoogleConfig(Knobs):
    name: ClassVar[str] = "Google"
    fault_names: ClassVar[frozenset[str]] = frozenset(
        (*Trouble, "http401", "http403", "http404", "quota_zero", "service_disabled")
    )
    live: ClassVar[frozenset[str]] = Knobs.live | {"quota_per_minute", "retry_after"}

    prefix: str = "sandbox-"
    """An access token is this, the tenant's name, and optionally `.` and a serial number: `sandbox-acme.2`."""
    default: Tenant = field(default_factory=Tenant)
    """Settings of every tenant that is not in `tenants`."""
    tenants: Mapping[str, Tenant] = field(default_factory=dict)
    token_seconds: float = 3599.0
    """Lifetime of an access token after its first use."""

    quota_per_minute: int | None = 300
    """Calls that a project may start in any minute, per service; more get a 429. None counts without refusing; 0 is a
    project that was never approved."""
    retry_after: str | None = None
    """The `Retry-After` header of a 429; Google's own answers have none."""

    review_page: int = 50
    """Page length of reviews when no `pageSize` is sent; Google does not state it."""
    oversized_page: Literal["clamp", "refuse"] = "clamp"
    """Answer to a `pageSize` above the maximum: the maximum, or a 400."""
    repeat_share: float = 0.1
    """Share of later pages that begin with the last row of the page before."""
    missing_share: float = 0.02
    """Share of reviews that pages after the first leave out, as the real API does."""
    drift_share: float = 0.0
    """Share of pages after which a review of the location is edited, deleted or added, before the next is read."""
    extra_fields: bool = False
    """True if reviews have the fields that were added in 2026; their exact form is not documented."""
    record_shown: bool = False
    """Keep the name of every review that was in a delivered answer, per tenant, for an auditor."""
    cache_limit: int = 1024
    """Rendered pages kept in memory."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_shares_of_one("repeat_share", "missing_share", "drift_share")
        self.check("prefix", bool(self.prefix), "not empty")
        self.check("review_page", 1 <= self.review_page <= 50, "between 1 and 50")
        self.check("oversized_page", self.oversized_page in ("clamp", "refuse"), "clamp or refuse")
        self.check("quota_per_minute", (self.quota_per_minute or 0) >= 0, "at least 0, or absent for no limit")
        for tenant in (self.default, *self.tenants.values()):
            problem = tenant.problem()
            self.check("tenants", problem is None, problem or "")

    def tenant(self, name: str) -> Tenant:
        return self.tenants.get(name, self.default)

    def _decoded(self, values: dict[str, Any]) -> dict[str, Any]:
        if "default" in values:
            values["default"] = Tenant.from_json(values["default"])
        if "tenants" in values:
            values["tenants"] = {name: Tenant.from_json(value) for name, value in values["tenants"].items()}
        return super()._decoded(values)


# Access tokens: whose they are, when they expire, how they are refreshed. And the tokens of pages.


class Caller(NamedTuple):
    """The sender of a call. `problem` is the reason of a 401; None if the token is good."""

    tenant: str
    problem: str | None


class AccessTokens:
    """Every token with the prefix is good from its first use until it expires; the rest are unknown."""

    def __init__(self, config: GoogleConfig) -> None:
        self._config = config
        self._uses: dict[str, tuple[float, int]] = {}
        self._expired: set[str] = set()
        self._serials: dict[str, int] = {}

    def check(self, header: bytes | None, now: float) -> Caller:
        """Read an `Authorization` header and count the use."""
        scheme, _, token = (header or b"").decode("latin-1").partition(" ")
        if not token or scheme.lower() != "bearer":
            return Caller("", "CREDENTIALS_MISSING")
        if not token.startswith(self._config.prefix) or len(token) == len(self._config.prefix):
            return Caller(f"…{token[-4:]}", "ACCESS_TOKEN_TYPE_UNSUPPORTED")
        tenant = self.tenant_of(token)
        since, uses = self._uses.get(token, (now, 0))
        most = self._config.tenant(tenant).expires_after
        old = now - since > self._config.token_seconds or (most is not None and uses >= most)
        if old or token in self._expired:
            return Caller(tenant, "ACCESS_TOKEN_EXPIRED")
        self._uses[token] = since, uses + 1
        return Caller(tenant, None)

    def tenant_of(self, token: str) -> str:
        return token[len(self._config.prefix) :].partition(".")[0]

    def expire(self, token: str) -> None:
        """Let this access token answer 401 from now on."""
        self._expired.add(token)

    def refresh(self, refresh_token: str) -> str | None:
        """Return a new access token for a tenant's refresh token (`1//PREFIXtenant`); None if the text is not one."""
        begin = f"1//{self._config.prefix}"
        if not refresh_token.startswith(begin) or refresh_token == begin or refresh_token in self._expired:
            return None
        tenant = refresh_token[len(begin) :]
        serial = self._serials.get(tenant, 1) + 1
        self._serials[tenant] = serial
        return f"{self._config.prefix}{tenant}.{serial}"


class PagePlace(NamedTuple):
    """The start of a page: its ordinal number (from 1) and the offset of its first row."""

    page: int
    offset: int


FIRST = PagePlace(1, 0)


def page_token(place: PagePlace, listing: str) -> str:
    """Return an opaque token. `listing` names what is listed and how: the token is good for nothing else."""
    return urlsafe_b64encode(f"{place.page}:{place.offset}:{_mark(listing)}".encode()).decode().rstrip("=")


def read_page_token(token: str, listing: str) -> PagePlace | None:
    """Return the place that a token names; None if it is damaged or belongs to another listing."""
    try:
        page, offset, mark = urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode("ascii").split(":")
        return PagePlace(int(page), int(offset)) if mark == _mark(listing) else None
    except ValueError:
        return None


def _mark(listing: str) -> str:
    return f"{zlib.crc32(listing.encode()):08x}"
