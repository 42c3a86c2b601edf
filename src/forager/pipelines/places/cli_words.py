"""How the command line names the parts of a places job: queries, places, credits."""

from collections.abc import Iterable, Mapping
from typing import Any

from forager.kit.cli.render import count, some
from forager.kit.cli.words import Figures, Job, Words, answered, spent_with_assumed


def request(params: Mapping[str, Any]) -> str:
    """`bars in AZ`, `bars in 85001, 85002, 85003 and 4 more`."""
    zips = params.get("zips") or ()
    where = params.get("state") or ", ".join(zips[:3])
    more = f" and {len(zips) - 3} more" if len(zips) > 3 and not params.get("state") else ""
    return f"{params.get('keyword') or ''} in {where}{more}".strip()


def saved(job: Job) -> int | None:
    """Queries that early exit made needless; None if tasks were also skipped for lack of budget or after a failure."""
    return None if job["max_cost"] is not None or job["failed"] else int(job["skipped"])


def results(job: Job) -> Figures:
    early = saved(job)
    spent = spent_with_assumed(job) + (f", {count(early)} saved by early exit" if early else "")
    return [
        ("queries", answered(job)),
        ("places", f"{count(job['records'])}, {count(job['discoveries'])} of them new"),
        ("credits", spent),
        ("skipped", count(job["skipped"]) if early is None and job["skipped"] else None),
    ]


def progress(job: Job) -> Iterable[str]:
    yield some(job["spent"], "credit")
    if job["skipped"]:
        yield f"{count(job['skipped'])} {'skipped' if saved(job) is None else 'saved'}"


words = Words(task=("query", "queries"), request=request, results=results, progress=progress)
