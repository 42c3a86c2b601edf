"""Builds the Celery application: JSON only, no results, no retries, messages acknowledged at the start.

Retries and results are the ledger's. A shift that dies with its worker needs no second delivery: what it held returns
to the queue when its lease expires, and another shift is sent.
"""

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import structlog
from celery import Celery
from celery.schedules import ParseException, crontab
from celery.signals import beat_init, setup_logging, worker_init, worker_process_shutdown, worker_shutting_down

from forager.app.compose import open_app
from forager.core.errors import ForagerError
from forager.core.schedules import Schedule
from forager.ledger.catalog import DEFAULT_QUEUE
from forager.logging import configure_logs
from forager.runners.celery import shift
from forager.runners.celery.dispatch import FIRE
from forager.settings import Settings

# Schedules for Celery beat: those of the ledger, read when beat starts.
#
# Beat only sends `forager.fire`; whether a schedule is due is decided by the ledger. So beat may run twice, or beside
# `forager up`, which fires schedules as well: each time of a schedule creates one job.


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
            log.warning("beat_schedule_rejected", schedule=each.name, error=str(error))
            continue
        options = {"expires": EXPIRES}
        made[f"forager.{each.name}"] = {"task": FIRE, "schedule": when, "args": [each.name], "options": options}
    return made


def _when(schedule: Schedule) -> crontab | timedelta:
    """Return when beat sends a message. Beat's expressions are in UTC: one of another time zone sends every minute, and
    the ledger decides."""
    if schedule.cron is None:
        return timedelta(seconds=schedule.every or 0)
    return crontab.from_string(schedule.cron) if schedule.timezone == "UTC" else timedelta(minutes=1)


async def _stored(settings: Settings) -> Iterable[Schedule]:
    async with open_app(settings) as app:
        return await app.schedules.all()


# Checks when a Celery worker starts. What would fail later, task by task, is refused at once with the remedy.


POOLS = ("prefork", "solo")
NEEDS_POSTGRES = (
    "Celery workers need PostgreSQL (FORAGER_DATABASE_URL): the embedded store belongs to one process, so that several"
    " could not share it."
)


def check(worker: Any, settings: Settings) -> None:
    """Raise `SystemExit` with the reason if this worker cannot run shifts. `worker` is Celery's `WorkController`."""
    problem = find_problem(
        settings,
        pool=str(getattr(worker.pool_cls, "__module__", worker.pool_cls)).rpartition(".")[2],
        limits={"time limit": worker.time_limit, "soft time limit": worker.soft_time_limit},
    )
    if problem is None:
        problem = asyncio.run(_does_not_fit(settings))
    if problem is not None:  # an exception of another class would only be logged
        raise SystemExit(f"forager: {problem}")


def find_problem(settings: Settings, *, pool: str, limits: dict[str, float | None]) -> str | None:
    """Return why a worker with this pool and these time limits cannot run shifts; None if it can."""
    if settings.database_url is None:
        return NEEDS_POSTGRES
    if pool not in POOLS:
        return f"The pool {pool!r} cannot run shifts: each needs a process with an event loop. Use --pool prefork."
    longest = settings.shift_seconds + settings.shutdown_seconds
    for name, limit in limits.items():
        if limit and limit <= longest:
            return (
                f"The {name} of {limit:g} s is shorter than a shift and its drain ({longest:g} s), so that Celery would"
                " kill shifts. Raise it, or lower FORAGER_SHIFT_SECONDS or FORAGER_SHUTDOWN_SECONDS."
            )
    return None


async def _does_not_fit(settings: Settings) -> str | None:
    """Return why this machine does not fit the ledger (its key, its folder of pages, its schema); None if it does.

    The application is closed again: the worker forks after this, and no connection may be shared with a child.
    """
    try:
        async with open_app(settings, must_fit=True):
            return None
    except ForagerError as error:
        return str(error)


def new_celery(settings: Settings) -> Any:
    """Return the Celery application for these settings. The broker is `broker_url`, or what the module `celery_config`
    names."""
    app = Celery("forager", set_as_current=True)
    if settings.celery_config is not None:
        app.config_from_object(settings.celery_config)  # first, because what follows must hold
    app.conf.update(
        broker_connection_retry_on_startup=True,
        accept_content=["json"],
        task_serializer="json",
        task_ignore_result=True,
        task_acks_late=False,
        task_default_queue=DEFAULT_QUEUE,
        worker_prefetch_multiplier=1,  # a shift is long: one that waits behind another had better go to another child
        timezone="UTC",
        enable_utc=True,
    )
    if settings.broker_url is not None:
        app.conf.broker_url = settings.broker_url.get_secret_value()
    _connect(settings)
    return app


def _connect(settings: Settings) -> None:
    """Register what happens when a worker or beat starts and stops. The functions stay referenced here (`weak`)."""

    def logs(**_: Any) -> None:
        configure_logs(settings.log_level, settings.log_format, settings.secrets())

    setup_logging.connect(logs, weak=False, dispatch_uid="forager.logging")
    worker_init.connect(lambda sender, **_: check(sender, settings), weak=False, dispatch_uid="forager.checks")
    worker_shutting_down.connect(lambda **_: shift.STOP.set(), weak=False, dispatch_uid="forager.stop")
    worker_process_shutdown.connect(lambda **_: shift.close(), weak=False, dispatch_uid="forager.close")
    beat_init.connect(lambda sender, **_: fill(sender, settings), weak=False, dispatch_uid="forager.beat")
