"""The webhooks of a row: one signed message for every change that the row wants, to the row's URL.

Like the webhook sink itself, this one sends nothing: it adds each message to the receiver's standing job. The id of a
message is derived from the sink and the change, so that a repeated batch adds nothing new. While the receiver accepts
nothing, only so many messages are made (`Backlog`), and the other changes wait in the log.
"""

from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from forager.core.change import Change
from forager.core.clock import Clock
from forager.core.errors import NotFound, Permanent, StoreError, Transient
from forager.core.hosts import host_of
from forager.core.ledger import Ledger
from forager.core.sink import Full, SinkRow
from forager.core.states import JobState
from forager.core.task import Plan
from forager.kit.change_json import encodable, encoded
from forager.kit.reports import JobReport
from forager.sinks.webhook.backlog import Backlog
from forager.sinks.webhook.pipeline import NAME, standing_job
from forager.sinks.webhook.receivers import Registered
from forager.sinks.webhook.task import Delivery

ReportOf = Callable[[UUID], Awaitable[JobReport]]


class ReceiverOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str = Field(
        min_length=1,
        max_length=2_000,
        description="Receiver of a signed POST for every change. Holders of the service key can read it.",
    )


class ChangeWebhooks:
    """The sink of one row of the type `webhook`."""

    def __init__(
        self, row: SinkRow, url: str, ledger: Ledger, report_of: ReportOf, clock: Clock, backlog: Backlog | None = None
    ) -> None:
        self.name = row.name
        self.kinds = row.kinds
        self.pipelines = row.pipelines
        self._url = url
        self._host = host_of(url)
        self._ledger = ledger
        self._report_of = report_of
        self._clock = clock
        self._backlog = backlog or Backlog()
        self._register = Registered(ledger.database)
        self._job: UUID | None = None
        """The receiver's job, if many messages waited in it when the last batch was added."""

    async def full(self) -> Full | None:
        """Return a `Full` while no further messages are made; it has a reason once the receiver has accepted nothing
        between two batches. Reads the receiver's job only while many messages wait in it."""
        if self._job is None:
            return None
        try:
            job = await self._report_of(self._job)
        except NotFound:  # cancelled and pruned since
            self._job = None
            return None
        waiting = job.queued + job.running
        # While the job is paused, `write` is what reports it.
        pause = self._backlog.room_in(waiting, job.completed, self._clock.monotonic())
        if job.state == JobState.PAUSED or not pause:
            return None
        # Why they wait is not known here: the receiver may be away, or its lane paused or outside its hours.
        is_stuck = self._backlog.is_stuck
        return Full(
            f"{waiting:,} webhooks wait for {self._host}; later changes stay in the log." if is_stuck else None, pause
        )

    async def write(self, batch: Sequence[Change]) -> bool:
        """Add a message for every change. Raises `Transient` while the receiver wants none (410)."""
        # The end of a delivery's own job causes no webhook, because that would never end.
        wanted = [change for change in batch if change.pipeline != NAME]
        if not wanted:
            return False
        # A generator: the ledger makes the messages of a large batch in a thread, while the event loop does other work.
        plans = (Plan(self._message(change)) for change in wanted)
        await self._register(self.name, self._url, self._host)
        try:
            added = await self._ledger.append(standing_job(self._url), plans)
        except StoreError as error:
            if type(error) is StoreError:  # the store answers and refuses these messages: retrying will not help
                raise Permanent(error.message) from error
            raise
        job = added.job
        report = await self._report_of(job)
        waiting = report.queued + report.running
        if added.total:  # a replay of messages that are there already tells nothing about the receiver
            self._backlog.made(waiting, report.completed, self._clock.monotonic())
        self._job = job if self._backlog.is_long(waiting) else None
        if report.state == JobState.PAUSED:
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
            sink=self.name,
        )
