"""Schedules for Celery beat: those of the ledger, read when beat starts.

Beat only sends `forager.fire`; whether a schedule is due is decided by the ledger. So beat may run twice, or beside
`forager up`, which fires schedules as well: each time of a schedule creates one job.
"""

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import structlog
from celery.schedules import ParseException, crontab

from forager.app import open_app
from forager.core.schedules import Schedule
from forager.runners.celery.names import FIRE
from forager.settings import Settings

log = structlog.get_logger("forager.celery")

EXPIRES = 600
"""Seconds after which a message is not worth delivering: the next one makes up for it."""


def fill(service: Any, settings: Settings) -> None:
    """Give beat (`celery.beat.Service`) the schedules that the ledger has now. One that is added later is fired by
    `forager up`, and by beat after its next start."""
    configured = service.app.conf.beat_schedule
    # Beat has read its configuration by now, so that a change of that would come too late.
    service.scheduler.merge_inplace({**configured, **entries(asyncio.run(_stored(settings)))})


def entries(schedules: Iterable[Schedule]) -> dict[str, dict[str, Any]]:
    """Return beat's entries for these schedules. One whose cron expression Celery cannot read is left out."""
    made: dict[str, dict[str, Any]] = {}
    for each in schedules:
        try:
            when = _when(each)
        except (ParseException, ValueError) as error:
            log.warning("beat cannot fire this schedule; `forager up` does", schedule=each.name, error=str(error))
            continue
        options = {"expires": EXPIRES}
        made[f"forager.{each.name}"] = {"task": FIRE, "schedule": when, "args": [each.name], "options": options}
    return made


def _when(schedule: Schedule) -> crontab | timedelta:
    """Return when beat sends a message. Beat's expressions are in UTC: one of another time zone is asked for every
    minute, and the ledger decides."""
    if schedule.cron is None:
        return timedelta(seconds=schedule.every or 0)
    return crontab.from_string(schedule.cron) if schedule.timezone == "UTC" else timedelta(minutes=1)


async def _stored(settings: Settings) -> Iterable[Schedule]:
    async with open_app(settings) as app:
        return await app.schedules.all()
