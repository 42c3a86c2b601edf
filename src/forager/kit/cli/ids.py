"""Ids as users type them: the first characters of a job's id, or a task's two numbers. Pure, except for `full_job`."""

import re
from typing import Annotated
from uuid import UUID

import typer

from forager.core.errors import NotFound, Rejected
from forager.core.ids import task_numbers, task_uuid
from forager.kit.cli.client import Api

SHOWN = 8
"""Characters of a job's id in a table."""
_PART_OF_ID = re.compile(r"[0-9a-f]{4}[0-9a-f-]{0,32}")
_TASK = re.compile(r"(\d{1,14})-(\d{1,18})")


def short_job(job: str) -> str:
    """The id of a job as tables show it."""
    return job[:SHOWN]


def short_task(task: str) -> str:
    """A task's two numbers, `JOB-TASK`: its whole id is computed from them."""
    numbers = task_numbers(UUID(task))
    return task if numbers is None else f"{numbers[0]}-{numbers[1]}"


def read_job(text: str) -> str:
    """Accept a job's id, or its first characters. Raises `BadParameter` for anything else."""
    prefix = text.strip().lower()
    if not _PART_OF_ID.fullmatch(prefix):
        raise typer.BadParameter(f"{text!r} is not a job id; copy one from `forager jobs list`")
    return prefix


def read_task(text: str) -> str:
    """Accept a task's id or its two numbers. Raises `BadParameter` for anything else."""
    if numbers := _TASK.fullmatch(text.strip()):
        try:
            return str(task_uuid(int(numbers[1]), int(numbers[2])))
        except ValueError:
            pass
    try:
        return str(UUID(text.strip()))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a task id; copy one from `forager dead list`") from None


async def full_job(api: Api, text: str) -> str:
    """Return the full id of the job with this prefix. Raises `NotFound` if there is none, `Rejected` if there are
    several."""
    if len(text) == 36:
        return text
    matching = [each["id"] for each in await api.get("/jobs", id=text, internal=True, limit=3)]
    if not matching:
        raise NotFound(f"No job id begins with {text!r}. List the jobs: forager jobs list --all")
    if len(matching) > 1:
        raise Rejected(f"Several job ids begin with {text!r}: {', '.join(matching)}. Give more characters.")
    return str(matching[0])


JobId = Annotated[
    str, typer.Argument(metavar="JOB", parser=read_job, help="Id of the job, or its first characters (at least 4).")
]
OfJob = Annotated[
    str | None, typer.Option("--job", metavar="JOB", parser=read_job, help="Only this job; its id or a prefix of it.")
]
TaskId = Annotated[str, typer.Argument(metavar="TASK", parser=read_task, help="Id of the task, as a list shows it.")]
