"""Parts of the benchmark of reviews: a simulated Google in a process of its own, and the app on a store."""

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from bench.support.stores import Store
from forager.app.application import App
from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.logging import configure_logs

HOSTS = ("accounts", "locations", "reviews")
Hosts = Mapping[str, str]


@contextlib.contextmanager
def google(**config: Any) -> Iterator[Hosts]:
    """The URLs of the three APIs. No fault, no quota; a token `sandbox-NAME.N` is a user with the world `NAME`."""
    given = {
        "quota_per_minute": None,
        "latency_ms": 0.0,
        "latency_sigma": 0.0,
        "repeat_share": 0.0,
        "missing_share": 0.0,
    }
    command = [sys.executable, "-m", "forager.sandbox", "google", "--until-stdin-closes"]
    command += ["--config", json.dumps({**given, **config})]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            announced = json.loads(process.stdout.readline())
            yield {name: announced[f"{name}_url"] for name in HOSTS}
        finally:
            process.terminate()


@contextlib.asynccontextmanager
async def reviews_app(store: Store, hosts: Hosts | None = None, **more: Any) -> AsyncIterator[App]:
    """The application on this store. Its bucket never waits: what is measured is the engine."""
    urls = hosts or {}
    settings = new_settings(
        home=store.home,
        database_url=store.url,
        log_level="WARNING",
        **{
            "egress_allow": tuple(urlsplit(url).netloc for url in urls.values()),
            "google_requests_per_second": 10_000.0,
            "ratelimit": {"CAPACITY": "10000"},
            "max_waiting_review_jobs": 10_000_000,
            **{f"google_{name}_url": url for name, url in urls.items()},
            **more,
        },
    )
    configure_logs(settings.log_level, settings.log_format, settings.secrets())  # to standard error, as ever
    async with open_app(settings) as app:
        yield app


async def all_ended(app: App, jobs: list[UUID]) -> None:
    """Wait until every job has ended; raises if one did not end well."""
    left = list(jobs)
    while left:
        report = await app.reports.job(left[-1])
        if report.finished_at is None:
            await asyncio.sleep(0.005)
            continue
        assert report.state == "completed", report
        left.pop()
