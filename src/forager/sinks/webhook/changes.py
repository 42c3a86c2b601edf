"""The webhooks of a row: one signed message to the row's URL for every change that matches the row.

Like the webhook sink itself, this one sends nothing: it adds each message to the receiver's standing job. The id of a
message is derived from the sink and the change, so that a repeated batch adds nothing new. While the receiver accepts
nothing, a limited number of messages is made (`Backlog`), and the other changes wait in the log.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
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
from forager.sdk.delivery import encodable, encoded
from forager.sdk.reports import JobReport
from forager.sinks.webhook.pipeline import NAME, standing_job
from forager.sinks.webhook.receivers import Registered, WebhookDelivery, request_ids

# Maximum of messages that wait for one receiver before further changes stay in the log.
#
# A message is a task of its own, which costs several times what reading the change costs, and a receiver that is away
# takes none. So beyond a number of waiting messages the sink makes more only while the receiver accepts some, and
# otherwise a batch after pauses that grow, as any sink that cannot be reached is tried again. Such a batch is also the
# probe: its first tries are due at once, even if every older message waits hours for its next. A receiver that refuses
# some messages and accepts others is therefore never held up by those it refuses.
#
# Only batches that made messages count. Asking costs nothing, and changes that the sink does not want are no probe.


MOST_WAITING = 1_000
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0
"""Seconds, as for a sink that cannot be reached."""


class Backlog:
    """The messages of one receiver's job. Pure: counters and times are arguments.

    `accepted` is the job's counter of delivered messages. Any change of it is progress, because pruning lowers it.
    """

    def __init__(self, most_waiting: int = MOST_WAITING) -> None:
        self._most = most_waiting
        self._accepted: int | None = None
        """The counter when the last batch was made."""
        self._was_long = False
        self._pause = FIRST_PAUSE
        self._next = 0.0

    @property
    def is_stuck(self) -> bool:
        """Return whether the receiver accepted nothing between the last two batches although many messages waited."""
        return self._pause > FIRST_PAUSE

    def is_long(self, waiting: int) -> bool:
        """Return whether enough messages wait to assume that the receiver is down."""
        return waiting >= self._most

    def room_in(self, waiting: int, accepted: int, now: float) -> float:
        """Return the seconds until another batch of messages may be made; 0 if it may be made now."""
        if not self.is_long(waiting) or accepted != self._accepted:
            return 0.0
        return max(0.0, self._next - now)

    def made(self, waiting: int, accepted: int, now: float) -> None:
        """Note that a batch of messages was made. `waiting` includes these messages."""
        has_progress = accepted != self._accepted or not self._was_long
        self._pause = FIRST_PAUSE if has_progress else min(2 * self._pause, LONGEST_PAUSE)
        self._was_long = self.is_long(waiting)
        self._accepted, self._next = accepted, now + self._pause


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
        """Add a message for every change. Raises `Transient` while the receiver refuses messages (410)."""
        # The end of a delivery's own job causes no webhook, because that would never end.
        wanted = [change for change in batch if change.pipeline != NAME]
        if not wanted:
            return False
        requests = await request_ids(self._ledger.database, (change.job for change in wanted))
        # A generator: the ledger makes the messages of a large batch in a thread, while the event loop does other work.
        plans = (Plan(self._message(change, requests)) for change in wanted)
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
        if added.total:  # a replay of stored messages is no evidence about the receiver
            self._backlog.made(waiting, report.completed, self._clock.monotonic())
        self._job = job if self._backlog.is_long(waiting) else None
        if report.state == JobState.PAUSED:
            raise Transient(
                f"{self._host} refuses webhooks (410), or its deliveries were paused. Resume them with"
                f" `forager jobs resume {job}`, or remove the sink {self.name}."
            )
        return True

    def _message(self, change: Change, requests: Mapping[UUID, str]) -> WebhookDelivery:
        return WebhookDelivery(
            id=f"{self.name}_{change.id}",
            receiver=self._url,
            host=self._host,
            body=encoded(encodable(change)).decode(),
            at=change.at,
            sink=self.name,
            request_id=None if change.job is None else requests.get(change.job),
        )
