"""The pipeline of webhook deliveries. Its jobs are never submitted by users; messages are added to the receiver's
standing job."""

from collections.abc import Iterable
from typing import Any

from forager.core.errors import Rejected
from forager.core.ledger import NewJob
from forager.core.pipeline import Lane, Pipeline, Retry, step
from forager.core.task import Plan
from forager.sinks.webhook.receivers import STANDING, Receiver, note_try, receiver_id
from forager.sinks.webhook.steps import SECRET, Deliver
from forager.sinks.webhook.task import LANE_FAMILY, Delivery, DeliveryJob

NAME = "deliveries"
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
RETRY = Retry(delays=(2.0, 4.0, 8.0, MINUTE, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, DAY, *(DAY,) * 5))
"""Retry delays: short at first, for a receiver that restarts; then longer; then daily, until the seventh day."""
WEBHOOK_LANES = Lane(f"{LANE_FAMILY}*", rate=20, burst=5, concurrency=4, retry=RETRY)
"""The lane of each receiving host. It is an API's lane: no robots.txt, no proxy."""
STEP_TIMEOUT = 30.0

__all__ = ["NAME", "RETRY", "SECRET", "WEBHOOK_LANES", "build", "standing_job"]


def build(default_url: str | None = None) -> Pipeline:
    """Build the pipeline. `default_url` receives the messages of jobs that name no receiver."""
    return Pipeline(
        name=NAME,
        params=DeliveryJob,
        plan=_nothing,
        steps=(step(Delivery, Deliver(default_url), timeout=STEP_TIMEOUT, retry=RETRY, on_try=note_try),),
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
