"""The step of the scrape pipeline: the order of I/O for one page, and the outcome of each kind of answer. Extractors
read the page.

Nothing is retried, waited for or counted here: the engine acts on the outcome or the error.
"""

import re
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
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
from forager.core.http import Fetch, LoginRef, Render, Request, Response, Screenshot
from forager.core.outcome import Done, Outcome
from forager.core.reading import parse
from forager.core.states import ErrorType, Reason
from forager.extract.html.document import Document, decoded, is_binary
from forager.extract.html.markdown import MarkdownOptions
from forager.extract.html.page_fit import PageFit
from forager.extract.text.normalise import normalise
from forager.pipelines.scrape import reasons
from forager.pipelines.scrape.extractor import MOST_MORE, SCREENSHOT, Extracted, Extractor, FieldFound, PageInput, Parse
from forager.pipelines.scrape.job import ANY_PAGE, Result, ScrapeTask
from forager.pipelines.scrape.schema_extractor import ITEMS, extractor_of

# The findings about a target: from its page, and from further pages for missing fields. Pure.


class Reading:
    def __init__(
        self,
        extractor: Extractor,
        requested: tuple[str, ...] | None,
        min_confidence: float | None = None,
        markdown: MarkdownOptions | None = None,
    ) -> None:
        self._extractor = extractor
        self._least = min_confidence or 0.0
        self._markdown = markdown
        self._names = tuple(requested or extractor.by_default or extractor.output.model_fields)
        self.found: dict[str, tuple[FieldFound, str]] = {}
        """The finding and its page, by field."""
        self.wall: str | None = None
        self.kind: PageFit = "item"
        """Kind of the first page."""
        self.more: tuple[str, ...] = ()
        self.pages: list[str] = []
        self.rendered = False
        self._status = 0
        self._ms = 0
        self._at: datetime | None = None

    @property
    def missing(self) -> frozenset[str]:
        return frozenset(self._names) - self.found.keys()

    def question(
        self, response: Response
    ) -> tuple[bytes, Parse, str | None, str, int, datetime, frozenset[str], MarkdownOptions | None]:
        """Return the arguments of `read_page` for the fields that are still missing."""
        kind = response.headers.get("Content-Type")
        told = kind and str(kind), response.url, response.status, response.at
        return (response.body, self._extractor.parse, *told, self.missing, self._markdown)

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
            picture = FieldFound(b64encode(response.screenshot).decode(), "browser", 1.0)
            self.found.setdefault(SCREENSHOT, (picture, response.url))

    def result(self, task: ScrapeTask) -> Result:
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
            provenance={name: _provenance(*self.found[name]) for name in self._names if known[name] is not None},
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
    body: bytes,
    parse: Parse,
    kind: str | None,
    url: str,
    status: int,
    at: datetime,
    wanted: frozenset[str],
    markdown: MarkdownOptions | None = None,
) -> Extracted:
    """Read one page. Everything needed is an argument, because pages are read in another process."""
    return parse(PageInput(url, decoded(body, kind), status, at, markdown), wanted)


def _as_answered(value: Any, page_url: str) -> Any:
    """Keep the scheme of a site that was read by plain http: the same URL with https might not exist."""
    if isinstance(value, str) and value.startswith("https://") and page_url.startswith("http://"):
        host, answered = (urlsplit(url).netloc for url in (value, page_url))
        if host == answered.lower().removesuffix(":80"):
            return "http://" + value.removeprefix("https://")
    return value


def _provenance(finding: FieldFound, url: str) -> dict[str, Any]:
    told: dict[str, Any] = {"source": finding.source, "confidence": round(finding.confidence, 3), "page": url}
    if finding.also:
        told["also"] = [{"value": value, "source": source} for value, source in finding.also]
    return told


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
    """True if a credential backend is configured."""
    keep_logged_in: bool = False
    """Keep a failed page as evidence even if it was requested with a login."""

    async def scrape(self, task: ScrapeTask, fetch: Fetch) -> Outcome:
        extractor = self._extractor(task)
        login = LoginRef(task.workspace_id, extractor.credentials) if self.logins and extractor.credentials else None
        visit = _Visit(task, extractor, fetch, login, min(self.navigation, self.timeout), self.timeout)
        async with final_failures(kept=login is None or self.keep_logged_in):
            reading = await visit.first()
            if task.page_schema is None:
                await visit.further(reading)
            else:
                await visit.paged(reading)
        return Done(records=(reading.result(task),), cost=0, facts=reading.facts())

    def _extractor(self, task: ScrapeTask) -> Extractor:
        extractor = self.extractors.get(task.target_type)
        if task.page_schema is not None and extractor is not None:
            return extractor_of(task.page_schema, self.extractors, self.extractors[ANY_PAGE])
        if extractor is None:
            raise Permanent(
                f"There is no extractor {task.target_type!r} any more. Install the package that has it, then retry."
            )
        return extractor


@dataclass(slots=True)
class _Visit:
    """One task in progress: the page, and the few further pages that its extractor requests."""

    task: ScrapeTask
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
            reason, message = reasons.INSTEAD[reading.kind]
            raise _failure(reason, f"{_where(response)} {message}", response)
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

    async def paged(self, reading: Reading) -> None:
        """Read the further pages of a list, up to the schema's limit, and add their items."""
        left = int((self.task.page_schema or {}).get("pages", 1)) - 1
        site = host_of(reading.pages[0])
        render: Render = "browser" if reading.rendered else "http"
        following = reading.more
        while left > 0 and following and self.left > 1.0 and ITEMS in reading.found:
            (url,) = following
            if host_of(url) != site or url in reading.pages:
                return
            left -= 1
            response = await self._page(url, render)
            page = await self._read(response)
            if ITEMS not in page.found:
                return
            held, where = reading.found[ITEMS]
            more = page.found[ITEMS][0].value
            assert isinstance(held.value, list)  # noqa: S101 - made by the schema
            assert isinstance(more, list)  # noqa: S101
            reading.found[ITEMS] = replace(held, value=[*held.value, *more]), where
            reading.pages.append(response.url)
            following = page.more

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
        reading = Reading(self.extractor, self.task.requested_fields, self.task.min_confidence, self.task.markdown)
        try:
            await self._add(reading, response)
        except ParseFailed:
            return False
        return reading.wall is None and reading.kind == "item" and not reading.missing

    async def _add(self, reading: Reading, response: Response) -> None:
        try:
            extracted = await parse(self.fetch, read_page, *reading.question(response))
        except ParseFailed as error:
            raise ParseFailed(
                error.message, reason=error.reason, evidence=response.evidence(), facts=_facts(response)
            ).at(_where(response)) from error
        reading.add(response, extracted)

    async def _read(self, response: Response) -> Reading:
        reading = Reading(self.extractor, self.task.requested_fields, self.task.min_confidence, self.task.markdown)
        await self._add(reading, response)
        if reading.wall is not None:
            # A page that was requested with a login may repeat it, so nothing of the page is quoted.
            detail = f": {reading.wall}" if self.login is None else "; the configured login was rejected."
            message = f"{_where(response)} requires a login{detail}"
            raise _failure(reasons.LOGIN_WALL, message, response)
        return reading


def refuse_unless_page(response: Response) -> None:
    """Raise for any answer that is not a page: `Transient` if it may pass, else `Permanent`."""
    status, where = response.status, _where(response)
    if status >= 500:
        failed = f"{where} failed ({status})."
        raise Transient(failed, facts=_facts(response), reason=Reason.SERVER_ERROR, error_type=ErrorType.HTTP)
    reason, message = _refusal(response, status, where)
    if reason:
        raise _failure(reason, message, response)


def _failure(reason: str, message: str, response: Response) -> Permanent:
    evidence, facts = response.evidence(), _facts(response)
    return Permanent(message, evidence=evidence, facts=facts, reason=reason, error_type=reasons.TYPES[reason])


def _refusal(response: Response, status: int, where: str) -> tuple[str, str]:
    kind = next((v for k, v in response.headers.items() if k.lower() == "content-type"), "").lower()
    if response.looks in ("block", "challenge"):
        return (
            reasons.BLOCKED,
            f"{where} blocked the request as a bot ({status}). Slow the lane down, or use other proxies.",
        )
    if status in (404, 410):
        return reasons.NOT_FOUND, f"{where} has no such page ({status})."
    if status == 401:
        return reasons.LOGIN_WALL, f"{where} requires a login ({status})."
    if status >= 300:
        return reasons.REFUSED, f"{where} refused the page ({status})."
    if is_binary(response.body, kind):
        return reasons.NOT_A_PAGE, f"{where} sent binary data, which is not a web page. Give the URL of one."
    if kind and not any(known in kind for known in TEXTUAL):
        return (
            reasons.NOT_A_PAGE,
            f"{where} sent {kind.partition(';')[0]}, which is not a web page. Give the URL of one.",
        )
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


def _facts(response: Response) -> dict[str, int]:
    return {"api_status": response.status, "api_ms": response.elapsed_ms, "rendered": int(response.rendered)}


# Recognises login walls: pages with a login form instead of the requested page. Pure.
#
# A page with a login form beside its content is not a wall.


LOGIN_PATH = re.compile(
    r"/(?:authwall|uas/login|login|log-in|signin|sign-in|sign_in|signup|join|checkpoint|sso|account/login)\b",
    re.IGNORECASE,
)
_WORDS = re.compile(
    r"\b(?:sign in|log ?in|join now|join linkedin|sign up|einloggen|anmelden|se connecter|connectez-vous|"
    r"iniciar sesión|inicia sesión|accedi|entrar|logg? ind|logga in|inloggen|zaloguj)\b|войти|ログイン|登录|登入",
    re.IGNORECASE,
)
_MUST = re.compile(
    r"(?:sign in|log ?in|join(?: now| linkedin)?|register|create an account)[^.]{0,40}"
    r"\bto (?:view|see|continue|read|access|apply)"
    r"|you (?:must|need to) (?:be logged in|log ?in|sign in)|please (?:log ?in|sign in)|members only"
    r"|(?:melden sie sich an|bitte anmelden|connectez-vous pour|inicia sesión para)",
    re.IGNORECASE,
)
LITTLE = 1_500
"""Maximum visible characters of a wall."""


def login_wall(document: Document) -> str | None:
    """Return the text of a login wall that requires the login; None if the page is not a wall."""
    title = document.title or ""
    if document.tree.css_first("[class*='authwall' i], [id*='authwall' i]") is not None or "authwall" in document.url:
        return _line_of_wall(document) or title or "authwall"
    if len(document.text) >= LITTLE:
        return None
    password = document.tree.css_first("input[type='password' i]") is not None
    if LOGIN_PATH.search(urlsplit(document.url).path) and (password or _WORDS.search(title)):
        return _line_of_wall(document) or title
    if password and (_WORDS.search(title) or _MUST.search(document.text)):
        return _line_of_wall(document) or title
    must = _MUST.search(document.text)
    if must and _WORDS.search(title) and len(document.text) < LITTLE // 2:
        return _line_of_wall(document) or title
    return None


def _line_of_wall(document: Document) -> str | None:
    for pattern in (_MUST, _WORDS):
        for line in document.lines:
            if len(line.text) <= 200 and pattern.search(line.text):
                return line.text
    return None
