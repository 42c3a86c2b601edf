"""Estimates the cost of a places job before anything is spent (PL-5). Pure.

A job runs page-major: first page 1 of every ZIP, then page 2 of those whose page 1 was full, and so on. So the estimate
follows from one list: the number of queries per page.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from forager.extract.serper import package_for
from forager.pipelines.places.job import PlacesJob, point_of, zip_codes
from forager.pipelines.places.parse import CREDIT, MAP_CREDITS
from forager.pipelines.places.zips import ZipTable

PRIOR = 0.6
"""Assumed share of full pages without recorded data."""

Binds = Literal["max_credits", "lane_rate", "concurrency", "latency"]


@dataclass(frozen=True, slots=True)
class Terms:
    """The limits and the price of a job. If `price_per_1000` is None, the price of the rate's package applies."""

    rate: int = 300
    concurrency: int = 1_000
    latency: float = 1.0
    price_per_1000: Decimal | None = None
    map_credits: int = MAP_CREDITS
    """Credits for one page of a map (areas given by coordinates)."""


@dataclass(frozen=True, slots=True)
class Pages:
    """Numbers of full and of short result pages, over all recorded jobs."""

    full: int
    short: int


@dataclass(frozen=True, slots=True)
class Density:
    """Recorded pages by ZIP: of the job's own keyword, and of any keyword."""

    same_keyword: Mapping[str, Pages] = field(default_factory=dict)
    any_keyword: Mapping[str, Pages] = field(default_factory=dict)
    prior: float = PRIOR

    def knows(self, zip_code: str) -> bool:
        return zip_code in self.same_keyword or zip_code in self.any_keyword

    def reach(self, zip_code: str, page: int, *, same_keyword: bool = True) -> float:
        """Return the probability that this page of the ZIP is queried: page 1 always, later ones only after full
        pages."""
        if page == 1:
            return 1.0
        same = self.same_keyword.get(zip_code) if same_keyword else None
        if same is not None:
            # The same query ran before and will end at the same page, so this is a depth and not a probability.
            return 1.0 if not same.short else min(1.0, max(0.0, same.full / same.short - page + 2))
        seen = self.any_keyword.get(zip_code)
        chance = seen.full / (seen.full + seen.short) if seen and seen.full + seen.short else self.prior
        return float(chance ** (page - 1))


class PlacesPlan(BaseModel):
    """The price of a places job: queries, credits, cost, time, and what limits it."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "zips": 305,
                    "pages": 3,
                    "queries": 915,
                    "worst_credits": 915,
                    "expected_credits": 598,
                    "zips_with_history": 0,
                    "price_per_1000_usd": "0.30",
                    "package": "Ultimate",
                    "worst_usd": "0.2745",
                    "expected_usd": "0.1794",
                    "expected_seconds": 3.4,
                    "worst_seconds": 4.0,
                    "binds": "latency",
                }
            ]
        },
    )

    zips: int = Field(description="Number of ZIPs or areas.")
    keywords: int = Field(default=1, description="Number of keywords; each is searched in every ZIP or area.")
    pages: int = Field(description="Maximum pages per ZIP.")
    queries: int = Field(description="Tasks of the job: ZIPs times keywords times pages.")
    worst_credits: int = Field(description="Credits if every page is full, never above max_credits.")
    expected_credits: int = Field(description="Expected credits by recorded density, never above max_credits.")
    zips_with_history: int = Field(
        description="ZIPs with recorded density; for the others 60 % full pages are assumed."
    )
    price_per_1000_usd: Decimal = Field(description="Price of 1,000 credits.")
    package: str | None = Field(description="Serper package that the price is of; null if the price is set.")
    worst_usd: Decimal = Field(description="Price of worst_credits.")
    expected_usd: Decimal = Field(description="Price of expected_credits.")
    expected_seconds: float = Field(description="Time for the expected queries, on a lane that no other job uses.")
    worst_seconds: float = Field(description="Time if every page is full.")
    binds: Binds = Field(
        description="The limit of the job: its budget, the lane's rate, the requests in flight, "
        "or the latency of pages that wait for one another."
    )


def estimate(job: PlacesJob, zips: ZipTable, terms: Terms, density: Density | None = None) -> PlacesPlan:
    density = density or Density()
    codes = zip_codes(job, zips)
    depth = job.pages - job.first_page + 1  # a second pass begins behind pages that were full
    others, keywords = len(job.more_keywords), 1 + len(job.more_keywords)
    likely = [
        sum(
            density.reach(code, page) + (others * density.reach(code, page, same_keyword=False) if others else 0)
            for code in codes
        )
        for page in range(1, depth + 1)
    ]
    credit = CREDIT if job.areas is None or point_of(job.areas[0]) is None else terms.map_credits
    most = None if job.max_credits is None else job.max_credits // credit
    expected, worst = _within(likely, most), _within([float(len(codes) * keywords)] * depth, most)
    pace = _pace(job, terms)
    seconds = _seconds(expected, pace, terms.latency)
    package = package_for(terms.rate) if terms.price_per_1000 is None else None
    price = package.price_per_1000 if package else terms.price_per_1000 or Decimal(0)
    expected_credits, worst_credits = round(sum(expected)) * credit, round(sum(worst)) * credit
    return PlacesPlan(
        zips=len(codes),
        keywords=keywords,
        pages=depth,
        queries=len(codes) * keywords * depth,
        worst_credits=worst_credits,
        expected_credits=expected_credits,
        zips_with_history=sum(map(density.knows, codes)),
        price_per_1000_usd=price,
        package=package.name if package else None,
        worst_usd=price * worst_credits / 1000,
        expected_usd=price * expected_credits / 1000,
        expected_seconds=round(seconds, 1),
        # Under a budget short pages may take longer than full ones: the same credits reach deeper pages.
        worst_seconds=round(max(seconds, _seconds(worst, pace, terms.latency)), 1),
        binds="max_credits" if sum(expected) < sum(likely) else _binds(expected, pace, terms),
    )


def _within(per_page: Sequence[float], most: int | None) -> list[float]:
    """Return the queries per page that a budget pays for, page by page until it is spent."""
    left = float("inf") if most is None else float(most)
    paid = []
    for queries in per_page:
        paid.append(min(queries, left))
        left -= paid[-1]
    return paid


def _pace(job: PlacesJob, terms: Terms) -> float:
    """Return the queries per second under load: the lane's rate, or what the concurrency allows."""
    in_flight = min(job.concurrency or terms.concurrency, terms.concurrency)
    return min(float(terms.rate), in_flight / terms.latency) if terms.latency > 0 else float(terms.rate)


def _seconds(per_page: Sequence[float], pace: float, latency: float) -> float:
    """Return the seconds that all rounds take. A page starts when the one before is answered: a round takes as long as
    its sending, or one latency if longer."""
    rounds = _rounds(per_page)
    if not rounds:
        return 0.0
    return sum(max(queries / pace, latency) for queries in rounds[:-1]) + rounds[-1] / pace + latency


def _binds(per_page: Sequence[float], pace: float, terms: Terms) -> Binds:
    """Return the binding limit: whichever would help more, twice the pace or half the latency."""
    faster = _seconds(per_page, pace * 2, terms.latency)
    nearer = _seconds(per_page, pace, terms.latency / 2)
    if nearer < faster:
        return "latency"
    return "concurrency" if pace < terms.rate else "lane_rate"


def _rounds(per_page: Sequence[float]) -> list[float]:
    """Return the pages that will probably be queried."""
    return [queries for queries in per_page if queries >= 0.5]
