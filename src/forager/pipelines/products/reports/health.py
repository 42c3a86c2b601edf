"""Parser health as it is stored: what has fallen, which fields are quarantined, and an operator's decisions."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Literal

import structlog
from pydantic import Field

from forager.core.database import Database, Row
from forager.core.errors import Conflict
from forager.core.ids import no_such
from forager.core.ledger import NewJob
from forager.core.table import Effect
from forager.core.task import Plan
from forager.extract.products.findings import FIELDS
from forager.pipelines.products.health import (
    DAYS,
    LEAST_PAGES,
    Audit,
    Fall,
    Quarantine,
    falls,
    falls_of_first_day,
    falls_of_visits,
    week_of,
)
from forager.pipelines.products.pipeline import NAME
from forager.pipelines.products.records import reader_of
from forager.pipelines.products.tasks import Alert
from forager.pipelines.products.wrappers import LEARNT
from forager.sdk.feature import Figure
from forager.sdk.overview import Concern
from forager.sdk.queries import change_row, insert_row, one_row, read_rows
from forager.sdk.reports import Report
from forager.sdk.service import Service

log = structlog.get_logger("forager.products")

KEPT = timedelta(days=90)
"""Retention of the counts of parser health."""
AT_ONCE = 2_000
"""Products that are marked in one statement, so that no other writer waits long."""
STANDING = NewJob(NAME, {"upkeep": True}, idempotency_key=" products/upkeep", standing=True)
"""The job of alerts. A key that a user sends cannot begin with a space."""
_KNOWN = ", ".join(f"count({name}) AS {name}" for name in FIELDS)
_VISITED = """
SELECT count(*) AS known, sum(CASE WHEN outcome IN ('product', 'unchanged') THEN 1 ELSE 0 END) AS read
FROM pages
WHERE domain = :domain AND (product_url IS NOT NULL OR outcome = 'unparsed') AND outcome NOT IN ('gone', 'missing')
"""
ALERT_SECONDS = 5.0
"""Seconds that an ending command waits until new alerts are written."""
_SUMS = ", ".join(f"coalesce(sum({name}), 0) AS {name}" for name in ("pages", "products", *FIELDS))


class ParserHealth(Report):
    """Health of one parser version on one shop and day."""

    domain: str
    parser: str
    parser_version: int
    day: date
    pages: int = Field(description="Pages that showed a product, did so before, or present one by their markup.")
    success: float = Field(description="Share of them that showed one.")
    fill: dict[str, float] = Field(description="Share of the products that showed a field, by field.")


MOST_CONCERNS = 5


class QuarantineReport(Report):
    """A field whose new values are held back."""

    domain: str
    parser: str
    parser_version: int
    field: str = Field(description="A field of products; `*` for all of them.")
    state: Literal["open", "accepted", "rejected"]
    rate: float = Field(description="The share to which it fell.")
    mean: float = Field(description="Its mean over the seven days before.")
    pages: int
    since: datetime
    decided_at: datetime | None


async def health(
    db: Database, *, domain: str | None = None, days: int = DAYS, limit: int = 1_000
) -> list[ParserHealth]:
    """List the health of parsers, the newest days first."""
    only = " WHERE domain = :domain" if domain is not None else ""
    rows = await db.fetch(
        f"SELECT * FROM parser_health{only} ORDER BY day DESC, domain, parser, parser_version LIMIT :limit",
        {"limit": limit, **({"domain": domain} if domain is not None else {})},
    )
    newest = max((date.fromisoformat(row["day"]) for row in rows), default=date.min)
    return [_health(row) for row in rows if (newest - date.fromisoformat(row["day"])).days < days]


async def quarantines(db: Database, *, state: str | None = None) -> list[QuarantineReport]:
    """All, or those in one state."""
    where, values = ("state = :state", {"state": state}) if state else ("TRUE", {})
    rows = await read_rows(db, Quarantine, where, values)
    return [QuarantineReport(**row.model_dump()) for row in rows]


async def figures(service: Service) -> list[Figure]:
    """Return the figures for `/metrics`."""
    rows = await service.database.fetch("SELECT count(*) AS number FROM quarantines WHERE state = 'open'")
    about = "Fields of shops whose new values are held back until an operator decides."
    return [Figure("forager_product_quarantines_open", about, rows[0]["number"])]


async def concerns(service: Service) -> list[Concern]:
    """Return lines for the overview: shops whose pages are read differently than before."""
    held = await quarantines(service.database, state="open")
    return [
        Concern(
            "parser",
            f"{each.domain}: {'products are missing' if each.field == '*' else f'{each.field} is missing'}",
            f"Found on {each.rate:.0%} of {each.pages:,} pages, {each.mean:.0%} expected. The last good values are kept"
            " until an operator accepts or rejects the new ones.",
            "/products",
        )
        for each in held[:MOST_CONCERNS]
    ]


async def forget_old(service: Service) -> None:
    """Remove the counts of days that no comparison needs any more."""
    first = (await service.ledger.now()).date() - KEPT
    for table in ("parser_health", "parser_trials"):
        await service.database.write(f"DELETE FROM {table} WHERE day < :first", {"first": first.isoformat()})


async def check_health(service: Service) -> list[Quarantine]:
    """Compare today's shares with their means, and quarantine what has fallen. Returns the new quarantines."""
    now = await service.ledger.now()
    today = now.date()
    rows = await service.database.fetch(
        "SELECT * FROM parser_health WHERE day = :today AND pages >= :least",
        {"today": today.isoformat(), "least": LEAST_PAGES},
    )
    fallen = [each for row in rows for each in await _fallen(service, row, now)]
    for domain in sorted({each.domain for each in fallen}):
        await mark(service.database, domain)
    return fallen


async def check_parsers_at_rest(service: Service) -> None:
    """Check the health of parsers before a one-shot command ends, and wait until new alerts are in the change log."""
    if not await check_health(service):
        return
    await wait_for_standing(service, str(STANDING.idempotency_key), ALERT_SECONDS)


async def wait_for_standing(service: Service, key: str, seconds: float) -> None:
    """Wait until the standing job of this key has no task left to do, at most for some seconds."""
    end = service.clock.monotonic() + seconds
    while service.clock.monotonic() < end:
        (left,) = await service.database.fetch(
            "SELECT coalesce(sum(j.queued + j.running), 0) AS n FROM jobs j JOIN idempotency i ON i.job_id = j.id"
            " WHERE i.key = :key",
            {"key": key},
        )
        if not left["n"]:
            return
        await service.clock.sleep(0.05)


async def decide(service: Service, name: str, state: Literal["accepted", "rejected"]) -> QuarantineReport:
    """Decide about a quarantine by its name, `domain/parser/version/field`.

    Accepting lets new values in again; the caller parses the domain's pages again, so that held values are written.
    Rejecting drops the held values; values of this parser version for the field stay out. Raises `NotFound`.
    """
    quarantine = await _named(service.database, name)
    now = await service.ledger.now()
    key = {column: getattr(quarantine, column) for column in Quarantine.key}
    await change_row(service.database, Effect(Quarantine, key, set={"state": state, "decided_at": now}))
    decided = quarantine.model_copy(update={"state": state, "decided_at": now})
    if state == "rejected":
        await service.database.write("UPDATE items SET held = NULL WHERE domain = :d", {"d": quarantine.domain})
    await mark(service.database, quarantine.domain)
    await _tell(service, decided)
    return QuarantineReport(**decided.model_dump())


async def mark(db: Database, domain: str, after: int = 0) -> int:
    """Write the domain's quarantines onto its products, from an id on. Returns the last id."""
    rows = await read_rows(db, Quarantine, "domain = :domain AND state <> 'accepted'", {"domain": domain})
    marks: dict[str, list[str]] = {}
    for row in rows:
        marks.setdefault(row.field, []).append(reader_of(row.parser, row.parser_version))
    value = json.dumps(marks) if marks else None
    while True:
        ids = await db.fetch(
            "SELECT id FROM items WHERE domain = :domain AND id > :after ORDER BY id LIMIT :most",
            {"domain": domain, "after": after, "most": AT_ONCE},
        )
        if not ids:
            return after
        last = int(ids[-1]["id"])
        await db.write(
            "UPDATE items SET quarantined = :value WHERE domain = :domain AND id > :after AND id <= :last",
            {"value": value, "domain": domain, "after": after, "last": last},
        )
        after = last


async def mark_new(db: Database, marked: dict[str, int]) -> None:
    """Mark the products that came since the last call, of domains with a quarantine. `marked` remembers how far."""
    rows = await db.fetch("SELECT DISTINCT domain FROM quarantines WHERE state <> 'accepted'")
    for row in rows:
        marked[row["domain"]] = await mark(db, row["domain"], marked.get(row["domain"], 0))


async def _fallen(service: Service, row: Row, now: datetime) -> list[Quarantine]:
    day = date.fromisoformat(row["day"])
    key = {name: row[name] for name in ("domain", "parser", "parser_version")}
    (before,) = await service.database.fetch(
        f"SELECT {_SUMS} FROM parser_health WHERE domain = :domain AND day >= :first"
        " AND NOT (day = :day AND parser = :parser AND parser_version = :parser_version)"
        # What was read before is no worse because a later reader, or one with learnt wrappers, finds more.
        " AND NOT (parser = :parser AND parser_version > :parser_version)"
        f" AND (parser = :parser OR parser NOT LIKE '%{LEARNT}')",
        {**key, "day": row["day"], "first": (day - timedelta(days=DAYS)).isoformat()},
    )
    sums = {name: int(value) for name, value in before.items()}
    if sums["pages"] >= LEAST_PAGES:
        fallen = list(falls(row, sums))
    else:  # both may find that pages show no product: the first of them counts
        fallen = [*await _fallen_visits(service.database, key), *falls_of_first_day(row)]
    return [each for fall in fallen if await _opened(service, each := _quarantine(key, fall, now))]


async def _fallen_visits(db: Database, key: Mapping[str, Any]) -> list[Fall]:
    """Compare the last visits of a shop's pages with the visits before them."""
    where = "domain = :domain AND parser = :parser AND parser_version = :parser_version AND gone_at IS NULL"
    (counts,) = await db.fetch(f"SELECT count(*) AS products, {_KNOWN} FROM items WHERE {where}", key)
    rows = await db.fetch(f"SELECT unseen FROM items WHERE {where} AND unseen IS NOT NULL", key)
    unseen = Counter(name for row in rows for name in _json(row["unseen"]))
    (pages,) = await db.fetch(_VISITED, {"domain": key["domain"]})
    return list(falls_of_visits(counts, unseen, int(pages["read"] or 0), int(pages["known"])))


def _json(value: Any) -> Mapping[str, Any]:
    parsed: Mapping[str, Any] = json.loads(value) if isinstance(value, str | bytes) else value or {}
    return parsed


async def _opened(service: Service, quarantine: Quarantine) -> bool:
    """Store and announce a quarantine; False if there is one already, whatever was decided about it."""
    if not await insert_row(service.database, quarantine):
        return False
    log.warning(
        "parser_quarantined",
        domain=quarantine.domain,
        parser=quarantine.parser,
        parser_version=quarantine.parser_version,
        field=quarantine.field,
        rate=round(quarantine.rate, 3),
        mean=round(quarantine.mean, 3),
        pages=quarantine.pages,
    )
    await _tell(service, quarantine)
    return True


async def _tell(service: Service, quarantine: Quarantine) -> None:
    """Have it written into the change log."""
    told = quarantine.model_dump(include=set(Alert.model_fields))
    await service.ledger.append(STANDING, [Plan(Alert(**told))], again=True)


async def _named(db: Database, name: str) -> Quarantine:
    parts: Sequence[str] = name.split("/")
    quarantine = None
    if len(parts) == 4 and parts[2].isdecimal():
        key: dict[str, Any] = dict(zip(Quarantine.key, (parts[0], parts[1], int(parts[2]), parts[3]), strict=True))
        quarantine = await one_row(db, Quarantine, **key)
    if quarantine is None:
        rows = await read_rows(db, Quarantine)
        known = ["/".join(str(getattr(each, part)) for part in Quarantine.key) for each in rows]
        raise no_such("quarantine", name, known, "See `forager products quarantine list`.")
    if quarantine.state == "accepted":
        raise Conflict(f"{name} has been accepted already.")
    return quarantine


def _quarantine(key: dict[str, Any], fall: Fall, now: datetime) -> Quarantine:
    return Quarantine(**key, field=fall.field, rate=fall.rate, mean=fall.mean, pages=fall.pages, since=now)


def _health(row: Row) -> ParserHealth:
    pages, products = row["pages"], row["products"]
    return ParserHealth(
        **{name: row[name] for name in ("domain", "parser", "parser_version", "day", "pages")},
        success=round(products / pages, 4) if pages else 0.0,
        fill={name: round(row[name] / products, 4) if products else 0.0 for name in FIELDS},
    )


# `audit_quality`: once a week, references, required fields, fill rates and stale pages are checked and reported.


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
    """The result of an audit."""

    week: str = Field(description="ISO week, such as 2026-W47.")
    started_at: datetime
    finished_at: datetime | None
    findings: dict[str, Any] = Field(
        description="`checks`: what should be 0, by name; `fill`: share of products with a value, by field; `products`."
    )


async def audits(service: Service) -> list[AuditReport]:
    """List the audits, the newest first."""
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
    log.info("catalogue_audited", week=key["week"], products=products, **wrong)
    return AuditReport(**key, **values)


def _report(row: Audit) -> AuditReport:
    return AuditReport(**{**row.model_dump(), "findings": row.findings or {}})


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
