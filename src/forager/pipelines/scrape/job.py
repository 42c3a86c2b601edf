"""The parameters of scrape jobs: pages, each with its type. Pure.

The shape is checked by these classes; whether an extractor of that name exists, and has those fields, by `check`.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self, TypeVar
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
from forager.core.hosts import checked_host
from forager.core.http import Render
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

S = TypeVar("S", bound=str)


def _each_once(names: tuple[S, ...]) -> tuple[S, ...]:
    return tuple(dict.fromkeys(names))


class Target(BaseModel):
    """One page, and the fields that are wanted."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    target_type: Name = Field(
        default=ANY_PAGE,
        description="What kind of page it is: job_posting, company_website, product, listing, linkedin_profile, what "
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
        description="Of a target of type page: only these, instead of requested_fields. A screenshot (PNG, base64) "
        "is made by a browser.",
        examples=[["markdown", "links"]],
    )
    workspace_id: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)] = Field(
        description="Workspace whose credentials are used if a page needs some.", examples=["acme"]
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

    @model_validator(mode="after")
    def _formats_are_fields_of_any_page(self) -> Self:
        if self.formats is not None and self.target_type != ANY_PAGE:
            raise ValueError(f"formats are for target_type {ANY_PAGE}; use requested_fields for {self.target_type}")
        if self.formats is not None and self.requested_fields is not None:
            raise ValueError("give formats or requested_fields, not both")
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
        target = self.model_dump(mode="json", exclude={"callback_url", "timeout_seconds"})
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
    unknown = [name for name in target.requested_fields or () if name not in extractor.fields]
    if unknown:
        few = ", ".join(name[:40] for name in unknown[:5])
        yield "requested_fields", f"{extractor.name} has no {few}; it has {', '.join(extractor.output.model_fields)}"
