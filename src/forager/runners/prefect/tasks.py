"""The six Prefect tasks: the phases of creating a job and of working on a batch of it.

A task run stands for one phase of a whole batch, never for one query. Prefect's retries are off, because the engine's
are durable; so are its caches and stored results, because the ledger holds every result.
"""

from collections.abc import Mapping
from typing import Any

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE

from forager.runners.prefect.desk import ENDED, current_desk, ended


@task(retries=0, cache_policy=NO_CACHE, persist_result=False)
async def enqueue_queries_task(params: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Create the job with all its queries, in one transaction. Returns its id and its number of queries.

    Repeated with the same key, it returns the job of the first time.
    """
    made = await current_desk().create(params, key)
    get_run_logger().info("job %s has %d queries", made["job_id"], made["total_queries"])
    return dict(made)


@task(retries=0, cache_policy=NO_CACHE, persist_result=False)
async def get_running_jobs_task() -> list[dict[str, Any]]:
    """Return the places jobs that are queued or running, oldest first."""
    return [
        {"job_id": job["id"], "batch_size": job["batch_size"], "queued": job["queued"], "running": job["running"]}
        for job in await current_desk().open_jobs()
    ]


@task(retries=0, cache_policy=NO_CACHE, persist_result=False)
async def dequeue_batch_task(job_id: str, batch_size: int) -> list[str]:
    """Begin a batch of up to `batch_size` queries of a job. Returns the keys of those that start first; none if another
    process works on them.

    No more start at once than the job's `concurrency` allows. `fetch_serper_place` takes the rest of the batch as soon
    as others have ended.
    """
    queries = list(await current_desk().lease(job_id, batch_size))
    get_run_logger().info("leased %d queries of job %s, of a batch of at most %d", len(queries), job_id, batch_size)
    return queries


@task(retries=0, cache_policy=NO_CACHE, persist_result=False)
async def fetch_serper_place(queries: list[str]) -> dict[str, int]:
    """Send the queries of the batch at the pace of the lane, with as many in flight as the job's `concurrency` allows.
    Returns how many ended in which state.

    A query that failed for a transient reason is `waiting`: the ledger will offer it again when its retry is due.
    """
    states = dict(await current_desk().attempt())
    get_run_logger().info("%d queries ended, %d of them leased first: %s", sum(states.values()), len(queries), states)
    return states


@task(retries=0, cache_policy=NO_CACHE, persist_result=False)
async def store_places_task(job_id: str) -> dict[str, int]:
    """Store how the queries ended and the places they found, in one transaction. Returns how many were stored."""
    stored = dict(await current_desk().settle())
    get_run_logger().info("stored %s of job %s", stored, job_id)
    return stored


@task(retries=0, cache_policy=NO_CACHE, persist_result=False)
async def update_job_stats_task(job_id: str) -> dict[str, Any]:
    """Return the job's state and counters, and log them. The transaction that stored the batch has updated them."""
    job = await current_desk().job(job_id)
    stats = {name: job[name] for name in ("state", "total", "queued", "running", *ENDED, "retries", "spent", "records")}
    get_run_logger().info("job %s is %s: %d of %d ended, %s", job_id, job["state"], ended(job), job["total"], stats)
    return stats
