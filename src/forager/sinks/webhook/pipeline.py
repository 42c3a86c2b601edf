"""The pipeline of webhook deliveries. Its jobs are never submitted by users; messages are added to the receiver's
standing job."""

import re
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from forager.core.errors import ForagerError, Permanent, RateLimited, Refused, Rejected, Retry, Transient, Unconfigured
from forager.core.http import Fetch, Request, Response, SignRef
from forager.core.ledger import NewJob
from forager.core.outcome import Done, Halt, Outcome
from forager.core.pipeline import Lane, Pipeline, step
from forager.core.states import ErrorType
from forager.core.task import Plan
from forager.sinks.webhook.receivers import (
    DEFAULT_RECEIVER,
    LANE_FAMILY,
    STANDING,
    DeliveryJob,
    Receiver,
    WebhookDelivery,
    note_try,
    receiver_id,
)

# One try to deliver a message. A URL may contain a token, so everything that is stored about a try names only the host.


SECRET = "FORAGER_WEBHOOK_SECRET"  # noqa: S105 - its name
TIMEOUT = 10.0
MOST_ANSWER = 1024 * 1024
GIVEN_UP_AFTER = 7 * 24 * 3600.0


class Deliver:
    """The delivery step. `default_url` is the current default receiver; `traced`: share of jobs whose traces are kept,
    or None if there are no traces."""

    def __init__(self, default_url: str | None, traced: float | None = None) -> None:
        self._default_url = default_url
        self._traced = traced

    async def __call__(self, delivery: WebhookDelivery, fetch: Fetch) -> Outcome:
        response = await _send(self._request(delivery), delivery, fetch)
        status, facts = response.status, _facts(response)
        if 200 <= status < 300:
            return Done(facts=facts, cost=0)
        message = f"{delivery.host} answered {status}."
        if status == 410:
            return Halt(f"{message} It refuses webhooks: deliveries to it wait until the job is resumed.")
        retry_after = response.retry_after()
        if (status == 429 or (status == 503 and retry_after is not None)) and not _too_old(delivery, response):
            raise RateLimited(message, retry_after=retry_after, facts=facts)
        raise Transient(message, facts=facts, error_type=ErrorType.HTTP)

    def _request(self, delivery: WebhookDelivery) -> Request:
        url = self._default_url if delivery.receiver == DEFAULT_RECEIVER else delivery.receiver
        if not url:
            raise Unconfigured(
                "FORAGER_DEFAULT_WEBHOOK_URL is no longer set. Set it, restart Forager if it runs, and resume the"
                " job; or cancel the job."
            )
        return Request(
            url,
            "POST",
            headers={"Content-Type": "application/json", **self._trace(delivery)},
            body=delivery.body.encode(),
            sign=SignRef(SECRET, delivery.id),
            timeout=TIMEOUT,
            max_bytes=MOST_ANSWER,
            max_redirects=0,
        )

    def _trace(self, delivery: WebhookDelivery) -> Mapping[str, str]:
        """Return the header that makes the receiver's work part of the job's trace. The id of a message about a job
        contains the job's."""
        told = _JOB_OF.match(delivery.id) if self._traced is not None else None
        if told is None or self._traced is None:
            return {}
        from forager.core.tracing import traceparent

        return {"traceparent": traceparent(UUID(told[1]), self._traced, "webhook", delivery.id)}


_JOB_OF = re.compile("job_([0-9a-f]{32})_")


async def _send(request: Request, delivery: WebhookDelivery, fetch: Fetch) -> Response:
    try:
        return await fetch(request)
    except ForagerError as error:
        if error.where is not None:  # the fetcher's, with the URL's path
            error.where = delivery.host
        if isinstance(error, Permanent) and not isinstance(error, Refused):
            # For example an expired certificate: that is repaired within days, and the message is still wanted then.
            raise Transient(error.message, reason=error.reason, error_type=error.error_type) from None
        raise


def _too_old(delivery: WebhookDelivery, response: Response) -> bool:
    """Return whether a message is too old to be tried again. A 429 burns no attempt, so it needs this limit."""
    return response.at.timestamp() - delivery.at / 1000 > GIVEN_UP_AFTER


def _facts(response: Response) -> Mapping[str, int]:
    return {"api_status": response.status, "api_ms": response.elapsed_ms}


NAME = "deliveries"
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
RETRY = Retry(delays=(2.0, 4.0, 8.0, MINUTE, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, DAY, *(DAY,) * 5))
"""Retry delays: short at first, for a receiver that restarts; then longer; then daily, until the seventh day."""
WEBHOOK_LANES = Lane(f"{LANE_FAMILY}*", rate=20, burst=5, concurrency=4, retry=RETRY)
"""The lane of each receiving host. It is an API's lane: no robots.txt, no proxy."""
STEP_TIMEOUT = 30.0

__all__ = ["NAME", "RETRY", "SECRET", "WEBHOOK_LANES", "build", "standing_job"]


def build(default_url: str | None = None, traced: float | None = None) -> Pipeline:
    """Build the pipeline. `default_url` receives the messages of jobs that name no receiver. `traced`: see
    `Deliver`."""
    deliver = step(WebhookDelivery, Deliver(default_url, traced), timeout=STEP_TIMEOUT, retry=RETRY, on_try=note_try)
    return Pipeline(
        name=NAME,
        params=DeliveryJob,
        plan=_nothing,
        steps=(deliver,),
        lanes=(WEBHOOK_LANES,),
        tables=(Receiver,),
        check=_not_by_hand,
        internal=True,
    )


def standing_job(receiver: str) -> NewJob:
    """Return the standing job to which all messages for a receiver are added."""
    return NewJob(NAME, {"receiver": receiver}, idempotency_key=STANDING + receiver_id(receiver), standing=True)


def _nothing(_: DeliveryJob) -> Iterable[Plan]:
    return ()


def _not_by_hand(_: Any) -> None:
    raise Rejected("Forager creates deliveries itself. Set a job's `callback_url` to get a webhook when it ends.")
