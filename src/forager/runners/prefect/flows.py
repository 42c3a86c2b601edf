"""The three flows: create a job, work on one batch of it, work on all jobs until none is left.

Each can be called from synchronous code, where it returns its result, and from asynchronous code, where it returns a
coroutine to await.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, ParamSpec, TypeVar
from uuid import uuid4

from prefect import Flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run

from forager.app.config import load_settings
from forager.core.errors import ServiceAway
from forager.runners.prefect.application import ENDED, Desk, at_desk, current_desk, ended
from forager.runners.prefect.processor import start_processor, turn_to_work

# The six Prefect tasks: the phases of creating a job and of working on a batch of it.
#
# A task run stands for one phase of a whole batch, never for one query. Prefect's retries are off, because the engine's
# are durable; so are its caches and stored results, because the ledger holds every result.


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


DEFAULT_BATCH = 100
SHORTEST_WAIT, LONGEST_WAIT = 0.5, 15.0
"""Seconds between two rounds in which nothing could be leased: doubled each time, because each round is a flow run per
job in Prefect's database."""
DELIVER_WITHIN = 600.0
"""Seconds that sinks have for the last changes after the last job has ended."""
LOOK_AT_SINKS_EVERY = 1.0

P = ParamSpec("P")
R = TypeVar("R")


class EngineFlow(Flow[P, R]):
    """A flow that synchronous code can call as well. Its retries are off, because the engine's are durable."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the flow. Returns its result, or a coroutine if an event loop runs in this thread."""
        run = super().__call__(*args, **kwargs)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(run)
        return run


def engine_flow(fn: Any) -> Any:
    return EngineFlow(fn, retries=0, persist_result=False)


@engine_flow
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
    """Create a places job for a keyword in a state, or in given ZIPs, and start `process_job_batches` for it. Returns
    the job's id and number of queries at once.

    The processor is a process or flow run of its own; beside a running `forager up` on an embedded store none is
    started, because `up` does the work. A flow run creates one job, however often Prefect executes it. Parameters are
    those of `POST /api/v1/places/jobs`; an invalid one fails the run with a message that names it.
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
    async with at_desk() as desk:
        made = await enqueue_queries_task(params, f"prefect:{flow_run.id or uuid4()}")
        settings, needs_processor = desk.settings, not (desk.is_worked_on or dry_run)
    if needs_processor:  # the embedded store is closed here, so the processor can open it
        try:
            started = await start_processor(settings)
            get_run_logger().info("job %s is processed by %s", made["job_id"], started)
        except Exception:  # noqa: BLE001 - the job is stored: a failed run would be repeated, and would create another one
            get_run_logger().exception(
                "job %s was created, but no processor could be started. Run process_job_batches, or `forager up`.",
                made["job_id"],
            )
    return made


@engine_flow
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


@engine_flow
async def process_job_batches(deliver_within: float = DELIVER_WITHIN, skip_if_waiting: bool = False) -> int:
    """Work on all places jobs, a batch of each in turn, until none is queued or running and the sinks have delivered.
    Returns how many queries ended in this run.

    Start it at any time, and as often as you like: each query is leased by one run. A run that can lease nothing,
    because another one owns the lane, waits, and takes over if that one ends. With `skip_if_waiting`, it ends at once
    if another run of this data folder already waits. Fails, with the sinks that are behind, if these have not delivered
    everything `deliver_within` seconds after the last job has ended; the changes stay in the log.
    """
    async with turn_to_work(load_settings().home, skip_if_waiting=skip_if_waiting) as is_needed:
        if not is_needed:
            get_run_logger().info("another processor waits already, and will work on every job; nothing to do")
            return 0
        async with at_desk() as desk, desk.working(), desk.serving():
            processed = await _process_all(desk)
            while await _wait_for_sinks(desk, deliver_within):  # jobs may have been created in the meantime
                processed += await _process_all(desk)
    return processed


async def _process_all(desk: Desk) -> int:
    """Work on all places jobs until none is queued or running. Returns how many queries ended."""
    processed, wait = 0, SHORTEST_WAIT
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


async def _wait_for_sinks(desk: Desk, seconds: float) -> bool:
    """Wait until every sink of places has delivered all current changes. Returns whether there are jobs to work on
    again. Raises `ServiceAway` if sinks are still behind after this time.

    A paused sink is not waited for, because it delivers nothing until an operator resumes it; it is logged.
    """
    until, log = await desk.log_end(), get_run_logger()
    end = asyncio.get_running_loop().time() + seconds
    is_logged = False
    while lagging := await desk.lagging(until):
        paused, waited_for = (
            [each for each in lagging if each.state == "paused"],
            ", ".join(str(each) for each in lagging if each.state != "paused"),
        )
        if not is_logged:
            if paused:
                log.warning("not waiting for paused sinks: %s", ", ".join(map(str, paused)))
            if waited_for:
                log.info("waiting up to %.0f s until sinks have delivered: %s", seconds, waited_for)
            is_logged = True
        if not waited_for:
            break
        if asyncio.get_running_loop().time() >= end:
            raise ServiceAway(
                f"Every places job has ended, but sinks have not delivered all changes within {seconds:.0f} s:"
                f" {waited_for}. The changes are kept: start process_job_batches again, or run `forager up`."
            )
        await asyncio.sleep(LOOK_AT_SINKS_EVERY)
        if await desk.open_jobs():
            return True
    return bool(await desk.open_jobs())
