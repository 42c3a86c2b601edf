"""The Prefect runner: flows and tasks that create places jobs and work on them in batches.

Prefect shows, schedules and starts the flows; the ledger holds the jobs, the queue and the retries. That is why a flow
run can be killed, repeated or started twice at once, and why nothing is lost with Prefect's own database. Serve the
deployments with `python -m forager.runners.prefect`.
"""

import os

os.environ.setdefault("DO_NOT_TRACK", "1")  # read when Prefect is imported: it sends usage data by default

from forager.runners.prefect.flows import (
    create_scraping_job,
    dequeue_batch_task,
    enqueue_queries_task,
    fetch_serper_place,
    get_running_jobs_task,
    process_batch,
    process_job_batches,
    store_places_task,
    update_job_stats_task,
)

__all__ = [
    "create_scraping_job",
    "dequeue_batch_task",
    "enqueue_queries_task",
    "fetch_serper_place",
    "get_running_jobs_task",
    "process_batch",
    "process_job_batches",
    "store_places_task",
    "update_job_stats_task",
]
