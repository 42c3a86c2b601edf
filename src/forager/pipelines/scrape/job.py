"""The parameters of scrape jobs: pages, each with its type. Pure.

The shape is checked by these classes; whether an extractor of that name exists, and has those fields, by `check`.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    StrictBool,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)

from forager.core.errors import FieldError, Rejected
from forager.core.hosts import checked_host, host_of
from forager.core.http import Render
from forager.core.pipeline import JobLimits, Parts
from forager.core.record import Index, Record
from forager.core.table import TableRow
from forager.core.task import Plan, Task
from forager.extract.html.markdown import MarkdownOptions
from forager.extract.schemas.spec import PageSchema
from forager.pipelines.scrape.extractor import SCREENSHOT, Extractor
from forager.pipelines.scrape.page_actions import (
    CAPTURED,
    MOST_ACTIONS,
    PDF,
    CaptureOptions,
    EvaluateAction,
    PageAction,
    PageDepth,
    ScreenshotOptions,
    checked_actions,
    not_empty,
)

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
SessionName = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


Format = Literal["markdown", "html", "text", "screenshot", "links", "pdf", "captured"]
OF_BROWSER = frozenset({SCREENSHOT, PDF, CAPTURED})
"""Fields that only a browser can fill."""
OLDEST = 366 * 24 * 3_600
"""Longest `max_age` in seconds."""
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
        description="Target of type page: only these parts, instead of requested_fields. A browser makes a screenshot "
        "(PNG, base64), a pdf (base64), and `captured`: the JSON that the page's scripts fetched.",
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

    max_age: int | None = Field(
        default=None,
        strict=True,
        ge=0,
        le=OLDEST,
        description="Answer from a stored page that is at most this old, in seconds, without a request; `meta.stored` "
        "is then true. Otherwise the page is fetched, and stored for the next time. 0: fetch and store it.",
        examples=[3600],
    )
    actions: Annotated[tuple[PageAction, ...], Field(max_length=MOST_ACTIONS), AfterValidator(not_empty)] | None = (
        Field(
            default=None,
            description="Actions of a browser on the page before it is read, in this order.",
            examples=[
                [
                    {"do": "type", "selector": "#q", "text": "oak table"},
                    {"do": "press", "key": "Enter"},
                    {"do": "wait_for", "selector": ".results"},
                ]
            ],
        )
    )
    screenshot: ScreenshotOptions | None = Field(
        default=None,
        description="With screenshot among the formats: what it shows.",
        examples=[{"full_page": True}],
    )
    capture: CaptureOptions | None = Field(
        default=None,
        description="With captured among the formats: which JSON of the page's scripts.",
        examples=[{"match": "/api/"}],
    )
    session: SessionName | None = Field(
        default=None,
        description="Visit the page with a browser in the session of this name: it has the cookies and the storage of "
        "the visit before, and those that it ends with are kept for the next one, sealed.",
        examples=["shop"],
    )
    _stored: dict[str, str] | None = PrivateAttr(default=None)
    """The `blob:` URLs of stored pages that answer this target, by address. Filled in when the job is created."""

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
        return self

    @model_validator(mode="after")
    def _browser_where_it_is_needed(self) -> Self:
        wanted = frozenset(self.wanted or ())
        for name, needs in (("screenshot", SCREENSHOT), ("capture", CAPTURED)):
            if getattr(self, name) is not None and needs not in wanted:
                raise ValueError(f"{name} has options only where it is returned; add {needs} to formats")
        if self.render == "http" and (only := sorted(wanted & OF_BROWSER)):
            a = "a " if only[0] != CAPTURED else ""
            raise ValueError(f"{a}{only[0]} is made by a browser; set render to browser or auto")
        if self.actions is not None:
            if self.render == "http":
                raise ValueError("actions are done by a browser; set render to browser or auto")
            checked_actions(self.actions)
        if self.session is not None and self.render == "http":
            raise ValueError("a session is one of a browser; set render to browser or auto")
        if self.session is not None and self.max_age is not None:
            raise ValueError("a page of a session is always fetched and never stored; leave out max_age")
        return self

    @property
    def depth(self) -> PageDepth | None:
        """Return what a browser has to do and to take; None if nothing was requested."""
        if self.actions is None and self.screenshot is None and self.capture is None:
            return None
        return PageDepth(actions=self.actions or (), screenshot=self.screenshot, capture=self.capture)

    @property
    def may_be_stored(self) -> bool:
        """Return whether a stored page can answer: not where something is done on the page, or taken of a browser."""
        return self.max_age is not None and self.actions is None and not (frozenset(self.wanted or ()) & OF_BROWSER)

    def stored_as(self, pages: Mapping[str, str]) -> Self:
        """Return a copy that is answered by these stored pages."""
        copy = self.model_copy()
        copy._stored = dict(pages)  # noqa: SLF001 - a copy of this class
        return copy

    @property
    def stored(self) -> dict[str, str] | None:
        return self._stored

    @property
    def wanted(self) -> tuple[str, ...] | None:
        """The fields to return; None means the target type's default."""
        return self.formats or self.requested_fields


MaxUsd = Annotated[
    Decimal,
    Field(
        ge=0,
        le=1_000_000,
        max_digits=13,
        decimal_places=6,
        description="Never spend more than this on described fields, in USD. A page that it does not pay for fails "
        "with the reason budget.",
        examples=["0.50"],
    ),
]


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

    max_usd: MaxUsd | None = None

    def job(self) -> dict[str, Any]:
        """Return the parameters of a job with this page alone."""
        target = self.model_dump(mode="json", by_alias=True, exclude={"callback_url", "timeout_seconds", "max_usd"})
        return {"targets": [target], "callback_url": self.callback_url, "max_usd": self.max_usd, "single": True}


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
    max_usd: MaxUsd | None = None
    single: StrictBool = Field(
        default=False, description="One page that a caller waits for: it has priority over batches."
    )

    @model_validator(mode="after")
    def _single_is_one(self) -> Self:
        if self.single and len(self.targets) != 1:
            raise ValueError("`single` is for one target; leave it out")
        return self


NO_SCRIPTS = "scripts of callers are not allowed here; an operator can set FORAGER_SCRAPE_EVALUATE=true"


def check(
    job: ScrapeJob, extractors: Mapping[str, Extractor], no_model: str | None = None, *, scripts: bool = False
) -> None:
    """Raise `Rejected`, naming the targets, if there is no extractor for a target's type or fields. `no_model`: why no
    language model for described fields is configured. `scripts`: whether a caller may run JavaScript in a page."""
    wrong = [
        FieldError(f"targets.{number}.{field}", message)
        for number, target in enumerate(job.targets)
        for field, message in (*_wrong(target, extractors, no_model), *(() if scripts else _wrong_scripts(target)))
    ]
    if wrong:
        raise Rejected("The scrape job is not valid.", fields=wrong)


def _wrong(target: Target, extractors: Mapping[str, Extractor], no_model: str | None) -> Iterator[tuple[str, str]]:
    extractor = extractors.get(target.target_type)
    if extractor is None:
        yield "target_type", f"unknown target type {target.target_type!r}; choose from {', '.join(sorted(extractors))}"
        return
    if isinstance(target.page_schema, PageSchema) and target.page_schema.base not in (None, *extractors):
        yield "schema.base", f"unknown kind {target.page_schema.base!r}; choose from {', '.join(sorted(extractors))}"
    if isinstance(target.page_schema, PageSchema) and (described := target.page_schema.described):
        yield from _wrong_described(f"schema.fields.{next(iter(described))}.describe", target, extractors, no_model)
    unknown = [name for name in target.requested_fields or () if name not in extractor.fields]
    if unknown:
        few = ", ".join(name[:40] for name in unknown[:5])
        yield "requested_fields", f"{extractor.name} has no {few}; it has {', '.join(extractor.output.model_fields)}"


def _wrong_scripts(target: Target) -> Iterator[tuple[str, str]]:
    for number, action in enumerate(target.actions or ()):
        if isinstance(action, EvaluateAction):
            yield f"actions.{number}.do", NO_SCRIPTS


def _wrong_described(
    field: str, target: Target, extractors: Mapping[str, Extractor], no_model: str | None
) -> Iterator[tuple[str, str]]:
    if no_model:
        yield field, no_model
    base = target.page_schema.base if isinstance(target.page_schema, PageSchema) else None
    if target.session is not None:
        yield field, "pages of a session are not sent to a model; give it a selector, or leave out the session"
    if base is not None and base in extractors and extractors[base].credentials:
        yield field, f"pages of {base} are requested with a login, and are not sent to a model; give it a selector"


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


# The tasks of scrape: one page of a job, and the described fields of a page that has been read.


class ScrapeTask(Task):
    """Identified by its position in the job, so that the same page twice is two tasks."""

    kind: ClassVar[str] = "scrape.page"
    blobs: ClassVar[tuple[str, ...]] = ("stored",)

    number: int
    target_type: str
    target_url: str
    requested_fields: tuple[str, ...] | None = None
    workspace_id: str
    render: Render = "auto"
    min_confidence: float | None = None
    page_schema: dict[str, Any] | None = None
    markdown: MarkdownOptions | None = None
    depth: PageDepth | None = None
    session: str | None = None
    keep: bool = False
    """Store the pages that are read, so that they can answer a later request."""
    stored: dict[str, str] | None = None
    """`blob:` URLs of stored pages by address: these pages are not requested again."""
    digits: int = 3
    """Digits of the key. All keys of a job have the same number, so that they sort in the order of the request."""

    def key(self) -> str:
        return f"{self.number:0{self.digits}d}"

    def lane(self) -> str:
        """Return the site's lane. A page that is stored needs none, so it does not wait for the site's turn."""
        return STORED_LANE if self.stored else host_of(self.target_url)


STORED_LANE = "stored-pages"
"""The lane of tasks that a stored page answers. If that page is lost, its site's own lane has to admit the request."""
LLM_LANE = "llm"


class DescribeTask(ScrapeTask):
    """A stored page of which some described fields were not found by other ways. Its key is that of the page's first
    task."""

    kind: ClassVar[str] = "scrape.described"
    blobs: ClassVar[tuple[str, ...]] = ("page", "stored")

    page: str
    """The `blob:` URL of the page."""
    rendered: bool
    fetched_at: datetime
    from_store: bool = False

    def lane(self) -> str:
        return LLM_LANE


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
    max_usd: MaxUsd | None = None


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
            depth=target.depth,
            session=target.session,
            keep=target.max_age is not None and target.actions is None,
            stored=target.stored,
            digits=digits,
        )
        yield Plan(task, rank=number)


def plan_part(part: ScrapeJob, first: int) -> Iterator[Plan]:
    return plan_targets(part.targets, first, DIGITS)


def micro_usd(amount: Decimal | None) -> int | None:
    """Return an amount in millionths of a dollar, the unit of the lane of described fields."""
    return None if amount is None else int(amount * 1_000_000)


PARTS = Parts(
    ScrapeJobInParts, plan_part, lambda job: JobLimits(turn=1 + MOST_TARGETS, max_cost=micro_usd(job.max_usd))
)
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


class DescribedAnswer(TableRow):
    """The checked answer of a language model for a page and a question, so that the same page is not paid for twice."""

    table: ClassVar[str] = "described_answers"
    key: ClassVar[tuple[str, ...]] = ("page_hash", "question_hash")
    indexes: ClassVar[tuple[Index, ...]] = (Index(("created_at",)),)
    stamped: ClassVar[frozenset[str]] = frozenset({"created_at"})

    page_hash: str
    """SHA-256 of the reduced page."""
    question_hash: str
    """SHA-256 of the described fields and the model."""
    found: dict[str, Any]
    """Value and quote of each field that was found: {"price": [1299.5, "1.299,50"]}."""
    model: str
    tokens_in: int
    tokens_out: int
    cost: int
    """In millionths of a dollar."""
    created_at: datetime | None = None


# The record of the scrape pipeline: the fields of one page, once per task, each with its source.


class Result(Record):
    """One page as its extractor read it. Its key is the task's, because the same page may be requested twice."""

    kind: ClassVar[str] = "scrape_result"
    table: ClassVar[str] = "scrape_results"
    key_field: ClassVar[str] = "task_key"
    scope: ClassVar[Literal["world", "job"]] = "job"
    indexes: ClassVar[tuple[Index, ...]] = (Index(("target_url", "fetched_at"), where="stored_pages IS NOT NULL"),)
    blobs: ClassVar[tuple[str, ...]] = ("stored_pages",)

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
    from_store: bool | None = None
    """True if stored pages answered it, without a request. `fetched_at` is then the time of that fetch."""
    stored_pages: dict[str, str] | None = None
    """`blob:` URLs of the pages that were read, by the address of their request, if they were stored."""
