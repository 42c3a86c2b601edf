"""What has been read of a target so far: its page, and further ones that fill what is missing. Pure.

Of a long page it runs in a thread.
"""

from datetime import datetime
from typing import Any

from forager.core.http import Response
from forager.extract.document import decoded
from forager.extract.normalise import normalise
from forager.pipelines.scrape.extractor import Extractor, Found, Page
from forager.pipelines.scrape.records import Result
from forager.pipelines.scrape.target import Scrape


class Reading:
    def __init__(self, extractor: Extractor, requested: tuple[str, ...] | None) -> None:
        self._extractor = extractor
        self._names = tuple(requested or extractor.output.model_fields)
        self.found: dict[str, tuple[Found, str]] = {}
        """By field: what was found, and on which page."""
        self.wall: str | None = None
        self.more: tuple[str, ...] = ()
        self.pages: list[str] = []
        self.rendered = False
        self._status = 0
        self._ms = 0
        self._at: datetime | None = None

    @property
    def missing(self) -> frozenset[str]:
        return frozenset(self._names) - self.found.keys()

    def add(self, response: Response) -> None:
        """Look for what is still missing. The first page decides whether there is a wall and what to look at next."""
        html = decoded(response.body, response.headers.get("Content-Type"))
        page = Page(response.url, html, response.status, response.at)
        extracted = self._extractor.parse(page, self.missing)
        if not self.pages:
            self.wall, self.more = extracted.wall, extracted.more
            self._status, self._at = response.status, response.at
        self.pages.append(response.url)
        self.rendered = self.rendered or response.rendered
        self._ms += response.elapsed_ms
        if extracted.wall is None:
            for name in self.missing & extracted.fields.keys():
                self.found[name] = extracted.fields[name], response.url

    def result(self, task: Scrape) -> Result:
        raw = {name: found.value for name, (found, _) in self.found.items()}
        clean = normalise(self._extractor.output, raw).result.model_dump(mode="json")
        known = {name: clean.get(name) for name in self._names}
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


def _told(found: Found, url: str) -> dict[str, Any]:
    return {"source": found.source, "confidence": round(found.confidence, 3), "page": url}
