"""Every setting of the Google Business Profile sandbox. A tenant is one Google user, named by the access token."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

from forager.core.errors import Rejected
from forager.sandbox.knobs import Knobs
from forager.sandbox.trouble import Trouble
from forager.sandbox.world import Band

SERVICES = ("accounts", "locations", "reviews")
MIXED_REVIEWS = (Band(0.1, 0, 0), Band(0.6, 1, 40), Band(0.3, 41, 160))


@dataclass(frozen=True)
class Tenant:
    """What one user has, and what is wrong with their access."""

    accounts: int = 3
    """Accounts with locations. The first is the user's PERSONAL account, the others are LOCATION_GROUPs."""
    empty_accounts: int = 1
    """Further accounts without a location: their answer is `{}`."""
    locations: int = 20
    """Different locations, spread over the accounts."""
    reviews: tuple[Band, ...] = MIXED_REVIEWS
    """How many reviews a location has: shares of locations with their range."""
    shared_every: int = 10
    """Every n-th location of a group is listed under the personal account too; 0: none is."""
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
        """What is wrong with these values; None if nothing is."""
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
    """What every tenant has that is not named in `tenants`."""
    tenants: Mapping[str, Tenant] = field(default_factory=dict)
    token_seconds: float = 3599.0
    """How long an access token lives after its first use."""

    quota_per_minute: int | None = 300
    """Calls that a project may start in any minute, per service; more get a 429. None counts without refusing; 0 is a
    project that was never approved."""
    retry_after: str | None = None
    """The `Retry-After` header of a 429; Google's own answers have none."""

    review_page: int = 50
    """Page length of reviews when no `pageSize` is sent; Google does not state it."""
    oversized_page: Literal["clamp", "refuse"] = "clamp"
    """What a `pageSize` above the maximum gets: the maximum, or a 400."""
    repeat_share: float = 0.1
    """Share of later pages that begin with the last row of the page before."""
    missing_share: float = 0.02
    """Share of reviews that pages after the first leave out, as the real API does."""
    drift_share: float = 0.0
    """Share of pages after which a review of that location is edited, deleted or added, before the next is read."""
    extra_fields: bool = False
    """Whether reviews have the fields that were added in 2026; their exact form is not known."""
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
