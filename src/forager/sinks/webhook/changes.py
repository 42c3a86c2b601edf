"""The webhooks of a row: one signed message for every change that the row wants, to the row's URL.

Like the webhook sink itself, this one sends nothing: it adds each message to the receiver's standing job. The id of a
message is derived from the sink and the change, so that a repeated batch adds nothing new.
"""

from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from forager.core.change import Change
from forager.core.errors import Permanent, StoreError, Transient
from forager.core.hosts import host_of
from forager.core.ledger import Ledger
from forager.core.sink import SinkRow
from forager.core.states import JobState
from forager.core.task import Plan
from forager.kit.change_json import encodable, encoded
from forager.sinks.webhook.pipeline import NAME, standing_job
from forager.sinks.webhook.task import Delivery

JobStateOf = Callable[[UUID], Awaitable[str]]


class ReceiverOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str = Field(
        min_length=1,
        max_length=2_000,
        description="Receiver of a signed POST for every change. Holders of the service key can read it.",
    )


class ChangeWebhooks:
    """The sink of one row of the type `webhook`."""

    def __init__(self, row: SinkRow, url: str, ledger: Ledger, state_of: JobStateOf) -> None:
        self.name = row.name
        self.kinds = row.kinds
        self.pipelines = row.pipelines
        self._url = url
        self._host = host_of(url)
        self._ledger = ledger
        self._state_of = state_of

    async def write(self, batch: Sequence[Change]) -> bool:
        """Add a message for every change. Raises `Transient` while the receiver wants none (410)."""
        # The end of a delivery's own job causes no webhook, because that would never end.
        wanted = [change for change in batch if change.pipeline != NAME]
        if not wanted:
            return False
        # A generator: the ledger makes the messages of a large batch in a thread, while the event loop does other work.
        plans = (Plan(self._message(change)) for change in wanted)
        try:
            job = (await self._ledger.append(standing_job(self._url), plans)).job
        except StoreError as error:
            if type(error) is StoreError:  # the store answers and refuses these messages: retrying will not help
                raise Permanent(error.message) from error
            raise
        if await self._state_of(job) == JobState.PAUSED:
            raise Transient(
                f"{self._host} wants no more webhooks (410), or its deliveries were paused. Resume them with"
                f" `forager jobs resume {job}`, or remove the sink {self.name}."
            )
        return True

    def _message(self, change: Change) -> Delivery:
        return Delivery(
            id=f"{self.name}_{change.id}",
            receiver=self._url,
            host=self._host,
            body=encoded(encodable(change)).decode(),
            at=change.at,
        )
