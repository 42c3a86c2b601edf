"""Every setting of the Apify sandbox and of the listings site behind it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from typing import Any, ClassVar

from forager.core.errors import Rejected
from forager.sandbox.config import Knobs
from forager.sandbox.faults import Trouble
from forager.sandbox.listings import site
from forager.sandbox.listings.world import MOST_HOMES, ListingsWorld

OUTCOMES = ("succeeded", "failed", "aborted", "timed_out", "empty", "placeholder", "stuck")


@dataclass(frozen=True, slots=True)
class RunRule:
    """The course of some runs. Fields that are not set keep their usual values; `times` None means every time."""

    outcome: str = "succeeded"
    """One of `OUTCOMES`. `empty` succeeds with 0 items, `placeholder` with `{"demo": true}`, `stuck` never ends."""
    search: str | None = None
    """The search of the run: a text or a pattern (`Boston*`)."""
    seconds: float | None = None
    """Duration of the run; with `timed_out`, until its time-out."""
    share: float = 1.0
    """Share of its items that it has pushed when it ends."""
    bad_every: int = 0
    """Every n-th item cannot be used: 20 makes 5 of 100. 0: as the setting of the same name."""
    times: int | None = 1
    after: int = 0

    def matches(self, search: str) -> bool:
        return self.search is None or fnmatchcase(search, self.search)

    @classmethod
    def from_json(cls, value: Any) -> "RunRule":
        if not isinstance(value, Mapping) or not set(value) <= {each.name for each in fields(cls)}:
            raise Rejected(
                f"A run rule is an object with {', '.join(each.name for each in fields(cls))}; got {value!r}"
            )
        rule = cls(**value)
        if rule.outcome not in OUTCOMES or not 0 <= rule.share <= 1:
            raise Rejected(f"A run rule has an outcome of {', '.join(OUTCOMES)} and a share of 0 to 1; got {value!r}")
        return rule


@dataclass(frozen=True, kw_only=True)
class ApifyConfig(Knobs):
    name: ClassVar[str] = "Apify"
    fault_names: ClassVar[frozenset[str]] = frozenset(
        (*Trouble, *site.FAULTS, "http400", "http401", "http402", "http403", "http404")
    )
    live: ClassVar[frozenset[str]] = Knobs.live | {"rate_per_second", "credit_usd", "site_robots", "homes_days_ahead"}

    prefix: str = "sandbox-"
    """An API token is this and the name of its user."""

    homes: int = 30
    sizes: Mapping[str, int] = field(default_factory=dict)
    moving_share: float = 0.6
    twin_share: float = 0.1
    """These four are as in `ListingsWorld`."""
    homes_days_ahead: float = 0.0
    """Days by which the listings are ahead of the clock. Runs keep the clock's time, so that a program whose own time
    does not move sees the changes of some days between two runs."""
    rent_share: float = 0.5
    """Share of properties whose row has `rent`; the others have it in `rentals` or `models` only."""
    bad_every: int = 0
    """Every n-th item cannot be used: 20 makes 5 of 100. 0: none."""
    empty_share: float = 0.0
    """Share of rows of a dataset that are `{}`: with `clean` they are left out after the page was cut."""
    portals: tuple[str, str] = ("http://127.0.0.1:{port}", "http://127.0.0.1:{port}")
    """Base URLs of the two portals in the rows; `{port}` is the port of the listings site."""
    site_robots: str = "User-agent: *\nAllow: /\n"
    gone: tuple[str, ...] = site.GONE
    """Answers of the pages of listings that are gone."""

    queue_seconds: float = 2.0
    """Duration of READY, in the world's time."""
    run_seconds: float = 40.0
    """About how long it runs then."""
    runs: tuple[RunRule, ...] = ()
    """The course of named runs; the rest succeed."""
    settle_seconds: float = 15.0
    """Time after its end in which a run's cost is preliminary."""
    preliminary_share: float = 0.6
    """The preliminary cost as a share of the final one."""

    price_start_usd: float = 0.0
    price_page_usd: float = 0.01
    price_item_usd: float = 0.0005
    """Price per list page of 20 items, and per item beyond the first 20."""
    least_charge_usd: float = 0.01
    """The smallest `maxTotalChargeUsd` that is accepted."""
    credit_usd: float | None = None
    """The budget of a user; None never runs out."""
    memory_limit_mb: int = 16_384
    most_runs: int = 25
    too_many_runs_status: int = 402
    """The real status of `concurrent-runs-limit-exceeded` is not known."""
    rate_per_second: int | None = 60
    """Most requests per second and resource; None: no limit."""
    keep_runs: int = 50_000
    """Runs kept; older ones vanish with their datasets, as after the plan's retention."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_shares_of_one("moving_share", "twin_share", "rent_share", "empty_share", "preliminary_share")
        self.check("homes", all(0 <= n <= MOST_HOMES for n in (self.homes, *self.sizes.values())), f"≤ {MOST_HOMES}")
        self.check("gone", bool(self.gone) and set(self.gone) <= set(site.GONE), f"some of {', '.join(site.GONE)}")
        self.check("portals", len(self.portals) == 2, "two base URLs")

    @property
    def homes_ahead(self) -> float:
        """The same in seconds."""
        return self.homes_days_ahead * 86_400

    def world(self) -> ListingsWorld:
        return ListingsWorld(self.seed, self.homes, self.sizes, self.moving_share, self.twin_share)

    def cost(self, items: int) -> float:
        """Return the cost of a run with this number of charged items, in US dollars."""
        pages = max(1, -(-items // 20))
        return self.price_start_usd + self.price_page_usd * pages + self.price_item_usd * max(0, items - 20)

    def _decoded(self, values: dict[str, Any]) -> dict[str, Any]:
        if "runs" in values:
            values["runs"] = tuple(RunRule.from_json(rule) for rule in values["runs"])
        for name in ("gone", "portals"):
            if name in values:
                values[name] = tuple(values[name])
        return super()._decoded(values)
