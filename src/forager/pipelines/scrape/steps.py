"""The step of the scrape pipeline: the order of I/O for one page, and the outcome of each kind of answer. Extractors
read the page.

Nothing is retried, waited for or counted here: the engine acts on the outcome or the error.
"""

import re
from base64 import b64encode
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import orjson

from forager.core.errors import (
    BlobMissing,
    CircuitOpen,
    Disallowed,
    ParseFailed,
    Permanent,
    RateLimited,
    TimedOut,
    Transient,
    unknown_names_are_final,
)
from forager.core.hosts import host_of
from forager.core.http import Action, Fetch, LoginRef, Render, Request, Response, Screenshot, SessionRef
from forager.core.outcome import Done, Outcome
from forager.core.reading import ReadError, parse
from forager.core.states import ErrorType, Reason
from forager.core.task import Plan
from forager.extract.documents import document_html, document_kind, is_installed
from forager.extract.html.document import Document, decoded, is_binary
from forager.extract.html.markdown import MarkdownOptions
from forager.extract.html.page_fit import PageFit
from forager.extract.schemas.described import CONFIDENCE
from forager.extract.schemas.spec import SchemaField
from forager.extract.text.normalise import LONG, Cleaners, cleaners_of, normalise
from forager.pipelines.scrape import reasons
from forager.pipelines.scrape.describe import described_of
from forager.pipelines.scrape.extractor import (
    LONGEST_SHOWN,
    MOST_MORE,
    SCREENSHOT,
    Extracted,
    Extractor,
    FieldFound,
    PageInput,
    Parse,
)
from forager.pipelines.scrape.job import ANY_PAGE, OF_BROWSER, DescribeTask, Result, ScrapeTask
from forager.pipelines.scrape.page_actions import CAPTURED, PDF, before_visit, on_page, taken_of_page
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
        self._cleaners = cleaners_of(extractor.output)
        self._names = tuple(requested or extractor.by_default or extractor.output.model_fields)
        self.found: dict[str, tuple[FieldFound, str]] = {}
        """The finding and its page, by field."""
        self.wall: str | None = None
        self.kind: PageFit = "item"
        """Kind of the first page."""
        self.more: tuple[str, ...] = ()
        self.pages: list[str] = []
        self.blob: str | None = None
        """The first page as it is stored, if its request has `keep`."""
        self.rendered = False
        self.stored: dict[str, str] = {}
        """`blob:` URLs of the pages, by the address of their request."""
        self.requests = 0
        """Pages that were requested of the site."""
        self._status = 0
        self._ms = 0
        self._at: datetime | None = None

    @property
    def missing(self) -> frozenset[str]:
        return frozenset(self._names) - self.found.keys()

    def question(
        self, response: Response
    ) -> tuple[bytes, Parse, str | None, str, int, datetime, frozenset[str], MarkdownOptions | None, Cleaners]:
        """Return the arguments of `read_page` for the fields that are still missing."""
        kind = response.headers.get("Content-Type")
        told = kind and str(kind), response.url, response.status, response.at
        return (response.body, self._extractor.parse, *told, self.missing, self._markdown, self._cleaners)

    def add(self, response: Response, extracted: Extracted) -> None:
        """Add the findings of a page. The first page decides whether there is a login wall, and which pages to read
        next."""
        if not self.pages:
            self.wall, self.kind, self.more = extracted.wall, extracted.kind, extracted.more
            self._status, self._at, self.blob = response.status, response.at, response.blob
        self.pages.append(response.url)
        self.rendered = self.rendered or response.rendered
        self._ms += response.elapsed_ms
        if extracted.wall is None:
            for name in self.missing & extracted.fields.keys():
                if extracted.fields[name].confidence >= self._least:
                    self.found[name] = extracted.fields[name], response.url
        for name, value in _of_browser(response).items():
            if name in self._names:
                self.found.setdefault(name, (FieldFound(value, "browser", 1.0), response.url))

    def undescribed(self, fields: Mapping[str, SchemaField]) -> dict[str, SchemaField]:
        """Return the described fields that are still missing, for a language model. Returns none if its answers would
        not be sure enough."""
        return {} if self._least > CONFIDENCE else {name: fields[name] for name in fields if name in self.missing}

    def quoted(self, name: str, value: object, quote: str) -> None:
        """Add a field that a model has quoted from the first page."""
        self.found[name] = FieldFound(value, f'described:"{quote[:LONGEST_SHOWN]}"', CONFIDENCE), self.pages[0]

    def described_by(self, task: ScrapeTask) -> DescribeTask:
        """Return the task that asks for the missing described fields of the stored page."""
        assert self.blob is not None  # noqa: S101 - the request of a page with described fields stores it
        assert self._at is not None  # noqa: S101
        known = {name: getattr(task, name) for name in ScrapeTask.model_fields} | {"stored": self.stored or None}
        from_store = bool(self.stored) and not self.requests
        return DescribeTask(**known, page=self.blob, rendered=self.rendered, fetched_at=self._at, from_store=from_store)

    def fetched(self, at: datetime, *, rendered: bool) -> None:
        """Set when and how a stored page was fetched."""
        self._at, self.rendered = at, rendered

    def result(self, task: ScrapeTask) -> Result:
        raw = {name: finding.value for name, (finding, _) in self.found.items()}
        clean_already = {name for name, (finding, _) in self.found.items() if finding.is_clean}
        clean = normalise(self._extractor.output, raw, clean=clean_already).result.model_dump(mode="json")
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
            from_store=bool(self.stored) and not self.requests,
            stored_pages=self.stored or None,
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
    cleaners: Cleaners | None = None,
) -> Extracted:
    """Read one page in a reading process, which gets everything it needs as arguments. Long texts are cleaned here,
    because cleaning them in the event loop would delay every other page."""
    extracted = parse(PageInput(url, decoded(body, kind), status, at, markdown), wanted)
    long = {
        name: replace(found, value=clean(found.value), is_clean=True)
        for name, clean in (cleaners or {}).items()
        if (found := extracted.fields.get(name)) and isinstance(found.value, str) and len(found.value) > LONG
    }
    return replace(extracted, fields={**extracted.fields, **long}) if long else extracted


def _of_browser(response: Response) -> dict[str, Any]:
    """Return the fields that a browser has taken of the page."""
    fields: dict[str, Any] = {}
    if response.screenshot:
        fields[SCREENSHOT] = b64encode(response.screenshot).decode()
    if response.pdf:
        fields[PDF] = b64encode(response.pdf).decode()
    if response.captured:
        fields[CAPTURED] = [
            {"url": each.url, "method": each.method, "status": each.status, "json": orjson.loads(each.body)}
            for each in response.captured
        ]
    return fields


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
READ_DOCUMENT = 20.0
"""CPU seconds of a PDF or DOCX file."""
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
        described = described_of(task.page_schema)
        visit = _Visit(
            task, extractor, fetch, login, min(self.navigation, self.timeout), self.timeout, described.keys()
        )
        private = login is not None or task.session is not None
        async with final_failures(kept=not private or self.keep_logged_in):
            reading = await visit.first()
            if task.page_schema is None:
                await visit.further(reading)
            else:
                await visit.paged(reading)
        reading.stored, reading.requests = visit.stored, visit.requests
        if reading.undescribed(described):
            child = Plan(reading.described_by(task), rank=task.number)
            return Done(tasks=(child,), cost=0, facts=reading.facts())
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
    described: Collection[str] = ()
    """Fields that a language model answers in a later task. The page is stored for it."""
    stored: dict[str, str] = field(default_factory=dict)
    """`blob:` URLs of the pages that were read, by the address of their request."""
    requests: int = 0
    """Pages that were requested of the site."""
    is_document: bool = False
    """True if the page is a PDF or DOCX file: a browser would show nothing more."""

    @property
    def needs_browser(self) -> bool:
        in_session = self.task.session is not None
        return in_session or bool(OF_BROWSER & set(self.task.requested_fields or ())) or bool(self.task.depth)

    async def first(self) -> Reading:
        response = await self._page(self.task.target_url, "browser" if self.needs_browser else self.task.render)
        reading = await self._read(response)
        only_described = bool(self.described) and reading.missing <= set(self.described)
        settled = bool(reading.found) or only_described or reading.kind in ("list", "form", "error")
        if not settled and not response.rendered and not self.is_document and self.task.render == "auto":
            # It looked like a page but has none of the wanted fields: scripts may add them.
            try:
                response = await self._page(self.task.target_url, "browser")
                reading = await self._read(response)
            except Permanent as error:
                if isinstance(error, CircuitOpen):
                    raise
        if reading.kind != "item":
            reason, message = reasons.INSTEAD[reading.kind]
            raise _failure(reason, f"{response.subject()} {message}", response)
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

    def _script(self, url: str) -> tuple[Action, ...]:
        """Return what a browser does on a page. Only the first one is what the actions and pictures are about."""
        if url != self.task.target_url:
            return (*self.extractor.script, Screenshot(if_wrong=True))
        depth, wanted = self.task.depth, self.task.requested_fields or ()
        taken = tuple(taken_of_page(depth, wanted)) or (Screenshot(if_wrong=True),)
        return (*before_visit(depth, wanted), *self.extractor.script, *on_page(depth), *taken)

    def _session(self, render: Render) -> SessionRef | None:
        name = self.task.session
        return SessionRef(self.task.workspace_id, name) if name is not None and render == "browser" else None

    async def _page(self, url: str, render: Render) -> Response:
        if (stored := await self._stored(url, render)) is not None:
            return await self._as_html(stored)
        script = () if render == "http" else self._script(url)
        timeout = max(1.0, min(self.navigation, self.left))
        request = Request(
            url,
            timeout=timeout,
            max_bytes=MOST_BYTES,
            render=render,
            script=script,
            login=self.login,
            session=self._session(render),
            keep=bool(self.described) or (self.task.keep and self.login is None),
            enough=self._has_everything if render == "auto" else None,
        )
        self.requests += 1
        response = await self.fetch(request)
        self.left -= response.elapsed_ms / 1000
        refuse_unless_page(response)
        if self.task.keep and self.login is None and response.blob is not None:
            self.stored[url] = response.blob
        return await self._as_html(response)

    async def _as_html(self, response: Response) -> Response:
        """Return a PDF or DOCX file as an HTML page; any other answer as it is."""
        kind = document_kind(response.body)
        if kind is None:
            return response
        where = response.subject()
        try:
            html = await parse(self.fetch, document_html, response.body, limit=READ_DOCUMENT)
        except ReadError as error:
            message = f"{where} is a {kind} file that cannot be read: {str(error).partition(': ')[2] or error}."
            raise _failure(reasons.NOT_A_PAGE, message, response) from error
        except ParseFailed as error:
            raise ParseFailed(error.message, reason=error.reason, facts=response.facts()).at(where) from error
        self.is_document = True
        return replace(response, body=html.encode("utf-8", "replace"), headers=_HTML)

    async def _stored(self, url: str, render: Render) -> Response | None:
        """Return the stored page of this address; None if there is none, or if a browser has to render it."""
        blob = (self.task.stored or {}).get(url)
        if blob is None or self.login is not None:
            return None
        try:
            response = await self.fetch(Request(blob))
        except BlobMissing:
            return None
        if response.rendered != (render == "browser") and render != "auto":
            return None
        self.stored[url] = blob
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
                error.message, reason=error.reason, evidence=response.evidence(), facts=response.facts()
            ).at(response.subject()) from error
        reading.add(response, extracted)

    async def _read(self, response: Response) -> Reading:
        reading = Reading(self.extractor, self.task.requested_fields, self.task.min_confidence, self.task.markdown)
        await self._add(reading, response)
        if reading.wall is not None:
            # A page that was requested with a login may repeat it, so nothing of the page is quoted.
            detail = f": {reading.wall}" if self.login is None else "; the configured login was rejected."
            message = f"{response.subject()} requires a login{detail}"
            raise _failure(reasons.LOGIN_WALL, message, response)
        return reading


def refuse_unless_page(response: Response) -> None:
    """Raise for any answer that is not a page: `Transient` if it may pass, else `Permanent`."""
    status, where = response.status, response.subject()
    if status >= 500:
        failed = f"{where} failed ({status})."
        raise Transient(failed, facts=response.facts(), reason=Reason.SERVER_ERROR, error_type=ErrorType.HTTP)
    reason, message = _refusal(response, status, where)
    if reason:
        raise _failure(reason, message, response)


def _failure(reason: str, message: str, response: Response) -> Permanent:
    evidence, facts = response.evidence(), response.facts()
    return Permanent(message, evidence=evidence, facts=facts, reason=reason, error_type=reasons.TYPES[reason])


def _refusal(response: Response, status: int, where: str) -> tuple[str, str]:
    kind = (response.header("content-type") or "").lower()
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
    if (document := document_kind(response.body)) is not None:
        if is_installed(document):
            return "", ""
        return (
            reasons.NOT_A_PAGE,
            f"{where} is a {document} file. To read such files: pip install 'forager-data[documents]'",
        )
    if is_binary(response.body, kind):
        return reasons.NOT_A_PAGE, f"{where} sent binary data, which is not a web page. Give the URL of one."
    if kind and not any(known in kind for known in TEXTUAL):
        return (
            reasons.NOT_A_PAGE,
            f"{where} sent {kind.partition(';')[0]}, which is not a web page. Give the URL of one.",
        )
    return "", ""


_HTML = {"Content-Type": "text/html; charset=utf-8"}


@asynccontextmanager
async def final_failures(*, kept: bool) -> AsyncIterator[None]:
    """Turn errors that the engine would handle otherwise into final failures. `kept`: whether the page may be kept as
    evidence."""
    try:
        with unknown_names_are_final():
            yield
    except Disallowed as error:  # the caller did not get this page: that is a failure, not a skip
        raise Permanent(error.message, reason=error.reason, error_type=error.error_type) from error
    except TimedOut as error:
        # The page had its full time limit; another attempt would only occupy a browser for as long again.
        message, reason = error.message, error.reason
        raise Permanent(message, facts=error.facts, reason=reason, error_type=error.error_type) from error
    except Permanent as error:
        if not kept:
            error.evidence = None
        raise


# Recognises login walls: pages with a login form instead of the requested page. Pure.
#
# A page with a login form next to its content is not a wall.


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
