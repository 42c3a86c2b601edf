"""The pipeline of alerts: one task for each message to a channel. Its jobs are never submitted by users."""

from collections.abc import Iterable
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from forager.core.errors import Rejected, Retry
from forager.core.ledger import NewJob
from forager.core.pipeline import Lane, Pipeline, app_step
from forager.core.task import Plan, Task
from forager.pipelines.alerts.channels import FiredAlert, NotifyChannel, note_try
from forager.pipelines.alerts.records import DeadLetters, SinkState, Spend

NAME = "alerts"
LANES = "notify:"
STANDING = " alerts/"
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
RETRY = Retry(delays=(2.0, 4.0, 8.0, MINUTE, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, DAY, *(DAY,) * 5))
"""As for webhooks: short at first, then daily until the seventh day, then a dead letter."""
SEND_TIMEOUT = 60.0
PATIENCE = 8 * DAY


class AlertJob(BaseModel):
    """The standing job of one channel."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    channel: str = Field(description="Name of the channel; `system` for the looks at Forager itself.")


class SendAlerts(Task):
    """One message: an alert, or all that have joined a slot."""

    kind: ClassVar[str] = "alerts.send"

    channel: str
    alert: str | None = None
    slot: int | None = None
    """In Unix milliseconds."""

    def key(self) -> str:
        return self.alert if self.alert is not None else f"slot {self.slot}"

    def lane(self) -> str:
        return LANES + self.channel


class LookAtSystem(Task):
    """Write the state of sinks, dead letters and money as records."""

    kind: ClassVar[str] = "alerts.look"

    def key(self) -> str:
        return "look"

    def lane(self) -> str:
        return f"{LANES}system"


def standing_job(channel: str) -> NewJob:
    """Return the standing job to which all messages for a channel are added."""
    return NewJob(NAME, {"channel": channel}, idempotency_key=STANDING + channel, standing=True)


def build() -> Pipeline:
    return Pipeline(
        name=NAME,
        params=AlertJob,
        plan=_nothing,
        steps=(
            app_step(SendAlerts, timeout=SEND_TIMEOUT, retry=RETRY, patience=PATIENCE, on_try=note_try),
            app_step(LookAtSystem, timeout=SEND_TIMEOUT, retry=Retry(1, first=10.0)),
        ),
        records=(SinkState, DeadLetters, Spend),
        lanes=(Lane(f"{LANES}*", rate=20, burst=5, concurrency=2, retry=RETRY),),
        tables=(NotifyChannel, FiredAlert),
        check=_not_by_hand,
        reasons=frozenset({"removed"}),
        internal=True,
    )


def _nothing(_: AlertJob) -> Iterable[Plan]:
    return ()


def _not_by_hand(_: Any) -> None:
    raise Rejected("Forager sends alerts itself. Add a rule: forager rules add NAME --on KIND --notify CHANNEL.")
