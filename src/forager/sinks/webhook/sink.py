"""The webhook sink: makes one message for every job that has ended and has a receiver.

It sends nothing itself. It submits the message as a task, so that one dead receiver delays no other. The message is
fixed here, once: its id is derived from the job and its end, so that a repeated batch submits nothing new. The sink has
no access to the signing secret.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from forager.core.change import Change
from forager.core.states import TERMINAL_JOBS
from forager.sinks.webhook.task import DEFAULT_RECEIVER

MOST_RESULTS = 100
"""For a job with more tasks, a message has only the summary."""
ENDS = frozenset({"ended", "created"})
"""Operations that may report an end: a job without tasks is created as ended."""
COUNTS = ("completed", "failed", "skipped", "cancelled")


@dataclass(frozen=True, slots=True)
class EndedJob:
    """How a job ended."""

    id: UUID
    status: str
    end: int
    """Number of this end: a job ends again after its failures are retried."""
    at: int
    counts: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Message:
    """A message: body, receiver and id. The same at every try."""

    id: str
    receiver: str
    """A URL, or `DEFAULT_RECEIVER`."""
    body: str
    at: int


Callbacks = Callable[[Sequence[UUID]], Awaitable[Mapping[UUID, Any]]]
"""Returns the receivers that jobs name themselves, if any. A job that is left out wants no webhook, or was removed."""
JobResults = Callable[[UUID], Awaitable[Sequence[Mapping[str, Any]]]]
Submit = Callable[[Message], Awaitable[None]]


class WebhookSink:
    name = "webhook"
    kinds = frozenset({"job"})

    def __init__(self, callbacks: Callbacks, results: JobResults, submit: Submit, *, has_default: bool) -> None:
        self._callbacks = callbacks
        self._results = results
        self._submit = submit
        self._has_default = has_default

    async def write(self, batch: Sequence[Change]) -> bool:
        ended = [job for change in batch if (job := ended_job(change)) is not None]
        if not ended:
            return False
        told = False
        callbacks = await self._callbacks([job.id for job in ended])  # one query for all: most jobs have no receiver
        for job in ended:
            receiver = receiver_of(callbacks[job.id], has_default=self._has_default) if job.id in callbacks else None
            if receiver is not None:
                results = await self._results(job.id) if job.total <= MOST_RESULTS else None
                await self._submit(message_about(job, receiver, results))
                told = True
        return told


def ended_job(change: Change) -> EndedJob | None:
    """Return the end of a job that a change reports; None if it reports something else."""
    body = change.body or {}
    if change.kind != "job" or change.op not in ENDS or body.get("state") not in TERMINAL_JOBS:
        return None
    counts = {name: int(body.get(name, 0)) for name in COUNTS}
    return EndedJob(UUID(change.key), body["state"], change.version, change.at, counts)


def receiver_of(own: Any, *, has_default: bool) -> str | None:
    """Return a job's receiver: its own, else the one in the settings."""
    return own if own and isinstance(own, str) else DEFAULT_RECEIVER if has_default else None


def message_about(job: EndedJob, receiver: str, results: Sequence[Mapping[str, Any]] | None) -> Message:
    """Build the message about a job. `results` are null in the body above `MOST_RESULTS` tasks."""
    body = {
        "job_id": str(job.id),
        "status": job.status,
        "summary": {"total": job.total, "completed": job.counts["completed"], "failed": job.counts["failed"]},
        "results": None if job.total > MOST_RESULTS or results is None else list(results),
    }
    return Message(f"job_{job.id.hex}_{job.end}", receiver, _as_json(body), job.at)


def _as_json(body: Mapping[str, Any]) -> str:
    try:
        return orjson.dumps(body, default=str).decode()
    except orjson.JSONEncodeError:  # such as a lone surrogate, or a number of a hundred digits
        return json.dumps(body, default=str)
