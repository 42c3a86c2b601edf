"""Assembles the webhook sink: what it reads about a job, and how its messages become tasks.

The end of a delivery's own job causes no webhook, because that would never end. A problem with one job must not delay
the webhooks of others.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

import structlog

from forager.core.errors import Permanent, StoreError
from forager.core.hosts import host_of
from forager.core.ledger import Ledger
from forager.core.task import Plan
from forager.sinks.webhook.pipeline import NAME, standing_job
from forager.sinks.webhook.receivers import Registered
from forager.sinks.webhook.sink import MOST_RESULTS, Message, WebhookSink
from forager.sinks.webhook.task import DEFAULT_RECEIVER, Delivery

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
            log.exception("the results of a job cannot be reported in its pipeline's own form", job=str(job))
            return await _plain_results(reports, job)

    register = Registered(ledger.database)

    async def submit(message: Message) -> None:
        url = default_url if message.receiver == DEFAULT_RECEIVER else message.receiver
        task = Delivery(
            id=message.id, receiver=message.receiver, host=_host(url or ""), body=message.body, at=message.at
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
