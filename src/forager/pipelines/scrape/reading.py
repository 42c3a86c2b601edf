"""What has been read of a target so far: its page, and further pages for missing fields. Pure."""

from base64 import b64encode
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from forager.core.http import Response
from forager.extract.document import decoded
from forager.extract.normalise import normalise
from forager.extract.page_kind import PageKind
from forager.pipelines.scrape.extractor import SCREENSHOT, Extracted, Extractor, Found, Page, Parse
from forager.pipelines.scrape.records import Result
from forager.pipelines.scrape.target import Scrape


class Reading:
    def __init__(
        self, extractor: Extractor, requested: tuple[str, ...] | None, min_confidence: float | None = None
    ) -> None:
        self._extractor = extractor
        self._least = min_confidence or 0.0
        self._names = tuple(requested or extractor.by_default or extractor.output.model_fields)
        self.found: dict[str, tuple[Found, str]] = {}
        """The finding and its page, by field."""
        self.wall: str | None = None
        self.kind: PageKind = "item"
        """What the first page is."""
        self.more: tuple[str, ...] = ()
        self.pages: list[str] = []
        self.rendered = False
        self._status = 0
        self._ms = 0
        self._at: datetime | None = None

    @property
    def missing(self) -> frozenset[str]:
        return frozenset(self._names) - self.found.keys()

    def question(self, response: Response) -> tuple[Parse, bytes, str | None, str, int, datetime, frozenset[str]]:
        """Return the arguments of `read_page` for the fields that are still missing."""
        kind = response.headers.get("Content-Type")
        told = response.body, kind and str(kind), response.url, response.status, response.at
        return (self._extractor.parse, *told, self.missing)

    def add(self, response: Response, extracted: Extracted) -> None:
        """Add the findings of a page. The first page decides whether there is a login wall, and which pages to read
        next."""
        if not self.pages:
            self.wall, self.kind, self.more = extracted.wall, extracted.kind, extracted.more
            self._status, self._at = response.status, response.at
        self.pages.append(response.url)
        self.rendered = self.rendered or response.rendered
        self._ms += response.elapsed_ms
        if extracted.wall is None:
            for name in self.missing & extracted.fields.keys():
                if extracted.fields[name].confidence >= self._least:
                    self.found[name] = extracted.fields[name], response.url
        if SCREENSHOT in self._names and response.screenshot:
            picture = Found(b64encode(response.screenshot).decode(), "browser", 1.0)
            self.found.setdefault(SCREENSHOT, (picture, response.url))

    def result(self, task: Scrape) -> Result:
        raw = {name: finding.value for name, (finding, _) in self.found.items()}
        clean = normalise(self._extractor.output, raw).result.model_dump(mode="json")
        known = {name: _as_answered(clean.get(name), self.pages[0]) for name in self._names}
        assert self._at is not None  # noqa: S101 - there is no result without a page
        return Result(
            task_key=task.key(),
            target_type=task.target_type,
            target_url=task.target_url,
            page_url=self.pages[0],
            workspace_id=task.workspace_id,
            result=known,
            provenance={name: _told(*self.found[name]) for name in self._names if known[name] is not None},
            pages=self.pages,
            rendered=self.rendered,
            fetched_at=self._at,
        )

    def facts(self) -> dict[str, int]:
        return {
            "api_status": self._status,
            "api_ms": self._ms,
            "results_count": len(self.found),
            "pages": len(self.pages),
            "rendered": int(self.rendered),
        }


def read_page(
    parse: Parse, body: bytes, kind: str | None, url: str, status: int, at: datetime, wanted: frozenset[str]
) -> Extracted:
    """Read one page. Everything needed is an argument, because a big page is read in another process."""
    return parse(Page(url, decoded(body, kind), status, at), wanted)


def _as_answered(value: Any, page_url: str) -> Any:
    """Keep the scheme of a site that was read by plain http: the same URL with https might not exist."""
    if isinstance(value, str) and value.startswith("https://") and page_url.startswith("http://"):
        host, answered = (urlsplit(url).netloc for url in (value, page_url))
        if host == answered.lower().removesuffix(":80"):
            return "http://" + value.removeprefix("https://")
    return value


def _told(finding: Found, url: str) -> dict[str, Any]:
    told: dict[str, Any] = {"source": finding.source, "confidence": round(finding.confidence, 3), "page": url}
    if finding.also:
        told["also"] = [{"value": value, "source": source} for value, source in finding.also]
    return told
