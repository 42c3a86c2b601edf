"""Receivers of webhooks: what each has accepted, and since when it accepts nothing.

A sink has handed a change on as soon as its message is a task. It is delivered when the receiver has answered 2xx. So
every try is counted in a row per sink and receiver, in the transaction that settles the try, and the status of a sink
is read from there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, ClassVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from forager.core.database import Database
from forager.core.ledger import LogLine, Settlement
from forager.core.pipeline import TaskTry
from forager.core.sink import Outbox, SinkRow
from forager.core.states import TaskState
from forager.core.table import Effect, TableRow
from forager.core.task import Task
from forager.sdk.queries import at

# The task for one message to one receiver. The body is fixed; the time and the signature belong to each try.


DEFAULT_RECEIVER = "default"
"""Stands for the receiver in the settings. Its URL may contain a token, so it is not stored but looked up when
needed."""
LANE_FAMILY = "webhook:"


class DeliveryJob(BaseModel):
    """The standing job of one receiver: it ends whenever everything is delivered, and is reopened by the next
    message."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    receiver: str = Field(description="A URL, or `default` for the one in the settings.")


class WebhookDelivery(Task):
    kind: ClassVar[str] = "webhook"

    id: str
    """Id of the message, the same at every try, so that a receiver recognises repeats."""
    receiver: str
    host: str
    body: str
    """The exact bytes that are sent, so that the signature never depends on how JSON is formatted."""
    at: int
    """Time of the reported event, in Unix milliseconds."""
    sink: str = "webhook"
    """The sink that made the message."""
    request_id: str | None = None
    """The HTTP request that submitted the reported job, for the log."""

    def key(self) -> str:
        return self.id

    def lane(self) -> str:
        return LANE_FAMILY + self.host


STANDING = " deliveries/"
"""Keys of receivers' jobs begin with this: with a space, which no header can, so that no caller's Idempotency-Key can
equal one."""

_RECEIVERS = f"""
SELECT r.sink, r.receiver, r.host, r.accepted, r.failures, r.failing_since, r.error, r.error_at,
  coalesce(j.queued + j.running, 0) AS waiting
FROM webhook_receivers r LEFT JOIN idempotency i ON i.key = '{STANDING}' || r.receiver
LEFT JOIN jobs j ON j.id = i.job_id
"""
_NEXT_TRY = """
SELECT min(q.due) AS due FROM {queue} q WHERE q.state = 1 AND q.lane_id = (SELECT id FROM lanes WHERE name = :lane)
"""
_QUEUE = {"sqlite": "tasks", "postgresql": "queue"}


_REQUESTS = "SELECT public_id, request_id FROM jobs WHERE public_id IN :ids AND request_id IS NOT NULL"


async def request_ids(database: Database, jobs: Iterable[UUID | None]) -> Mapping[UUID, str]:
    """Return the HTTP requests that submitted these jobs. Jobs of schedules or commands have none, nor removed ones."""
    ids = sorted({str(job) for job in jobs if job is not None})
    rows = await database.fetch_by_keys(_REQUESTS, {"ids": ids}) if ids else []
    return {UUID(row["public_id"]): row["request_id"] for row in rows}


class Receiver(TableRow):
    """Results of one receiver with the messages of one sink."""

    table: ClassVar[str] = "webhook_receivers"
    key: ClassVar[tuple[str, ...]] = ("sink", "receiver")

    sink: str
    receiver: str
    """A hash of its URL, which may contain a token."""
    host: str = ""
    accepted: int = 0
    """Messages that it answered with 2xx."""
    failures: int = 0
    """Failed tries since the last message that it accepted …"""
    failing_since: datetime | None = None
    """… and the time of the first of them."""
    error: str | None = None
    """The last error, even if a later try succeeded."""
    error_at: datetime | None = None


def receiver_id(receiver: str) -> str:
    """Return the name of a receiver that stands for its URL."""
    return sha256(receiver.encode(errors="replace")).hexdigest()


def note_try(delivery: WebhookDelivery, end: TaskTry) -> Sequence[Effect]:
    """Count a try of a message."""
    key = {"sink": delivery.sink, "receiver": receiver_id(delivery.receiver)}
    if end.state is TaskState.COMPLETED:
        done: dict[str, Any] = {"host": delivery.host, "failures": 0, "failing_since": None}
        return [Effect(Receiver, key, add={"accepted": 1}, set=done, insert=True)]
    failed = {"host": delivery.host, "error": end.error, "error_at": end.at}
    return [Effect(Receiver, key, add={"failures": 1}, set=failed, fill={"failing_since": end.at}, insert=True)]


class Registered:
    """Creates the row of a receiver before its first message, so that waiting messages are visible before the first
    try."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: set[tuple[str, str]] = set()

    async def __call__(self, sink: str, receiver: str, host: str) -> None:
        key = (sink, receiver_id(receiver))
        if key not in self._known:
            await self._database.write(
                "INSERT INTO webhook_receivers (sink, receiver, host) VALUES (:sink, :receiver, :host)"
                " ON CONFLICT (sink, receiver) DO NOTHING",
                {"sink": key[0], "receiver": key[1], "host": host},
            )
            self._known.add(key)


async def outboxes(database: Database, rows: Sequence[SinkRow]) -> Mapping[str, Outbox]:
    """Return the accepted and the waiting messages, by sink. The sink of job ends has any number of receivers, a row
    has the one of its URL."""
    wanted = {row.name: receiver_id(row.options["url"]) if "url" in row.options else None for row in rows}
    by_sink: dict[str, list[dict[str, Any]]] = {name: [] for name in wanted}
    for found in await database.fetch(_RECEIVERS):
        if found["sink"] in wanted and wanted[found["sink"]] in (None, found["receiver"]):
            by_sink[found["sink"]].append(found)
    return {name: await _outbox(database, receivers) for name, receivers in by_sink.items()}


async def _outbox(database: Database, receivers: Sequence[Mapping[str, Any]]) -> Outbox:
    # A receiver for which nothing waits may be away without harm: what it refused was dropped, or given up.
    failing = [each for each in receivers if each["failures"] and each["waiting"]]
    longest = min(failing, key=lambda each: each["failing_since"], default=None)
    last = max((each for each in receivers if each["error_at"]), key=lambda each: each["error_at"], default=None)
    shown = longest or last
    due = None
    if longest is not None:
        statement = _NEXT_TRY.format(queue=_QUEUE[database.dialect])
        (row,) = await database.fetch(statement, {"lane": LANE_FAMILY + longest["host"]})
        due = row["due"]
    return Outbox(
        accepted=sum(each["accepted"] for each in receivers),
        waiting=sum(each["waiting"] for each in receivers),
        failures=max((each["failures"] for each in failing), default=0),
        failing_since=at(longest["failing_since"]) if longest else None,
        error=shown["error"] if shown else None,
        error_at=at(shown["error_at"]) if shown else None,
        retry_at=at(due),
    )


MOST_STREAKS = 10_000
"""Receivers whose failed tries are counted for the log. Beyond that, counting begins again."""


@dataclass(slots=True)
class _Streak:
    """The failed tries of one receiver since it last accepted a message."""

    failures: int = 0
    logged: int = 0


class ReceiverLog:
    """Logs when a receiver begins to fail, after 10, 100, 1,000 … failed tries, and when it accepts messages again."""

    def __init__(self) -> None:
        self._streaks: dict[tuple[str, str], _Streak] = {}

    def __call__(self, settlement: Settlement) -> LogLine | None:
        delivery = settlement.lease.task
        if not isinstance(delivery, WebhookDelivery):
            return None
        key = (delivery.sink, receiver_id(delivery.receiver))
        if settlement.state is TaskState.COMPLETED:
            ended = self._streaks.pop(key, None)
            if ended is None:
                return None
            fields = {**_about(delivery), "failures": ended.failures}
            return LogLine("info", "webhook_accepted_again", fields)
        if settlement.burned or settlement.halt or settlement.facts:
            return self._failed(key, delivery, settlement)
        return None

    def _failed(self, key: tuple[str, str], delivery: WebhookDelivery, settlement: Settlement) -> LogLine | None:
        if len(self._streaks) >= MOST_STREAKS:
            self._streaks.clear()
        streak = self._streaks.setdefault(key, _Streak())
        streak.failures += 1
        if streak.failures < 10 * streak.logged:
            return None
        streak.logged = streak.failures
        fields = {
            **_about(delivery),
            "message": delivery.id,
            "error": settlement.error,
            "failures": streak.failures,
            "next_try_in": round(settlement.wait, 1) if settlement.state is TaskState.WAITING else None,
            "given_up": settlement.state is TaskState.FAILED,
        }
        return LogLine("warning", "webhook_failing", fields)


def _about(delivery: WebhookDelivery) -> dict[str, Any]:
    return {"sink": delivery.sink, "host": delivery.host, "request_id": delivery.request_id}


log_receivers = ReceiverLog()
