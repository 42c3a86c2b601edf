"""Texts that the command line uses for a pipeline's jobs: their requests, results and costs. A feature declares its own
`Words`.

A pipeline that declares none is described in general terms: tasks, records, and credits if it spent any.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from forager.kit.cli.render import count, some

Job = Mapping[str, Any]
Figures = Iterable[tuple[str, Any]]


def spent_with_assumed(job: Job) -> str:
    """Format the units spent, and how many of them are assumed because the answer, and so the price, was lost."""
    return f"{count(job['spent'])} spent" + assumed(job)


def assumed(job: Job) -> str:
    return f" ({count(job['guessed'])} assumed: their answers were lost)" if job["guessed"] else ""


def answered(job: Job) -> str:
    return f"{count(job['completed'])} completed of {count(job['total'])}"


def found(job: Job) -> str:
    """Format the records of a job, and how many of them no job had found before. Records that all jobs share count
    only when they are new."""
    new = f"{count(job['discoveries'])} new"
    return f"{count(job['records'])}, {new}" if job["records"] else new


def _request(params: Mapping[str, Any]) -> str:
    given = [f"{name}={value}" for name, value in params.items() if value not in (None, False)]
    return ", ".join(given[:3])


def _results(job: Job) -> Figures:
    return [
        ("tasks", answered(job)),
        ("records", found(job)),
        ("credits", spent_with_assumed(job) if job["spent"] else None),
        ("skipped", count(job["skipped"]) if job["skipped"] else None),
    ]


def credits_of(amount: int) -> str:
    return some(amount, "credit")


def _progress(job: Job) -> Iterable[str]:
    if job["spent"]:
        yield credits_of(job["spent"])
    if job["skipped"]:
        yield f"{count(job['skipped'])} skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Display texts of a pipeline. Every field is optional."""

    task: tuple[str, str] = ("task", "tasks")
    """Singular and plural for a task: query, queries."""
    request: Callable[[Mapping[str, Any]], str] = _request
    """Short description of a job's request, made from its parameters."""
    results: Callable[[Job], Figures] = _results
    """Results and costs of a job as names and values; None is left out."""
    progress: Callable[[Job], Iterable[str]] = _progress
    """Short figures beside the progress bar."""
    cost: Callable[[int], str] = credits_of
    """An amount that the job has spent, or may spend: `12 credits`, `12 pages`, `$0.012`."""
    retry: str = "forager jobs retry {job}"
    """The command that runs the failed tasks of a job again."""

    def tasks(self, number: int) -> str:
        """`1 query`, `2 queries`."""
        return some(number, *self.task)


GENERAL = Words()
