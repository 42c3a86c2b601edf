"""Words of the command line for the parts of a crawl of a site."""

from collections.abc import Iterable, Mapping
from typing import Any

from forager.sdk.cli.render import Figures, Job, Words, answered, count, some


def request(params: Mapping[str, Any]) -> str:
    """`site https://docs.example/`, `map of https://docs.example/`, `pages of docs.example that are due`."""
    if params.get("again"):
        return f"pages of {params.get('site', 'sites')} that are due"
    return f"{'map of' if params.get('mode') == 'map' else 'site'} {params.get('url')}"


def results(job: Job) -> Figures:
    return [
        ("pages", answered(job)),
        ("new", some(job["discoveries"], "record") + " not known before"),
        ("skipped", count(job["skipped"]) if job["skipped"] else None),
    ]


def progress(job: Job) -> Iterable[str]:
    if job["skipped"]:
        yield f"{count(job['skipped'])} skipped"


def cost(amount: int) -> str:
    return some(amount, "page")


words = Words(task=("page", "pages"), request=request, results=results, progress=progress, cost=cost)
