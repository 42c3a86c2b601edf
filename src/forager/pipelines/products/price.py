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
    pages: int | None = Field(
        description="Pages that are named, or known from earlier crawls of a sitemap or site. Null: unknown until the"
        " sitemap is read."
    )
    seconds_per_page: float = Field(description="At the pace in force for this shop.")
    seconds: float | None = Field(description="For all of these pages; null if their number is unknown.")


class CrawlPlan(BaseModel):
    """What a crawl would fetch, and how long it would take."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "pages": 40,
                    "more": False,
                    "at_most": None,
                    "seconds": 40.0,
                    "shops": [{"domain": "shop.example", "pages": 40, "seconds_per_page": 1.0, "seconds": 40.0}],
                }
            ]
        }
    )

    pages: int | None = Field(description="Pages that are known now; null: unknown until the sitemap is read.")
    more: bool = Field(description="Whether a sitemap or links may bring more pages than are known now.")
    at_most: int | None = Field(description="`max_pages` of the job: never more pages than this. Null: no limit.")
    seconds: float | None = Field(description="Of the slowest shop: shops are crawled side by side.")
    shops: list[ShopPlan]


async def price(service: Service, job: CrawlJob) -> CrawlPlan:
    """Count the pages by shop. A sitemap or a site that is followed counts the pages that are known of it. The number
    of pages of a sitemap that was never crawled is unknown: a plan fetches nothing."""
    counted = Counter(host_of(url) for url in job.every_url())
    explored = {host_of(job.sitemap)} if job.sitemap else set(counted) if job.follow else set()
    for host in explored:
        rows = await service.database.fetch("SELECT count(*) AS pages FROM pages WHERE domain = :d", {"d": host})
        counted[host] = max(counted[host], int(rows[0]["pages"]))
    most = job.max_pages
    unread = host_of(job.sitemap) if job.sitemap and not counted[host_of(job.sitemap)] else None
    shops = []
    for host, pages in sorted(counted.items()):
        bounded = None if host == unread else pages if most is None else min(pages, most)
        pace = seconds_per_page(service.lane_for(host))
        seconds = None if bounded is None else round(bounded * pace, 1)
        shops.append(ShopPlan(domain=host, pages=bounded, seconds_per_page=pace, seconds=seconds))
    known = [shop for shop in shops if shop.pages is not None]
    total = sum(shop.pages or 0 for shop in known)
    return CrawlPlan(
        pages=(total if most is None else min(total, most)) if known else None,
        more=bool(explored) and (most is None or total < most),
        at_most=most,
        seconds=max((shop.seconds or 0.0 for shop in known), default=None),
        shops=shops,
    )


def seconds_per_page(lane: Lane) -> float:
    """The time from one request to the next on average, as far as the lane's rules decide it."""
    by_rate = lane.per / lane.rate if lane.rate else 0.0
    by_gap = (lane.gap or 0.0) + (sum(lane.delay) / 2 if lane.delay else 0.0)
    return round(max(by_rate, by_gap), 3)
