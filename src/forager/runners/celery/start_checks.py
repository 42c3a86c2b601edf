"""Checks when a Celery worker starts. What would fail later, task by task, is refused at once with the remedy."""

import asyncio
from typing import Any

from forager.app import open_app
from forager.core.errors import ForagerError
from forager.settings import Settings

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
