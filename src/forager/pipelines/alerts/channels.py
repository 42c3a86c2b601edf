"""Channels and alerts as they are stored, and when an alert may be sent: quiet hours, digest, limit per hour. Pure."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from forager.core.pipeline import TaskTry
from forager.core.record import Index
from forager.core.states import TaskState
from forager.core.table import Effect, TableRow

HOUR = 3600
MOST_LISTED = 100
LINES_LISTED = 3
"""Lines of what has changed, for each alert of a digest."""
LONGEST_LINE = 200
"""Alerts that one digest lists; the others are counted in it."""
MOST_JOINED = 1_000
"""Alerts that one digest covers."""
LONGEST_BODY = 20_000


class NotifyChannel(TableRow):
    """A channel. Its address is a secret in the vault."""

    table: ClassVar[str] = "notify_channels"
    key: ClassVar[tuple[str, ...]] = ("name",)
    stamped: ClassVar[frozenset[str]] = frozenset({"created_at"})

    name: str
    service: str
    """Service of the channel, such as `slack`: the scheme of its address."""
    digest_seconds: int | None = None
    """Join the alerts of this time into one message."""
    quiet_from: int | None = None
    """Hour of the day from which nothing is sent …"""
    quiet_until: int | None = None
    """… until this hour; what happens meanwhile is one message then."""
    timezone: str = "UTC"
    per_hour: int | None = None
    """Messages per hour; the alerts beyond them are joined into one at the end of the hour."""
    title: str | None = None
    body: str | None = None
    created_at: datetime | None = None
    accepted: int = 0
    failures: int = 0
    """Failed tries since the last message that was accepted …"""
    failing_since: datetime | None = None
    """… and the time of the first of them."""
    error: str | None = None
    error_at: datetime | None = None


class FiredAlert(TableRow):
    """An alert for one channel. Its id is made of the rule and the change, so that a repeated batch adds nothing."""

    table: ClassVar[str] = "fired_alerts"
    key: ClassVar[tuple[str, ...]] = ("alert", "channel")
    indexes: ClassVar[tuple[Index, ...]] = (
        Index(("channel", "slot"), where="delivered_at IS NULL"),
        Index(("at", "alert")),
        Index(("rule", "at")),
        Index(("channel", "stored_at")),
        Index(("channel", "delivered_at")),
    )

    alert: str
    channel: str
    rule: str
    change: int
    record_kind: str
    record_key: str
    title: str
    body: str
    url: str | None = None
    at: datetime
    slot: datetime | None = None
    """Due time of the digest that contains the alert; None for a message of its own, sent at once."""
    delivered_at: datetime | None = None
    stored_at: datetime | None = None
    """Time at which it was stored, which is later than that of its change if there was a backlog."""


def quiet_end(channel: NotifyChannel, now: datetime) -> datetime | None:
    """Return the end of the quiet hours that contain a moment; None if none do."""
    start, end = channel.quiet_from, channel.quiet_until
    if start is None or end is None or start == end:
        return None
    local = now.astimezone(ZoneInfo(channel.timezone))
    inside = start <= local.hour < end if start < end else local.hour >= start or local.hour < end
    if not inside:
        return None
    ending = local.replace(hour=end, minute=0, second=0, microsecond=0)
    return (ending if ending > local else ending + timedelta(days=1)).astimezone(UTC)


def slot_of(channel: NotifyChannel, now: datetime, sent_this_hour: int) -> datetime | None:
    """Return when the message is due that an alert of this moment joins; None: it is sent at once, by itself."""
    slot = None
    if channel.digest_seconds:
        slot = _next(now, channel.digest_seconds)
    elif channel.per_hour is not None and sent_this_hour >= channel.per_hour:
        slot = _next(now, HOUR)
    return quiet_end(channel, slot or now) or slot


def _next(now: datetime, seconds: int) -> datetime:
    return datetime.fromtimestamp((now.timestamp() // seconds + 1) * seconds, UTC)


def message_of(alerts: Sequence[FiredAlert]) -> tuple[str, str]:
    """Return the title and the body of the message about these alerts."""
    if len(alerts) == 1:
        return alerts[0].title, alerts[0].body
    more = [f"- and {len(alerts) - MOST_LISTED:,} more"] if len(alerts) > MOST_LISTED else []
    listed = [_listed(each) for each in alerts[:MOST_LISTED]]
    body = "\n".join([line for lines in listed for line in lines] + more)
    if len(body) > LONGEST_BODY:
        body = "\n".join([lines[0] for lines in listed] + more)
    return f"{len(alerts):,} alerts from Forager", body[:LONGEST_BODY]


def _listed(alert: FiredAlert) -> list[str]:
    """Return an alert as an entry of a list: its title and address, and the first lines of what has changed."""
    changed = [line for line in alert.body.splitlines() if line.strip() and line != alert.url]
    return [
        f"- {alert.title}{f' {alert.url}' if alert.url else ''}",
        *(f"  {line[:LONGEST_LINE]}" for line in changed[:LINES_LISTED]),
    ]


def note_try(task: Any, end: TaskTry) -> Sequence[Effect]:
    """Count a try of a message in the row of its channel."""
    key: Mapping[str, Any] = {"name": task.channel}
    if end.state is TaskState.COMPLETED:
        return [Effect(NotifyChannel, key, add={"accepted": 1}, set={"failures": 0, "failing_since": None})]
    failed = {"error": end.error, "error_at": end.at}
    return [Effect(NotifyChannel, key, add={"failures": 1}, set=failed, fill={"failing_since": end.at})]
