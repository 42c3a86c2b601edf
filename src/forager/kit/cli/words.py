"""How the command line names what a job of a pipeline requests, brings and costs. A feature declares its own `Words`.

A pipeline that declares none is described in general terms: tasks, records, and credits if it spent any.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from forager.kit.cli.render import count, some

Job = Mapping[str, Any]
Figures = Iterable[tuple[str, Any]]


def spent_with_assumed(job: Job) -> str:
    """What was spent, and how much of it is assumed: the price of a request is unknown if its answer was lost."""
    return f"{count(job['spent'])} spent" + assumed(job)


def assumed(job: Job) -> str:
    return f" ({count(job['guessed'])} assumed: their answers were lost)" if job["guessed"] else ""


def answered(job: Job) -> str:
    return f"{count(job['completed'])} completed of {count(job['total'])}"


def _request(params: Mapping[str, Any]) -> str:
    said = [f"{name}={value}" for name, value in params.items() if value not in (None, False)]
    return ", ".join(said[:3])


def _results(job: Job) -> Figures:
    return [
        ("tasks", answered(job)),
        ("records", count(job["records"])),
        ("credits", spent_with_assumed(job) if job["spent"] else None),
        ("skipped", count(job["skipped"]) if job["skipped"] else None),
    ]


def _progress(job: Job) -> Iterable[str]:
    if job["spent"]:
        yield some(job["spent"], "credit")
    if job["skipped"]:
        yield f"{count(job['skipped'])} skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Every field may be left out."""

    task: tuple[str, str] = ("task", "tasks")
    """One task and several, as people of this field say: query, queries."""
    request: Callable[[Mapping[str, Any]], str] = _request
    """What a job with these parameters asks for, in a few words."""
    results: Callable[[Job], Figures] = _results
    """What a job has brought and cost: names and values; a None is left out."""
    progress: Callable[[Job], Iterable[str]] = _progress
    """Short figures beside the progress bar."""

    def tasks(self, number: int) -> str:
        """`1 query`, `2 queries`."""
        return some(number, *self.task)


GENERAL = Words()
