"""The display texts of a scrape job."""

from collections.abc import Mapping
from typing import Any

from forager.sdk.cli.render import Figures, Job, Words, answered, count, some


def request(params: Mapping[str, Any]) -> str:
    """Return the URL of the first page and the number of others; for a job that was sent in parts, its source."""
    targets = params.get("targets") or ()
    if not targets:
        return str(params.get("source") or "pages sent in parts")
    first = str(targets[0].get("target_url", ""))
    return first if len(targets) == 1 else f"{first} and {some(len(targets) - 1, 'page')} more"


def results(job: Job) -> Figures:
    return [
        ("pages", answered(job)),
        ("results", count(job["records"])),
        ("skipped", count(job["skipped"]) if job["skipped"] else None),
    ]


words = Words(task=("page", "pages"), request=request, results=results)
