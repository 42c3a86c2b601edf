"""Sends the messages of channels, and writes the state of Forager itself as records.

Messages are sent by `apprise`, which supports a hundred services, in a thread. It makes its own connections, so the
egress guard looks up and checks the host of a channel right before a message is sent.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from forager.core.errors import FieldError, Refused, Rejected, Transient, Unconfigured
from forager.core.http import Fetch
from forager.core.outcome import Done, Drop, Outcome, Snooze
from forager.core.pipeline import StepFunction
from forager.core.record import CLEAR
from forager.core.secret import Secret
from forager.core.states import ErrorType
from forager.core.table import Effect
from forager.core.task import Plan
from forager.pipelines.alerts.channels import MOST_JOINED, FiredAlert, NotifyChannel, message_of, quiet_end
from forager.pipelines.alerts.pipeline import LookAtSystem, SendAlerts
from forager.pipelines.alerts.records import DeadLetters, SinkState, Spend
from forager.sdk.queries import one_row, read_rows
from forager.sdk.service import Service

VAULT = "channel"
LOCAL = frozenset({"dbus", "glib", "gnome", "kde", "macosx", "qt", "syslog", "windows"})
"""Schemes that reach programs of this machine, not people."""
LONGEST_ERROR = 300
_SENT = "SELECT count(*) AS n FROM fired_alerts WHERE delivered_at >= :start AND channel = :channel AND slot IS NULL"
_DEAD = (
    "SELECT j.pipeline, count(*) AS n FROM (SELECT job_id FROM dead_letters WHERE NOT hidden LIMIT 10000) d"
    " JOIN jobs j ON j.id = d.job_id GROUP BY j.pipeline"
)


def app_steps(service: Service) -> Mapping[str, StepFunction]:
    """Return the functions of the steps, by kind of task."""
    steps = AlertSteps(service)
    return {SendAlerts.kind: steps.send, LookAtSystem.kind: steps.look}


class AlertSteps:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def send(self, task: SendAlerts, _: Fetch) -> Outcome:
        """Send one message. A channel that was removed gets none; in quiet hours a message waits."""
        db = self._service.database
        channel = await one_row(db, NotifyChannel, name=task.channel)
        if channel is None:
            return Drop("removed", f"The channel {task.channel!r} was removed.")
        now = self._service.clock.now()
        if (until := quiet_end(channel, now)) is not None:
            return Snooze((until - now).total_seconds(), f"Quiet hours of {channel.name} until {until:%H:%M} UTC.")
        if task.alert is not None and channel.per_hour is not None:
            # Messages that a failing service has held up must not all arrive in the hour in which it is back.
            hour = now.replace(minute=0, second=0, microsecond=0)
            values = {"channel": channel.name, "start": round(hour.timestamp() * 1000)}
            if (await db.fetch(_SENT, values))[0]["n"] >= channel.per_hour:
                wait = (hour + timedelta(hours=1) - now).total_seconds()
                return Snooze(wait, f"{channel.name} has had its {channel.per_hour:,} messages of this hour.")
        if task.alert is not None:
            one = {"channel": task.channel, "alert": task.alert}
            alerts = await read_rows(db, FiredAlert, "channel = :channel AND alert = :alert", one)
        else:
            due = {"channel": task.channel, "slot": task.slot}
            where = "channel = :channel AND slot <= :slot AND delivered_at IS NULL"
            alerts = await read_rows(db, FiredAlert, where, due, order=f"at, alert LIMIT {MOST_JOINED}")
        if not alerts:
            return Done(cost=0)
        await deliver(self._service, channel.name, *message_of(alerts))
        keys = [{"alert": each.alert, "channel": each.channel} for each in alerts]
        more: list[Plan] = []
        if task.slot is not None and len(alerts) == MOST_JOINED:  # the rest of the slot is another message
            more.append(Plan(SendAlerts(channel=task.channel, slot=task.slot + 1)))
        effects = [Effect(FiredAlert, key, set={"delivered_at": now}) for key in keys]
        return Done(effects=effects, tasks=more, cost=0)

    async def look(self, _: LookAtSystem, __: Fetch) -> Outcome:
        """Write the state of sinks, dead letters and money."""
        service = self._service
        sinks = [
            SinkState(
                sink=each.name,
                failing=bool(each.failures),
                stalled=each.stalled,
                set_aside=each.set_aside,
                error=(each.error or CLEAR) if each.failures else CLEAR,
            )
            for each in await service.sink_statuses()
        ]
        counted = {row["pipeline"]: row["n"] for row in await service.database.fetch(_DEAD)}
        dead = [DeadLetters(name=name, dead_letters=counted.get(name, 0)) for name in service.pipelines]
        spent = await service.spent()
        money = [Spend(name=name, today=float(each.today), month=float(each.month)) for name, each in spent.items()]
        return Done(records=[*sinks, *dead, *money], cost=0)


async def deliver(service: Service, channel: str, title: str, body: str) -> None:
    """Send a message to a channel. Raises `Transient` if it was not accepted, `Unconfigured` if its address is
    missing."""
    address = await service.vault.get(VAULT, channel)
    if address is None:
        raise Unconfigured(f"The address of the channel {channel!r} is missing. Remove the channel and add it again.")
    plugin = await asyncio.to_thread(opened, address)
    await check_hosts(service, plugin)
    error = await asyncio.to_thread(_notify, plugin, title, body, address)
    if error is not None:
        raise Transient(f"{channel}: {error}", error_type=ErrorType.HTTP)


def opened(address: Secret) -> Any:
    """Return the plug-in of an address. Raises `Rejected` if apprise is not installed or does not support the address;
    the address is in no message."""
    try:
        import apprise
    except ImportError:
        problem = "needs apprise, which is not installed: pip install 'forager-data[notify]'"
        raise Rejected(f"url: {problem}.", fields=[FieldError("url", problem)]) from None
    logging.getLogger("apprise").propagate = False  # its lines may contain the address
    text = address.reveal()
    scheme = text.partition(":")[0].lower()
    plugin = None
    if scheme not in LOCAL:
        try:
            plugin = apprise.Apprise.instantiate(text, suppress_exceptions=True)
        except Exception:  # noqa: BLE001 - whatever a plug-in raises, the address cannot be used
            plugin = None
    if plugin is None:
        problem = (
            "is not an address of a channel that apprise knows, as slack://TokenA/TokenB/TokenC/#general,"
            " mailto://user:password@example.com, ntfy://topic, json://host/path"
        )
        raise Rejected(f"url: {problem}.", fields=[FieldError("url", problem)])
    plugin.socket_connect_timeout, plugin.socket_read_timeout = 10.0, 20.0
    return plugin


async def check_hosts(service: Service, plugin: Any) -> None:
    """Raise `Refused` if the egress guard allows no connection to the host that a user has put into an address. The
    hosts of a service of its own, such as Slack, are fixed in its plug-in."""
    host = getattr(plugin, "smtp_host", None) or getattr(plugin, "host", None)
    if isinstance(host, str) and host and ("." in host or ":" in host or host == "localhost"):
        port = getattr(plugin, "port", None) or (443 if getattr(plugin, "secure", False) else 80)
        await service.check_host(host, int(port))


def _notify(plugin: Any, title: str, body: str, address: Secret) -> str | None:
    """Send, and return what went wrong; None if the service accepted the message."""
    lines: list[str] = []
    handler = _Lines(lines)
    logger = logging.getLogger("apprise")
    logger.disabled = False  # another library's logging set-up may have switched it off, and with it the reason
    logger.setLevel(min(logger.getEffectiveLevel(), logging.WARNING))
    logger.addHandler(handler)
    try:
        accepted = plugin.notify(title=title, body=body)
    except Exception as error:  # noqa: BLE001 - a defect of a plug-in is a failure of this message alone
        return f"{type(error).__name__} in {plugin.service_name}"
    finally:
        logger.removeHandler(handler)
    if accepted:
        return None
    return without(" ".join(lines)[:LONGEST_ERROR] or "the service did not accept the message", secrets_of(address))


class _Lines(logging.Handler):
    """Collects the warnings of apprise, which are its only account of a failure."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())


def secrets_of(address: Secret) -> Sequence[str]:
    """Return the parts of an address that a message must not show."""
    text = address.reveal()
    rest = text.partition("://")[2]
    return [text, *(part for part in rest.replace("@", "/").replace(":", "/").split("/") if len(part) >= 8)]


def without(text: str, secrets: Sequence[str]) -> str:
    for each in secrets:
        text = text.replace(each, "***")
    return text


async def send_test(service: Service, name: str) -> None:
    """Send a message to a channel at once. Raises `Rejected` with the error of the service if it is not accepted."""
    try:
        body = "This is a test of Forager. Alerts of your rules will arrive here."
        await deliver(service, name, f"Forager: channel {name} works", body)
    except (Transient, Refused) as error:
        raise Rejected(f"The message was not accepted. {error.message}") from error
