"""The check of a watched page: fetch, read, compare with what was seen before."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forager.core.errors import ForagerError, Permanent, Transient, unknown_names_are_final
from forager.core.http import Fetch, Request, Response, Screenshot
from forager.core.outcome import Done, Drop, Outcome
from forager.core.pipeline import StepFunction
from forager.core.reading import parse
from forager.core.record import CLEAR, Clear
from forager.core.states import ErrorType, Reason
from forager.extract.html.document import is_binary
from forager.extract.schemas.spec import PageSchema
from forager.pipelines.watches.observe import (
    NOISY,
    Difference,
    Mode,
    Observation,
    compare_fields,
    compare_texts,
    gaps,
    learnt,
    observe,
)
from forager.pipelines.watches.pipeline import PAUSED, REMOVED, TIMEOUT, CheckPage
from forager.pipelines.watches.records import PageWatch, WatchedPage
from forager.sdk.queries import at, loads, one_row
from forager.sdk.service import Service

MOST_BYTES = 10 * 1024 * 1024
_STORED = (
    "SELECT text, fields, seen_text, noise, checks, screenshot, checked_at FROM watched_pages"
    " WHERE watch = :watch AND gone_at IS NULL"
)


def app_steps(service: Service) -> Mapping[str, StepFunction]:
    """Return the function of the step, by kind of task."""
    return {CheckPage.kind: WatchSteps(service).check}


@dataclass(frozen=True, slots=True)
class Before:
    """The page as it is stored."""

    text: str | None = None
    fields: dict[str, Any] | None = None
    seen: str | None = None
    noise: Mapping[str, int] | None = None
    checks: int = 0
    screenshot: str | None = None


class WatchSteps:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def check(self, task: CheckPage, fetch: Fetch) -> Outcome:
        """Check a page once. Only what differs beyond noise becomes a change."""
        watch = await one_row(self._service.database, PageWatch, name=task.watch)
        if watch is None:
            return Drop(REMOVED, f"The watch {task.watch!r} was removed.")
        if watch.paused:
            return Drop(PAUSED, f"The watch {task.watch!r} is paused.")
        rows = await self._service.database.fetch(_STORED, {"watch": watch.name})
        before = _before(rows[0]) if rows and _is_of(watch, rows[0]) else None
        with unknown_names_are_final():
            response = await fetch(_request(watch))
        _refuse_unless_page(response)
        schema = PageSchema.model_validate(watch.page_schema) if watch.page_schema else None
        kind = response.header("content-type")
        mode: Any = watch.mode
        seen = await parse(fetch, observe, response.body, kind, response.url, mode, watch.selector, schema)
        page = await self._page(watch, before, seen, response)
        facts = {"api_status": response.status, "api_ms": response.elapsed_ms, "rendered": int(response.rendered)}
        return Done(records=(page,), cost=1, facts=facts)

    async def _page(
        self, watch: PageWatch, before: Before | None, seen: Observation, response: Response
    ) -> WatchedPage:
        noise = _noise(watch, before, seen)
        difference = _difference(watch, before, seen, before.noise or {} if before else {})
        known: dict[str, Any] = {
            "watch": watch.name,
            "url": watch.url,
            "status": response.status,
            "every": watch.every,
            "checks": (before.checks if before else 0) + 1,
            "checked_at": response.at,
            "failed_at": CLEAR,
            "error": seen.missing or CLEAR,
            "noise": noise,
            "seen_text": seen.text or CLEAR,
        }
        if seen.missing and before is not None:  # an element that is not there for once is no change of its text
            known["seen_text"] = before.seen or CLEAR
            return WatchedPage(**known)
        if before is None or difference:
            summary: str | Clear = difference.summary or CLEAR
            if any(count == NOISY for count in noise.values()):
                summary = f"{difference.summary} (this part differs at every check and is ignored from now on)"
            known |= {
                "title": seen.title,
                "text": seen.text or CLEAR,
                "fields": seen.fields if seen.fields is not None else CLEAR,
                "sources": seen.sources if seen.sources is not None else CLEAR,
                "summary": summary,
                "difference": difference.as_json() or CLEAR,
            }
            if response.screenshot is not None:
                picture = await self._service.keep_file(watch.url, "image/png", response.screenshot)
                known |= {"screenshot": picture, "screenshot_before": (before and before.screenshot) or CLEAR}
        return WatchedPage(**known)


def _request(watch: PageWatch) -> Request:
    script = (Screenshot(full_page=True),) if watch.screenshots else ()
    render: Any = watch.render
    return Request(watch.url, timeout=TIMEOUT, max_bytes=MOST_BYTES, render=render, script=script)


def _is_of(watch: PageWatch, row: Mapping[str, Any]) -> bool:
    """Return whether a stored page was seen by this watch, and not by a removed one that had its name."""
    return watch.leftover_at is None or at(row["checked_at"]) != watch.leftover_at


def _before(row: Mapping[str, Any]) -> Before:
    return Before(
        text=row["text"],
        fields=loads(row["fields"]),
        seen=row["seen_text"],
        noise=loads(row["noise"]),
        checks=row["checks"] or 0,
        screenshot=row["screenshot"],
    )


def _noise(watch: PageWatch, before: Before | None, seen: Observation) -> dict[str, int]:
    """Return the noise of the page after this check. Only whole pages have noise: a part was chosen on purpose."""
    mode: Mode = "text"
    if watch.mode != mode or before is None or before.seen is None or seen.text is None:
        return dict(before.noise or {}) if before else {}
    return learnt(before.noise or {}, [place for place, _, _ in gaps(before.seen, seen.text, watch.ignored)])


def _difference(watch: PageWatch, before: Before | None, seen: Observation, noise: Mapping[str, int]) -> Difference:
    if before is None:
        return Difference()
    if seen.fields is not None:
        return compare_fields(before.fields or {}, seen.fields)
    return compare_texts(before.text or "", seen.text or "", watch.ignored, noise)


def _refuse_unless_page(response: Response) -> None:
    """Raise unless the answer is a page: `Transient` if it may pass, else `Permanent` with the answer."""
    status = response.status
    kind = response.header("content-type")
    if status >= 500:
        raise Transient(f"The site failed ({status}).", reason=Reason.SERVER_ERROR, error_type=ErrorType.HTTP)
    error: ForagerError | None = None
    if response.looks in ("block", "challenge"):
        message = f"The site blocked the request as a bot ({status}). Slow the lane down, or use other proxies."
        error = Permanent(message, evidence=response.evidence(), reason=Reason.BLOCKED, error_type=ErrorType.BLOCKED)
    elif status in (404, 410):
        error = Permanent(f"The page is gone ({status}).", reason="not_found", error_type=ErrorType.HTTP)
    elif status >= 300:
        message = f"The site refused the page ({status})."
        error = Permanent(message, evidence=response.evidence(), reason="refused", error_type=ErrorType.HTTP)
    elif is_binary(response.body, (kind or "").lower()):
        error = Permanent("The address has a file, not a page.", reason="not_a_page", error_type=ErrorType.PARSE)
    if error is not None:
        raise error
