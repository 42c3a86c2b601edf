"""What a crawl would ask of each shop, and how long that takes at the pace in force. Fetches nothing."""

from collections import Counter

from pydantic import BaseModel, ConfigDict, Field

from forager.core.hosts import host_of
from forager.core.pipeline import Lane
from forager.kit.service import Service
from forager.pipelines.products.job import CrawlJob


class ShopPlan(BaseModel):
    """The part of a crawl that one shop gets."""

    domain: str
    pages: int = Field(description="Pages that are named, or known from earlier crawls of a sitemap or site.")
    seconds_per_page: float = Field(description="At the pace in force for this shop.")
    seconds: float = Field(description="For all of these pages.")


class CrawlPlan(BaseModel):
    """What a crawl would fetch, and how long it would take."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "pages": 40,
                    "more": False,
                    "seconds": 40.0,
                    "shops": [{"domain": "shop.example", "pages": 40, "seconds_per_page": 1.0, "seconds": 40.0}],
                }
            ]
        }
    )

    pages: int
    more: bool = Field(description="Whether a sitemap or links may bring more pages than are known now.")
    seconds: float = Field(description="Of the slowest shop: shops are crawled side by side.")
    shops: list[ShopPlan]


async def price(service: Service, job: CrawlJob) -> CrawlPlan:
    """Count the pages by shop. A sitemap or a site that is followed counts the pages that are known of it."""
    counted = Counter(host_of(url) for url in job.every_url())
    explored = {host_of(job.sitemap)} if job.sitemap else set(counted) if job.follow else set()
    for host in explored:
        rows = await service.database.fetch("SELECT count(*) AS pages FROM pages WHERE domain = :d", {"d": host})
        counted[host] = max(counted[host], int(rows[0]["pages"]))
    most = job.max_pages
    shops = []
    for host, pages in sorted(counted.items()):
        bounded = pages if most is None else min(pages, most)
        pace = seconds_per_page(service.lane_for(host))
        shops.append(ShopPlan(domain=host, pages=bounded, seconds_per_page=pace, seconds=round(bounded * pace, 1)))
    total = sum(shop.pages for shop in shops)
    return CrawlPlan(
        pages=total if most is None else min(total, most),
        more=bool(explored) and (most is None or total < most),
        seconds=max((shop.seconds for shop in shops), default=0.0),
        shops=shops,
    )


def seconds_per_page(lane: Lane) -> float:
    """The time from one request to the next on average, as far as the lane's rules decide it."""
    by_rate = lane.per / lane.rate if lane.rate else 0.0
    by_gap = (lane.gap or 0.0) + (sum(lane.delay) / 2 if lane.delay else 0.0)
    return round(max(by_rate, by_gap), 3)
