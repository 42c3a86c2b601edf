"""The places part of `forager demo`: bars in Arizona, with the estimate before and the audit after the crash."""

from collections.abc import Mapping, Sequence
from typing import Any

from forager.pipelines.places import demo
from forager.pipelines.places.cli import words
from forager.sdk.cli import report_html as html
from forager.sdk.cli.client import Api
from forager.sdk.cli.demo import DemoUpstream
from forager.sdk.cli.render import Job, count
from forager.sdk.cli.showcase import CostLine, DemoWorld, Found, Showcase

SHOWN = 12


def settings(world: DemoWorld) -> Mapping[str, Any]:
    return demo.settings(DemoUpstream(world.url("serper"), world.log("serper")))


async def start(api: Api, world: DemoWorld, look: int) -> Sequence[str]:
    created = await api.post("/places/jobs", demo.JOB)
    return [created["job_id"]]


async def found(api: Api, world: DemoWorld, looks: Sequence[Sequence[Job]]) -> Found:
    (job,) = looks[0]
    priced = await api.post("/places/plan", demo.JOB)
    points = await api.get("/places/map")
    places = [dict(zip(points["columns"], point, strict=True)) for point in points["points"]]
    rated = sorted((each for each in places if each["rating"]), key=lambda each: (each["rating"], each["title"]))
    best = rated[: -SHOWN - 1 : -1]
    marked = [
        {**each, "share": None if each["rating"] is None else max(0, each["rating"] - 2.5) / 2.5} for each in places
    ]
    saved = f"{count(job['skipped'])} saved by early exit"
    stars = [
        (f"{low}–{low + 1}", sum(low <= each["rating"] < low + 1 + (low == 4) for each in rated)) for low in range(1, 5)
    ]
    shown = [(each["title"], f"{each['rating']:.1f}", each["category"], each["address"]) for each in best]
    everywhere = len(places) + int(points["without_place"])
    return Found(
        figures=[
            (
                "places",
                f"{count(everywhere)} {demo.JOB['keyword']} in {demo.WHERE} from {count(job['completed'])} queries",
            ),
        ],
        spending=CostLine("credits", float(priced["worst_credits"]), float(job["spent"]), saved),
        sections=[
            html.section(
                f"Places: {demo.JOB['keyword']} in {demo.WHERE}",
                html.point_map(marked, label=f"Map of {len(places)} places"),
                note=f"{count(len(places))} of {count(everywhere)} places have coordinates; greener is rated better.",
            ),
            html.section(
                "Best rated",
                html.columns_chart(stars, label="Places by rating"),
                html.table(("place", "rating", "category", "address"), shown, right=("rating",)),
            ),
        ],
        data={"places": everywhere, "credits": job["spent"], "credits_worst": priced["worst_credits"]},
    )


showcase = Showcase(
    title="places",
    upstream="serper",
    config=demo.SANDBOX,
    logs=True,
    settings=settings,
    start=start,
    found=found,
    kinds=("place",),
    words=words,
    crash=demo.demo.crash,
)
