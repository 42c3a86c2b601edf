"""A worker on the reviews service in a process of its own, to be killed: the real application on a real store."""

import asyncio
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.settings import Settings
from tests.support.forked import start_forked

LEASE = 1.0


@dataclass(frozen=True)
class Options:
    home: str
    database_url: str | None
    hosts: tuple[str, str, str]
    """Numbers of accounts, locations and reviews."""

    def settings(self) -> Settings:
        names = ("google_accounts_url", "google_locations_url", "google_reviews_url")
        given: dict[str, Any] = dict(zip(names, self.hosts, strict=True))
        return new_settings(
            home=Path(self.home),
            database_url=self.database_url,
            egress_allow=tuple(url.removeprefix("http://") for url in self.hosts),
            google_requests_per_second=5_000.0,
            lease_seconds=LEASE,
            **given,
        )


async def _work(options: Options) -> None:
    """Until every job has ended."""
    async with open_app(options.settings()) as app, app.engine(schedules=False) as working:
        while await app.ledger.has_work(but=app.internal):
            if working.done():
                working.result()
            await asyncio.sleep(0.05)


def start(options: Options) -> ForkServerProcess:
    return start_forked(_work, options)
