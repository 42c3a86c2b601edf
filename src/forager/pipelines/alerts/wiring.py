"""Build the alerts pipeline and its background loop."""

from dataclasses import replace

import structlog

from forager.core.errors import Conflict, StoreError
from forager.core.pipeline import Pipeline
from forager.core.task import Plan
from forager.pipelines.alerts import pipeline
from forager.pipelines.alerts.pipeline import LookAtSystem, standing_job
from forager.pipelines.alerts.records import SYSTEM_KINDS
from forager.sdk.alert_rules import AlertRule, rules_of
from forager.sdk.service import Service
from forager.sdk.settings import SettingsTree

log = structlog.get_logger("forager.alerts")
EVERY = 60.0
"""Seconds between two checks of Forager itself."""
KEPT_MS = 90 * 86_400_000
"""Alerts are listed for 90 days."""


def build(_: SettingsTree) -> Pipeline:
    built = pipeline.build()
    return replace(built, tables=(*built.tables, AlertRule))


async def upkeep(service: Service) -> None:
    """Look at Forager itself while a rule is about it, and remove old alerts, until cancelled."""
    while True:
        try:
            await look(service)
            now = await service.ledger.now()
            before = round(now.timestamp() * 1000) - KEPT_MS
            await service.database.write(
                "DELETE FROM fired_alerts WHERE (alert, channel) IN (SELECT alert, channel FROM fired_alerts"
                " WHERE at < :before AND delivered_at IS NOT NULL ORDER BY at LIMIT 1000)",
                {"before": before},
            )
        except (StoreError, Conflict) as error:
            log.warning("alerts_upkeep_failed", error=error.message)
        await service.clock.sleep(EVERY)


async def look(service: Service) -> bool:
    """Queue a look at sinks, dead letters and money if a rule is about one of them. However many processes do this,
    there is one open look."""
    rules = await rules_of(service.database)
    if not any(rule.record_kind in SYSTEM_KINDS and not rule.paused for rule in rules):
        return False
    await service.ledger.append(standing_job("system"), [Plan(LookAtSystem())], again=True)
    return True
