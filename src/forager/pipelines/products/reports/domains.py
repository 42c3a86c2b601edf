"""The domains that are crawled: a row for each, in the table of operators' rules for domains."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from pydantic import Field

from forager.core.database import Database, Row
from forager.core.errors import NotFound
from forager.core.hosts import host_of, one_spelling
from forager.core.ids import unknown_filter
from forager.core.ledger import Submitted
from forager.pipelines.products.job import CrawlJob
from forager.pipelines.products.pipeline import NAME
from forager.pipelines.products.tasks import recrawl_key
from forager.sdk.queries import QueryPage, Walk, at, walk
from forager.sdk.reports import Report
from forager.sdk.service import Service

USUAL_DELAY, USUAL_CONCURRENCY = 1.0, 5
AT_ONCE = 2_000
"""Pages whose times are moved in one statement, so that no other writer waits long."""

NAMES_READ = 2_000
"""Names of shops that a mistyped one is compared with: a comparison takes some 10 µs."""
_IS_SHOP = "SELECT 1 AS found FROM domains WHERE domain_name = :name"
_HAS_ITEM = "SELECT 1 AS found FROM items WHERE domain = :name LIMIT 1"
_NAMES = "SELECT domain_name FROM domains ORDER BY id DESC LIMIT :most"


class DomainReport(Report):
    """A shop."""

    id: int
    domain_name: str
    base_url: str | None
    crawl_delay_seconds: float = Field(description="Least seconds from one request to the next.")
    max_concurrent_requests: int
    is_active: bool = Field(description="False: an operator has paused it.")
    currency: str | None = Field(description="For prices of pages without a currency.")
    crawl_frequency: int | None = Field(description="Seconds between two crawls of a page; null: a day.")
    recrawl_job: UUID | None = Field(description="The standing job of its recrawls, once there is one.")
    created_at: datetime
    updated_at: datetime


async def with_frequencies(service: Service, job: CrawlJob) -> CrawlJob:
    """Return the job with the crawl frequencies that operators have set for its domains."""
    frequencies = await frequencies_of(service.database, job.hosts())
    known = {**job.domain_frequencies, **frequencies}
    return job.model_copy(update={"domain_frequencies": known}) if frequencies else job


async def submit_crawl(service: Service, body: dict[str, Any], key: str | None = None) -> Submitted:
    """Create a crawl job, and a row for each domain that has none yet."""
    made = await service.submit(NAME, body, key=key)
    await remember_domains(service.database, CrawlJob.model_validate(body).addresses(), await service.ledger.now_ms())
    return made


async def require_shop(db: Database, domain: str | None) -> None:
    """Raise `Rejected`, with the names that are near, for a shop that no crawl has named. None is no filter."""
    if domain is None:
        return
    name = {"name": one_spelling(domain)}
    if await db.fetch(_IS_SHOP, name) or await db.fetch(_HAS_ITEM, name):
        return
    known = [row["domain_name"] for row in await db.fetch(_NAMES, {"most": NAMES_READ})]
    raise unknown_filter("domain", "shop", domain, known, "See `forager products domains list`.")


async def remember_domains(db: Database, urls: Iterable[str], now_ms: int) -> None:
    """Make a row for the host of each URL that has none."""
    hosts = {host_of(url): url for url in urls}
    for host, url in list(hosts.items())[:1_000]:
        scheme = url.partition("://")[0]
        await db.write(
            "INSERT INTO domains (domain_name, base_url, created_at, updated_at) VALUES (:name, :base, :now, :now)"
            " ON CONFLICT (domain_name) DO UPDATE SET base_url = excluded.base_url WHERE domains.base_url IS NULL",
            {"name": host, "base": f"{scheme}://{host}", "now": now_ms},
        )


async def remember_parsed(db: Database, now_ms: int) -> None:
    """Add rows for parsed domains that have none: their job was created by a schedule or `POST /jobs`.

    Reads only the days of today and yesterday (UTC): this runs often, and a page may be parsed just before midnight.
    """
    first = datetime.fromtimestamp(now_ms / 1000, UTC).date() - timedelta(days=1)
    rows = await db.fetch(_UNKNOWN, {"first": first.isoformat()})
    await remember_domains(db, [row["url"] for row in rows if row["url"]], now_ms)


async def frequencies_of(db: Database, hosts: Iterable[str]) -> dict[str, int]:
    """Return the crawl frequencies, in seconds, that operators have set for these hosts."""
    hosts = sorted(set(hosts))[:1_000]
    if not hosts:
        return {}
    values = {f"name{number}": host for number, host in enumerate(hosts)}
    marks = ", ".join(f":{mark}" for mark in values)
    rows = await db.fetch(
        "SELECT domain_name, crawl_frequency FROM domains"
        f" WHERE crawl_frequency IS NOT NULL AND domain_name IN ({marks})",
        values,
    )
    return {row["domain_name"]: row["crawl_frequency"] for row in rows}


async def list_domains(db: Database, *, cursor: str | None = None, limit: int = 100) -> QueryPage[DomainReport]:
    """List domains by id."""
    rows, following = await walk(db, Walk("crawled domains", "SELECT * FROM domains", ("id",)), cursor, limit)
    return QueryPage(items=await _reports(db, rows), next_cursor=following)


async def one_domain(db: Database, number: int) -> DomainReport:
    """Return a domain. Raises `NotFound` for an unknown id."""
    rows = await db.fetch("SELECT * FROM domains WHERE id = :id", {"id": number})
    if not rows:
        raise NotFound(f"There is no domain {number}. See `forager products domains list`.")
    return (await _reports(db, rows))[0]


async def change_domain(db: Database, number: int, changes: dict[str, Any], now_ms: int) -> DomainReport:
    """Set the currency or the crawl frequency; the pages of the domain that have no frequency of their own follow."""
    before = await one_domain(db, number)
    for name in ("currency", "crawl_frequency"):
        if name in changes:
            await db.write(
                f"UPDATE domains SET {name} = :value, updated_at = :now WHERE id = :id",
                {"value": changes[name], "now": now_ms, "id": number},
            )
    if "crawl_frequency" in changes:
        await _reschedule(db, before.domain_name, changes["crawl_frequency"])
    return await one_domain(db, number)


async def _reschedule(db: Database, domain: str, frequency: int | None) -> None:
    start = 0
    while True:
        rows = await db.fetch(
            "SELECT id FROM pages WHERE domain = :domain AND id > :start ORDER BY id LIMIT :most",
            {"domain": domain, "start": start, "most": AT_ONCE},
        )
        if not rows:
            return
        await db.write(_RESCHEDULE, {"domain": domain, "first": start, "last": rows[-1]["id"], "every": frequency})
        start = rows[-1]["id"]


_UNKNOWN = """
SELECT h.domain, (SELECT p.url FROM pages p WHERE p.domain = h.domain ORDER BY p.id LIMIT 1) AS url
FROM (SELECT DISTINCT domain FROM parser_health WHERE day >= :first) h
WHERE NOT EXISTS (SELECT 1 FROM domains d WHERE d.domain_name = h.domain AND d.base_url IS NOT NULL)
"""
_RESCHEDULE = """
UPDATE pages SET usual_frequency = CAST(:every AS BIGINT),
  crawl_interval = CASE WHEN frequency IS NULL AND next_crawl_at IS NOT NULL
    THEN coalesce(CAST(:every AS BIGINT), 86400) ELSE crawl_interval END,
  next_crawl_at = CASE WHEN frequency IS NULL AND next_crawl_at IS NOT NULL
    THEN crawled_at + coalesce(CAST(:every AS BIGINT), 86400) * 1000 ELSE next_crawl_at END
WHERE domain = :domain AND id > :first AND id <= :last
"""


async def _reports(db: Database, rows: Sequence[Row]) -> list[DomainReport]:
    """Return rows of `domains`, each with the standing job of its recrawls."""
    keys = {recrawl_key(row["domain_name"]): row["domain_name"] for row in rows}
    values = {f"key{number}": key for number, key in enumerate(keys)}
    marks = ", ".join(f":{mark}" for mark in values) or "''"
    jobs = await db.fetch(
        f"SELECT i.key, j.public_id FROM idempotency i JOIN jobs j ON j.id = i.job_id WHERE i.key IN ({marks})", values
    )
    standing = {keys[job["key"]]: UUID(job["public_id"]) for job in jobs}
    return [_report(row, standing.get(row["domain_name"])) for row in rows]


def _report(row: Row, recrawl_job: UUID | None) -> DomainReport:
    return DomainReport(
        id=row["id"],
        domain_name=row["domain_name"],
        base_url=row["base_url"],
        crawl_delay_seconds=_or(row["crawl_delay_seconds"], USUAL_DELAY),
        max_concurrent_requests=_or(row["max_concurrent_requests"], USUAL_CONCURRENCY),
        is_active=bool(row["is_active"]),
        currency=row["currency"],
        crawl_frequency=row["crawl_frequency"],
        recrawl_job=recrawl_job,
        created_at=at(row["created_at"]),
        updated_at=at(row["updated_at"]),
    )


def _or(value: Any, usual: Any) -> Any:
    return usual if value is None else value


async def currencies_of(db: Database, domains: Iterable[str]) -> dict[str, str]:
    """Map domains to the currency that an operator has set."""
    names = sorted(set(domains))
    if not names:
        return {}
    values = {f"name{number}": name for number, name in enumerate(names)}
    marks = ", ".join(f":{mark}" for mark in values)
    rows = await db.fetch(
        f"SELECT domain_name, currency FROM domains WHERE currency IS NOT NULL AND domain_name IN ({marks})", values
    )
    return {row["domain_name"]: row["currency"] for row in rows}
