"""The queries of the sites pipeline: crawls, sites, pages, addresses; the plan of a crawl; links counted."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from forager.core.database import Database, Row
from forager.core.errors import NotFound
from forager.core.hosts import host_of, one_spelling
from forager.core.pipeline import Lane
from forager.extract.text.urls import url_hash
from forager.pipelines.sites.job import SiteJob
from forager.pipelines.sites.records import SiteCrawl
from forager.sdk.queries import QueryPage, Walk, at, decoded, loads, walk
from forager.sdk.reports import Report
from forager.sdk.service import Service

AT_ONCE = 500
MARKS = 200


class CrawlReport(Report):
    """One crawl or map of a site."""

    crawl: str
    site: str
    url: str
    mode: str
    options: dict[str, Any] = Field(description="Parameters of the crawl.")
    pages: int = Field(description="Pages that were fetched.")
    bytes: int
    unchanged: int = Field(description="Pages that the site reported as not modified (304).")
    duplicates: int = Field(description="Near-duplicates, whose links were not followed.")
    trapped: int = Field(description="Links that were left out because they lead into an endless space.")
    addresses: int = Field(description="Addresses that a map has stored.")
    job_id: str | None = Field(description="Set once the job has ended.")
    state: str = Field(description="`running` until the job has ended, then its state.")
    started_at: datetime | None
    ended_at: datetime | None


class SiteReport(Report):
    """A site that was crawled or mapped."""

    site: str
    pages: int = Field(description="Pages that are stored.")
    addresses: int = Field(description="Addresses that maps have found.")
    duplicates: int = Field(description="Stored pages that are near-duplicates of others.")
    gone: int = Field(description="Stored pages that the site does not have any more.")
    crawls: list[CrawlReport] = Field(description="The newest ones.")


class SitePageReport(Report):
    """A page of a site."""

    url: str
    site: str
    title: str | None
    language: str | None
    page_kind: str | None
    form: str | None
    content: str | None = Field(description="Left out of lists without `content`.")
    fields: dict[str, Any] | None
    sources: dict[str, Any] | None
    content_hash: str | None
    duplicate_of: str | None
    links_out: int | None
    links_in: int | None = Field(description="Pages of the site that link to this one; counted after the crawl.")
    status: int | None
    depth: int | None
    bytes: int | None
    first_seen_at: datetime
    last_seen_at: datetime
    changed_at: datetime
    gone_at: datetime | None


class AddressReport(Report):
    url: str
    source: str | None
    first_seen_at: datetime
    last_seen_at: datetime


class SitePlan(BaseModel):
    """Estimated pages and duration of a crawl. Making it fetches nothing."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "site": "docs.example",
                    "known": 420,
                    "at_most": 1000,
                    "seconds_per_page": 1.0,
                    "seconds": 420.0,
                    "at_most_seconds": 1000.0,
                    "robots": True,
                    "via_usd": "0",
                }
            ]
        }
    )

    site: str
    known: int | None = Field(description="Addresses that a map or an earlier crawl has found; null: none yet.")
    at_most: int = Field(description="`limit` of the job.")
    seconds_per_page: float = Field(description="At the pace in force for this site.")
    seconds: float | None = Field(description="For the known addresses, within the limit; null: unknown.")
    at_most_seconds: float = Field(description="For as many pages as the limit allows.")
    robots: bool = Field(description="True if robots.txt is obeyed.")
    via_usd: Decimal = Field(
        description="Price of `at_most` requests if the site is reached through the unblocking service; otherwise 0."
    )


async def plan_crawl(service: Service, job: SiteJob) -> SitePlan:
    """Count what is known of the site, and multiply by the pace in force."""
    lane = service.lane_for(job.site)
    pace = seconds_per_page(lane)
    known = 0
    for table in ("site_addresses", "site_pages"):
        rows = await service.database.fetch(f"SELECT count(*) AS n FROM {table} WHERE site = :site", {"site": job.site})
        known = max(known, int(rows[0]["n"]))
    most = job.most
    if job.max_minutes is not None and pace:
        most = min(most, max(1, int(job.max_minutes * 60 / pace)))
    return SitePlan(
        site=job.site,
        known=known or None,
        at_most=job.most,
        seconds_per_page=pace,
        seconds=round(min(known, most) * pace, 1) if known else None,
        at_most_seconds=round(most * pace, 1),
        robots=lane.robots,
        via_usd=service.via_cost([job.site]) * job.most,
    )


def seconds_per_page(lane: Lane) -> float:
    """Return the average time from one request to the next, as far as the lane's rules decide it."""
    by_rate = lane.per / lane.rate if lane.rate else 0.0
    by_gap = (lane.gap or 0.0) + (sum(lane.delay) / 2 if lane.delay else 0.0)
    return round(max(by_rate, by_gap), 3)


async def list_crawls(db: Database, *, site: str | None = None, limit: int = 100) -> list[CrawlReport]:
    """Return crawls and maps, newest first."""
    where, values = ("WHERE site = :site", {"site": one_spelling(site)}) if site else ("", {})
    rows = await db.fetch(
        f"SELECT * FROM site_crawls {where} ORDER BY started_at DESC, crawl DESC LIMIT :most", {**values, "most": limit}
    )
    return [_crawl(row) for row in rows]


async def one_site(db: Database, site: str) -> SiteReport:
    """Raises `NotFound` for a site that was never crawled or mapped."""
    name = one_spelling(site)
    crawls = await list_crawls(db, site=name, limit=20)
    if not crawls:
        raise NotFound(f"The site {name} was never crawled. Crawl it: forager site crawl https://{name}/")
    counted = await db.fetch(
        "SELECT count(*) AS pages, count(duplicate_of) AS duplicates, count(gone_at) AS gone"
        " FROM site_pages WHERE site = :site",
        {"site": name},
    )
    found = await db.fetch("SELECT count(*) AS n FROM site_addresses WHERE site = :site", {"site": name})
    return SiteReport(site=name, addresses=found[0]["n"], crawls=crawls, **counted[0])


async def list_pages(
    db: Database,
    site: str,
    *,
    content: bool = False,
    duplicates: bool = True,
    changed_since: datetime | None = None,
    cursor: str | None = None,
    limit: int = 100,
) -> QueryPage[SitePageReport]:
    """Return the pages of a site in the order of their discovery."""
    values: dict[str, Any] = {"site": one_spelling(site)}
    only = () if duplicates else ("w.duplicate_of IS NULL",)
    if changed_since is not None:
        values["since"] = round(changed_since.timestamp() * 1000)
        only = (*only, "w.changed_at >= :since")
    plan = Walk("site pages", "SELECT * FROM site_pages", ("id",), ("site = :site",), only=only, values=values)
    rows, following = await walk(db, plan, cursor, limit)
    return QueryPage(items=[_page(row, content=content) for row in rows], next_cursor=following)


async def one_page(db: Database, url: str) -> SitePageReport:
    """Return a page with its content. Raises `NotFound`."""
    from forager.pipelines.sites.addresses import one_address

    spelled = one_address(url)
    rows = await db.fetch("SELECT * FROM site_pages WHERE url_hash = :key", {"key": url_hash(spelled or url)})
    if not rows:
        raise NotFound(f"The page {url} is not stored. Crawl its site: forager site crawl {url}")
    return _page(rows[0], content=True)


async def list_addresses(
    db: Database, site: str, *, cursor: str | None = None, limit: int = 100
) -> QueryPage[AddressReport]:
    """Return the addresses that maps have found, in the order of their discovery."""
    values = {"site": one_spelling(site)}
    plan = Walk("site addresses", "SELECT * FROM site_addresses", ("id",), ("site = :site",), values=values)
    rows, following = await walk(db, plan, cursor, limit)
    reports = [
        AddressReport(
            url=row["url"],
            source=row["source"],
            first_seen_at=at(row["first_seen_at"]),
            last_seen_at=at(row["last_seen_at"]),
        )
        for row in rows
    ]
    return QueryPage(items=reports, next_cursor=following)


def _crawl(row: Row) -> CrawlReport:
    crawl = decoded(SiteCrawl, row)
    told = crawl.model_dump(exclude={"job", "state", "linked_at"})
    return CrawlReport(**told, job_id=crawl.job, state=crawl.state or "running")


def _page(row: Row, *, content: bool) -> SitePageReport:
    plain = "url site title language page_kind form content_hash duplicate_of links_out links_in status depth bytes"
    times = ("first_seen_at", "last_seen_at", "changed_at", "gone_at")
    return SitePageReport(
        **{name: row[name] for name in plain.split()},
        **{name: at(row[name]) for name in times},
        content=row["content"] if content else None,
        fields=loads(row["fields"]),
        sources=loads(row["sources"]),
    )


# Links in, counted once a crawl has ended. Counting them with every page would write fifty rows for each.


async def count_links(service: Service) -> None:
    """Count the links to each page of the sites whose crawls have ended since the last look."""
    db = service.database
    rows = await db.fetch(
        "SELECT crawl, site FROM site_crawls WHERE ended_at IS NOT NULL AND linked_at IS NULL AND mode = 'crawl'"
    )
    for site in sorted({row["site"] for row in rows}):
        await _count_of_site(db, site)
    now = await service.ledger.now_ms()
    for row in rows:
        await db.write("UPDATE site_crawls SET linked_at = :now WHERE crawl = :crawl", {"now": now, **_only(row)})


def _only(row: Row) -> Row:
    return {"crawl": row["crawl"]}


async def _count_of_site(db: Database, site: str) -> None:
    counted: Counter[str] = Counter()
    start, stored = 0, list[tuple[str, int | None]]()
    while rows := await db.fetch(
        "SELECT id, url, url_hash, links, links_in FROM site_pages WHERE site = :site AND id > :start ORDER BY id"
        f" LIMIT {AT_ONCE}",
        {"site": site, "start": start},
    ):
        for row in rows:
            counted.update(url for url in loads(row["links"]) or () if url != row["url"])
            stored.append((row["url_hash"], row["links_in"]))
        start = rows[-1]["id"]
    by_hash = {url_hash(url): number for url, number in counted.items()}
    groups: dict[int, list[str]] = defaultdict(list)
    for key, before in stored:
        if (number := by_hash.get(key, 0)) != before:
            groups[number].append(key)
    for number, keys in groups.items():
        for first in range(0, len(keys), MARKS):
            await _set_links(db, number, keys[first : first + MARKS])


async def _set_links(db: Database, number: int, keys: Sequence[str]) -> None:
    values = {f"key{place}": key for place, key in enumerate(keys)}
    marks = ", ".join(f":{mark}" for mark in values)
    await db.write(
        f"UPDATE site_pages SET links_in = :number WHERE url_hash IN ({marks})", {**values, "number": number}
    )


def site_of_params(params: Mapping[str, Any]) -> str:
    """Return the site of a job's parameters."""
    return host_of(str(params.get("url", "")))
