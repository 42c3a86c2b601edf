"""Example bodies for the OpenAPI document. The figures are consistent with one another: they describe one job."""

from typing import Any

FIELDS = {"job_title": "Bar Manager", "company_name": "Still", "salary_range": "USD 50,000–60,000 per year"}
TASK: dict[str, Any] = {
    "task_id": "00000000-0002-8000-8000-00000000002b",
    "job_id": "3b8a1f07-9c55-4d7e-a1b2-5f0e8c7d6a21",
    "status": "completed",
    "target_type": "job_posting",
    "target_url": "https://example.com/jobs/1",
    "result": FIELDS,
    "error": None,
    "reason": None,
    "created_at": "2026-03-14T12:00:00Z",
    "started_at": "2026-03-14T12:00:00.012Z",
    "completed_at": "2026-03-14T12:00:00.790Z",
}
PAGE: dict[str, Any] = {
    "provenance": {
        "job_title": {
            "source": "json-ld:JobPosting.title",
            "confidence": 0.95,
            "page": "https://example.com/jobs/1",
        }
    },
    "page_url": "https://example.com/jobs/1",
    "pages": ["https://example.com/jobs/1"],
    "rendered": False,
}
RESULT = {
    "task_id": TASK["task_id"],
    "target_type": "job_posting",
    "target_url": "https://example.com/jobs/1",
    "status": "completed",
    "result": FIELDS,
    "meta": PAGE,
}
JOB: dict[str, Any] = {
    "job_id": TASK["job_id"],
    "status": "running",
    "total_tasks": 2,
    "completed_tasks": 1,
    "failed_tasks": 0,
    "queued_tasks": 0,
    "running_tasks": 1,
    "cancelled_tasks": 0,
    "callback_url": "https://hooks.example.com/forager",
    "created_at": "2026-03-14T12:00:00Z",
    "updated_at": "2026-03-14T12:00:00.790Z",
    "finished_at": None,
}
