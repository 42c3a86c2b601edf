"""A web search: its parameters, its tasks, its records, and how Serper's answer is read. Pure."""

from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from forager.core.errors import Permanent
from forager.core.http import Response
from forager.core.record import Record
from forager.core.states import ErrorType
from forager.core.table import TableRow
from forager.core.task import Task
from forager.extract.serper import LANE, facts

CREDIT = 1
"""Credits of a query of ten results if the answer does not contain them."""
A_PAGE = 10
MOST_PAGES = 10
MOST_READ = 10
LONGEST = 4_000
LONGEST_URL = 2_048
OLDEST = 366 * 24 * 3_600


def _words(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must not contain control characters; remove them")
    return text


class WebJob(BaseModel):
    """A query for Serper's web search, and how many of its results to read."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={"examples": [{"query": "oak table care", "read": 3, "max_credits": 5}]},
    )

    query: Annotated[
        str,
        StringConstraints(strip_whitespace=True, min_length=1, max_length=400),
        AfterValidator(_words),
        Field(description="What to search for; the operators of the search engine work.", examples=["oak table care"]),
    ]
    pages: int = Field(default=1, strict=True, ge=1, le=MOST_PAGES, description="Pages of 10 results; each is a query.")
    read: int = Field(
        default=0, strict=True, ge=0, le=MOST_READ, description="Read this number of the first results as Markdown."
    )
    country: Annotated[str, StringConstraints(pattern="^[a-z]{2}$")] | None = Field(
        default=None, description="Country of the search, two lower-case letters (default: us).", examples=["de"]
    )
    language: Annotated[str, StringConstraints(pattern="^[a-z]{2}$")] | None = Field(
        default=None, description="Language of the search, two lower-case letters (default: en).", examples=["de"]
    )
    max_age: int | None = Field(
        default=None,
        strict=True,
        ge=0,
        le=OLDEST,
        description="Read a stored page that is at most this old, in seconds, instead of requesting it.",
        examples=[3600],
    )
    max_tokens: int | None = Field(
        default=None, strict=True, ge=1, le=1_000_000, description="Cut the Markdown of a page at about this size."
    )
    max_credits: int | None = Field(
        default=None,
        strict=True,
        ge=0,
        le=1_000_000_000,
        description="Never spend more; the rest is skipped.",
    )
    search: Annotated[str, Field(pattern="^[0-9a-f]{32}$")] | None = Field(
        default=None, description="Set by Forager: the id of this search."
    )

    def target(self, url: str) -> dict[str, Any]:
        """Return the request by which a result is read."""
        markdown = {} if self.max_tokens is None else {"markdown": {"max_tokens": self.max_tokens}}
        age = {} if self.max_age is None else {"max_age": self.max_age}
        return {"target_url": url, "formats": ["markdown"], **markdown, **age}


class SearchWeb(Task):
    """One page of results."""

    kind: ClassVar[str] = "web.search"

    query: str
    page: int = 1
    country: str | None = None
    language: str | None = None
    search: str
    targets: dict[str, Any] | None = None
    """The job, if this page's results are to be read."""

    def key(self) -> str:
        return str(self.page)

    def lane(self) -> str:
        return LANE

    def body(self) -> dict[str, Any]:
        given = {"gl": self.country, "hl": self.language, "page": self.page if self.page > 1 else None}
        return {"q": self.query, **{name: value for name, value in given.items() if value is not None}}


READING_LANE = "web-reading"


class ReadHits(Task):
    """Hands the first results over to a scrape job."""

    kind: ClassVar[str] = "web.read"

    search: str
    targets: list[dict[str, Any]]

    def key(self) -> str:
        return self.search

    def lane(self) -> str:
        return READING_LANE


class WebResult(Record):
    """One result of a search."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "position": "001",
                    "query": "oak table care",
                    "title": "How to care for an oak table",
                    "url": "https://wood.example/care",
                    "snippet": "Oil it twice a year …",
                    "published": "14 Mar 2026",
                }
            ]
        }
    )

    kind: ClassVar[str] = "web_result"
    table: ClassVar[str] = "web_results"
    key_field: ClassVar[str] = "position"
    scope: ClassVar[Literal["world", "job"]] = "job"

    position: str
    """Rank in the search, from 001."""
    query: str
    title: str | None = None
    url: str
    snippet: str | None = None
    published: str | None = None
    """Date as the search engine shows it."""


class WebReading(TableRow):
    """The scrape job that reads the results of a search."""

    table: ClassVar[str] = "web_readings"
    key: ClassVar[tuple[str, ...]] = ("search",)
    stamped: ClassVar[frozenset[str]] = frozenset({"created_at"})

    search: str
    job: str
    created_at: datetime | None = None


# Serper's answer: `organic` has the results, `credits` the price.


def read_results(response: Response, task: SearchWeb) -> tuple[list[WebResult], int]:
    """Return the results of an answer and its price. Raises `Permanent`, with the body as evidence, if it is
    malformed. A result without a usable address is left out."""
    try:
        answer = orjson.loads(response.body)
        rows = answer.get("organic") or []
        rows = [row for row in rows if isinstance(row, dict)]
    except (ValueError, AttributeError, TypeError) as error:
        message = f"Serper answered with something that is no list of results ({type(error).__name__})."
        raise Permanent(
            message, evidence=response.evidence(), cost=CREDIT, facts=facts(response), error_type=ErrorType.PARSE
        ) from error
    found = [row for row in rows if usable(row.get("link"))]
    credits_ = answer.get("credits")
    cost = credits_ if type(credits_) is int and 0 <= credits_ < 10_000 else CREDIT
    first = (task.page - 1) * A_PAGE + 1
    results = [
        WebResult(
            position=f"{number:03d}",
            query=task.query,
            title=_text(row.get("title")),
            url=row["link"],
            snippet=_text(row.get("snippet")),
            published=_text(row.get("date")),
        )
        for number, row in enumerate(found[: 2 * A_PAGE], first)
    ]
    return results, cost


def usable(link: object) -> bool:
    """Return whether a result's address can be requested: only http(s), with a host, without a password."""
    if not isinstance(link, str) or len(link) > LONGEST_URL or not link.isprintable() or " " in link:
        return False
    try:
        parts = urlsplit(link)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        return False


def _text(value: object) -> str | None:
    words = " ".join(value.replace("\0", "").split())[:LONGEST] if isinstance(value, str) else ""
    return words or None
