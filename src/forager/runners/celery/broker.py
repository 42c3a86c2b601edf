"""Builds the Celery application: JSON only, no results, no retries, messages acknowledged at the start.

Retries and results are the ledger's. A shift that dies with its worker needs no second delivery: what it held returns
to the queue when its lease expires, and another shift is sent.
"""

from typing import Any

from celery import Celery
from celery.signals import beat_init, setup_logging, worker_init, worker_process_shutdown, worker_shutting_down

from forager.core.pipeline import DEFAULT_QUEUE
from forager.logs import configure_logs
from forager.runners.celery import beat, child, start_checks
from forager.settings import Settings


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

    setup_logging.connect(logs, weak=False, dispatch_uid="forager.logs")
    worker_init.connect(
        lambda sender, **_: start_checks.check(sender, settings), weak=False, dispatch_uid="forager.checks"
    )
    worker_shutting_down.connect(lambda **_: child.STOP.set(), weak=False, dispatch_uid="forager.stop")
    worker_process_shutdown.connect(lambda **_: child.close(), weak=False, dispatch_uid="forager.close")
    beat_init.connect(lambda sender, **_: beat.fill(sender, settings), weak=False, dispatch_uid="forager.beat")
