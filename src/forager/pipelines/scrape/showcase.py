"""The scrape part of `forager demo`: job postings of a web site, in several layouts, become fields."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from forager.pipelines.scrape.cli.job_words import words
from forager.sdk.cli import report_html as html
from forager.sdk.cli.client import Api
from forager.sdk.cli.render import Job, count, some
from forager.sdk.cli.showcase import CostLine, DemoWorld, Found, Showcase

PAGES = 36
LAYOUTS = ("jsonld", "microdata", "plain")
RATE = 12
SHOWN = 10


def lanes(world: DemoWorld) -> Mapping[str, Mapping[str, Any]]:
    rules = {"tokens_per_interval": RATE, "interval_seconds": 1, "max_concurrent_requests": 8}
    return {world.url("site").removeprefix("http://"): rules}


def settings(world: DemoWorld) -> Mapping[str, Any]:
    return {"egress_allow": (world.url("site").removeprefix("http://"),)}


async def start(api: Api, world: DemoWorld, look: int) -> Sequence[str]:
    targets = [
        {
            "target_url": f"{world.url('site')}/jobs/{LAYOUTS[n % len(LAYOUTS)]}/{n}",
            "target_type": "job_posting",
            "workspace_id": "demo",
            "render": "http",
        }
        for n in range(PAGES)
    ]
    return [(await api.post("/scrape/batch", {"targets": targets}))["job_id"]]


async def found(api: Api, world: DemoWorld, looks: Sequence[Sequence[Job]]) -> Found:
    (job,) = looks[0]
    pages = [page async for some_ in api.pages(f"/scrape/jobs/{job['id']}/pages", limit=100) for page in some_]
    read = [page["result"] for page in pages if page["result"]]
    filled = Counter(name for each in read for name, value in each.items() if value not in (None, "", [], {}))
    rows = [
        (
            each.get("job_title"),
            each.get("company_name"),
            (each.get("location") or {}).get("raw"),
            each.get("salary_range"),
        )
        for each in read[:SHOWN]
    ]
    return Found(
        figures=[
            ("postings", f"{count(len(read))} of {some(len(pages), 'page')} in {len(LAYOUTS)} layouts, as fields")
        ],
        spending=CostLine("pages", float(job["total"]), float(job["completed"]), "no charge"),
        sections=[
            html.section(
                "Scrape: job postings as fields",
                html.columns_chart(
                    [(name.replace("_", " "), n) for name, n in filled.most_common(7)], label="Pages with each field"
                ),
                html.table(("title", "company", "location", "pay"), rows),
                note=f"{count(len(read))} pages; above, the number of pages on which each field was found.",
            )
        ],
        data={"pages": len(pages), "read": len(read)},
    )


showcase = Showcase(
    title="scrape",
    upstream="site",
    config={"latency": 0.05},
    settings=settings,
    lanes=lanes,
    start=start,
    found=found,
    kinds=("scrape_result",),
    words=words,
)
