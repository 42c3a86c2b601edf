"""The listings part of `forager demo`: three markets, scraped three times, a simulated week apart."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from forager.pipelines.listings.cli.job_words import words
from forager.sdk.cli import report_html as html
from forager.sdk.cli.client import Api
from forager.sdk.cli.render import Job, count, some
from forager.sdk.cli.showcase import CostLine, DemoWorld, Found, Showcase

MARKETS = ("nyc", "jersey-city", "hartford")
LISTINGS = 24
LOOKS = 3
DAYS_APART = 7.0
SHOWN = 12
SANDBOX: Mapping[str, Any] = {
    "homes": LISTINGS,
    "bad_every": 40,
    "rate_per_second": None,
    "queue_seconds": 0.1,
    "run_seconds": 0.8,
    "settle_seconds": 0.2,
}
"""Apify with quick runs; one row in forty cannot be used."""


def settings(world: DemoWorld) -> Mapping[str, Any]:
    hosts = world.url("apify"), world.url("apify", "site_url")
    return {
        "apify_token": "sandbox-demo",
        "apify_base_url": hosts[0],
        "apify_poll_seconds": 0.5,
        "apify_cost_delay_seconds": 0.3,
        "egress_allow": tuple(urlsplit(url).netloc for url in hosts),
    }


async def start(api: Api, world: DemoWorld, look: int) -> Sequence[str]:
    """Scrape the markets, a week after the look before. Only the listings' time moves: what is stored ends now."""
    await world.change("apify", homes_days_ahead=DAYS_APART * look)
    return [(await api.post(f"/admin/markets/{market}/scrape"))["job_id"] for market in MARKETS]


async def found(api: Api, world: DemoWorld, looks: Sequence[Sequence[Job]]) -> Found:
    listings = [each async for page in api.pages("/listings", min_confidence=0) for each in page]
    listings.sort(key=lambda each: (-each["freshness_confidence"], each["id"]))
    rents = await _rents(api, listings)
    varied = [each for each in listings if len(set(rents.get(each["id"], ()))) > 1]
    chosen = [*varied, *(each for each in listings if each not in varied)][:SHOWN]
    month = await api.get("/admin/scraping")
    details = [await api.get(f"/admin/markets/{market}") for market in MARKETS]
    spent = sum(float(each["cost_this_month_usd"]) for each in details)
    runs = sum(map(len, looks))
    per_run = float(month["per_month"]["expected_usd"]) / max(1, month["per_month"]["runs"])
    fresh = sum(each["freshness_confidence"] >= 80 for each in listings)
    mean = sum(each["freshness_confidence"] for each in listings) / max(1, len(listings))
    return Found(
        figures=[
            ("listings", f"{count(len(listings))} apartments in {len(MARKETS)} markets, looked at {LOOKS} times"),
            ("changed", f"{some(len(varied), 'listing')} with a new rent"),
            ("fresh", f"{fresh:,} of {len(listings):,} with a confidence of 80 or more (mean {mean:.0f} of 100)"),
        ],
        spending=CostLine("USD", round(per_run * runs, 2), round(spent, 4), f"{runs} runs of an actor", is_limit=False),
        sections=[
            html.section(
                "Listings: apartments that are on the market now",
                html.cards(_card(each, rents.get(each["id"], ())) for each in chosen),
                note=f"{count(len(listings))} listings of {', '.join(MARKETS)}; each with its confidence.",
            )
        ],
        data={"listings": len(listings), "new_rents": len(varied), "mean_confidence": round(mean, 1), "usd": spent},
    )


async def _rents(api: Api, listings: Sequence[Mapping[str, Any]]) -> dict[int, list[float]]:
    """Return the lowest rents of each listing, oldest first."""
    ids = "&".join(f"id={each['id']}" for each in listings[:100])
    answer = await api.get(f"/listings/rents?{ids}") if ids else []
    return {
        each["id"]: [float(point["rent_min"]) for point in reversed(each["rents"]) if point["rent_min"] is not None]
        for each in answer
    }


def _card(each: Mapping[str, Any], rents: Sequence[float]) -> Mapping[str, Any]:
    low, high = each["rent_min"], each["rent_max"]
    rent = "rent on request" if low is None else f"${low:,}" + (f" – ${high:,}" if high and high != low else "")
    badge = each.get("badge")
    return {
        "title": each["title"] or each["address"],
        "lines": (
            rent,
            f"{_beds(each['beds_min'], each['beds_max'])} · {each['address']}, {each['city']}",
            f"confidence {each['freshness_confidence']} of 100",
        ),
        "badge": (badge["text"], badge["color"]) if badge else None,
        "chart": html.spark(rents),
    }


def _beds(fewest: float | None, most: float | None) -> str:
    """`studio`, `2 beds`, `studio–1 bed`, `1–3 beds`."""
    if not most:
        return "studio"
    unit = "bed" if most == 1 else "beds"
    return f"{most:g} {unit}" if fewest == most else f"{f'{fewest:g}' if fewest else 'studio'}–{most:g} {unit}"


showcase = Showcase(
    title="listings",
    upstream="apify",
    config=SANDBOX,
    settings=settings,
    start=start,
    found=found,
    looks=LOOKS,
    follow_up=True,  # listings that a scrape no longer found are verified
    kinds=("listing",),
    words=words,
)
