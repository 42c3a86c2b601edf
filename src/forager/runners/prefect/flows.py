"""The three flows: create a job, work on one batch of it, work on all jobs until none is left."""

from typing import Any
from uuid import uuid4

from prefect import flow, get_run_logger
from prefect.runtime import flow_run

from forager.runners.prefect.desk import at_desk, ended
from forager.runners.prefect.tasks import (
    dequeue_batch_task,
    enqueue_queries_task,
    fetch_serper_place,
    get_running_jobs_task,
    store_places_task,
    update_job_stats_task,
)

DEFAULT_BATCH = 100
SHORTEST_WAIT, LONGEST_WAIT = 0.5, 15.0
"""Seconds between two rounds in which nothing could be leased: doubled each time, because each round is a flow run per
job in Prefect's database."""


@flow(retries=0, persist_result=False)
async def create_scraping_job(
    keyword: str,
    state: str | None = None,
    pages: int | None = None,
    zips: list[str] | None = None,
    batch_size: int | None = None,
    concurrency: int | None = None,
    max_credits: int | None = None,
    po_boxes: bool | None = None,
    dry_run: bool | None = None,
) -> dict[str, Any]:
    """Create a places job for a keyword in a state, or in given ZIPs. Returns its id and its number of queries.

    It sends nothing: `process_job_batches` or a running Forager does. A flow run creates one job, however often Prefect
    executes it. Parameters are those of `POST /api/v1/places/jobs`; an invalid one fails the run with its message.
    """
    params = {
        "keyword": keyword,
        "state": state,
        "pages": pages,
        "zips": zips,
        "batch_size": batch_size,
        "concurrency": concurrency,
        "max_credits": max_credits,
        "po_boxes": po_boxes,
        "dry_run": dry_run,
    }
    async with at_desk():
        return await enqueue_queries_task(params, f"prefect:{flow_run.id or uuid4()}")


@flow(retries=0, persist_result=False)
async def process_batch(job_id: str, batch_size: int = DEFAULT_BATCH) -> int:
    """Work on up to `batch_size` queries of a job: lease, fetch, store. Returns how many ended.

    A query that waits for a retry has not ended. If nothing can be leased now, it returns 0: the job has ended or is
    paused, its queries wait for a retry, or another process owns the lane.
    """
    async with at_desk() as desk, desk.working():
        queries = await dequeue_batch_task(job_id, batch_size)
        if not queries:
            return 0
        await fetch_serper_place(queries)
        stored = await store_places_task(job_id)
        await update_job_stats_task(job_id)
        return ended(stored)


@flow(retries=0, persist_result=False)
async def process_job_batches() -> int:
    """Work on all places jobs, a batch of each in turn, until none is queued or running. Returns how many queries
    ended in this run.

    Start it at any time, and as often as you like: each query is leased by one run. A run that can lease nothing,
    because another one owns the lane, waits, and takes over if that one ends.
    """
    processed, wait = 0, SHORTEST_WAIT
    async with at_desk() as desk, desk.working():
        while jobs := await get_running_jobs_task():
            leased = desk.leased
            for job in jobs:
                if job["queued"]:
                    processed += await process_batch(job["job_id"], job["batch_size"] or DEFAULT_BATCH)
            if desk.leased > leased:  # also if all of them wait for a retry: others may be ready
                wait = SHORTEST_WAIT
            else:
                wait = min(wait * 2, LONGEST_WAIT)
                await desk.work_arrived(wait)
        get_run_logger().info("no places job is queued or running; %d queries ended in this run", processed)
    return processed
