"""The kinds of work: a scrape of a market in four steps, the verification of a listing, and the upkeep."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal, NamedTuple
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, model_validator

from forager.core.hosts import host_of
from forager.core.task import Task

# Markets: the cities that are scraped, how often, and how fast their listings age. Values only.


TierName = Literal["hot", "standard", "cool"]


class Tier(NamedTuple):
    """The pace of a market."""

    frequency_hours: int
    """Hours between two scrapes, unless the market has its own."""
    decay_rate: int
    """Points of confidence that a listing loses per hour."""


TIERS: Final[Mapping[TierName, Tier]] = MappingProxyType(
    {"hot": Tier(6, 3), "standard": Tier(12, 2), "cool": Tier(24, 1)}
)


def override_of(hours: int | None, tier: TierName) -> int | None:
    """Return the hours between two scrapes that a market keeps when its tier changes; None if the tier decides.

    The tier's own number is not an override, so that a client can send back a market as it read it.
    """
    return None if hours == TIERS[tier].frequency_hours else hours


MAX_LISTINGS: Final = 100
"""Maximum listings of one scrape, unless the market has its own limit."""


@dataclass(frozen=True, slots=True)
class Market:
    """A city as it comes with the install."""

    id: str
    display_name: str
    city: str
    """The city's name in the search of the source."""
    state: str
    """Two letters."""
    tier: TierName

    @property
    def search(self) -> str:
        """The location words that the source searches for: "Boston, MA"."""
        return f"{self.city}, {self.state}"


INITIAL_MARKETS: Final = (
    Market("nyc", "New York City", "New York", "NY", "hot"),
    Market("boston", "Boston", "Boston", "MA", "hot"),
    Market("washington-dc", "Washington DC", "Washington", "DC", "hot"),
    Market("philadelphia", "Philadelphia", "Philadelphia", "PA", "hot"),
    Market("pittsburgh", "Pittsburgh", "Pittsburgh", "PA", "standard"),
    Market("baltimore", "Baltimore", "Baltimore", "MD", "standard"),
    Market("newark", "Newark", "Newark", "NJ", "standard"),
    Market("jersey-city", "Jersey City", "Jersey City", "NJ", "standard"),
    Market("cambridge", "Cambridge", "Cambridge", "MA", "standard"),
    Market("arlington-va", "Arlington VA", "Arlington", "VA", "standard"),
    Market("bryn-mawr", "Bryn Mawr", "Bryn Mawr", "PA", "cool"),
    Market("hoboken", "Hoboken", "Hoboken", "NJ", "cool"),
    Market("stamford", "Stamford", "Stamford", "CT", "cool"),
    Market("new-haven", "New Haven", "New Haven", "CT", "cool"),
    Market("providence", "Providence", "Providence", "RI", "cool"),
    Market("richmond", "Richmond", "Richmond", "VA", "cool"),
    Market("charlotte", "Charlotte", "Charlotte", "NC", "cool"),
    Market("raleigh", "Raleigh", "Raleigh", "NC", "cool"),
    Market("hartford", "Hartford", "Hartford", "CT", "cool"),
)
"""Stored at the first start. Later ones are rows like these: nothing in the code names a city again."""


STARTS_LANE = "apify:starts"
"""The lane in which runs are started one after the other, so that the limits of the data source are exact."""
API_LANE = "apify:api"
ITEMS_LANE = "apify:items"
"""Pages of datasets are stored one after the other, so that two pages never store one listing twice."""
UPKEEP_LANE = "listings"


LOWEST_RENT, HIGHEST_RENT = 100, 100_000


class RentBand(NamedTuple):
    """A part of the rents of a market, in whole dollars a month; None: without a bound on this side."""

    low: int | None = None
    high: int | None = None

    def __str__(self) -> str:
        """Return it as a list page of the source names it."""
        if self.low is None:
            return f"under-{self.high}"
        return f"over-{self.low}" if self.high is None else f"{self.low}-to-{self.high}"

    def halves(self, middle: int) -> tuple["RentBand", "RentBand"] | None:
        """Return the two parts below and from this rent on; None if it leaves nothing on one side."""
        if not (self.low or LOWEST_RENT) < middle < (self.high or HIGHEST_RENT):
            return None
        return RentBand(self.low, middle - 1), RentBand(middle, self.high)


class ScrapedMarket(BaseModel):
    """The market of a scrape, as it was when the scrape was dispatched."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    market_id: str = Field(min_length=1, max_length=64, description="Id of the market.", examples=["nyc"])
    city: str = Field(min_length=1, max_length=100, examples=["New York"])
    state: str = Field(min_length=2, max_length=2, examples=["NY"])
    tier: TierName = Field("standard", examples=["hot"])
    max_listings: int = Field(100, ge=1, le=10_000, description="Maximum properties to request.")
    usual_found: int | None = Field(None, description="The median of what its last ten scrapes found.")
    since: datetime = Field(
        description="Due time; the next one is due a period later.", examples=["2026-03-01T06:00:00Z"]
    )
    start_at: datetime | None = Field(None, description="Start time of its run; null: at once.")
    splits: int = Field(0, ge=0, le=100, description="Further runs that it may start for parts of the rents.")
    band: RentBand | None = Field(None, description="The part of the rents that its run reads; null: all.")
    bands: tuple[RentBand, ...] = Field((), description="The parts that it reads afterwards.")
    cut_off: bool = Field(False, description="A part was cut off and could not be split again.")

    @model_validator(mode="before")
    @classmethod
    def _without_job(cls, values: Any) -> Any:
        """Leave out `job_id`, which parameters and tasks of an earlier release have: the ledger has the job's id."""
        return (
            {name: value for name, value in values.items() if name != "job_id"} if isinstance(values, dict) else values
        )

    @property
    def id(self) -> str:
        return f"{self.market_id}/{self.since:%Y%m%dT%H%M%S%f}"

    def row(self, job: UUID | None) -> dict[str, object]:
        """Return the columns of its row in `market_scrapes` that are known from the start; the job only if it is
        given."""
        own = {} if job is None else {"job_id": str(job)}
        return {"market_id": self.market_id, "started_at": self.since, **own}

    @property
    def search(self) -> str:
        """The location words that the source searches for."""
        return f"{self.city}, {self.state}"

    @property
    def part(self) -> str:
        """Return the part of its tasks' keys that distinguishes its runs from those of its other parts."""
        return self.id if self.band is None else f"{self.id}/{self.band}"

    @property
    def list_page(self) -> str | None:
        """Return the page of the source with the part of the rents that its run reads; None if it reads all."""
        if self.band is None:
            return None
        place = re.sub(r"[^a-z]+", "-", self.city.lower()).strip("-")
        return f"https://www.apartments.com/{place}-{self.state.lower()}/{self.band}/"

    def split(self, middle: int | None) -> "ScrapedMarket | None":
        """Return the scrape that continues with the lower half of a part that was cut off at this median rent. None if
        its runs are used up, or it cannot be divided there."""
        halves = None if middle is None else (self.band or RentBand()).halves(middle)
        if halves is None or self.splits < len(halves):
            return None
        low, high = halves
        further = {"splits": self.splits - 2, "band": low, "bands": (high, *self.bands), "start_at": None}
        return self.model_copy(update=further)

    def next_part(self, *, cut_off: bool) -> "ScrapedMarket | None":
        """Return the scrape that continues with its next part; None after the last."""
        if not self.bands:
            return None
        update = {"band": self.bands[0], "bands": self.bands[1:], "cut_off": self.cut_off or cut_off}
        return self.model_copy(update=update)

    @property
    def decay_rate(self) -> int:
        return TIERS[self.tier].decay_rate


class ScrapeCity(Task):
    """Start a run of the actor for a market: the first one, or one after a run that did not succeed."""

    kind: ClassVar[str] = "listings.scrape_city"

    scrape: ScrapedMarket
    number: int = 1
    """Counts the runs of this scrape."""
    timeout: int = 600
    """Seconds that the run may take."""

    def key(self) -> str:
        return f"{self.scrape.part}/{self.number}"

    def lane(self) -> str:
        return STARTS_LANE


class OfRun(Task):
    """Something about a run that was started."""

    scrape: ScrapedMarket
    number: int
    run_id: str
    dataset_id: str
    started_at: datetime
    timeout: int

    def key(self) -> str:
        return f"{self.scrape.part}/{self.number}"

    def lane(self) -> str:
        return API_LANE

    def about(self) -> dict[str, object]:
        """Return the fields that all tasks about this run share."""
        return {name: getattr(self, name) for name in OfRun.model_fields}


class PollRun(OfRun):
    """Wait for the end of a run."""

    kind: ClassVar[str] = "listings.poll_run"


class ReadItems(OfRun):
    """Read one page of the dataset of a run that succeeded."""

    kind: ClassVar[str] = "listings.read_items"

    offset: int = 0

    def key(self) -> str:
        return f"{self.scrape.part}/{self.number}/{self.offset}"

    def lane(self) -> str:
        return ITEMS_LANE


class FinishScrape(OfRun):
    """Read the final cost of the run, and judge the whole scrape."""

    kind: ClassVar[str] = "listings.finish_scrape"

    found: int | None = None
    """Rows of this run's dataset; None in a task of an earlier release."""


class RunCost(OfRun):
    """Read the final cost of a run that did not succeed."""

    kind: ClassVar[str] = "listings.run_cost"


class FailScrape(Task):
    """The last run of a scrape did not succeed: its job fails, once what the runs cost is known."""

    kind: ClassVar[str] = "listings.fail_scrape"

    scrape: ScrapedMarket
    reason: str
    message: str

    def key(self) -> str:
        return self.scrape.id

    def lane(self) -> str:
        return UPKEEP_LANE


UpkeepAction = Literal["dispatch_scrapes", "decay_and_verify", "cleanup_maintenance"]


class Upkeep(Task):
    """One run of a schedule; what does not fit into one settlement goes on in the next part."""

    kind: ClassVar[str] = "listings.upkeep"

    action: UpkeepAction
    part: int = 1

    def key(self) -> str:
        return f"{self.action}/{self.part}"

    def lane(self) -> str:
        return UPKEEP_LANE


class CancelScrapes(Task):
    """Cancel the jobs of scrapes that maintenance has counted as failed."""

    kind: ClassVar[str] = "listings.cancel_scrapes"

    jobs: tuple[UUID, ...]

    def key(self) -> str:
        return str(self.jobs[0])

    def lane(self) -> str:
        return UPKEEP_LANE


class Retier(Task):
    """Give the listings of a market, page by page, the ageing of its new tier."""

    kind: ClassVar[str] = "listings.retier"

    market_id: str
    rate: int
    after: int = 0
    """The id of the last row that was done."""

    def key(self) -> str:
        return f"{self.market_id}/{self.after}"

    def lane(self) -> str:
        return UPKEEP_LANE


class SplitListing(Task):
    """Undo a wrong merge."""

    kind: ClassVar[str] = "listings.split"

    source_key: str
    listing_key: str

    def key(self) -> str:
        return f"{self.listing_key}/{self.source_key}"

    def lane(self) -> str:
        return ITEMS_LANE


class VerifyListing(Task):
    """Look whether a listing is still on the pages that showed it."""

    kind: ClassVar[str] = "listings.verify_listing"

    listing_key: str
    market_id: str
    url: str
    """The page that is fetched first; its host is the task's lane."""

    def key(self) -> str:
        return self.listing_key

    def lane(self) -> str:
        return host_of(self.url)
