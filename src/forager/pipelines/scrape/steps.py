"""The step of the scrape pipeline: the order of I/O for one page, and the outcome of each kind of answer. Extractors
read the page.

Nothing is retried, waited for or counted here: the engine acts on the outcome or the error.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from forager.core.errors import (
    CircuitOpen,
    Disallowed,
    NameUnknown,
    ParseFailed,
    Permanent,
    RateLimited,
    TimedOut,
    Transient,
)
from forager.core.hosts import host_of
from forager.core.http import Fetch, LoginRef, Render, Request, Response
from forager.core.offload import parse
from forager.core.outcome import Done, Outcome
from forager.core.reasons import ErrorType, Reason
from forager.core.visit import Screenshot
from forager.extract.document import is_binary
from forager.pipelines.scrape import words
from forager.pipelines.scrape.extractor import MOST_MORE, SCREENSHOT, Extractor
from forager.pipelines.scrape.reading import Reading, read_page
from forager.pipelines.scrape.target import Scrape

MOST_BYTES = 10 * 1024 * 1024
"""Maximum size of a page."""
TEXTUAL = ("html", "xml", "text/plain", "json")


@dataclass(frozen=True, slots=True)
class Scraper:
    """The extractors, and the time limit of a page. Its method `scrape` is the step."""

    extractors: Mapping[str, Extractor] = field(default_factory=dict)
    navigation: float = 30.0
    timeout: float = 60.0
    logins: bool = False
    """Whether a credential backend is configured."""
    keep_logged_in: bool = False
    """Whether a failed page that was requested with a login is kept as evidence."""

    async def scrape(self, task: Scrape, fetch: Fetch) -> Outcome:
        extractor = self._extractor(task)
        login = LoginRef(task.workspace_id, extractor.credentials) if self.logins and extractor.credentials else None
        visit = _Visit(task, extractor, fetch, login, min(self.navigation, self.timeout), self.timeout)
        async with final_failures(kept=login is None or self.keep_logged_in):
            reading = await visit.first()
            await visit.further(reading)
        return Done(records=(reading.result(task),), cost=0, facts=reading.facts())

    def _extractor(self, task: Scrape) -> Extractor:
        extractor = self.extractors.get(task.target_type)
        if extractor is None:
            raise Permanent(
                f"There is no extractor {task.target_type!r} any more. Install the package that has it, then retry."
            )
        return extractor


@dataclass(slots=True)
class _Visit:
    """One task in progress: the page, and the few further pages that its extractor requests."""

    task: Scrape
    extractor: Extractor
    fetch: Fetch
    login: LoginRef | None
    navigation: float
    left: float
    """Remaining seconds of the task's time limit. Waiting for a lane does not count."""

    @property
    def wants_picture(self) -> bool:
        return SCREENSHOT in (self.task.requested_fields or ())

    async def first(self) -> Reading:
        response = await self._page(self.task.target_url, "browser" if self.wants_picture else self.task.render)
        reading = await self._read(response)
        settled = bool(reading.found) or reading.kind in ("list", "form", "error")
        if not settled and not response.rendered and self.task.render == "auto":
            # It looked like a page but has none of the wanted fields: scripts may add them.
            try:
                response = await self._page(self.task.target_url, "browser")
                reading = await self._read(response)
            except Permanent as error:
                if isinstance(error, CircuitOpen):
                    raise
        if reading.kind != "item":
            reason, message = words.INSTEAD[reading.kind]
            raise _not_had(reason, f"{_where(response)} {message}", response)
        return reading

    async def further(self, reading: Reading) -> None:
        """Read contact and about pages, within a small budget. Fields that they lack stay null."""
        site = host_of(reading.pages[0])
        render: Render = "browser" if reading.rendered else "http"
        for url in reading.more[:MOST_MORE]:
            if not reading.missing or self.left <= 1.0:
                return
            if host_of(url) != site:
                continue
            try:
                response = await self._page(url, render)
            except RateLimited:
                raise
            except (Disallowed, Permanent, Transient):
                continue
            await self._add(reading, response)

    async def _page(self, url: str, render: Render) -> Response:
        script = () if render == "http" else (*self.extractor.script, Screenshot(if_wrong=not self.wants_picture))
        timeout = max(1.0, min(self.navigation, self.left))
        request = Request(
            url,
            timeout=timeout,
            max_bytes=MOST_BYTES,
            render=render,
            script=script,
            login=self.login,
            enough=self._has_everything if render == "auto" else None,
        )
        response = await self.fetch(request)
        self.left -= response.elapsed_ms / 1000
        refuse_unless_page(response)
        return response

    async def _has_everything(self, response: Response) -> bool:
        """Return whether a page that shows nothing has every wanted field in its data."""
        if response.status >= 300 or is_binary(response.body):
            return False
        reading = Reading(self.extractor, self.task.requested_fields, self.task.min_confidence)
        try:
            await self._add(reading, response)
        except ParseFailed:
            return False
        return reading.wall is None and reading.kind == "item" and not reading.missing

    async def _add(self, reading: Reading, response: Response) -> None:
        """Read a page where it belongs: a big one in another process."""
        try:
            extracted = await parse(self.fetch, len(response.body), read_page, *reading.question(response))
        except ParseFailed as error:
            raise ParseFailed(
                error.message, reason=error.reason, evidence=response.evidence(), facts=_told(response)
            ).at(_where(response)) from error
        reading.add(response, extracted)

    async def _read(self, response: Response) -> Reading:
        reading = Reading(self.extractor, self.task.requested_fields, self.task.min_confidence)
        await self._add(reading, response)
        if reading.wall is not None:
            # A page that was requested with a login may repeat it, so nothing of the page is quoted.
            detail = f": {reading.wall}" if self.login is None else ", and the one that it was given does not do."
            message = f"{_where(response)} wants a log-in{detail}"
            raise _not_had(words.LOGIN_WALL, message, response)
        return reading


def refuse_unless_page(response: Response) -> None:
    """Raise for any answer that is not a page: `Transient` if it may pass, else `Permanent`."""
    status, where = response.status, _where(response)
    if status >= 500:
        failed = f"{where} failed ({status})."
        raise Transient(failed, facts=_told(response), reason=Reason.SERVER_ERROR, error_type=ErrorType.HTTP)
    reason, message = _refusal(response, status, where)
    if reason:
        raise _not_had(reason, message, response)


def _not_had(reason: str, message: str, response: Response) -> Permanent:
    evidence, facts = response.evidence(), _told(response)
    return Permanent(message, evidence=evidence, facts=facts, reason=reason, error_type=words.TYPES[reason])


def _refusal(response: Response, status: int, where: str) -> tuple[str, str]:
    kind = next((v for k, v in response.headers.items() if k.lower() == "content-type"), "").lower()
    if response.looks in ("block", "challenge"):
        return words.BLOCKED, f"{where} takes us for a robot ({status}). Slow the lane down, or use other proxies."
    if status in (404, 410):
        return words.NOT_FOUND, f"{where} has no such page ({status})."
    if status == 401:
        return words.LOGIN_WALL, f"{where} wants a log-in ({status})."
    if status >= 300:
        return words.REFUSED, f"{where} refused the page ({status})."
    if is_binary(response.body, kind):
        return words.NOT_A_PAGE, f"{where} sent binary data, which is not a web page. Give the URL of one."
    if kind and not any(known in kind for known in TEXTUAL):
        return words.NOT_A_PAGE, f"{where} sent {kind.partition(';')[0]}, which is not a web page. Give the URL of one."
    return "", ""


@asynccontextmanager
async def final_failures(*, kept: bool) -> AsyncIterator[None]:
    """Turn errors that the engine would handle otherwise into final failures. `kept`: whether the page may be kept as
    evidence."""
    try:
        yield
    except Disallowed as error:  # the caller did not get this page: that is a failure, not a skip
        raise Permanent(error.message, reason=error.reason, error_type=error.error_type) from error
    except NameUnknown as error:  # a caller waits, and the name will not exist a few seconds later
        message = f"{error.message} Check the URL, and the name servers of this machine."
        raise Permanent(message, facts=error.facts, reason=error.reason, error_type=error.error_type) from error
    except TimedOut as error:
        # The page had its full time limit; another attempt would only occupy a browser for as long again.
        message, reason = error.message, error.reason
        raise Permanent(message, facts=error.facts, reason=reason, error_type=error.error_type) from error
    except Permanent as error:
        if not kept:
            error.evidence = None
        raise


def _where(response: Response) -> str:
    """Return the page's URL without its query, which may contain secrets."""
    parts = urlsplit(response.url)
    return f"{parts.hostname or 'The site'}{parts.path}"[:200]


def _told(response: Response) -> dict[str, int]:
    return {"api_status": response.status, "api_ms": response.elapsed_ms, "rendered": int(response.rendered)}
