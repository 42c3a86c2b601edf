"""Deliveries as a pipeline: nobody submits such a job by hand; messages are added to the receiver's standing job."""

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from forager.core.errors import Rejected
from forager.core.ledger import NewJob
from forager.core.pipeline import Lane, Pipeline, Retry, step
from forager.core.task import Plan
from forager.sinks.webhook.steps import SECRET, Deliver
from forager.sinks.webhook.task import LANE_FAMILY, Delivery, DeliveryJob

NAME = "deliveries"
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
RETRY = Retry(delays=(2.0, 4.0, 8.0, MINUTE, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, DAY, *(DAY,) * 5))
"""Soon at first, for a restart; then ever later; then daily, the last time in the seventh day."""
WEBHOOK_LANES = Lane(f"{LANE_FAMILY}*", rate=20, burst=5, concurrency=4, retry=RETRY)
"""Of each receiving host. An API's: no robots.txt, no proxy."""
STEP_TIMEOUT = 30.0

__all__ = ["NAME", "RETRY", "SECRET", "WEBHOOK_LANES", "build", "standing_job"]


def build(default_url: str | None = None) -> Pipeline:
    """`default_url`: where messages go whose job names no receiver."""
    return Pipeline(
        name=NAME,
        params=DeliveryJob,
        plan=_nothing,
        steps=(step(Delivery, Deliver(default_url), timeout=STEP_TIMEOUT, retry=RETRY),),
        lanes=(WEBHOOK_LANES,),
        check=_not_by_hand,
        internal=True,
    )


def standing_job(receiver: str) -> NewJob:
    """The job that all messages to a receiver are added to."""
    name = sha256(receiver.encode(errors="replace")).hexdigest()
    # No header can begin with a space: no caller's Idempotency-Key is ever the same.
    return NewJob(NAME, {"receiver": receiver}, idempotency_key=f" deliveries/{name}", standing=True)


def _nothing(_: DeliveryJob) -> Iterable[Plan]:
    return ()


def _not_by_hand(_: Any) -> None:
    raise Rejected("Deliveries are made by Forager itself. Give a job a `callback_url`, and it is told when it ends.")
