"""Routes of watches: add, list, show, check now, pause, resume and remove; and what was observed."""

import re
from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from fastapi import Path as InPath
from fastapi import Query
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from starlette.requests import Request
from starlette.responses import Response

from forager.core.database import Database
from forager.core.errors import Conflict, FieldError, NotFound, Refused, Rejected
from forager.core.hosts import host_of
from forager.core.http import Render
from forager.core.ids import checked_name
from forager.core.recheck import Interval
from forager.core.storage import picture_path
from forager.core.table import Effect
from forager.extract.schemas.spec import Css, PageSchema
from forager.extract.text.urls import canonical_url, url_hash
from forager.pipelines.watches.observe import Ignored
from forager.pipelines.watches.records import PageWatch, WatchedPage
from forager.pipelines.watches.wiring import start_check
from forager.sdk.alert_rules import AlertRule, add_rule, checked, kinds_of, rules_of, wrong
from forager.sdk.expressions import LONGEST
from forager.sdk.http.envelope import Envelope, ResultPage, answer, page
from forager.sdk.http.routes import JsonRoute, PageQuery, Router, example, failures
from forager.sdk.http.streams import TaskWaiter
from forager.sdk.queries import Walk, at, change_row, insert_row, loads, one_row, remove_row, walk
from forager.sdk.reports import Report
from forager.sdk.service import Service

LONGEST_URL = 2_048
MOST_WATCHES = 10_000
Name = Annotated[str, InPath(max_length=100, description="Name.", examples=["oak-table"])]


class WatchBody(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        populate_by_name=True,
        json_schema_extra={
            "examples": [
                {
                    "url": "https://shop.example/oak-table",
                    "schema": {"fields": {"price": {"type": "number", "css": ".price"}}},
                    "every": "1h",
                    "when": "price < 50",
                    "notify": ["team"],
                }
            ]
        },
    )

    url: Annotated[
        str,
        StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_URL),
        AfterValidator(canonical_url),
        WithJsonSchema({"type": "string", "format": "uri", "maxLength": LONGEST_URL, "pattern": "^https?://"}),
    ] = Field(description="The page.", examples=["https://shop.example/oak-table"])
    name: str | None = Field(
        default=None, max_length=100, description="Up to 100 letters, digits, `.`, `_` and `-` (default: by its URL)."
    )
    select: Css | None = Field(default=None, description="Watch the text of the elements that this CSS selector finds.")
    page_schema: str | PageSchema | None = Field(
        default=None, alias="schema", description="Watch fields: the name of a stored schema, or a schema."
    )
    every: Interval = Field(default=3_600, description="Seconds between two checks, or `1h`, `1d`.")
    render: Render = Field(default="http", description="http, browser, or auto: a browser only where it is needed.")
    screenshots: bool = Field(default=False, description="Keep a picture before and after a change; needs a browser.")
    ignore: list[Ignored] = Field(
        default=["dates", "counters"],
        max_length=2,
        description="Differences to ignore in a text: dates and times; counts of views, likes, comments ….",
    )
    when: str | None = Field(
        default=None, min_length=1, max_length=LONGEST, description="Notify only when this becomes true: `price < 50`."
    )
    notify: list[str] = Field(default=[], max_length=20, description="Channels that receive an alert after a change.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.select is not None and self.page_schema is not None:
            raise ValueError("give `select` or `schema`, not both")
        if self.screenshots and self.render == "http":
            raise ValueError("`screenshots` are made by a browser; set `render` to browser")
        if self.when is not None and not self.notify:
            raise ValueError("`when` needs a channel in `notify`")
        if isinstance(self.page_schema, PageSchema) and self.page_schema.base is not None:
            raise ValueError("the schema of a watch has no `base`")
        if isinstance(self.page_schema, PageSchema):
            _refuse_described(self.page_schema)
        return self


class WatchReport(Report):
    name: str
    url: str
    mode: str = Field(description="text, select or schema.")
    select: str | None
    page_schema: dict[str, Any] | None = Field(description="With the mode `schema`.")
    every: int = Field(description="Seconds between two checks.")
    render: str
    screenshots: bool
    ignore: list[str]
    when: str | None
    notify: list[str]
    state: Literal["new", "works", "failing", "paused"] = Field(description="`new`: not checked yet.")
    checks: int
    changes: int = Field(description="Observations that differed from the one before.")
    title: str | None
    summary: str | None = Field(description="The last change, in one line.")
    fields: dict[str, Any] | None = Field(description="With a schema: the values of the last observation.")
    text: str | None = Field(description="The watched text; left out of lists.")
    error: str | None = Field(description="Why the last check found nothing.")
    noise: int = Field(description="Places of the page that differ at every check and are ignored.")
    screenshot: str | None = Field(description="Address of the picture after the last change …")
    screenshot_before: str | None = Field(description="… and before it.")
    checked_at: datetime | None
    changed_at: datetime | None
    next_check_at: datetime | None
    created_at: datetime | None


class ObservationReport(BaseModel):
    """A change of a watched page."""

    change: int = Field(description="Its number in the log.")
    op: str = Field(description="`new`: the first observation. `changed`: it differs.")
    at: datetime | None
    title: str | None
    summary: str | None
    difference: dict[str, Any] | None = Field(description="The difference by word (`lines`) or by field (`fields`).")
    fields: dict[str, Any] | None
    text: str | None


class CheckStarted(BaseModel):
    job_id: UUID
    watch: str


class RemovedWatch(BaseModel):
    removed: str


def routes(service: Service, _: TaskWaiter) -> Router:
    router = Router(prefix="/api/v1/watches", tags=["watches"], route_class=JsonRoute)
    _add_rows(router, service)
    _add_steering(router, service)
    return router


def _add_rows(router: Router, service: Service) -> None:
    db = service.database

    @router.get(
        "",
        summary="List watches",
        response_model=ResultPage[WatchReport],
        responses={200: example([{**_WATCH, "text": None}], next_cursor=None), **failures()},
    )
    async def list_watches(request: Request, asked: Annotated[PageQuery, Query()]) -> Response:
        """Lists watches by name, each with its last observation."""
        plan = Walk("watches", _ALL, ("name",), ())
        rows, following = await walk(db, plan, asked.cursor, asked.limit)
        rules = {rule.name: rule for rule in await rules_of(db)}
        return page(request, [_report(row, rules, text=False) for row in rows], following)

    @router.post(
        "",
        status_code=201,
        summary="Watch a page",
        response_model=Envelope[WatchReport],
        responses={201: example(_WATCH), **failures(409, body=True)},
    )
    async def add_watch(request: Request, body: WatchBody) -> Response:
        """Checks the page at once, then at the interval `every`. With `notify`, a rule of the same name is added."""
        name = checked_name(body.name or name_of(body.url))
        try:
            service.check_url(body.url)
        except Refused as error:
            raise wrong("url", error.message.rstrip(".")) from error
        schema = await _schema(service, body.page_schema)
        rule = _rule(name, body, schema)
        if rule is not None:
            checked(rule, kinds_of(service.pipelines))
        counted = await db.fetch("SELECT count(*) AS n FROM page_watches")
        if counted[0]["n"] >= MOST_WATCHES:
            raise wrong("name", f"there are {MOST_WATCHES:,} watches, which is the maximum; remove some first")
        if await one_row(db, PageWatch, name=name) is not None:
            raise Conflict(f"There is a watch {name!r} already. Remove it first, or choose another name with `name`.")
        if rule is not None:
            await _remove_leftover(db, rule)
            await add_rule(db, rule, kinds_of(service.pipelines))
        left = await db.fetch("SELECT checked_at FROM watched_pages WHERE watch = :name", {"name": name})
        own = {"asked_at": service.clock.now(), "leftover_at": at(left[0]["checked_at"]) if left else None}
        await insert_row(db, _row(name, body, schema).model_copy(update=own))
        await start_check(service, name)
        return answer(request, await _one(service, name), status=201)

    @router.get(
        "/{name}",
        summary="Show a watch",
        response_model=Envelope[WatchReport],
        responses={200: example(_WATCH), **failures(404)},
    )
    async def show_watch(request: Request, name: Name) -> Response:
        return answer(request, await _one(service, name))

    @router.delete(
        "/{name}",
        summary="Remove a watch",
        response_model=Envelope[RemovedWatch],
        responses={200: example({"removed": "oak-table"}), **failures(404)},
    )
    async def remove_watch(request: Request, name: Name) -> Response:
        """Removes its rule as well. What it has observed stays in the log."""
        await _one(service, name)
        await remove_row(db, AlertRule, name=name)
        await remove_row(db, PageWatch, name=name)
        return answer(request, {"removed": name})

    @router.get(
        "/{name}/observations",
        summary="List what a watch has observed",
        response_model=ResultPage[ObservationReport],
        responses={200: example([_OBSERVATION], next_cursor=None), **failures(404)},
    )
    async def list_observations(request: Request, name: Name, asked: Annotated[PageQuery, Query()]) -> Response:
        """Newest first: observations that differ from the one before, as far as the change log keeps them."""
        await _one(service, name)
        found = await service.reports.history(WatchedPage.kind, name, cursor=asked.cursor, limit=asked.limit)
        return page(request, [_observation(each) for each in found.items], found.next_cursor)


def _add_steering(router: Router, service: Service) -> None:
    db = service.database

    @router.post(
        "/{name}/check",
        status_code=202,
        summary="Check a watch now",
        response_model=Envelope[CheckStarted],
        responses={
            202: example({"job_id": "0f1c9b52-6a7e-4d0e-8e63-0a2f3c5b7d11", "watch": "oak-table"}),
            **failures(404, 409),
        },
    )
    async def check_watch(request: Request, name: Name) -> Response:
        """Returns as soon as the job is stored."""
        if (await _one(service, name)).state == "paused":
            raise Conflict(f"The watch {name!r} is paused. Resume it first.")
        return answer(request, {"job_id": await start_check(service, name), "watch": name}, status=202)

    async def switched(request: Request, name: str, *, paused: bool) -> Response:
        await _one(service, name)
        wanted = {} if paused else {"asked_at": service.clock.now(), "job": None}
        await change_row(db, Effect(PageWatch, {"name": name}, set={"paused": paused, **wanted}))
        if not paused:
            await start_check(service, name)
        return answer(request, await _one(service, name))

    @router.post(
        "/{name}/pause",
        summary="Pause a watch",
        response_model=Envelope[WatchReport],
        responses={200: example({**_WATCH, "state": "paused"}), **failures(404)},
    )
    async def pause_watch(request: Request, name: Name) -> Response:
        """Its page is not checked until it is resumed."""
        return await switched(request, name, paused=True)

    @router.post(
        "/{name}/resume",
        summary="Resume a watch",
        response_model=Envelope[WatchReport],
        responses={200: example(_WATCH), **failures(404)},
    )
    async def resume_watch(request: Request, name: Name) -> Response:
        """Checks the page now, then at its interval as before."""
        return await switched(request, name, paused=False)


async def _remove_leftover(db: Database, rule: AlertRule) -> None:
    """Remove the same rule of a watch that was not stored, because a process was killed after it had added the rule."""
    stored = await one_row(db, AlertRule, name=rule.name)
    same = ("record_kind", "condition", "subject", "channels")
    if stored is not None and all(getattr(stored, name) == getattr(rule, name) for name in same):
        await remove_row(db, AlertRule, name=rule.name)


def name_of(url: str) -> str:
    """Return a name for the watch of a page: its host and path, and a few characters of its hash."""
    path = url.partition("://")[2].partition("?")[0]
    plain = re.sub(r"[^A-Za-z0-9]+", "-", path.removeprefix("www.")).strip("-")
    return f"{plain[:60].strip('-') or host_of(url)}-{url_hash(url)[:6]}"


async def _schema(service: Service, given: str | PageSchema | None) -> PageSchema | None:
    if not isinstance(given, str):
        return given
    rows = await service.database.fetch("SELECT body FROM page_schemas WHERE name = :name", {"name": given})
    if not rows:
        raise wrong("schema", f"there is no schema {given[:64]!r}; see `forager schemas list`")
    try:
        schema = TypeAdapter(PageSchema).validate_python(loads(rows[0]["body"]))
    except ValidationError:
        problem = f"the stored schema {given[:64]!r} is not valid any more; store it again"
        raise Rejected(f"schema: {problem}.", fields=[FieldError("schema", problem)]) from None
    try:
        _refuse_described(schema)
    except ValueError as error:
        raise wrong("schema", str(error)) from None
    return schema


def _refuse_described(schema: PageSchema) -> None:
    """Raise `ValueError` for a schema that would ask a language model at every check: a watch costs nothing."""
    if schema.described:
        named = next(iter(schema.described))
        raise ValueError(f"{named}: a watch has no described fields, which cost money; give it a selector")


def _row(name: str, body: WatchBody, schema: PageSchema | None) -> PageWatch:
    return PageWatch(
        name=name,
        url=body.url,
        mode="schema" if schema is not None else "select" if body.select else "text",
        selector=body.select,
        page_schema=schema.as_json() if schema is not None else None,
        every=body.every,
        render=body.render,
        screenshots=body.screenshots,
        ignored=list(dict.fromkeys(body.ignore)),
    )


def _rule(name: str, body: WatchBody, schema: PageSchema | None) -> AlertRule | None:
    """Return the rule of a watch with channels: conditions on it read the fields of its schema."""
    if not body.notify:
        return None
    types = {field: each.type for field, each in schema.fields.items()} if schema is not None else None
    return AlertRule(
        name=name,
        record_kind=WatchedPage.kind,
        condition=body.when,
        subject=name,
        fields=types,
        channels=list(dict.fromkeys(body.notify)),
    )


_ALL = """
SELECT w.name, w.url, w.mode, w.selector, w.page_schema, w.every, w.render, w.screenshots, w.ignored, w.paused,
  w.created_at, p.title, p.text, p.fields, p.summary, p.noise, p.checks, p.checked_at, p.version, p.changed_at,
  p.next_check_at, p.screenshot, p.screenshot_before,
  CASE WHEN p.watch IS NULL THEN w.error ELSE p.error END AS error,
  CASE WHEN p.watch IS NULL THEN w.failed_at ELSE p.failed_at END AS failed_at
FROM page_watches w LEFT JOIN watched_pages p
  ON p.watch = w.name AND (w.leftover_at IS NULL OR p.checked_at <> w.leftover_at)
"""


async def _one(service: Service, name: str) -> WatchReport:
    rows = await service.database.fetch(f"{_ALL} WHERE w.name = :name", {"name": name})
    if not rows:
        raise NotFound(f"There is no watch {name!r}. See `forager watch list`.")
    rules = {rule.name: rule for rule in await rules_of(service.database)}
    return _report(rows[0], rules, text=True)


def _report(row: Any, rules: dict[str, AlertRule], *, text: bool) -> WatchReport:
    rule = rules.get(row["name"])
    state: Any = "paused" if row["paused"] else "new" if row["checked_at"] is None else "works"
    if state in ("works", "new") and (row["error"] or row["failed_at"]):
        state = "failing"
    return WatchReport(
        **{name: row[name] for name in ("name", "url", "mode", "every", "render", "title", "summary", "error")},
        select=row["selector"],
        page_schema=loads(row["page_schema"]),
        screenshots=bool(row["screenshots"]),
        ignore=loads(row["ignored"]) or [],
        when=rule.condition if rule else None,
        notify=rule.channels if rule else [],
        state=state,
        checks=row["checks"] or 0,
        changes=max(0, (row["version"] or 1) - 1),
        fields=loads(row["fields"]),
        text=row["text"] if text else None,
        noise=sum(count >= 3 for count in (loads(row["noise"]) or {}).values()),
        screenshot=picture_path(row["screenshot"]),
        screenshot_before=picture_path(row["screenshot_before"]),
        checked_at=at(row["checked_at"]),
        changed_at=at(row["changed_at"]),
        next_check_at=at(row["next_check_at"]),
        created_at=at(row["created_at"]),
    )


def _observation(change: Any) -> ObservationReport:
    body = change.body or {}
    return ObservationReport(
        change=change.id,
        op=change.op,
        at=change.at,
        title=body.get("title"),
        summary=body.get("summary"),
        difference=body.get("difference"),
        fields=body.get("fields"),
        text=body.get("text"),
    )


_WATCH = {
    "name": "oak-table",
    "url": "https://shop.example/oak-table",
    "mode": "schema",
    "select": None,
    "schema": {"fields": {"price": {"type": "number", "css": ".price"}}},
    "every": 3_600,
    "render": "http",
    "screenshots": False,
    "ignore": ["dates", "counters"],
    "when": "price < 50",
    "notify": ["team"],
    "state": "works",
    "checks": 12,
    "changes": 2,
    "title": "Oak table",
    "summary": "price: 60 → 45",
    "fields": {"price": 45},
    "text": None,
    "error": None,
    "noise": 0,
    "screenshot": None,
    "screenshot_before": None,
    "checked_at": "2026-03-14T12:00:00Z",
    "changed_at": "2026-03-14T12:00:00Z",
    "next_check_at": "2026-03-14T13:00:00Z",
    "created_at": "2026-03-13T12:00:00Z",
}
_OBSERVATION = {
    "change": 812,
    "op": "changed",
    "at": "2026-03-14T12:00:00Z",
    "title": "Oak table",
    "summary": "price: 60 → 45",
    "difference": {"fields": {"price": {"before": 60, "after": 45}}},
    "fields": {"price": 45},
    "text": None,
}
