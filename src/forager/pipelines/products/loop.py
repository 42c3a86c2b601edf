"""What products does beside its tasks: parser health is checked, new shops are noted, and every
week the data are audited."""

import structlog

from forager.core.errors import StoreError
from forager.kit.service import Service
from forager.pipelines.products.reports_audit import audit_if_due
from forager.pipelines.products.reports_domains import remember_parsed
from forager.pipelines.products.reports_health import check_health, forget_old, mark_new

log = structlog.get_logger("forager.products")

EVERY = 15.0
"""Seconds between two looks."""


async def upkeep(service: Service) -> None:
    """Repeat until cancelled. If the store is unavailable, try again at the next interval."""
    marked: dict[str, int] = {}
    while True:
        try:
            await check_health(service)
            await mark_new(service.database, marked)
            await remember_parsed(service.database, await service.ledger.now_ms())
            if await audit_if_due(service) is not None:
                await forget_old(service)
        except StoreError as error:
            log.warning("the products were not looked after; the next attempt comes later", error=error.message)
        await service.clock.sleep(EVERY)
