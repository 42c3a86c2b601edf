"""Parameters of a job: a site to crawl or to map, within a scope and a budget. Pure."""

from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)

from forager.core.hosts import host_of
from forager.core.http import Render
from forager.core.pipeline import JobLimits
from forager.core.recheck import Interval
from forager.extract.html.markdown import MarkdownOptions
from forager.extract.schemas.spec import PageSchema
from forager.extract.text.urls import canonical_url
from forager.pipelines.sites.addresses import Scope

LONGEST_URL = 2_048
LONGEST_PATTERN = 200
MOST_PATTERNS = 50
MOST_PAGES = 1_000_000
MOST_DEPTH = 100
MOST_BYTES = 1 << 40
MOST_MINUTES = 60 * 24 * 30
USUAL_LIMIT, USUAL_MAP_LIMIT = 1_000, 30
USUAL_DEPTH = 20

PageUrl = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_URL),
    AfterValidator(canonical_url),
    WithJsonSchema({"type": "string", "format": "uri", "maxLength": LONGEST_URL, "pattern": "^https?://"}),
]


def _glob(text: str) -> str:
    """Check a pattern of paths: it begins with a slash or a star, so that a full URL is not taken for one."""
    if not text.startswith(("/", "*")):
        raise ValueError("should be a pattern of paths that begins with / or *, as /docs/*")
    if not text.isprintable() or " " in text:
        raise ValueError("should have no blanks and no control characters")
    return text


PathPattern = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_PATTERN),
    AfterValidator(_glob),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": LONGEST_PATTERN, "pattern": "^[/*]"}),
]


class SiteJob(BaseModel):
    """A site to crawl or to map."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"url": "https://docs.example/", "limit": 500, "include": ["/guide/*"], "form": "markdown"},
                {"url": "https://docs.example/", "mode": "map"},
            ]
        },
    )

    url: PageUrl = Field(description="First URL of the crawl.", examples=["https://docs.example/"])
    mode: Literal["crawl", "map"] = Field(
        default="crawl", description="crawl: fetch the pages and keep their content. map: only find their addresses."
    )
    depth: int = Field(default=USUAL_DEPTH, ge=0, le=MOST_DEPTH, description="Depth in links from the first page.")
    limit: int | None = Field(
        default=None,
        ge=1,
        le=MOST_PAGES,
        description=f"Fetch at most this number of pages (default {USUAL_LIMIT:,}; for a map {USUAL_MAP_LIMIT}).",
    )
    include: tuple[PathPattern, ...] = Field(
        default=(), max_length=MOST_PATTERNS, description="Visit only paths that match one of these, as `/docs/*`."
    )
    exclude: tuple[PathPattern, ...] = Field(
        default=(), max_length=MOST_PATTERNS, description="Do not visit paths that match one of these."
    )
    subdomains: bool = Field(default=False, description="Visit the other hosts of the same domain as well.")
    sitemap: bool = Field(default=True, description="Read the sitemaps that robots.txt names, or /sitemap.xml.")
    traps: bool = Field(
        default=True,
        description="Avoid traps: do not follow the links of near-duplicates, and leave patterns that lead nowhere.",
    )
    form: Literal["markdown", "text", "html", "fields"] = Field(
        default="markdown",
        description="Stored content of a page: its main text as Markdown or text, its HTML, or fields.",
    )
    markdown: MarkdownOptions | None = Field(
        default=None, description="For the form `markdown`: how it is written.", examples=[{"links": "references"}]
    )
    fields: str | PageSchema | None = Field(
        default=None,
        description="For the form `fields`: the name of a stored schema, or a schema.",
        examples=["recipes"],
    )
    render: Render = Field(
        default="http", description="http, browser, or auto: a browser only for pages that need one."
    )
    frequency: Interval | None = Field(
        default=None,
        description="Visit each page again after about this time, sooner if it changes often: seconds, or `1d`. Without"
        " it, pages are visited once.",
        examples=["1d"],
    )
    max_bytes: int | None = Field(
        default=None, ge=1, le=MOST_BYTES, description="Begin no page once this number of bytes was received."
    )
    max_minutes: float | None = Field(
        default=None, gt=0, le=MOST_MINUTES, description="Begin no page after this number of minutes."
    )
    crawl: str | None = Field(default=None, max_length=40, description="Filled in: the id of this crawl.")

    @model_validator(mode="after")
    def _fields_go_together(self) -> Self:
        if (self.form == "fields") != (self.fields is not None):
            raise ValueError("give a schema in `fields` for pages as fields, and none for any other form")
        if isinstance(self.fields, PageSchema) and self.fields.base is not None:
            raise ValueError("a crawl of a site has no `base`; use scrape for built-in kinds")
        if isinstance(self.fields, PageSchema) and self.fields.described:
            named = next(iter(self.fields.described))
            raise ValueError(f"{named}: a crawl of a site has no described fields; use scrape, or give it a selector")
        if self.markdown is not None and self.form != "markdown":
            raise ValueError("`markdown` is for the form `markdown`; leave it out, or change the form")
        if self.mode == "map" and self.frequency is not None:
            raise ValueError("a map has no `frequency`; schedule it, or crawl the site")
        return self

    @property
    def most(self) -> int:
        """Return how many pages may be fetched."""
        return self.limit or (USUAL_LIMIT if self.mode == "crawl" else USUAL_MAP_LIMIT)

    @property
    def site(self) -> str:
        return host_of(self.url)

    @property
    def schema_of_pages(self) -> PageSchema | None:
        """Return the schema of a crawl for fields. A name has been replaced by its schema when the job was created."""
        return self.fields if isinstance(self.fields, PageSchema) else None

    def scope(self) -> Scope:
        return Scope(self.site, self.subdomains, self.include, self.exclude)


def limits(job: SiteJob) -> JobLimits:
    """One page costs one unit of the budget."""
    return JobLimits(max_cost=job.most)
