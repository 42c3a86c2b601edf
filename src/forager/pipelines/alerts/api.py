"""Routes of alerts: channels, rules with their preview, and the alerts that have fired."""

import re
from datetime import datetime
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fastapi import Path as InPath
from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator
from starlette.requests import Request
from starlette.responses import Response

from forager.core.change import Change
from forager.core.clock import in_seconds
from forager.core.errors import Conflict, NotFound, Refused, Unreachable
from forager.core.ids import checked_name
from forager.core.secret import Secret
from forager.core.sink import SinkRow
from forager.core.table import Effect
from forager.pipelines.alerts.app_steps import VAULT, check_hosts, opened, send_test
from forager.pipelines.alerts.channels import HOUR, NotifyChannel
from forager.sdk.alert_rules import (
    MOST_CHANNELS,
    PLACEHOLDER,
    AlertRule,
    add_rule,
    checked,
    kinds_of,
    one_rule,
    preview,
    rules_of,
    title_of,
    wrong,
)
from forager.sdk.expressions import LONGEST
from forager.sdk.http.envelope import Envelope, ResultPage, answer, page
from forager.sdk.http.routes import JsonRoute, PageQuery, Router, example, failures
from forager.sdk.http.streams import TaskWaiter
from forager.sdk.queries import Walk, at, change_row, insert_row, last_change, one_row, read_rows, remove_row, walk
from forager.sdk.reports import Report
from forager.sdk.service import Service

MOST_DIGEST = 7 * 86_400
MOST_PER_HOUR = 10_000
MOST_DAYS = 31
LONGEST_TEMPLATE = 4_000
MOST_OF_CHANNELS = 100
Name = Annotated[str, InPath(max_length=100, description="Name.", examples=["prices"])]


class ChannelBody(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"name": "team", "url": "ntfy://ntfy.example/prices", "digest": 3600, "quiet": "22-7"}]
        },
    )

    name: str = Field(max_length=100, description="Up to 100 letters, digits, `.`, `_` and `-`.")
    url: SecretStr = Field(
        max_length=2_000,
        description="Address in the form of apprise: `slack://…`, `mailto://…`, `ntfy://…`, `json://…`. It is sealed,"
        " and no answer contains it.",
    )
    digest: int | None = Field(
        default=None, ge=60, le=MOST_DIGEST, description="Join the alerts of this number of seconds (or `1h`)."
    )
    quiet: str | None = Field(
        default=None,
        max_length=5,
        description="Hours in which nothing is sent, as `22-7`; what happens meanwhile is one message at their end.",
    )
    timezone: str = Field(default="UTC", max_length=64, description="Time zone of the quiet hours.")
    per_hour: int | None = Field(
        default=None, ge=1, le=MOST_PER_HOUR, description="Messages per hour; the alerts beyond them are joined."
    )
    title: str | None = Field(
        default=None, min_length=1, max_length=LONGEST_TEMPLATE, description="Title, as `{rule}: {title}`."
    )
    body: str | None = Field(
        default=None, min_length=1, max_length=LONGEST_TEMPLATE, description="Text, as `{title} {price} {url}`."
    )

    @field_validator("digest", mode="before")
    @classmethod
    def _seconds(cls, value: Any) -> Any:
        return value if value is None else in_seconds(value)

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("is not a time zone; write Europe/Berlin, or UTC") from None
        return value

    @field_validator("quiet")
    @classmethod
    def _hours(cls, value: str | None) -> str | None:
        if value is None:
            return None
        hours = re.fullmatch(r"(\d{1,2})-(\d{1,2})", value, re.ASCII)
        if hours is None or max(map(int, hours.groups())) > 24 or int(hours[1]) % 24 == int(hours[2]) % 24:
            raise ValueError("has two different hours from 0 to 24, as 22-7")
        return value

    @field_validator("title", "body")
    @classmethod
    def _placeholders(cls, value: str | None) -> str | None:
        for found in re.findall(r"\{[^{}]*\}", value or ""):
            if not PLACEHOLDER.fullmatch(found):
                raise ValueError(
                    f"{found} is not a placeholder; write the name of a field in lower case, as {{title}} or {{price}}"
                )
        return value

    def row(self) -> NotifyChannel:
        start, end = (int(hour) % 24 for hour in self.quiet.split("-")) if self.quiet else (None, None)
        return NotifyChannel(
            name=self.name,
            service=self.url.get_secret_value().partition(":")[0].lower()[:40],
            digest_seconds=self.digest,
            quiet_from=start,
            quiet_until=end,
            timezone=self.timezone,
            per_hour=self.per_hour,
            title=self.title,
            body=self.body,
        )


class ChannelReport(Report):
    name: str
    service: str = Field(description="Service of the channel: the scheme of its address.")
    digest: int | None = Field(description="Seconds over which alerts are joined into one message.")
    quiet: str | None
    timezone: str
    per_hour: int | None
    title: str | None
    body: str | None
    rules: list[str] = Field(description="Rules that notify it.")
    accepted: int = Field(description="Messages that the service accepted.")
    waiting: int = Field(description="Messages that wait for their first try or the next.")
    state: Literal["works", "failing", "idle"] = Field(description="`idle`: nothing was sent yet.")
    failures: int = Field(description="Failed tries since the last message that was accepted.")
    failing_since: datetime | None
    error: str | None = Field(description="The last error, even if a later try succeeded.")
    created_at: datetime | None


class RuleBody(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        populate_by_name=True,
        json_schema_extra={
            "examples": [
                {"name": "cheaper", "kind": "product", "when": "price < old.price * 0.95", "notify": ["team"]},
                {"name": "bad-review", "kind": "review", "when": "rating <= 2", "notify": ["team"]},
            ]
        },
    )

    name: str = Field(max_length=100, description="Up to 100 letters, digits, `.`, `_` and `-`.")
    kind: str = Field(max_length=100, description="Kind of the records: `product`, `listing`, `watched_page`, `job` …")
    when: str | None = Field(
        default=None, min_length=1, max_length=LONGEST, description="Condition; without one, every change is an alert."
    )
    key: str | None = Field(default=None, max_length=500, description="Only the record with this key.")
    repeats: bool = Field(
        default=False, description="Fire on every change that meets the condition, not only when it becomes true."
    )
    notify: list[str] = Field(min_length=1, max_length=MOST_CHANNELS, description="Names of channels.")

    def row(self) -> AlertRule:
        return AlertRule(
            name=self.name,
            record_kind=self.kind,
            condition=self.when,
            subject=self.key,
            channels=list(dict.fromkeys(self.notify)),
            repeats=self.repeats,
        )


class PreviewBody(BaseModel):
    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"kind": "product", "when": "price < old.price * 0.95"}]}
    )

    kind: str = Field(max_length=100)
    when: str | None = Field(default=None, min_length=1, max_length=LONGEST)
    key: str | None = Field(default=None, max_length=500)
    repeats: bool = False
    days: float = Field(default=7, gt=0, le=MOST_DAYS, description="Number of days whose changes are checked.")


class PreviewedAlert(BaseModel):
    change: int
    title: str
    op: str
    at: datetime | None


class PreviewReport(BaseModel):
    fired: int = Field(description="Times the rule would have fired.")
    changes: int = Field(description="Changes of this kind that were examined.")
    whole: bool = Field(description="True if every change of the period was examined; the limit is 20,000.")
    days: float
    text: str = Field(examples=["would have fired 3 times in the last 7 days"])
    first: list[PreviewedAlert] = Field(description="The first few.")


class AlertRuleReport(Report):
    name: str
    kind: str
    when: str | None
    key: str | None
    repeats: bool
    notify: list[str]
    paused: bool
    fired: int = Field(description="Alerts of the last 90 days.")
    last_fired_at: datetime | None
    created_at: datetime | None


class RuleAdded(AlertRuleReport):
    preview: PreviewReport = Field(description="The effect of the rule on the changes of the last week.")


class AlertReport(Report):
    alert: str
    rule: str
    channel: str
    kind: str
    key: str
    title: str
    body: str
    url: str | None
    change: int
    at: datetime | None
    due_at: datetime | None = Field(description="Due time of the digest message that contains it.")
    delivered_at: datetime | None = Field(
        description="Null while the message waits, and if its delivery has failed permanently."
    )


class AlertsQuery(PageQuery):
    """Filters of the list of alerts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rule: str | None = Field(default=None, max_length=100, description="Only alerts of this rule.")
    channel: str | None = Field(default=None, max_length=100, description="Only alerts for this channel.")


class Removed(BaseModel):
    removed: str


class Tested(BaseModel):
    sent: str = Field(description="The channel that has accepted a message.")


def routes(service: Service, _: TaskWaiter) -> Router:
    router = Router(prefix="/api/v1", tags=["alerts"], route_class=JsonRoute)
    _add_channels(router, service)
    _add_rules(router, service)
    _add_alerts(router, service)
    return router


def _add_channels(router: Router, service: Service) -> None:
    db = service.database

    @router.get(
        "/channels",
        summary="List channels",
        response_model=Envelope[list[ChannelReport]],
        responses={200: example([_CHANNEL]), **failures()},
    )
    async def list_channels(request: Request) -> Response:
        """Each with what became of its messages. A channel is also a sink of the type `notify`."""
        return answer(request, await channel_reports(service))

    @router.post(
        "/channels",
        status_code=201,
        summary="Add a channel",
        response_model=Envelope[ChannelReport],
        responses={201: example(_CHANNEL), **failures(409, body=True)},
    )
    async def add_channel(request: Request, body: ChannelBody) -> Response:
        """Checks the address and seals it; sends nothing. `POST /channels/{name}/test` sends a message."""
        checked_name(body.name)
        address = Secret(body.url.get_secret_value())
        plugin = opened(address)
        try:
            await check_hosts(service, plugin)
        except (Refused, Unreachable) as error:  # a host that does not resolve is most often a slip of the pen
            raise wrong("url", error.message.rstrip(".")) from error
        counted = await db.fetch("SELECT count(*) AS n FROM notify_channels")
        if counted[0]["n"] >= MOST_OF_CHANNELS:
            raise wrong("name", f"there are {MOST_OF_CHANNELS} channels, which is the maximum; remove one first")
        if await one_row(db, NotifyChannel, name=body.name) is not None:
            raise Conflict(f"There is a channel {body.name!r} already. Remove it first, or choose another name.")
        await service.add_sink(SinkRow(body.name, "notify"), after=await last_change(db))
        await service.vault.put(VAULT, body.name, address)
        await insert_row(db, body.row())
        return answer(request, await _channel(service, body.name), status=201)

    @router.get(
        "/channels/{name}",
        summary="Show a channel",
        response_model=Envelope[ChannelReport],
        responses={200: example(_CHANNEL), **failures(404)},
    )
    async def show_channel(request: Request, name: Name) -> Response:
        return answer(request, await _channel(service, name))

    @router.delete(
        "/channels/{name}",
        summary="Remove a channel",
        response_model=Envelope[Removed],
        responses={200: example({"removed": "team"}), **failures(404, 409)},
    )
    async def remove_channel(request: Request, name: Name) -> Response:
        """Deletes its address as well. A rule that notifies no other channel must be removed first."""
        report = await _channel(service, name)
        only = [rule.name for rule in await rules_of(db, name) if rule.channels == [name]]
        if only:
            raise Conflict(f"The rule {only[0]!r} notifies this channel alone. Remove the rule first.")
        for rule in await rules_of(db, name):
            rest = [each for each in rule.channels if each != name]
            await change_row(db, Effect(AlertRule, {"name": rule.name}, set={"channels": rest}))
        await remove_row(db, NotifyChannel, name=name)
        await service.remove_sink(name)
        await service.vault.remove(VAULT, name)
        return answer(request, {"removed": report.name})

    @router.post(
        "/channels/{name}/test",
        summary="Test a channel",
        response_model=Envelope[Tested],
        responses={200: example({"sent": "team"}), **failures(404, body=True)},
    )
    async def test_channel(request: Request, name: Name) -> Response:
        """Sends a message now, whatever the quiet hours, and answers with the error of the service if there is one."""
        await _channel(service, name)
        await send_test(service, name)
        return answer(request, {"sent": name})


def _add_rules(router: Router, service: Service) -> None:
    db, records = service.database, kinds_of(service.pipelines)

    async def previewed(rule: AlertRule, days: float) -> PreviewReport:
        condition = checked(rule, records)
        now = await service.ledger.now()
        found = await preview(service.ledger, rule, condition, round(now.timestamp() * 1000), days)
        times = "once" if found.fired == 1 else f"{found.fired:,} times"
        over = f"the last {days:g} days" if found.whole else f"the first {found.changes:,} changes of the time"
        return PreviewReport(
            fired=found.fired,
            changes=found.changes,
            whole=found.whole,
            days=days,
            text=f"would have fired {times} in {over}",
            first=[_previewed(each) for each in found.first],
        )

    @router.get(
        "/rules",
        summary="List rules",
        response_model=Envelope[list[AlertRuleReport]],
        responses={200: example([_RULE]), **failures()},
    )
    async def list_rules(request: Request) -> Response:
        """With how often each has fired."""
        return answer(request, await _rules(service))

    @router.post(
        "/rules/preview",
        summary="Preview a rule",
        response_model=Envelope[PreviewReport],
        responses={200: example(_PREVIEW), **failures(body=True)},
    )
    async def preview_rule(request: Request, body: PreviewBody) -> Response:
        """Runs a rule over the changes of the last days. Stores and sends nothing."""
        row = AlertRule(
            name="preview",
            record_kind=body.kind,
            condition=body.when,
            subject=body.key,
            channels=[],
            repeats=body.repeats,
        )
        return answer(request, await previewed(row, body.days))

    @router.post(
        "/rules",
        status_code=201,
        summary="Add a rule",
        response_model=Envelope[RuleAdded],
        responses={201: example({**_RULE, "preview": _PREVIEW}), **failures(body=True)},
    )
    async def add_one_rule(request: Request, body: RuleBody) -> Response:
        """Looks at changes from now on; the answer shows what it would have done in the last week."""
        rule = await add_rule(db, body.row(), records)
        report = _rule(rule, 0, None)
        return answer(request, RuleAdded(**report.model_dump(), preview=await previewed(rule, 7)), status=201)

    @router.get(
        "/rules/{name}",
        summary="Show a rule",
        response_model=Envelope[AlertRuleReport],
        responses={200: example(_RULE), **failures(404)},
    )
    async def show_rule(request: Request, name: Name) -> Response:
        return answer(request, await _one_rule(service, name))

    @router.delete(
        "/rules/{name}",
        summary="Remove a rule",
        response_model=Envelope[Removed],
        responses={200: example({"removed": "cheaper"}), **failures(404)},
    )
    async def remove_rule(request: Request, name: Name) -> Response:
        """Alerts that have fired stay, and their messages are sent."""
        await one_rule(db, name)
        await remove_row(db, AlertRule, name=name)
        return answer(request, {"removed": name})

    async def switched(request: Request, name: str, *, paused: bool) -> Response:
        await one_rule(db, name)
        # Changes made while the rule was paused never become alerts.
        after = {} if paused else {"since_change": await last_change(db)}
        await change_row(db, Effect(AlertRule, {"name": name}, set={"paused": paused, **after}))
        return answer(request, await _one_rule(service, name))

    @router.post(
        "/rules/{name}/pause",
        summary="Pause a rule",
        response_model=Envelope[AlertRuleReport],
        responses={200: example({**_RULE, "paused": True}), **failures(404)},
    )
    async def pause_rule(request: Request, name: Name) -> Response:
        """It fires no more until it is resumed."""
        return await switched(request, name, paused=True)

    @router.post(
        "/rules/{name}/resume",
        summary="Resume a rule",
        response_model=Envelope[AlertRuleReport],
        responses={200: example(_RULE), **failures(404)},
    )
    async def resume_rule(request: Request, name: Name) -> Response:
        """It looks at changes from now on."""
        return await switched(request, name, paused=False)


def _add_alerts(router: Router, service: Service) -> None:
    @router.get(
        "/alerts",
        summary="List alerts",
        response_model=ResultPage[AlertReport],
        responses={200: example([_ALERT], next_cursor=None), **failures()},
    )
    async def list_alerts(request: Request, asked: Annotated[AlertsQuery, Query()]) -> Response:
        """Newest first, of the last 90 days."""
        where = tuple(f"{name} = :{name}" for name in ("rule", "channel") if getattr(asked, name) is not None)
        values = {name: getattr(asked, name) for name in ("rule", "channel") if getattr(asked, name) is not None}
        plan = Walk(
            "alerts", "SELECT * FROM fired_alerts", ("at", "alert", "channel"), where, descending=True, values=values
        )
        rows, following = await walk(service.database, plan, asked.cursor, asked.limit)
        return page(request, [_alert(row) for row in rows], following)


async def channel_reports(service: Service) -> list[ChannelReport]:
    """Return all channels, by name."""
    statuses = {each.name: each for each in await service.sink_statuses()}
    rules = await rules_of(service.database)
    reports = []
    for row in await read_rows(service.database, NotifyChannel):
        status = statuses.get(row.name)
        failing = status is not None and status.failures > 0
        reports.append(
            ChannelReport(
                name=row.name,
                service=row.service,
                digest=row.digest_seconds,
                quiet=None if row.quiet_from is None else f"{row.quiet_from}-{row.quiet_until}",
                timezone=row.timezone,
                per_hour=row.per_hour,
                title=row.title,
                body=row.body,
                rules=[rule.name for rule in rules if row.name in rule.channels],
                accepted=row.accepted,
                waiting=status.waiting if status else 0,
                state="failing" if failing else "works" if row.accepted else "idle",
                failures=status.failures if status else row.failures,
                failing_since=status.failing_since if status else row.failing_since,
                error=row.error,
                created_at=row.created_at,
            )
        )
    return reports


async def _channel(service: Service, name: str) -> ChannelReport:
    found = [each for each in await channel_reports(service) if each.name == name]
    if not found:
        raise NotFound(f"There is no channel {name!r}. See `forager channels list`.")
    return found[0]


async def _rules(service: Service) -> list[AlertRuleReport]:
    counted = await service.database.fetch(
        "SELECT rule, count(DISTINCT alert) AS n, max(at) AS last FROM fired_alerts GROUP BY rule"
    )
    by_rule = {row["rule"]: row for row in counted}
    return [
        _rule(rule, by_rule[rule.name]["n"] if rule.name in by_rule else 0, by_rule.get(rule.name, {}).get("last"))
        for rule in await rules_of(service.database)
    ]


async def _one_rule(service: Service, name: str) -> AlertRuleReport:
    rule = await one_rule(service.database, name)
    counted = await service.database.fetch(
        "SELECT count(DISTINCT alert) AS n, max(at) AS last FROM fired_alerts WHERE rule = :rule", {"rule": name}
    )
    return _rule(rule, counted[0]["n"], counted[0]["last"])


def _rule(rule: AlertRule, fired: int, last: int | None) -> AlertRuleReport:
    return AlertRuleReport(
        name=rule.name,
        kind=rule.record_kind,
        when=rule.condition,
        key=rule.subject,
        repeats=rule.repeats,
        notify=rule.channels,
        paused=rule.paused,
        fired=fired,
        last_fired_at=at(last),
        created_at=rule.created_at,
    )


def _previewed(change: Change) -> PreviewedAlert:
    return PreviewedAlert(change=change.id, title=title_of(change), op=change.op, at=at(change.at))


def _alert(row: Any) -> AlertReport:
    return AlertReport(
        **{name: row[name] for name in ("alert", "rule", "channel", "title", "body", "url", "change")},
        kind=row["record_kind"],
        key=row["record_key"],
        at=at(row["at"]),
        due_at=at(row["slot"]),
        delivered_at=at(row["delivered_at"]),
    )


_CHANNEL = {
    "name": "team",
    "service": "ntfy",
    "digest": HOUR,
    "quiet": "22-7",
    "timezone": "UTC",
    "per_hour": None,
    "title": None,
    "body": None,
    "rules": ["cheaper"],
    "accepted": 12,
    "waiting": 0,
    "state": "works",
    "failures": 0,
    "failing_since": None,
    "error": None,
    "created_at": "2026-03-14T12:00:00Z",
}
_PREVIEW = {
    "fired": 3,
    "changes": 120,
    "whole": True,
    "days": 7.0,
    "text": "would have fired 3 times in the last 7 days",
    "first": [{"change": 812, "title": "Oak table", "op": "changed", "at": "2026-03-12T08:00:00Z"}],
}
_RULE = {
    "name": "cheaper",
    "kind": "product",
    "when": "price < old.price * 0.95",
    "key": None,
    "repeats": False,
    "notify": ["team"],
    "paused": False,
    "fired": 3,
    "last_fired_at": "2026-03-14T12:00:00Z",
    "created_at": "2026-03-10T12:00:00Z",
}
_ALERT = {
    "alert": "cheaper_812",
    "rule": "cheaper",
    "channel": "team",
    "kind": "product",
    "key": "oak-table",
    "title": "cheaper: Oak table",
    "body": "price: 60 → 45\nhttps://shop.example/oak-table",
    "url": "https://shop.example/oak-table",
    "change": 812,
    "at": "2026-03-14T12:00:00Z",
    "due_at": None,
    "delivered_at": "2026-03-14T12:00:02Z",
}
