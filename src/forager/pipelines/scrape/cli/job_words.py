"""The display texts of a scrape job."""

from collections.abc import Iterable, Mapping
from typing import Any

from forager.sdk.cli.render import Figures, Job, Words, answered, count, money, some


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
        ("rejected", some(job["rejected"], "answer") + " that the page does not show" if job["rejected"] else None),
        ("cost", cost(job["spent"]) if job["spent"] else None),
    ]


def progress(job: Job) -> Iterable[str]:
    if job["spent"]:
        yield cost(job["spent"])


def cost(amount: int) -> str:
    """Millionths of a dollar as dollars: what described fields cost."""
    return money(amount / 1_000_000)


words = Words(task=("page", "pages"), request=request, results=results, progress=progress, cost=cost)
