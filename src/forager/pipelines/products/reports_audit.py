"""`audit_quality`: once a week, references, required fields, fill rates and stale pages are checked and reported."""

from datetime import datetime, timedelta
from typing import Any

import structlog
from pydantic import Field

from forager.core.table import Effect
from forager.extract.products.findings import FIELDS
from forager.kit.queries import change_row, insert_row, read_rows
from forager.kit.reports import Report
from forager.kit.service import Service
from forager.pipelines.products.audit import Audit, week_of

log = structlog.get_logger("forager.products")

DEAD_AFTER = timedelta(hours=6)
"""An audit that has not ended after this time died with its process, and is run again."""
LATE_MS = 86_400_000
"""A page that is overdue by more than a day is stale."""

_PRODUCTS = "SELECT count(*) AS products, {} FROM items WHERE gone_at IS NULL".format(
    ", ".join(f"count({name}) AS {name}" for name in FIELDS)
)
_CHECKS = {
    "products_without_page": "SELECT count(*) AS number FROM items i WHERE NOT EXISTS"
    " (SELECT 1 FROM pages p WHERE p.url_hash = i.page_hash)",
    "pictures_without_product": "SELECT count(*) AS number FROM pictures f WHERE gone_at IS NULL AND NOT EXISTS"
    " (SELECT 1 FROM items i WHERE i.url_hash = f.product_hash)",
    "pages_without_domain": "SELECT count(*) AS number FROM pages p WHERE NOT EXISTS"
    " (SELECT 1 FROM domains d WHERE d.domain_name = p.domain)",
    "products_without_name": "SELECT count(*) AS number FROM items WHERE product_name IS NULL OR product_name = ''",
    "products_without_price_or_availability": "SELECT count(*) AS number FROM items"
    " WHERE gone_at IS NULL AND price IS NULL AND availability IS NULL",
    "prices_without_currency": "SELECT count(*) AS number FROM items i LEFT JOIN domains d ON d.domain_name = i.domain"
    " WHERE i.gone_at IS NULL AND i.price IS NOT NULL AND i.currency IS NULL AND d.currency IS NULL",
    "stale_pages": "SELECT count(*) AS number FROM pages WHERE next_crawl_at IS NOT NULL AND next_crawl_at < :late",
    "failing_pages": "SELECT count(*) AS number FROM pages WHERE failed_at IS NOT NULL",
    "unparsed_pages": "SELECT count(*) AS number FROM pages WHERE outcome = 'unparsed'",
}


class AuditReport(Report):
    """What an audit found."""

    week: str = Field(description="ISO week, such as 2026-W47.")
    started_at: datetime
    finished_at: datetime | None
    findings: dict[str, Any] = Field(
        description="`checks`: what should be 0, by name; `fill`: share of products with a value, by field; `products`."
    )


async def audits(service: Service) -> list[AuditReport]:
    """The newest first."""
    rows = await read_rows(service.database, Audit, order="week DESC")
    return [_report(row) for row in rows[:100]]


async def audit_if_due(service: Service) -> AuditReport | None:
    """Run this week's audit unless it has been run, or another process is at it."""
    now = await service.ledger.now()
    week = week_of(now)
    if not await insert_row(service.database, Audit(week=week, started_at=now)):
        took_over = await service.database.write(
            "UPDATE audits SET started_at = :now WHERE week = :week AND finished_at IS NULL AND started_at < :dead"
            " RETURNING 1 AS one",
            {"week": week, "now": _ms(now), "dead": _ms(now - DEAD_AFTER)},
        )
        if not took_over:
            return None
    return await audit(service)


async def audit(service: Service) -> AuditReport:
    """Run an audit now and store it as this week's. It reads every table of the catalogue once."""
    now = await service.ledger.now()
    late = {"late": _ms(now) - LATE_MS}
    checks = {}
    for name, sql in _CHECKS.items():
        (row,) = await service.database.fetch(sql, late if ":late" in sql else None)
        checks[name] = int(row["number"])
    (filled,) = await service.database.fetch(_PRODUCTS)
    products = int(filled["products"])
    fill = {name: round(filled[name] / products, 4) if products else 0.0 for name in FIELDS}
    findings = {"products": products, "checks": checks, "fill": fill}
    ended = await service.ledger.now()
    key = {"week": week_of(now)}
    values = {"started_at": now, "finished_at": ended, "findings": findings}
    await change_row(service.database, Effect(Audit, key, set=values, insert=True))
    wrong = {name: number for name, number in checks.items() if number}
    log.info("the catalogue was audited", week=key["week"], products=products, **wrong)
    return AuditReport(**key, **values)


def _report(row: Audit) -> AuditReport:
    return AuditReport(**{**row.model_dump(), "findings": row.findings or {}})


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
