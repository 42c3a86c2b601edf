"""The rules for a domain, with the same fields and limits for the policy file and for operators.

Every field may be None: then the next source in the order of precedence applies. This module decides nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, Protocol, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    ValidationInfo,
    field_validator,
)

from forager.core.http import Fetch
from forager.core.pipeline import Hours

Resource = Literal["image", "font", "media", "stylesheet"]
RESOURCES: tuple[Resource, ...] = get_args(Resource)

MOST_TOKENS = 100_000
DAY_SECONDS = 86_400
LONGEST_DELAY_MS = 3_600_000


class AllowedHours(BaseModel):
    """Whole hours of the UTC day, from `start` until `end`, also across midnight."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    start: StrictInt = Field(ge=0, le=23, description="The first hour that is open.", examples=[6])
    end: StrictInt = Field(ge=0, le=24, description="The hour at which it closes; 24 is midnight.", examples=[22])

    @field_validator("end")
    @classmethod
    def _is_not_the_start(cls, end: int, known: ValidationInfo) -> int:
        if end == known.data.get("start"):
            raise ValueError("it should differ from start; for the whole day write start 0 and end 24")
        return end

    def hours(self) -> Hours:
        return Hours(self.start, self.end)


def _each_once(names: tuple[Resource, ...]) -> tuple[Resource, ...]:
    return tuple(name for name in RESOURCES if name in names)


class Rules(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    tokens_per_interval: StrictFloat | None = Field(
        None, gt=0, le=MOST_TOKENS, description="Maximum requests in any window of that length.", examples=[2]
    )
    interval_seconds: StrictFloat | None = Field(
        None, gt=0, le=DAY_SECONDS, description="Length of the window.", examples=[10]
    )
    min_delay_ms: StrictInt | None = Field(
        None,
        ge=0,
        le=LONGEST_DELAY_MS,
        description="Minimum of the random pause between two requests.",
        examples=[500],
    )
    max_delay_ms: StrictInt | None = Field(
        None,
        ge=0,
        le=LONGEST_DELAY_MS,
        description="Maximum of the random pause between two requests.",
        examples=[2000],
    )
    allowed_hours: AllowedHours | None = Field(
        None,
        description="Hours of the UTC day in which requests to the site are allowed.",
        examples=[{"start": 6, "end": 22}],
    )
    respect_robots_txt: StrictBool | None = Field(None, description="Obey robots.txt.", examples=[True])
    max_concurrent_requests: StrictInt | None = Field(
        None, ge=1, le=MOST_TOKENS, description="Maximum requests in flight.", examples=[5]
    )
    crawl_delay_seconds: StrictFloat | None = Field(
        None, ge=0, le=DAY_SECONDS, description="Minimum time between two requests.", examples=[1]
    )
    use_proxies: StrictBool | None = Field(None, description="Use proxies, if there are any.", examples=[True])
    proxy_cooldown_seconds: StrictFloat | None = Field(
        None, ge=0, le=DAY_SECONDS, description="Rest of each proxy between two requests here.", examples=[30]
    )
    block_resources: Annotated[tuple[Resource, ...], AfterValidator(_each_once)] | None = Field(
        None,
        max_length=20,
        description="Types of content that a browser does not load.",
        examples=[["image", "font", "media"]],
    )
    via: StrictBool | None = Field(
        None, description="Send requests through the unblocking service, which costs money.", examples=[True]
    )

    @field_validator("max_delay_ms")
    @classmethod
    def _is_not_below_the_least(cls, most: int | None, known: ValidationInfo) -> int | None:
        least = known.data.get("min_delay_ms")
        if most is not None and least is not None and most < least:
            raise ValueError(f"it should not be less than min_delay_ms, {least}")
        return most

    def is_silent(self) -> bool:
        """Return whether no field is set."""
        return all(value is None for _, value in self)


FIELDS: tuple[str, ...] = tuple(Rules.model_fields)


@dataclass(frozen=True, slots=True)
class Overrides:
    """Every override that operators have set. `marker` is passed to the next `changed_since`."""

    marker: int
    rules: Mapping[str, Rules] = field(default_factory=dict)
    inactive: frozenset[str] = frozenset()
    """Domains that an operator has switched off."""


class OverrideSource(Protocol):
    """Storage of operators' overrides. The ledger's `Domains` table implements it."""

    async def changed_since(self, marker: int | None) -> Overrides | None:
        """Return all overrides, or None if nothing changed since `marker`."""
        ...


# The port for robots.txt: whether a URL may be fetched, and how slowly.


@dataclass(frozen=True, slots=True)
class RobotsVerdict:
    allowed: bool
    crawl_delay: float | None = None
    """Seconds from one request to the next, as robots.txt requires."""
    ask_again_in: float | None = None
    """Set if the file could not be fetched: nothing is allowed then, and it is fetched again after this number of
    seconds."""


@dataclass(frozen=True, slots=True)
class RobotsFile:
    """One origin's file as stored. Times are Unix milliseconds."""

    origin: str
    """`scheme://host:port`: each origin has its own file."""
    tried_at: int
    status: int | None = None
    """Status of the last try; None if there was no answer."""
    body: str | None = None
    """The last good copy; empty if the origin has none."""
    good_at: int | None = None


class RobotsStore(Protocol):
    """Stores the files across restarts."""

    async def read(self, origin: str) -> RobotsFile | None: ...

    async def keep(self, file: RobotsFile) -> None:
        """Replace the stored file of an origin, unless that is from a later try."""
        ...


class Robots(Protocol):
    async def ask(self, url: str, fetch: Fetch) -> RobotsVerdict:
        """Return the verdict on a URL. A file that is unknown or outdated is read through `fetch`, which counts it in
        the right lane and may raise its own errors."""
        ...
