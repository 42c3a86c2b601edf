"""What a webhook reports about the pages of a scrape job."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from forager.kit.service import Service
from forager.pipelines.scrape.reports import results_of_job
from forager.pipelines.scrape.words import shown_reason


async def results(service: Service, job: UUID) -> Sequence[Mapping[str, Any]]:
    """One entry for each page of the job, in the order of its targets, in the words of the API."""
    targets = (await service.reports.job(job)).params["targets"]
    results_by_task = {each.task_id: each.result for each in await results_of_job(service.database, job)}
    entries = []
    for task in (await service.reports.tasks(job, limit=len(targets))).items:
        target, failed = targets[int(task.key)], task.state != "completed"
        entries.append(
            {
                "task_id": str(task.id),
                "target_type": target["target_type"],
                "target_url": target["target_url"],
                "status": task.state,
                "result": results_by_task.get(task.id),
                "error": task.error if failed else None,
                "reason": shown_reason(task.reason) if failed else None,
            }
        )
    return entries
