"""Errors of both databases for jobs whose state does not allow an operation."""

from collections.abc import Sequence
from uuid import UUID

from forager.core.errors import Conflict, NotFound
from forager.core.states import JobState


def was_cancelled(job: UUID | str) -> Conflict:
    return Conflict(f"Job {job} was cancelled. Create it again instead.")


def has_ended(job: UUID, state: JobState) -> Conflict:
    """Return the error for resuming a job that has ended."""
    if state is JobState.CANCELLED:
        return was_cancelled(job)
    return Conflict(f"Job {job} is {state.public()}: it cannot be resumed. `forager jobs retry` runs failures again.")


def no_dead_letter(tasks: Sequence[UUID]) -> NotFound:
    return NotFound(f"There is no dead letter {', '.join(map(str, tasks[:3]))}. See `forager dead list`.")
