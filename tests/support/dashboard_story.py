"""A week of work for the world of the pictures: prices and rents that move, flats that age, jobs that run and wait.

What the pages show comes from real jobs on the simulated upstreams. Only time is made: the crawls of some minutes are
moved to the days before, and the figures of the last day are written as if the service had run through it.
"""

import asyncio
import math
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from forager.app.series import ADD
from forager.sandbox.site import Outage
from tests.support.dashboard import World

DAYS = 6
DAY = 86_400_000
CONFIDENCE = (96, 91, 62, 97, 47, 88, 71, 94, 55, 41, 84, 66)
"""How sure it is, from flat to flat, that it can still be rented."""


async def tell_story(world: World) -> None:
    """Let the shop and the rents of Boston change for some days."""
    front, upstreams = world.front, world.upstreams
    assert upstreams is not None
    reports = front.app.reports
    marks = [await reports.last_change()]
    for day in range(1, DAYS):
        upstreams.shop.time.advance(86_400)
        upstreams.apify.adopt(upstreams.apify.config.changed({"homes_days_ahead": float(day * 4)}))
        await _made(world, "/admin/crawl-jobs", sitemap=upstreams.shop.url("/sitemap.xml"))
        market = await _made(world, "/admin/markets/boston/scrape")
        async with asyncio.timeout(60):
            while (await front.data(f"/api/v1/jobs/{market['job_id']}"))["finished_at"] is None:
                await front.app.worker.run(until_idle=True)
                await asyncio.sleep(0.05)
        marks.append(await reports.last_change())
    await _move_to_the_past(world, marks)
    await _let_age(world)
    await _figures_of_a_day(world)
    moved = await front.app.database.fetch(
        "SELECT p.id FROM changes c JOIN items p ON p.url_hash = c.key WHERE c.kind = 'product'"
        " GROUP BY p.id ORDER BY count(*) DESC, p.id LIMIT 1"
    )
    world.product = moved[0]["id"]


@asynccontextmanager
async def at_work(world: World) -> AsyncIterator[None]:
    """Run the engine, with a job that advances slowly, one that waits for its lane, a site and a sink that fail."""
    front, upstreams = world.front, world.upstreams
    assert upstreams is not None
    client = front.client
    async with AsyncExitStack() as stack:
        # The pictures of the simulated shop are grey areas; without them, the pages draw something.
        (await client.post("/api/v1/rechecks/pictures/pause")).raise_for_status()
        await stack.enter_async_context(front.app.engine())
        await asyncio.sleep(2)  # what is due is done at once
        slow = {"tokens_per_interval": 1, "interval_seconds": 7}
        (await client.patch("/api/v1/lanes/serper/rules", json=slow)).raise_for_status()
        shop = f"127.0.0.1:{upstreams.shop.port}"
        (await client.patch(f"/api/v1/lanes/{shop}/rules", json={"crawl_delay_seconds": 20})).raise_for_status()
        await _made(world, "/places/jobs", keyword="coffee shops", state="AZ", pages=10)
        await _made(world, "/admin/crawl-jobs", sitemap=upstreams.shop.url("/sitemap.xml"))
        await upstreams.pages.fail(Outage.ERROR)
        hooks = {"name": "hooks", "type": "webhook", "options": {"url": upstreams.pages.url("/changes")}}
        (await client.post("/api/v1/sinks", json=hooks)).raise_for_status()
        targets = [
            {"target_url": upstreams.pages.url(f"/jobs/jsonld/{n}"), "target_type": "job_posting"} for n in range(12)
        ]
        await _made(world, "/jobs", pipeline="scrape", params={"targets": targets})
        await asyncio.sleep(12)
        yield


async def _made(world: World, path: str, **body: Any) -> dict[str, Any]:
    got = await world.front.client.post(f"/api/v1{path}", json=body)
    assert got.status_code in (200, 201, 202), got.text
    return dict(got.json()["data"])


async def _move_to_the_past(world: World, marks: list[int]) -> None:
    """Give every crawl a day of its own."""
    database = world.front.app.database
    for index, last in enumerate(marks[:-1]):
        first = marks[index - 1] if index else 0
        await database.write(
            "UPDATE changes SET at = at - :back WHERE id > :first AND id <= :last AND kind IN ('product', 'listing')",
            {"back": (len(marks) - 1 - index) * DAY, "first": first, "last": last},
        )
    for table in ("items", "listings"):
        await database.write(f"UPDATE {table} SET first_seen_at = first_seen_at - :back", {"back": (DAYS - 1) * DAY})


async def _let_age(world: World) -> None:
    """Let the flats be seen last at different times, so that their badges differ."""
    database = world.front.app.database
    rows = await database.fetch(
        "SELECT id, confidence_base, decay_rate FROM listings WHERE gone_at IS NULL ORDER BY id DESC"
    )
    for turn, row in enumerate(rows):
        wanted = CONFIDENCE[turn % len(CONFIDENCE)]
        back = max(0, round((row["confidence_base"] - wanted - 0.5) / row["decay_rate"] * 3_600_000))
        await database.write(
            "UPDATE listings SET confidence_updated_at = confidence_updated_at - :back, zero_at = zero_at - :back"
            " WHERE id = :id",
            {"back": back, "id": row["id"]},
        )


async def _figures_of_a_day(world: World) -> None:
    """Write what a service that ran for a day would have counted in each minute."""
    now = int(world.front.app.clock.now().timestamp()) // 60 * 60
    chance = random.Random(28)
    for minute in range(24 * 60, -1, -2):
        at, of_day = now - minute * 60, 1 - minute / 1440
        done = round(220 * (0.45 + of_day * 0.4 + 0.15 * math.sin(of_day * 9)) + chance.uniform(-9, 9))
        failed = chance.choice((0, 0, 2, 5)) if 0.55 < of_day < 0.58 else 0
        counted = {
            "completed": done,
            "skipped": done // 9,
            "failed": failed,
            "cost": done // 3,
            "bytes": done * 41_000,
            "changes": done // 4,
            "stored": done * 60,
        }
        for name, value in counted.items():
            for step in (60, 3600):
                about = {"step": step, "at": at - at % step, "pipeline": "places", "name": name, "value": value * 2}
                if value:
                    await world.front.app.database.write(ADD, about)
