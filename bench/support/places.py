"""The whole of Forager on a places job, built by the composition root as `forager up` builds it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

from bench.support.stores import Store
from bench.support.upstream import KEY, Upstream
from forager.app.application import App
from forager.app.compose import open_app
from forager.app.config import load_settings
from forager.logging import configure_logs
from forager.pipelines.places.zips import shipped_zips
from forager.sdk.reports import JobReport

LOOK_EVERY = 0.005


def zip_codes(count: int) -> list[str]:
    """The first ZIPs of the shipped table, in order."""
    zips = shipped_zips()
    codes = [known.zip for state in zips.states for known in zips.of_state(state, po_boxes=True)]
    if count > len(codes):
        raise ValueError(f"there are only {len(codes)} ZIPs")
    return codes[:count]


@contextlib.asynccontextmanager
async def places_app(store: Store, upstream: Upstream | None = None, **settings: Any) -> AsyncIterator[App]:
    overrides: dict[str, Any] = {"home": store.home, "database_url": store.url, "log_level": "WARNING", **settings}
    if upstream is not None:
        overrides |= {"serper_base_url": upstream.url, "egress_allow": [upstream.netloc], "serper_api_key": KEY}
    loaded = load_settings(overrides, env={}, cwd=store.home)
    configure_logs(loaded.log_level, loaded.log_format, loaded.secrets())  # to standard error, as every process does
    async with open_app(loaded) as app:
        await app.reference("zips")
        yield app


async def ended(app: App, tasks: int) -> None:
    """Wait until the worker has settled this number of tasks: their effects are committed then."""
    while sum(app.worker.stats.ended.values()) < tasks:
        await asyncio.sleep(LOOK_EVERY)


async def completed(app: App, job: UUID) -> JobReport:
    """The job as reports show it; it must have ended well, or the measurement is worth nothing."""
    report = await app.reports.job(job)
    assert (report.state, report.completed) == ("completed", report.total), report
    return report
