"""The listings pipeline over a real App, with a simulated Apify and its listings site; time is real or simulated.

With a `SimulatedClock` (SQLite only) days pass in a moment: time stands still while a request is under way, and jumps
to the next moment for which anything waits as soon as all is quiet.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from forager.api import create_api
from forager.app.application import App
from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.engine.recheck import Rechecker
from forager.engine.schedule import Scheduler
from forager.sandbox.apify import ApifyConfig, ApifySandbox
from forager.sandbox.jumping_clock import StandingStill
from tests.support.api import KEY, client_of
from tests.support.schema_templates import prepare_store
from tests.support.shop import no_pauses
from tests.support.simulation import SimulatedClock

TOKEN = "sandbox-acme"
PATIENCE = 60.0
MARKETS = "/api/v1/admin/markets"
HOUR = 3_600.0
LOOKS = 1_800.0
"""Seconds between two looks of what polls, in simulated time."""


@dataclass
class Rentals:
    """An app, its API, and the upstream that it scrapes."""

    app: App
    client: httpx.AsyncClient
    apify: ApifySandbox
    clock: SimulatedClock | None = None

    async def get(self, path: str, **query: Any) -> Any:
        got = await self.client.get(f"/api/v1{path}", params=query)
        assert got.status_code == 200, got.text
        return got.json()["data"]

    async def market(self, market: str) -> dict[str, Any]:
        return dict(await self.get(f"/admin/markets/{market}"))

    async def keep_only(self, *markets: str) -> None:
        """Remove all other markets: a scrape of 19 takes longer than most tests need."""
        names = ", ".join(f"'{each}'" for each in markets)
        await self.app.database.write(f"DELETE FROM market_configs WHERE id NOT IN ({names})")

    async def scrape(self, market: str) -> dict[str, Any]:
        """Scrape a market now and return its job once that has ended."""
        made = await self.client.post(f"{MARKETS}/{market}/scrape")
        assert made.status_code == 202, made.text
        job = made.json()["data"]["job_id"]
        await self.until_ended(job)
        return dict(await self.get(f"/jobs/{job}"))

    async def until_ended(self, job: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while (await self.get(f"/jobs/{job}"))["finished_at"] is None:
                if self.clock is not None:
                    await self.clock.run_for(30.0)
                else:
                    await asyncio.sleep(0.01)

    def patience(self) -> asyncio.Timeout:
        return asyncio.timeout(PATIENCE)

    async def soon(self) -> None:
        """Let the engine work for a moment."""
        await asyncio.sleep(0.01)

    async def pass_time(self, *, hours: float = 0.0, seconds: float = 0.0) -> None:
        assert self.clock is not None, "only simulated time passes on request"
        await self.clock.run_for(hours * HOUR + seconds)

    async def rows(self, sql: str, **values: Any) -> list[dict[str, Any]]:
        return [dict(row) for row in await self.app.database.fetch(sql, values)]

    def asked(self, operation: str) -> int:
        """Return the number of requests of this operation at the upstream."""
        return sum(call.operation == operation for call in self.apify.log.since(0))

    def pages(self) -> int:
        """Return the number of requested pages of listings."""
        return self.asked("page.get")

    def started(self) -> list[str]:
        """Return the inputs of the started runs, in their order."""
        return [run.search for run in self.apify.runs]


@contextlib.asynccontextmanager
async def open_rentals(
    home: Path,
    database_url: str | None = None,
    *,
    clock: SimulatedClock | None = None,
    schedules: bool = False,
    settings: dict[str, Any] | None = None,
    **config: Any,
) -> AsyncIterator[Rentals]:
    """An app with a working engine on its own store. In real time, runs take a moment; in simulated time, as usual."""
    home.mkdir(exist_ok=True)
    quick = {} if clock else {"queue_seconds": 0.0, "run_seconds": 0.05, "settle_seconds": 0.0}
    async with ApifySandbox(ApifyConfig(**{**quick, "rate_per_second": None, **config}), **_time(clock)) as apify:
        simulated: dict[str, Any] = {"clock": clock, "around": StandingStill(clock.wait_for)} if clock else {}
        made = new_settings(**{**settings_for(home, database_url, apify, clock), **(settings or {})})
        prepare_store(made)
        async with (
            open_app(made, **simulated) as app,
            client_of(create_api(app, key=KEY)) as client,
            contextlib.nullcontext() if clock is None else _counting(clock),
            _working(app, clock, schedules=schedules),
        ):
            yield Rentals(app, client, apify, clock)


@contextlib.asynccontextmanager
async def _counting(clock: SimulatedClock) -> AsyncIterator[None]:
    """Calls that the worker begins between two `pass_time` hold up time as well."""
    with clock.counting_threads():
        yield


def _time(clock: SimulatedClock | None) -> dict[str, Any]:
    return {} if clock is None else {"now": clock.now}


def settings_for(
    home: Path, database_url: str | None, apify: ApifySandbox, clock: SimulatedClock | None
) -> dict[str, Any]:
    site = urlsplit(apify.site_url).netloc
    rules = home / "policies.yaml"
    rules.write_text(no_pauses(site))
    waits = {"lease_seconds": 3_600.0} if clock else {"apify_poll_seconds": 0.1, "apify_cost_delay_seconds": 0.0}
    return {
        "home": home,
        "database_url": database_url,
        "apify_token": TOKEN,
        "markets_autostart": True,
        "apify_base_url": apify.url,
        "egress_allow": (urlsplit(apify.url).netloc, site),
        "domain_policies_path": rules,
        **waits,
    }


@contextlib.asynccontextmanager
async def _working(app: App, clock: SimulatedClock | None, *, schedules: bool) -> AsyncIterator[None]:
    if clock is None:
        async with app.engine(schedules=schedules):
            yield
        return
    writer = app.ledger._writer  # type: ignore[attr-defined]
    clock.wait_for(lambda: writer.pending)
    clock.wait_for(lambda: app.offload.pending)  # type: ignore[attr-defined]
    writer.db.execute("PRAGMA synchronous=OFF")  # time that no disk need survive
    rechecker = Rechecker(app.ledger, list(app.pipelines.values()), clock, look_every=LOOKS)
    app.worker.when_settled(rechecker.note_settled)
    loops = [asyncio.create_task(app.worker.run()), asyncio.create_task(rechecker.run())]
    if schedules:
        scheduler = Scheduler(app.schedules, app.create_scheduled, app.ledger.now, clock, longest_nap=LOOKS)
        loops.append(asyncio.create_task(scheduler.run()))
    try:
        yield
    finally:
        for loop in loops[1:]:
            loop.cancel()
        app.worker.stop()
        draining = asyncio.create_task(app.worker.drain(LOOKS))
        await clock.run_for(2 * LOOKS)
        await asyncio.gather(draining, *loops, return_exceptions=True)
