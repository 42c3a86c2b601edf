"""Words that the command line prints for a check of a watched page."""

from collections.abc import Iterable, Mapping
from typing import Any

from forager.sdk.cli.render import Figures, Job, Words, answered, some


def request(params: Mapping[str, Any]) -> str:
    """`watch oak-table`, or `watched pages that are due`."""
    return f"watch {params['watch']}" if "watch" in params else "watched pages that are due"


def results(job: Job) -> Figures:
    return [("checks", answered(job))]


def progress(_: Job) -> Iterable[str]:
    return ()


def cost(amount: int) -> str:
    return some(amount, "page")


words = Words(task=("check", "checks"), request=request, results=results, progress=progress, cost=cost)
