"""Web search: the pipeline as a value, and the steps that search and hand results over to be read."""

from collections.abc import Iterator
from dataclasses import dataclass

from forager.core.http import Fetch, Request
from forager.core.outcome import Done, Outcome
from forager.core.pipeline import JobLimits, Lane, Pipeline, app_step, step
from forager.core.task import Plan
from forager.extract.serper import KEY, QUERY_REFUSED, facts, refused
from forager.pipelines.web.job import (
    A_PAGE,
    CREDIT,
    READING_LANE,
    ReadHits,
    SearchWeb,
    WebJob,
    WebReading,
    WebResult,
    read_results,
)

NAME = "web"
READING = Lane(READING_LANE, rate=None)


def plan(job: WebJob) -> Iterator[Plan]:
    """Plan one query per page of results; each waits for the one before it."""
    for page in range(1, job.pages + 1):
        task = SearchWeb(
            query=job.query,
            page=page,
            country=job.country,
            language=job.language,
            search=job.search or "0" * 32,
            targets=job.model_dump(mode="json") if job.read and page == 1 else None,
        )
        yield Plan(task, rank=page, after=str(page - 1) if page > 1 else None)


@dataclass(frozen=True, slots=True)
class WebSearch:
    """The upstream: its URL and its time-out. Its method `search` is the step."""

    base_url: str = "https://google.serper.dev"
    timeout: float = 30.0

    async def search(self, task: SearchWeb, fetch: Fetch) -> Outcome:
        url = f"{self.base_url.rstrip('/')}/search"
        response = await fetch(Request.post_json(url, task.body(), auth=KEY, timeout=self.timeout, max_redirects=0))
        if response.status != 200:
            return refused(response)
        results, cost = read_results(response, task)
        return Done(
            records=results,
            tasks=_reading(task, results),
            cost=cost,
            facts=facts(response, results_count=len(results)),
        )


def _reading(task: SearchWeb, results: list[WebResult]) -> list[Plan]:
    if task.targets is None or not results:
        return []
    job = WebJob.model_validate(task.targets)
    urls = list(dict.fromkeys(each.url for each in results))[: job.read]
    return [Plan(ReadHits(search=task.search, targets=[job.target(url) for url in urls]))]


def build(upstream: WebSearch | None = None) -> Pipeline:
    upstream = upstream or WebSearch()
    return Pipeline(
        name=NAME,
        params=WebJob,
        plan=plan,
        steps=(
            step(SearchWeb, upstream.search, price=CREDIT, timeout=upstream.timeout + 30.0),
            app_step(ReadHits),
        ),
        records=(WebResult,),
        tables=(WebReading,),
        lanes=(READING,),
        limits=lambda job: JobLimits(max_cost=job.max_credits, turn=1 if job.pages == 1 else A_PAGE),
        reasons=frozenset({QUERY_REFUSED}),
    )
