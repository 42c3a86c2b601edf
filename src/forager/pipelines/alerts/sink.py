"""The sink of a channel: finds the changes that meet a rule, stores an alert for each, and queues the message.

It sends nothing itself. An alert is stored once under the ids of its rule and its change, with the moment at which its
message is due; the task of the message is added after that. A batch that comes again after a crash finds both.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import structlog

from forager.core.change import Change
from forager.core.clock import Clock
from forager.core.database import Database
from forager.core.errors import Rejected
from forager.core.ledger import Ledger
from forager.core.record import Record
from forager.core.sink import Outbox, Sink, SinkRow
from forager.core.task import Plan
from forager.pipelines.alerts.channels import LONGEST_BODY, FiredAlert, NotifyChannel, slot_of
from forager.pipelines.alerts.pipeline import LANES, STANDING, SendAlerts, standing_job
from forager.sdk.alert_rules import (
    JOB,
    AlertRule,
    Past,
    checked,
    difference_of,
    filled,
    fires,
    flat,
    kinds_of,
    rules_of,
    title_of,
)
from forager.sdk.queries import at, columns_of, decoded, one_row
from forager.sdk.service import SinkService

log = structlog.get_logger("forager.alerts")
AT_ONCE = 40
"""Alerts in one statement."""
HOUR_MS = 3_600_000
_STORED = "SELECT * FROM fired_alerts WHERE channel = :channel AND alert IN :alerts"
_THIS_HOUR = "SELECT count(*) AS n FROM fired_alerts WHERE stored_at >= :start AND channel = :channel AND slot IS NULL"
_CHANNELS = f"""
SELECT c.name, c.accepted, c.failures, c.failing_since, c.error, c.error_at,
  coalesce(j.queued + j.running, 0) AS waiting
FROM notify_channels c LEFT JOIN idempotency i ON i.key = '{STANDING}' || c.name LEFT JOIN jobs j ON j.id = i.job_id
"""
_NEXT_TRY = (
    "SELECT min(q.due) AS due FROM {queue} q JOIN lanes l ON l.id = q.lane_id WHERE q.state = 1 AND l.name = :lane"
)
_QUEUE = {"sqlite": "tasks", "postgresql": "queue"}


class NotifySink:
    """The sink of one channel."""

    kinds = None
    """All: a rule may be added at any time, and no change after that may be passed unseen."""

    def __init__(self, row: SinkRow, ledger: Ledger, records: Mapping[str, type[Record]], clock: Clock) -> None:
        self.name = row.name
        self._ledger = ledger
        self._db = ledger.database
        self._records = records
        self._clock = clock

    async def write(self, batch: Sequence[Change]) -> bool:
        """Store the alerts of a batch and queue their messages. Returns False if there are none."""
        rules = [rule for rule in await rules_of(self._db, self.name) if not rule.paused]
        by_kind: dict[str, list[AlertRule]] = {}
        for rule in rules:
            by_kind.setdefault(rule.record_kind, []).append(rule)
        wanted = [change for change in batch if change.kind in by_kind]
        channel = await one_row(self._db, NotifyChannel, name=self.name) if wanted else None
        if channel is None:
            return False
        past = Past(self._db)
        await past.load(wanted)
        pairs = [(change, past.before(change)) for change in wanted]
        found = [
            alert_of(rule, channel, change, old, at(change.at) or self._clock.now())
            for change, old in pairs
            for rule in by_kind[change.kind]
            if change.id > rule.since_change and self._fires(rule, change, old)
        ]
        if not found:
            return False
        stored = await self._store(channel, found)
        # A slot that has passed while its alerts were being stored has been sent: the next one takes them along.
        now = self._clock.now()
        plans = [
            _plan(self.name, each, slot_of(channel, now, 0) if _is_past(each.slot, now) else each.slot)
            for each in stored
        ]
        await self._ledger.append(standing_job(self.name), {plan.task.key(): plan for plan in plans}.values())
        return True

    def _fires(self, rule: AlertRule, change: Change, old: Mapping[str, Any] | None) -> bool:
        try:
            return fires(rule, checked(rule, self._records), change, old)
        except Rejected as error:  # the record class has lost a field since the rule was added
            log.warning("alert_rule_broken", rule=rule.name, error=error.message)
            return False

    async def _store(self, channel: NotifyChannel, alerts: Sequence[FiredAlert]) -> list[FiredAlert]:
        """Store alerts that are new, each with its slot, and return all of them as they are stored."""
        now = self._clock.now()
        sent = 0
        if channel.per_hour is not None:
            start = round(now.timestamp() * 1000) // HOUR_MS * HOUR_MS
            sent = (await self._db.fetch(_THIS_HOUR, {"channel": channel.name, "start": start}))[0]["n"]
        timed = []
        for each in alerts:
            slot = slot_of(channel, now, sent)
            sent += slot is None
            timed.append(each.model_copy(update={"slot": slot, "stored_at": now}))
        for start in range(0, len(timed), AT_ONCE):
            await _insert(self._db, timed[start : start + AT_ONCE])
        rows = await self._db.fetch_by_keys(
            _STORED.replace(":channel", f"'{channel.name}'"), {"alerts": [each.alert for each in timed]}
        )
        return [decoded(FiredAlert, row) for row in rows]


def alert_of(
    rule: AlertRule, channel: NotifyChannel, change: Change, old: Mapping[str, Any] | None, when: datetime
) -> FiredAlert:
    """Return the alert of a change, with the words of the channel's templates."""
    body = flat(change.body) or {}
    name, url = title_of(change), body.get("url")
    lines = [str(body["summary"])] if body.get("summary") else difference_of(change, old)
    values = {
        **body,
        "rule": rule.name,
        "title": name,
        "kind": change.kind,
        "key": change.key,
        "op": change.op,
        "changes": "\n".join(lines),
    }
    usual = "\n".join([*lines, *([str(url)] if url else []), *([] if change.kind != JOB else [f"job {change.key}"])])
    return FiredAlert(
        alert=f"{rule.name}_{change.id}",
        channel=channel.name,
        rule=rule.name,
        change=change.id,
        record_kind=change.kind,
        record_key=change.key[:500],
        title=(filled(channel.title, values) if channel.title else f"{rule.name}: {name}")[:500],
        body=(filled(channel.body, values) if channel.body else usual or f"{change.kind} {change.op}")[:LONGEST_BODY],
        url=str(url)[:2_048] if url else None,
        at=when,
    )


def _plan(channel: str, alert: FiredAlert, slot: datetime | None) -> Plan:
    if slot is None:
        return Plan(SendAlerts(channel=channel, alert=alert.alert))
    return Plan(SendAlerts(channel=channel, slot=round(slot.timestamp() * 1000)), due=slot)


def _is_past(slot: datetime | None, now: datetime) -> bool:
    return slot is not None and slot <= now


async def _insert(db: Database, alerts: Sequence[FiredAlert]) -> None:
    columns = columns_of(FiredAlert)
    names = [name for name in columns if name != "delivered_at"]
    values, rows = {}, []
    for number, each in enumerate(alerts):
        rows.append(f"({', '.join(f':{name}_{number}' for name in names)})")
        for name in names:
            value = getattr(each, name)
            values[f"{name}_{number}"] = None if value is None else columns[name].encoded(value)
    await db.write(
        f"INSERT INTO fired_alerts ({', '.join(names)}) VALUES {', '.join(rows)}"
        " ON CONFLICT (alert, channel) DO NOTHING",
        values,
    )


def build(service: SinkService, row: SinkRow) -> Sink:
    return NotifySink(row, service.ledger, kinds_of(service.pipelines), service.clock)


async def outboxes(database: Database, rows: Sequence[SinkRow]) -> Mapping[str, Outbox]:
    """Return what became of the messages of each channel."""
    wanted = {row.name for row in rows}
    return {
        each["name"]: await _outbox(database, each)
        for each in (await database.fetch(_CHANNELS) if wanted else ())
        if each["name"] in wanted
    }


async def _outbox(database: Database, row: Mapping[str, Any]) -> Outbox:
    failing = bool(row["failures"] and row["waiting"])
    due = None
    if failing:
        statement = _NEXT_TRY.format(queue=_QUEUE[database.dialect])
        due = (await database.fetch(statement, {"lane": LANES + row["name"]}))[0]["due"]
    return Outbox(
        accepted=row["accepted"],
        waiting=row["waiting"],
        failures=row["failures"] if failing else 0,
        failing_since=at(row["failing_since"]) if failing else None,
        error=row["error"],
        error_at=at(row["error_at"]),
        retry_at=at(due),
    )
