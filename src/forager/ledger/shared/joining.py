"""The error of a task that is skipped because another one with the same key is open, in any job."""

import orjson

from forager.core.ids import task_uuid


def joined(job: int, task: int) -> tuple[str, str]:
    """Error and facts, by the numbers of the task that is open."""
    name = str(task_uuid(job, task))
    return f"Task {name} is open for the same key.", orjson.dumps({"joined": name}).decode()
