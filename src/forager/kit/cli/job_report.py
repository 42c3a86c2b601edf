"""Reports how a job ended: a few lines and an exit code."""

from collections.abc import Mapping
from typing import Any

from forager.kit.cli import progress, render
from forager.kit.cli.errors import JobNotDone
from forager.kit.cli.words import GENERAL, Words


def ended(job: Mapping[str, Any], words: Words = GENERAL, *, as_json: bool) -> None:
    """Show how a job ended. Raises `JobNotDone`, with what to do next, if it is paused or some of its tasks failed."""
    if as_json:
        render.show_json(job)
    else:
        show_result(job, words)
    check_done(job, words)


def check_done(job: Mapping[str, Any], words: Words = GENERAL) -> None:
    """Raise `JobNotDone`, with what to do next, if a job is paused or some of its tasks failed."""
    if job["state"] in ("completed", "cancelled"):
        return
    if job["state"] == "paused":
        paused = f"Job {job['id']} is paused" + (f": {job['reason']}" if job["reason"] else "")
        raise JobNotDone(f"{render.sentence(paused)} Resume it: forager jobs resume {job['id']}")
    raise JobNotDone(
        f"{words.tasks(job['failed'])} of job {job['id']} failed. See why: forager dead list --job {job['id']}."
        f" Run them again: {words.retry.format(job=job['id'])}"
    )


def show_result(job: Mapping[str, Any], words: Words = GENERAL) -> None:
    """Print the results and the cost of a finished job."""
    took = seconds_of(job)
    figures = [
        ("job", str(job["id"])),
        ("state", render.state(job["state"])),
        ("ended by", _early_end(job, words)),
        *words.results(job),
        ("failed", render.count(job["failed"]) if job["failed"] else None),
        ("retries", render.count(job["retries"]) if job["retries"] else None),
        ("time", render.duration(took) if took is not None else None),
    ]
    render.out().print(render.facts(figures))


def seconds_of(job: Mapping[str, Any]) -> float | None:
    """Seconds from the job's start to its end; None while it runs."""
    started, finished = render.when(job["started_at"]), render.when(job["finished_at"])
    return (finished - started).total_seconds() if started and finished else None


def _early_end(job: Mapping[str, Any], words: Words) -> str | None:
    if not progress.is_out_of_budget(job):
        return None
    return f"its budget of {words.cost(job['max_cost'])}; the remaining tasks are skipped"
