"""The listings demo: three markets over a simulated fortnight, which takes some seconds.

Everything runs in this process: a simulated Apify with its listings site, and the whole engine, on one simulated clock.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from forager.app.application import App
from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.engine.recheck import Rechecker
from forager.engine.schedule import Scheduler
from forager.ledger.sqlite.connection import SqliteDatabase
from forager.pipelines.listings.cli.listings import listings_table
from forager.pipelines.listings.reports.listings import ListingFilter, find_listings
from forager.pipelines.listings.reports.markets import market_detail
from forager.sandbox.apify import ApifyConfig, ApifySandbox
from forager.sandbox.jumping_clock import JumpingClock, StandingStill
from forager.sdk.cli import render
from forager.sdk.cli.demo import OwnDemo

DAYS = 14
DAY = 86_400.0
MARKETS = ("nyc", "jersey-city", "hartford")
LISTINGS = 24
LOOKS = 1_800.0
"""Seconds between two polls."""
ENDING = 2 * LOOKS
"""Simulated seconds in which the engine ends its work when the fortnight is over."""
SHOWN = 12
INTRO = (
    f"Apartment listings of {len(MARKETS)} markets over a simulated fortnight: scraped at the rate of their tier,"
    " verified when they age, gone only with evidence. A simulated Apify and its listings site: no key, no network.\n"
)


def run(home: Path, as_json: bool) -> None:
    """Let the fortnight pass and show what is stored at its end."""
    began = time.monotonic()
    if not as_json:
        render.notes().print(INTRO)
    with render.busy(f"{DAYS} simulated days"):
        results = asyncio.run(_fortnight(home))
    results |= {"data": str(home / "ledger.db"), "seconds": round(time.monotonic() - began, 2)}
    if as_json:
        render.show_json(results)
    else:
        _show(results, home)


async def _fortnight(home: Path) -> dict[str, Any]:
    # The fortnight ends now: `forager up` opens this home next, and finds listings that are fresh, none of the future.
    clock = JumpingClock(datetime.now(UTC) - timedelta(seconds=DAYS * DAY + ENDING))
    config = ApifyConfig(homes=LISTINGS, bad_every=40, rate_per_second=None)
    async with ApifySandbox(config, now=clock.now) as apify:
        settings = new_settings(
            home=home,
            apify_token="sandbox-demo",  # noqa: S106 - opens the simulated world only
            apify_base_url=apify.url,
            markets_autostart=True,
            egress_allow=tuple(urlsplit(url).netloc for url in (apify.url, apify.site_url)),
            lease_seconds=3_600.0,
        )
        async with open_app(settings, clock=clock, around=StandingStill(clock.wait_for)) as app:
            names = ", ".join(f"'{each}'" for each in MARKETS)
            await app.database.write(f"DELETE FROM market_configs WHERE id NOT IN ({names})")
            async with _engine(app, clock):
                await clock.run_for(DAYS * DAY)
            return await _result(app, apify)


@asynccontextmanager
async def _engine(app: App, clock: JumpingClock) -> AsyncIterator[None]:
    """The loops of the engine that matter here; those that poll do so seldom."""
    database = app.database
    if isinstance(database, SqliteDatabase):
        clock.wait_for(lambda: database.is_busy)
    rechecker = Rechecker(app.ledger, list(app.pipelines.values()), clock, look_every=LOOKS)
    app.worker.when_settled(rechecker.note_settled)
    scheduler = Scheduler(app.schedules, app.create_scheduled, app.ledger.now, clock, longest_nap=LOOKS)
    loops = [asyncio.create_task(loop.run()) for loop in (app.worker, rechecker, scheduler)]
    try:
        yield
    finally:
        app.worker.stop()
        for loop in loops[1:]:
            loop.cancel()
        while not loops[0].done():
            await clock.run_for(LOOKS)
        await asyncio.gather(*loops, return_exceptions=True)


async def _result(app: App, apify: ApifySandbox) -> dict[str, Any]:
    now = await app.ledger.now()
    markets = [await market_detail(app.database, market, now) for market in MARKETS]
    listings = await find_listings(app.database, ListingFilter(), now, limit=1_000)
    (gone,) = await app.database.fetch("SELECT count(*) AS n FROM listings WHERE gone_at IS NOT NULL")
    (rents,) = await app.database.fetch("SELECT count(*) AS n FROM changes WHERE kind = 'listing' AND op = 'changed'")
    (cost,) = await app.database.fetch("SELECT sum(coalesce(cost_usd, 0)) AS units FROM source_runs")
    return {
        "cost_usd": cost["units"] / 10_000,
        "markets": [each.model_dump(mode="json") for each in markets],
        "listings": [each.model_dump(mode="json") for each in listings.items],
        "gone": gone["n"],
        "changes": rents["n"],
        "runs": len(apify.runs),
        "pages_verified": sum(call.operation == "page.get" for call in apify.log.since(0)),
        "spent_usd": round(apify.spent(), 4),
    }


def _show(results: dict[str, Any], home: Path) -> None:
    console = render.out()
    console.print(listings_table(results["listings"][:SHOWN]))
    if len(results["listings"]) > SHOWN:
        console.print(f"[dim]and {render.some(len(results['listings']) - SHOWN, 'listing')} more[/]")
    console.print()
    figures = [
        ("time", f"{DAYS} days in {render.duration(results['seconds'])}"),
        (
            "scrapes",
            f"{results['runs']}, for ${results['cost_usd']:.2f}; Apify's own figure is ${results['spent_usd']:.2f}",
        ),
        ("verified", f"{render.some(results['pages_verified'], 'page')} of listings that had aged"),
        ("gone", f"{render.some(results['gone'], 'listing')}, each with evidence"),
        ("changes", f"{render.some(results['changes'], 'change')} of rents, units and facts"),
        ("data", render.near(Path(results["data"]))),
    ]
    console.print(render.facts(figures))
    program = render.program()
    steps = [
        ("one market", f"{program} --home {render.near(home)} markets show nyc"),
        ("all that was stored", f"{program} --home {render.near(home)} listings search --inactive --min-confidence 0"),
        ("the real thing", f"APIFY_TOKEN=… {program} markets scrape boston"),
    ]
    render.show_next(steps)


demo = OwnDemo(run)
