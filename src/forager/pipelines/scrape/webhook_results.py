"""What a webhook reports about the pages of a scrape job."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from forager.kit.queries import MOST
from forager.kit.service import Service
from forager.pipelines.scrape.api_bodies import seen_task
from forager.pipelines.scrape.reports import pages_of_job

FIELDS = ("task_id", "target_type", "target_url", "status", "result", "error", "reason")


async def results(service: Service, job: UUID) -> Sequence[Mapping[str, Any]]:
    """One entry for each page of the job, in the order of its targets, in the words of the API."""
    pages = (await pages_of_job(service.database, job, cursor=None, limit=MOST)).items
    entries = []
    for page in pages:
        seen, _ = seen_task(page)
        entries.append({**{name: seen[name] for name in FIELDS}, "task_id": str(page.id)})
    return entries
