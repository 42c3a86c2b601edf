"""The reviews part of `forager demo`: every review of two simulated accounts, by stars and by month."""

from collections.abc import Mapping, Sequence
from typing import Any

from forager.pipelines.reviews import demo
from forager.pipelines.reviews.cli import words
from forager.sdk.cli import report_html as html
from forager.sdk.cli.client import Api
from forager.sdk.cli.demo import DemoUpstream
from forager.sdk.cli.render import Job, count
from forager.sdk.cli.showcase import CostLine, DemoWorld, Found, Showcase

LOCATIONS = 30
MONTHS = 18
SHOWN = 8


def settings(world: DemoWorld) -> Mapping[str, Any]:
    return demo.settings(DemoUpstream("", world.log("google"), world.announced["google"]))


async def start(api: Api, world: DemoWorld, look: int) -> Sequence[str]:
    return [(await api.post("/review-fetch", {"access_token": demo.TOKEN}))["job_id"]]


async def found(api: Api, world: DemoWorld, looks: Sequence[Sequence[Job]]) -> Found:
    (job,) = looks[0]
    path = f"/review-fetch/{job['id']}"
    counts, rated = await api.get(path), await api.get(f"{path}/ratings")
    places = [each for account in await api.get(f"{path}/tree") for each in account["locations"] if each["rating"]]
    worst = sorted(places, key=lambda each: (each["rating"], -each["reviews"]))[:SHOWN]
    rows = [(each["title"], count(each["reviews"]), f"{each['rating']:.1f}", count(each["answered"])) for each in worst]
    stars = [(f"{n} ★", float(rated["stars"].get(n, 0))) for n in html.STARS]
    months = [(each["month"][2:], float(each["reviews"])) for each in rated["months"][-MONTHS:]]
    return Found(
        figures=[("reviews", f"{count(counts['reviews'])} of {count(counts['locations'])} locations")],
        spending=CostLine("requests", None, float(job["completed"] + job["retries"]), "no charge"),
        sections=[
            html.section(
                "Reviews by stars, and by month",
                html.columns_chart(stars, label="Reviews by stars"),
                html.columns_chart(months, label="Reviews by month"),
            ),
            html.section(
                "Locations with the lowest rating",
                html.table(
                    ("location", "reviews", "rating", "answered"), rows, right=("reviews", "rating", "answered")
                ),
            ),
        ],
        data={"reviews": counts["reviews"], "locations": counts["locations"]},
    )


showcase = Showcase(
    title="reviews",
    upstream="google",
    config={**demo.SANDBOX, "default": {"locations": LOCATIONS}},
    settings=settings,
    start=start,
    found=found,
    kinds=("review", "location"),
    words=words,
)
