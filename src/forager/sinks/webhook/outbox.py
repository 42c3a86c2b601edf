"""Assembles the webhook sink: what it reads about a job, and how its messages become tasks.

The end of a delivery's own job causes no webhook, because that would never end. A problem with one job must not delay
the webhooks of others.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

import orjson
import structlog

from forager.core.change import Change
from forager.core.errors import Permanent, StoreError
from forager.core.hosts import host_of
from forager.core.ledger import Ledger
from forager.core.states import TERMINAL_JOBS
from forager.core.task import Plan
from forager.sinks.webhook.pipeline import NAME, standing_job
from forager.sinks.webhook.receivers import DEFAULT_RECEIVER, Registered, WebhookDelivery, request_ids

# The webhook sink: makes one message for every job that has ended and has a receiver.
#
# It sends nothing itself. It submits the message as a task, so that one dead receiver delays no other. The message is
# fixed here, once: its id is derived from the job and its end, so that a repeated batch submits nothing new. The sink
# has no access to the signing secret.


MOST_RESULTS = 100
"""For a job with more tasks, a message has only the summary."""
ENDS = frozenset({"ended", "created"})
"""Operations that may report an end: a job without tasks is created as ended."""
COUNTS = ("completed", "failed", "skipped", "cancelled")


@dataclass(frozen=True, slots=True)
class JobSummary:
    """The end of a job."""

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
class WebhookMessage:
    """A message: body, receiver and id. The same at every try."""

    id: str
    receiver: str
    """A URL, or `DEFAULT_RECEIVER`."""
    body: str
    at: int
    job: UUID
    """The job that it reports."""


Callbacks = Callable[[Sequence[UUID]], Awaitable[Mapping[UUID, Any]]]
"""Returns the receivers that jobs name themselves. A job that is left out has no webhook, or was removed."""
JobResults = Callable[[UUID], Awaitable[Sequence[Mapping[str, Any]]]]
Submit = Callable[[WebhookMessage], Awaitable[None]]


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
        written = False
        callbacks = await self._callbacks([job.id for job in ended])  # one query for all: most jobs have no receiver
        for job in ended:
            receiver = receiver_of(callbacks[job.id], has_default=self._has_default) if job.id in callbacks else None
            if receiver is not None:
                results = await self._results(job.id) if job.total <= MOST_RESULTS else None
                await self._submit(message_about(job, receiver, results))
                written = True
        return written


def ended_job(change: Change) -> JobSummary | None:
    """Return the end of a job that a change reports; None if it reports something else."""
    body = change.body or {}
    if change.kind != "job" or change.op not in ENDS or body.get("state") not in TERMINAL_JOBS:
        return None
    counts = {name: int(body.get(name, 0)) for name in COUNTS}
    return JobSummary(UUID(change.key), body["state"], change.version, change.at, counts)


def receiver_of(own: Any, *, has_default: bool) -> str | None:
    """Return a job's receiver: its own, else the one in the settings."""
    return own if own and isinstance(own, str) else DEFAULT_RECEIVER if has_default else None


def message_about(job: JobSummary, receiver: str, results: Sequence[Mapping[str, Any]] | None) -> WebhookMessage:
    """Build the message about a job. `results` are null in the body above `MOST_RESULTS` tasks."""
    body = {
        "job_id": str(job.id),
        "status": job.status,
        "summary": {"total": job.total, "completed": job.counts["completed"], "failed": job.counts["failed"]},
        "results": None if job.total > MOST_RESULTS or results is None else list(results),
    }
    return WebhookMessage(f"job_{job.id.hex}_{job.end}", receiver, _as_json(body), job.at, job.id)


def _as_json(body: Mapping[str, Any]) -> str:
    try:
        return orjson.dumps(body, default=str).decode()
    except orjson.JSONEncodeError:  # such as a lone surrogate, or a number of a hundred digits
        return json.dumps(body, default=str)


log = structlog.get_logger("forager.sinks.webhook.outbox")

CALLBACK = "callback_url"
Results = Callable[[UUID], Awaitable[Sequence[Mapping[str, Any]]]]
"""Returns the results of a job, one entry per task."""


class JobReports(Protocol):
    """The reports that this sink reads. The ledger's `Reports` implements it."""

    async def job(self, job: UUID) -> Any: ...
    async def tasks(self, job: UUID, *, limit: int) -> Any: ...
    async def param_of_jobs(self, jobs: Sequence[UUID], name: str) -> Mapping[UUID, tuple[str, Any]]: ...


def webhook_sink(
    ledger: Ledger, reports: JobReports, default_url: str | None, results: Mapping[str, Results]
) -> WebhookSink:
    """Build the sink. `results` holds the pipelines' own results; for other pipelines a message has each task's state
    and error."""

    async def callbacks_of(jobs: Sequence[UUID]) -> Mapping[UUID, Any]:
        named = await reports.param_of_jobs(jobs, CALLBACK)
        return {job: own for job, (pipeline, own) in named.items() if pipeline != NAME}

    async def results_of(job: UUID) -> Sequence[Mapping[str, Any]]:
        own = results.get((await reports.job(job)).pipeline)
        try:
            return await (own(job) if own else _plain_results(reports, job))
        except StoreError:
            raise
        except Exception:
            log.exception("job_results_failed", job=str(job))
            return await _plain_results(reports, job)

    register = Registered(ledger.database)

    async def submit(message: WebhookMessage) -> None:
        url = default_url if message.receiver == DEFAULT_RECEIVER else message.receiver
        task = WebhookDelivery(
            id=message.id,
            receiver=message.receiver,
            host=_host(url or ""),
            body=message.body,
            at=message.at,
            request_id=(await request_ids(ledger.database, [message.job])).get(message.job),
        )
        await register(WebhookSink.name, message.receiver, task.host)
        try:
            await ledger.append(standing_job(message.receiver), [Plan(task)])
        except StoreError as error:
            if type(error) is StoreError:  # the store answers and refuses this message: retrying will not help
                raise Permanent(error.message) from error
            raise

    return WebhookSink(callbacks_of, results_of, submit, has_default=default_url is not None)


def _host(url: str) -> str:
    """Return the host of a URL. An invalid URL is refused later, when it is sent, where the failure is visible as a
    dead letter."""
    try:
        return host_of(url)
    except ValueError:
        return ""


async def _plain_results(reports: JobReports, job: UUID) -> list[dict[str, Any]]:
    page = await reports.tasks(job, limit=MOST_RESULTS)
    return [
        {"task_id": str(task.id), "kind": task.kind, "key": task.key, "status": task.state, "error": task.error}
        for task in page.items
    ]
