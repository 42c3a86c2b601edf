"""The parameters of scrape jobs: pages, each with its type. Pure.

The shape is checked by these classes; whether an extractor of that name exists, and has those fields, by `check`.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)

from forager.core.errors import FieldError, Rejected
from forager.core.hosts import checked_host, host_of
from forager.core.http import Render
from forager.core.pipeline import JobLimits, Parts
from forager.core.record import Record
from forager.core.table import TableRow
from forager.core.task import Plan, Task
from forager.extract.html.markdown import MarkdownOptions
from forager.extract.schemas.spec import PageSchema
from forager.pipelines.scrape.extractor import SCREENSHOT, Extractor

MOST_TARGETS = 10_000
MOST_IN_BATCH = 100
"""Targets of one request to `/scrape/batch`."""
MOST_FIELDS = 100
LONGEST_URL = 2_048


def _web_url(text: str) -> str:
    """Check and return a URL. It must not contain a password, because logs show it."""
    try:
        parts = urlsplit(text)
        host = parts.netloc.rpartition("@")[2]
        if parts.scheme.lower() not in ("http", "https") or not parts.hostname:
            raise ValueError("it should begin with https:// or http:// and name a host, as https://example.com/jobs/1")
        checked_host(host)
    except ValueError as error:
        raise ValueError(f"not a valid http(s) URL: {error}") from None
    if "@" in parts.netloc:
        raise ValueError("it should have no user name and no password before the host")
    if not text.isprintable() or " " in text:
        raise ValueError("it should have no blanks and no control characters; write %20 for a blank")
    return text


WebUrl = Annotated[
    str,
    StringConstraints(strip_whitespace=True, max_length=LONGEST_URL),
    AfterValidator(_web_url),
    WithJsonSchema({"type": "string", "format": "uri", "maxLength": LONGEST_URL, "pattern": "^https?://"}),
]
Name = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern="^[a-z][a-z0-9_]*$")]


Format = Literal["markdown", "html", "text", "screenshot", "links"]
ANY_PAGE = "page"
SHORT_NAMES = {"url": "target_url", "schema": "page_schema"}

S = TypeVar("S", bound=str)


def _each_once(names: tuple[S, ...]) -> tuple[S, ...]:
    return tuple(dict.fromkeys(names))


class Target(BaseModel):
    """One page, and the fields that are wanted."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    target_type: Name = Field(
        default=ANY_PAGE,
        description="Type of the page: job_posting, company_website, product, listing, linkedin_profile, what "
        "a plug-in adds, or page, which is any: title, language, main text as Markdown, links, metadata, structured "
        "data.",
        examples=["job_posting"],
    )
    target_url: WebUrl = Field(description="The page.", examples=["https://example.com/jobs/1"])
    requested_fields: (
        Annotated[
            tuple[Name, ...],
            AfterValidator(_each_once),
            Field(min_length=1, max_length=MOST_FIELDS),
        ]
        | None
    ) = Field(
        default=None,
        description="Only these fields are extracted and returned (default: all of the target type).",
        examples=[["job_title", "salary_range"]],
    )
    formats: Annotated[tuple[Format, ...], AfterValidator(_each_once), Field(min_length=1)] | None = Field(
        default=None,
        description="Target of type page: only these parts, instead of requested_fields. A screenshot (PNG, base64) "
        "is made by a browser.",
        examples=[["markdown", "links"]],
    )
    markdown: MarkdownOptions | None = Field(
        default=None,
        description="Target of type page: how its Markdown is written.",
        examples=[{"links": "references", "images": False}],
    )
    workspace_id: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)] = Field(
        default="default", description="Workspace whose credentials are used if a page needs some.", examples=["acme"]
    )
    page_schema: str | PageSchema | None = Field(
        default=None,
        description="Fields of your own: a schema, or the name of a stored one. `schema` is the same field.",
        examples=[{"fields": {"title": {"css": "h1"}}}],
    )
    render: Render = Field(
        default="auto",
        description="http, browser, or auto: a browser only if the page needs one, because it costs 100 times more.",
    )

    min_confidence: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None,
        description="Return only values that are at least this sure, from 0 to 1; others are null. 0.9 keeps values of "
        "which at least 97 % are right.",
        examples=[0.9],
    )

    @model_validator(mode="before")
    @classmethod
    def _short_names(cls, given: Any) -> Any:
        """Accept `url` for `target_url` and `schema` for `page_schema`, so that `{"url": …}` is a whole request."""
        if isinstance(given, Mapping):
            given = dict(given)
            for short, name in SHORT_NAMES.items():
                if short in given and name not in given:
                    given[name] = given.pop(short)
        return given

    @model_validator(mode="after")
    def _formats_are_fields_of_any_page(self) -> Self:
        if self.page_schema is not None and (self.formats or self.requested_fields or self.target_type != ANY_PAGE):
            raise ValueError("a schema names its own fields; leave out target_type, formats and requested_fields")
        if self.formats is not None and self.target_type != ANY_PAGE:
            raise ValueError(f"formats are for target_type {ANY_PAGE}; use requested_fields for {self.target_type}")
        if self.formats is not None and self.requested_fields is not None:
            raise ValueError("give formats or requested_fields, not both")
        if self.markdown is not None and (
            self.target_type != ANY_PAGE or self.page_schema or "markdown" not in (self.wanted or ("markdown",))
        ):
            raise ValueError("markdown has options only where it is returned: target_type page, formats with markdown")
        if SCREENSHOT in (self.wanted or ()) and self.render == "http":
            raise ValueError("a screenshot is made by a browser; set render to browser or auto")
        return self

    @property
    def wanted(self) -> tuple[str, ...] | None:
        """The fields to return; None means the target type's default."""
        return self.formats or self.requested_fields


class ScrapeRequest(Target):
    """One page."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "target_type": "job_posting",
                    "target_url": "https://example.com/jobs/1",
                    "requested_fields": ["job_title", "salary_range"],
                    "workspace_id": "acme",
                }
            ]
        }
    )

    callback_url: WebUrl | None = Field(
        default=None, description="Notified when the page is done, instead of the default receiver."
    )

    def job(self) -> dict[str, Any]:
        """As a job of one."""
        target = self.model_dump(mode="json", by_alias=True, exclude={"callback_url", "timeout_seconds"})
        return {"targets": [target], "callback_url": self.callback_url, "single": True}


class BatchTarget(Target):
    """One page of a batch."""

    @model_validator(mode="before")
    @classmethod
    def _no_callback_of_its_own(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and "callback_url" in given:
            raise ValueError("a target of a batch has no callback_url of its own; give one for the whole batch")
        return given


Source = Annotated[
    str | None,
    Field(max_length=200, description="Name of the list that the pages come from. Lists of jobs show it."),
]


def _some(targets: tuple[BatchTarget, ...]) -> tuple[BatchTarget, ...]:
    """Require at least one target. Checked after each target, so that an invalid one is reported as such."""
    if not targets:
        raise ValueError("give at least one target")
    return targets


class ScrapeJob(BaseModel):
    """Up to ten thousand pages. The same page twice is two tasks."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "targets": [
                        {
                            "target_type": "company_website",
                            "target_url": "https://example.com/",
                            "workspace_id": "acme",
                        },
                        {
                            "target_type": "job_posting",
                            "target_url": "https://example.com/jobs/1",
                            "workspace_id": "acme",
                            "render": "http",
                        },
                    ],
                    "callback_url": "https://hooks.example.com/forager",
                }
            ]
        },
    )

    targets: Annotated[tuple[BatchTarget, ...], AfterValidator(_some)] = Field(
        max_length=MOST_TARGETS, json_schema_extra={"minItems": 1}, description="1 to 10,000 pages."
    )
    callback_url: WebUrl | None = Field(
        default=None, description="Notified when the job ends, instead of the default receiver."
    )
    source: Source = None
    single: StrictBool = Field(
        default=False, description="One page that a caller waits for: it has priority over batches."
    )

    @model_validator(mode="after")
    def _single_is_one(self) -> Self:
        if self.single and len(self.targets) != 1:
            raise ValueError("`single` is for one target; leave it out")
        return self


def check(job: ScrapeJob, extractors: Mapping[str, Extractor]) -> None:
    """Raise `Rejected`, naming the targets, if there is no extractor for a target's type or fields."""
    wrong = [
        FieldError(f"targets.{number}.{field}", message)
        for number, target in enumerate(job.targets)
        for field, message in _wrong(target, extractors)
    ]
    if wrong:
        raise Rejected("The scrape job is not valid.", fields=wrong)


def _wrong(target: Target, extractors: Mapping[str, Extractor]) -> Iterator[tuple[str, str]]:
    extractor = extractors.get(target.target_type)
    if extractor is None:
        yield "target_type", f"unknown target type {target.target_type!r}; choose from {', '.join(sorted(extractors))}"
        return
    if isinstance(target.page_schema, PageSchema) and target.page_schema.base not in (None, *extractors):
        yield "schema.base", f"unknown kind {target.page_schema.base!r}; choose from {', '.join(sorted(extractors))}"
    unknown = [name for name in target.requested_fields or () if name not in extractor.fields]
    if unknown:
        few = ", ".join(name[:40] for name in unknown[:5])
        yield "requested_fields", f"{extractor.name} has no {few}; it has {', '.join(extractor.output.model_fields)}"


# The button to click in a consent banner: refuse if possible, else accept. Other buttons are ignored.


CONSENT = ", ".join(
    (
        "#onetrust-reject-all-handler",
        "#CybotCookiebotDialogBodyButtonDecline",
        "[data-testid='uc-deny-all-button']",
        "button[data-consent='reject' i]",
        "button[class*='reject-all' i]",
        "button[id*='reject' i]",
        "button[class*='cookie' i][class*='decline' i]",
        "#cookie-close",
        "#onetrust-accept-btn-handler",
        "button[data-consent='accept' i]",
        "button[id*='cookie' i][id*='accept' i]",
        "button[class*='cookie' i][class*='accept' i]",
        "#cookie-acknowledge",
    )
)
CONSENT_WAIT = 0.4
"""Seconds to wait for a banner after the page's content. Short, because most pages have none."""


# The one kind of task that scrape has: one page of a job.


class ScrapeTask(Task):
    """Identified by its position in the job, so that the same page twice is two tasks."""

    kind: ClassVar[str] = "scrape.page"

    number: int
    target_type: str
    target_url: str
    requested_fields: tuple[str, ...] | None = None
    workspace_id: str
    render: Render = "auto"
    min_confidence: float | None = None
    page_schema: dict[str, Any] | None = None
    markdown: MarkdownOptions | None = None
    digits: int = 3
    """Digits of the key. All keys of a job have the same number, so that they sort in the order of the request."""

    def key(self) -> str:
        return f"{self.number:0{self.digits}d}"

    def lane(self) -> str:
        return host_of(self.target_url)


# Scrape jobs of any size: the job first, then its targets in parts of up to ten thousand.


DIGITS = 9
"""Digits of the keys of a job whose size is not known at its beginning."""


class ScrapeJobInParts(BaseModel):
    """A scrape job whose targets follow."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    callback_url: WebUrl | None = Field(
        default=None, description="Notified when the job ends, instead of the default receiver."
    )
    source: Source = None


def plan_targets(targets: Iterable[BatchTarget], first: int, digits: int) -> Iterator[Plan]:
    """Return one task per target, in their order; the first has the number `first`."""
    for number, target in enumerate(targets, first):
        task = ScrapeTask(
            number=number,
            target_type=target.target_type,
            target_url=target.target_url,
            requested_fields=target.wanted,
            workspace_id=target.workspace_id,
            render=target.render,
            min_confidence=target.min_confidence,
            markdown=target.markdown,
            page_schema=target.page_schema.as_json() if isinstance(target.page_schema, PageSchema) else None,
            digits=digits,
        )
        yield Plan(task, rank=number)


def plan_part(part: ScrapeJob, first: int) -> Iterator[Plan]:
    return plan_targets(part.targets, first, DIGITS)


PARTS = Parts(ScrapeJobInParts, plan_part, lambda _: JobLimits(turn=1 + MOST_TARGETS))
"""Such a job comes after every batch that was sent whole."""


# Schemas that users have stored, by name.


class StoredSchema(TableRow):
    """A schema by name."""

    table: ClassVar[str] = "page_schemas"
    key: ClassVar[tuple[str, ...]] = ("name",)
    stamped: ClassVar[frozenset[str]] = frozenset({"created_at"})

    name: str
    body: dict[str, Any]
    learnt: dict[str, Any] | None = None
    """For a schema learnt from examples: the checks of each field, and its doubts."""
    created_at: datetime | None = None


# The record of the scrape pipeline: the fields of one page, once per task, each with its source.


class Result(Record):
    """One page as its extractor read it. Its key is the task's, because the same page may be requested twice."""

    kind: ClassVar[str] = "scrape_result"
    table: ClassVar[str] = "scrape_results"
    key_field: ClassVar[str] = "task_key"
    scope: ClassVar[Literal["world", "job"]] = "job"

    task_key: str
    target_type: str
    target_url: str
    page_url: str
    """URL after redirects."""
    workspace_id: str
    result: dict[str, Any]
    """All wanted fields; one that was not found is null."""
    provenance: dict[str, Any]
    """Source of each field that was found: page, location and confidence."""
    pages: list[str]
    """Every page that was read."""
    rendered: bool
    """True if a browser rendered it."""
    fetched_at: datetime
