"""The bodies of `/api/v1/overview`, `/series`, `/changes/latest`, `/system` and `/pipelines`, and examples of them.

The description of each field is part of the API's documentation.
"""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from forager.api.examples import JOB
from forager.sdk.reports import JobReport


class HealthBrief(BaseModel):
    """The state of Forager in a few words."""

    status: Literal["ok", "degraded", "red"]
    worker: Literal["alive", "stopped", "elsewhere"]
    store: str = Field(description="ok, full or unavailable")
    trouble: str | None = Field(description="Why no work is leased; null if it is.")


class RateReport(BaseModel):
    tasks_per_second: float = Field(description="Tasks that ended in this process, over the last 30 seconds.")
    allowed: float | None = Field(description="Requests per second that the lanes of running jobs allow together.")


class OverviewCounts(BaseModel):
    open_jobs: int
    dead_letters: int = Field(description="Failed tasks that are not discarded, counted up to 1,000.")
    failed_share: float | None = Field(description="Failed tasks of all that ended in the last 24 hours.")
    changes_today: int = Field(description="Changes since midnight UTC.")


class SpendReport(BaseModel):
    """Money of all pipelines that declare their spending; null if none does."""

    today_usd: float | None
    month_usd: float | None
    budget_usd: float | None = Field(description="Rest of today's cap, if a cap per day is set.")
    budget_month_usd: float | None = Field(description="Rest of this month's cap, if one is set.")
    reserved: int = Field(description="Units that running tasks may still spend.")


class WorstSink(BaseModel):
    name: str
    lag_seconds: float
    error: str | None


class SinkBrief(BaseModel):
    """A sink in one line: how far behind it is, and its error if it fails."""

    name: str
    state: Literal["failing", "paused", "behind", "up_to_date"]
    behind: int = Field(description="Changes that it has not passed, and messages that wait to be accepted.")
    lag_seconds: float = Field(description="Age of the oldest of these changes.")
    error: str | None = Field(description="The last error, while it fails.")
    failing_since: datetime | None


class SinksBrief(BaseModel):
    count: int
    worst: WorstSink | None = Field(description="The sink that is furthest behind; null if none is.")
    all: list[SinkBrief] = Field(description="Every sink, those that fail first.")


class WaitingLane(BaseModel):
    """A site or API that is sent nothing now."""

    name: str
    reason: str = Field(description="paused, hours, cap, breaker, retry_after or rate.")
    message: str = Field(description="Why, as a sentence.")
    until: datetime | None = Field(description="End of the wait; null if it does not end by itself.")


class RunningJob(JobReport):
    """An open job with its pace."""

    rate: float | None = Field(description="Tasks per second, over the last 30 seconds.")
    seconds_left: float | None = Field(description="At this pace.")


class HelpfulAction(BaseModel):
    """A request that helps."""

    title: str
    path: str
    body: dict[str, Any]
    done: str = Field(description="Message after success.")


class Attention(BaseModel):
    """Something that is wrong: what, since when, what happens next, and the one action that helps."""

    kind: Literal["sink", "lane", "dead", "key", "store", "job", "parser"]
    severity: Literal["failed", "waiting"]
    title: str
    detail: str = Field(description="Why, and what happens next by itself.")
    since: datetime | None = Field(default=None, description="Start time, or time of the last occurrence.")
    href: str = Field(description="The page of the dashboard that shows it.")
    action: HelpfulAction | None = None


class ChangedField(BaseModel):
    name: str
    before: Any
    after: Any


class ToldChange(BaseModel):
    """A change of a record, in words for people."""

    id: int
    kind: str
    key: str
    op: str
    title: str = Field(description="Label of the record: its title, name or address.")
    text: str = Field(description="The changed fields, as one line.")
    fields: list[ChangedField] = Field(description="Fields that differ from the version before, the first few.")
    at: datetime


class Freshness(BaseModel):
    pipeline: str
    last_change_at: datetime | None = Field(description="Time of its newest record, if known.")
    open_jobs: int


class OverviewReport(BaseModel):
    health: HealthBrief
    rate: RateReport
    counts: OverviewCounts
    spend: SpendReport
    sinks: SinksBrief
    running: list[RunningJob]
    attention: list[Attention]
    waiting: list[WaitingLane] = Field(description="Lanes that send nothing now, the longest wait first, and why.")
    changed: list[ToldChange]
    freshness: list[Freshness]


class SeriesReport(BaseModel):
    """Figures over time, oldest first. All lists have one value for each step."""

    step_seconds: int
    times: list[int] = Field(description="Start of each step, in Unix milliseconds.")
    completed: list[float] = Field(description="Completed tasks per minute.")
    failed: list[float] = Field(description="Failed tasks per minute.")
    skipped: list[float] = Field(description="Skipped tasks per minute.")
    cost: list[float] = Field(description="Units spent per minute.")
    bytes: list[float] = Field(description="Bytes of answers per minute.")
    changes: list[int] = Field(description="Changes in each step.")
    stored: list[int] = Field(description="Bytes by which the store has grown in each step.")
    changes_by_part: list[int] = Field(description="Changes in about twelve equal parts of the range, for small bars.")


class WorkerBrief(BaseModel):
    name: str
    started_at: datetime
    alive: bool
    lanes: int = Field(description="Lanes that it owns, of the first 200.")


class StoreBrief(BaseModel):
    kind: Literal["SQLite", "PostgreSQL"]
    where: str
    bytes: int = Field(description="Size on disk.")
    grown_day: int = Field(description="Bytes by which it has grown in 24 hours; less than 0 if it has shrunk.")
    grown_week: int = Field(description="The same for seven days.")


class BrowserVisit(BaseModel):
    """A page that is open in a browser now."""

    url: str
    since: datetime
    thumbnail: str = Field(description="Address of a small picture of what it shows now; 404 once it is closed.")


class BrowsersBrief(BaseModel):
    """Browsers of the process that answers."""

    in_use: int
    idle: int
    launchable: int = Field(description="Further browsers that could be started.")
    waiting: int = Field(description="Tasks that wait for a browser.")
    pages: int = Field(description="Pages visited since the start.")
    visits: list[BrowserVisit]


class SettingInForce(BaseModel):
    name: str
    group: str
    value: str | None = Field(description="Values that may contain a password are hidden.")
    origin: str = Field(description="default, command, or the file or environment that sets it.")
    help: str | None


class SystemReport(BaseModel):
    version: str
    workers: list[WorkerBrief]
    store: StoreBrief
    browsers: BrowsersBrief | None = Field(description="Null where no browser driver is installed.")
    settings: list[SettingInForce]


class SystemCheck(BaseModel):
    """A finding of `forager doctor`."""

    check: str
    state: Literal["ok", "note", "problem"] = Field(description="A problem keeps Forager from working.")
    message: str
    remedy: str = Field(description="The remedy; empty if none is needed.")


class SystemLogLine(BaseModel):
    at: str = Field(description="UTC.")
    level: str
    event: str
    fields: dict[str, Any] = Field(description="Fields of the event, without secrets.")


class PipelineBrief(BaseModel):
    name: str
    summary: str
    params: dict[str, Any] = Field(description="JSON Schema of a job's parameters: what a form needs.")
    paid: bool = Field(description="True if its jobs cost money.")
    estimated: bool = Field(description="True if a job can be priced before it is created.")
    secrets: list[str] = Field(description="Secrets that a job needs, by name.")
    records: list[str] = Field(description="Kinds of records that its jobs write.")


TOLD_CHANGE: dict[str, Any] = {
    "id": 977,
    "kind": "product",
    "key": "oak-tray",
    "op": "changed",
    "title": "Oak Tray Outdoor",
    "text": "price 1,464.10 → 1,127.35",
    "fields": [{"name": "price", "before": "1464.10", "after": "1127.35"}],
    "at": "2026-03-14T12:04:00.120Z",
}
OVERVIEW: dict[str, Any] = {
    "health": {"status": "ok", "worker": "alive", "store": "ok", "trouble": None},
    "rate": {"tasks_per_second": 286.4, "allowed": 300.0},
    "counts": {"open_jobs": 1, "dead_letters": 14, "failed_share": 0.0003, "changes_today": 48213},
    "spend": {"today_usd": 3.42, "month_usd": 41.7, "budget_usd": 10.0, "budget_month_usd": None, "reserved": 162},
    "sinks": {
        "count": 1,
        "worst": {"name": "prices", "lag_seconds": 4.0, "error": None},
        "all": [
            {
                "name": "prices",
                "state": "behind",
                "behind": 41,
                "lag_seconds": 4.0,
                "error": None,
                "failing_since": None,
            }
        ],
    },
    "running": [{**JOB, "lane_rate": None, "rate": 241.0, "seconds_left": 3.6}],
    "attention": [
        {
            "kind": "dead",
            "severity": "failed",
            "title": "14 tasks failed permanently",
            "detail": "12 × timed out, 2 × parse. None is tried again by itself.",
            "since": "2026-03-14T12:04:00.120Z",
            "href": "/dead",
            "action": None,
        }
    ],
    "waiting": [
        {
            "name": "shop.example",
            "reason": "rate",
            "message": "next request to shop.example in 8 s",
            "until": "2026-03-14T12:04:08.120Z",
        }
    ],
    "changed": [TOLD_CHANGE],
    "freshness": [{"pipeline": "products", "last_change_at": TOLD_CHANGE["at"], "open_jobs": 0}],
}
SERIES: dict[str, Any] = {
    "step_seconds": 60,
    "times": [1773489600000, 1773489660000],
    "completed": [241.0, 286.0],
    "failed": [0.0, 1.0],
    "skipped": [0.0, 12.0],
    "cost": [241.0, 286.0],
    "bytes": [1049234.0, 1204456.0],
    "changes": [410, 377],
    "stored": [40960, 36864],
    "changes_by_part": [410, 377],
}
SYSTEM: dict[str, Any] = {
    "version": "0.1.0",
    "workers": [{"name": "host-1:4711", "started_at": "2026-03-14T11:00:00Z", "alive": True, "lanes": 3}],
    "store": {
        "kind": "SQLite",
        "where": "/home/me/.forager",
        "bytes": 1049234432,
        "grown_day": 3412992,
        "grown_week": 22413312,
    },
    "browsers": {"in_use": 0, "idle": 1, "launchable": 3, "waiting": 0, "pages": 214, "visits": []},
    "settings": [
        {
            "name": "FORAGER_PORT",
            "group": "API",
            "value": "8000",
            "origin": "default",
            "help": "Port of the API.",
        }
    ],
}
CHECK: dict[str, Any] = {
    "check": "disk",
    "state": "ok",
    "message": "41.2 GB are free in /home/me/.forager",
    "remedy": "",
}
LOG_LINE: dict[str, Any] = {
    "at": "2026-03-14T12:04:00.120000Z",
    "level": "warning",
    "event": "sink_failed",
    "fields": {"sink": "prices", "retry_in_seconds": 40},
}
PIPELINE: dict[str, Any] = {
    "name": "places",
    "summary": "Business listings by keyword and ZIP code.",
    "params": {"type": "object", "properties": {"keyword": {"type": "string"}}, "required": ["keyword"]},
    "paid": True,
    "estimated": True,
    "secrets": [],
    "records": ["place", "sighting"],
}
