"""The display texts of a listings job."""

from collections.abc import Iterable, Mapping
from typing import Any

from forager.sdk.cli.render import Figures, Job, Words, answered, count, money, some

_ACTIONS = {
    "dispatch_scrapes": "dispatch of scrapes",
    "decay_and_verify": "decay and verification",
    "cleanup_maintenance": "maintenance",
    "verify": "verification of listings",
}


def request(params: Mapping[str, Any]) -> str:
    """`scrape of nyc`, `dispatch of scrapes`."""
    if scrape := params.get("scrape"):
        return f"scrape of {scrape['market_id']}"
    if retier := params.get("retier"):
        return f"new tier of {retier['market_id']}"
    return _ACTIONS.get(str(params.get("action")), "listings")


def results(job: Job) -> Figures:
    return [
        ("steps", answered(job)),
        ("new", some(job["discoveries"], "listing or source", "listings and sources") + " not known before"),
        ("rejected", count(job["rejected"]) if job["rejected"] else None),
        ("cost", cost(job["spent"]) if job["spent"] else None),
    ]


def progress(job: Job) -> Iterable[str]:
    if job["spent"]:
        yield cost(job["spent"])


def cost(amount: int) -> str:
    """Hundredths of a cent as dollars."""
    return money(amount / 10_000)


words = Words(task=("step", "steps"), request=request, results=results, progress=progress, cost=cost)
