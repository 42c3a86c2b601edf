"""What products does beside its tasks: checks parser health, notes new shops, audits the data every week, and carries
out what was requested in SQL."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import uuid4

import structlog
from pydantic import ValidationError

from forager.core.errors import Busy, Conflict, Rejected, StoreError
from forager.core.invalid import field_errors
from forager.kit.queries import Row, loads
from forager.kit.service import Service
from forager.pipelines.products.job import PageOfJob
from forager.pipelines.products.parts import USUAL
from forager.pipelines.products.reports_audit import audit_if_due
from forager.pipelines.products.reports_domains import remember_parsed, submit_crawl
from forager.pipelines.products.reports_health import check_health, forget_old, mark_new

log = structlog.get_logger("forager.products")

EVERY = 15.0
"""Seconds between two looks."""
INBOX_EVERY = 0.5
"""Seconds between two looks at requests in SQL."""
AT_ONCE = 10_000
"""Pages of one job that are submitted in SQL."""
REFUSED_KEPT = timedelta(days=30)
"""Time for which a refused request stays visible."""


async def upkeep(service: Service) -> None:
    """Repeat until cancelled. If the store is unavailable, try again at the next interval."""
    async with asyncio.TaskGroup() as loops:
        loops.create_task(_look_after(service))
        if service.database.dialect == "postgresql":  # the embedded store has no triggers that write requests
            loops.create_task(_carry_out(service))


async def _look_after(service: Service) -> None:
    marked: dict[str, int] = {}
    while True:
        try:
            await check_health(service)
            await mark_new(service.database, marked)
            await remember_parsed(service.database, await service.ledger.now_ms())
            if await audit_if_due(service) is not None:
                await forget_old(service)
                await _forget_refused(service)
        except StoreError as error:
            log.warning("the products were not looked after; the next attempt comes later", error=error.message)
        await service.clock.sleep(EVERY)


# ── requests in SQL ──


async def _carry_out(service: Service) -> None:
    while True:
        try:
            while await take_requests(service):
                pass
        except (StoreError, Busy) as error:
            log.warning("sql_requests_waiting", error=error.message)
        await service.clock.sleep(INBOX_EVERY)


async def take_requests(service: Service) -> int:
    """Carry out requests that were made in SQL, oldest first, and return their number; 0 if there are none.

    Each takes effect once, also if this process dies in between or several processes look at the same time: before a
    job is submitted, its rows are marked with its idempotency key, and they are deleted after it.
    """
    rows = await service.database.fetch(
        "SELECT id, kind, batch, body FROM sql_inbox WHERE error IS NULL ORDER BY id LIMIT :most", {"most": AT_ONCE}
    )
    for row in rows:
        if row["kind"] == "switch":
            await _switch(service, row)
    crawls = [row for row in rows if row["kind"] == "crawl"]
    batches = {row["batch"] for row in crawls if row["batch"] is not None}
    if fresh := [row for row in crawls if row["batch"] is None]:
        batches |= await _marked(service, fresh)
    for batch in sorted(batches):
        await _submit(service, batch)
    return len(rows)


async def _switch(service: Service, row: Row) -> None:
    asked = loads(row["body"])
    try:
        await service.switch_lane(asked["domain"], active=asked["active"])
    except Rejected as error:
        log.warning("sql_switch_refused", domain=asked["domain"], active=asked["active"], error=error.message)
        await service.database.write(
            "UPDATE domains SET is_active = :before, updated_at = updated_at + 1 WHERE domain_name = :name",
            {"before": not asked["active"], "name": asked["domain"]},
        )
    await service.database.write("DELETE FROM sql_inbox WHERE id = :id", {"id": row["id"]})


async def _marked(service: Service, rows: list[Row]) -> set[str]:
    """Refuse the pages that are invalid, and mark the others with the keys of their jobs: one for each priority."""
    priorities: set[int] = set()
    for row in rows:
        try:
            priorities.add(_page(row).get("priority") or USUAL)
        except ValidationError as error:
            await _refuse(service, "id = :id", {"id": row["id"]}, _told(error))
    batches = {f"sql/{uuid4()}": priority for priority in sorted(priorities)}
    for batch, priority in batches.items():
        await service.database.write(
            "UPDATE sql_inbox SET batch = :batch WHERE kind = 'crawl' AND batch IS NULL AND error IS NULL"
            " AND id <= :last AND coalesce(CAST(body ->> 'priority' AS bigint), :usual) = :priority",
            {"batch": batch, "last": rows[-1]["id"], "usual": USUAL, "priority": priority},
        )
    return set(batches)


async def _submit(service: Service, batch: str) -> None:
    rows = await service.database.fetch(
        "SELECT id, body FROM sql_inbox WHERE batch = :batch AND error IS NULL ORDER BY id", {"batch": batch}
    )
    if not rows:
        return
    pages: dict[str, dict[str, Any]] = {}
    for row in rows:
        try:
            page = _page(row)
        except ValidationError as error:  # it was committed while the others were marked
            await _refuse(service, "id = :id", {"id": row["id"]}, _told(error))
        else:
            pages[page["url"]] = page
    if pages:
        priority = next(iter(pages.values())).get("priority") or USUAL
        try:
            made = await submit_crawl(service, {"pages": list(pages.values()), "priority": priority}, key=batch)
            log.info("sql_crawl_submitted", job_id=str(made.job), pages=len(pages))
        except Conflict:
            log.info("sql_crawl_submitted_before", key=batch)
        except Rejected as error:
            log.warning("sql_crawl_refused", error=error.message)
            await _refuse(service, "batch = :batch AND error IS NULL", {"batch": batch}, error.message)
    await service.database.write("DELETE FROM sql_inbox WHERE batch = :batch AND error IS NULL", {"batch": batch})


def _page(row: Row) -> dict[str, Any]:
    """Return the page of a job that a request stands for. Raises `ValidationError`."""
    asked = loads(row["body"])
    wanted = {name: asked[name] for name in PageOfJob.model_fields if asked.get(name) is not None}
    return PageOfJob.model_validate(wanted).model_dump(mode="json", exclude_none=True)


async def _refuse(service: Service, where: str, values: dict[str, Any], error: str) -> None:
    await service.database.write(f"UPDATE sql_inbox SET error = :error WHERE {where}", {**values, "error": error})


def _told(error: ValidationError) -> str:
    return "; ".join(f"{each.field}: {each.message}" for each in field_errors(error))


async def _forget_refused(service: Service) -> None:
    before = await service.ledger.now_ms() - REFUSED_KEPT // timedelta(milliseconds=1)
    await service.database.write(
        "DELETE FROM sql_inbox WHERE error IS NOT NULL AND created_at < :before", {"before": before}
    )
