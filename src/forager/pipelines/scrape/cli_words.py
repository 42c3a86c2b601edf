"""How the command line names the parts of a scrape job: pages."""

from collections.abc import Mapping
from typing import Any

from forager.kit.cli.render import count, some
from forager.kit.cli.words import Figures, Job, Words, answered


def request(params: Mapping[str, Any]) -> str:
    """The URL of the first page, and how many more there are; of a job that was sent in parts, its source."""
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
