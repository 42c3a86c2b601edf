"""The order of I/O for one page and one sitemap, and what each kind of answer leads to.

What a page contains is its parser's. Nothing is retried, waited for or counted here: the engine acts on the outcome.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from forager.core.errors import Permanent, Transient
from forager.core.hosts import host_of
from forager.core.http import Fetch, Request, Response
from forager.core.outcome import MAX_CHILDREN, Done, Outcome
from forager.core.reasons import ErrorType, Reason
from forager.core.record import CLEAR
from forager.core.task import Plan
from forager.extract.canonical import canonical_url, url_hash
from forager.extract.document import Document
from forager.pipelines.products.findings import Findings
from forager.pipelines.products.links import followable
from forager.pipelines.products.missing import says_missing
from forager.pipelines.products.parser import Parser, Parsers
from forager.pipelines.products.records import Page, Product
from forager.pipelines.products.sitemap import LARGEST, from_robots, is_index, locations, unpacked
from forager.pipelines.products.tasks import Asked, Crawl, Sitemap

MOST_BYTES = 10 * 1024 * 1024
"""A longer page is no page for us."""
SHORT_PAGE = 64 * 1024
"""A longer page is parsed in a thread: it takes longer than the event loop may stand still."""
TEXTUAL = ("html", "xml", "text/plain")
DEEPEST_INDEX = 3
BLOCKED, NOT_FOUND, REFUSED, NOT_A_PAGE = Reason.BLOCKED.value, "not_found", "refused", "not_a_page"
REASONS = frozenset({NOT_FOUND, REFUSED, NOT_A_PAGE})


@dataclass(frozen=True, slots=True)
class Crawler:
    """How pages are read. Its methods are the steps."""

    parsers: Parsers
    timeout: float = 30.0

    async def crawl(self, task: Crawl, fetch: Fetch) -> Outcome:
        """Fetch a page, parse it, and store the page, its product and the links to follow in one settlement."""
        response = await fetch(self._request(task))
        if response.status == 304:
            return Done(records=(_page(task, response, outcome="unchanged"),), cost=1, facts=_facts(response))
        _refuse_unless_page(response)
        final = canonical_url(response.url)
        parser = self.parsers.for_url(final)
        if len(response.body) <= SHORT_PAGE:
            seen = _read(response, final, parser, links=task.depth)
        else:
            seen = await asyncio.to_thread(_read, response, final, parser, task.depth)
        return _outcome(task, response, final, parser, seen)

    async def sitemap(self, task: Sitemap, fetch: Fetch) -> Outcome:
        """Turn the addresses of a sitemap into crawl tasks, at most 5,000 at a time."""
        if task.discover:
            return await self._discover(task, fetch)
        response = await fetch(Request(task.url, timeout=self.timeout, max_bytes=LARGEST))
        _refuse_unless_answered(response)
        text = await asyncio.to_thread(unpacked, response.body)
        index = is_index(text)
        if index and task.level >= DEEPEST_INDEX:
            raise Permanent(f"{_where(response)}: sitemap indexes nest too deep.", error_type=ErrorType.PARSE)
        plans, rest = _handed_over(task, text, index=index)
        if not plans and not task.start:
            raise Permanent(
                f"{_where(response)} has no address of this site in it.",
                evidence=response.evidence(),
                reason=NOT_A_PAGE,
                error_type=ErrorType.PARSE,
            )
        return Done(tasks=[*plans, *rest], cost=0, facts={**_facts(response), "links": len(plans)})

    async def _discover(self, task: Sitemap, fetch: Fetch) -> Outcome:
        root = _root(task.url)
        response = await fetch(Request(f"{root}/robots.txt", timeout=self.timeout, max_bytes=LARGEST))
        named = from_robots(response.body.decode("utf-8", "replace")) if response.status == 200 else []
        urls = [url for each in named if (url := _same_site(each, task.url))] or [f"{root}/sitemap.xml"]
        plans = [Plan(_sub(task, Sitemap, url=url, level=1)) for url in dict.fromkeys(urls)]
        return Done(tasks=plans, cost=0, facts=_facts(response))

    def _request(self, task: Crawl) -> Request:
        headers = {}
        if task.etag:
            headers["If-None-Match"] = task.etag
        if task.last_modified:
            headers["If-Modified-Since"] = task.last_modified
        return Request(
            task.url, headers=headers, timeout=self.timeout, max_bytes=MOST_BYTES, render=task.render, max_redirects=5
        )


@dataclass(frozen=True, slots=True)
class _Seen:
    """What one page holds."""

    is_missing: bool
    findings: Findings
    links: tuple[tuple[str, bool], ...] = ()


def _read(response: Response, url: str, parser: Parser, links: int | None = None) -> _Seen:
    document = Document(response.body, url)
    is_missing = says_missing(document) if parser.is_missing is None else parser.is_missing(document)
    if is_missing:
        return _Seen(True, Findings())
    findings = parser.read(document)
    if links is None or findings.is_product:
        return _Seen(False, findings)
    return _Seen(False, findings, tuple((each.url, each.is_next) for each in followable(document)))


def _outcome(task: Crawl, response: Response, final: str, parser: Parser, seen: _Seen) -> Done:
    if seen.is_missing:
        page = _page(task, response, outcome="missing", misses=task.misses + 1)
        return Done(records=(page,), cost=1, facts=_facts(response))
    facts = {**_facts(response), "products": int(seen.findings.is_product), "links": len(seen.links)}
    if not seen.findings.is_product:
        page = _page(task, response, outcome="other", misses=0)
        return Done(records=(page,), tasks=list(_followed(task, seen)), cost=1, facts=facts)
    product = product_of(seen.findings, final, response, parser, page_hash=task.key())
    page = _page(task, response, outcome="product", misses=0, product_hash=product.url_hash, offer=_offer(product))
    return Done(records=(page, product), cost=1, facts=facts)


def product_of(findings: Findings, url: str, response: Response, parser: Parser, *, page_hash: str) -> Product:
    """The record of what a parser found. What is None on it leaves the stored value as it is."""
    images = [{"url": image.url, "alt": image.alt, "type": image.kind} for image in findings.images]
    values: dict[str, Any] = {name: found.value for name, found in findings.values.items()}
    return Product(
        url_hash=url_hash(url),
        url=url,
        domain=host_of(url),
        images=images or None,
        metadata=findings.metadata or None,
        page_hash=page_hash,
        evidence=findings.evidence(),
        shown=sorted(findings.values),
        fetched_at=response.at,
        parser=parser.name,
        parser_version=parser.version,
        **values,
    )


def _page(task: Crawl, response: Response, **about: Any) -> Page:
    whole = response.status != 304
    return Page(
        url_hash=task.key(),
        url=task.url,
        domain=task.lane(),
        priority=task.priority,
        frequency=task.frequency,
        recrawl=task.recrawl,
        max_retries=task.max_retries,
        render=task.render,
        http_status=response.status,
        crawled_at=response.at,
        fetched_at=response.at if whole else None,
        etag=_header(response, "etag") or (CLEAR if whole else None),
        last_modified=_header(response, "last-modified") or (CLEAR if whole else None),
        **about,
    )


def _offer(product: Product) -> str:
    return f"{product.price}/{product.currency}/{product.availability}"


def _followed(task: Crawl, seen: _Seen) -> Iterator[Plan]:
    if task.depth is None:
        return
    for url, is_next in seen.links[:MAX_CHILDREN]:
        depth = task.depth if is_next else task.depth - 1
        if depth >= 0:
            yield Plan(_sub(task, Crawl, url=url, depth=depth), rank=task.priority)


def _handed_over(task: Sitemap, text: bytes, *, index: bool) -> tuple[list[Plan], list[Plan]]:
    """Children for the addresses of this part, and the task for the rest of the file, if there is one."""
    plans: list[Plan] = []
    for end, found in locations(text, task.start):
        url = _same_site(found, task.url)
        if url is None:
            continue
        if index:
            plans.append(Plan(_sub(task, Sitemap, url=url, level=task.level + 1)))
        else:
            plans.append(Plan(_sub(task, Crawl, url=url), rank=task.priority))
        if len(plans) == MAX_CHILDREN - 1:
            rest = _sub(task, Sitemap, url=task.url, level=task.level, start=end)
            return plans, [Plan(rest)]
    return plans, []


def _sub(task: Asked, kind: type[Crawl] | type[Sitemap], **values: Any) -> Crawl | Sitemap:
    """A task for a page that was found: it inherits what was asked for."""
    inherited = {name: getattr(task, name) for name in Asked.model_fields}
    return kind(**{**inherited, **values})


def _same_site(found: str, url: str) -> str | None:
    """The canonical form of an address on the same host as `url`; None for any other."""
    try:
        canonical = canonical_url(found)
    except ValueError:
        return None
    return canonical if host_of(canonical) == host_of(url) else None


def _root(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _refuse_unless_answered(response: Response) -> None:
    """Raise unless the answer is a success: it passes, or it never will."""
    status, where = response.status, _where(response)
    if status >= 500:
        raise Transient(f"{where} failed ({status}).", facts=_facts(response), error_type=ErrorType.HTTP)
    if response.looks in ("block", "challenge"):
        message = f"{where} takes us for a robot ({status}). Slow the lane down, or use other proxies."
        raise _refused(response, BLOCKED, message, ErrorType.BLOCKED)
    if status in (404, 410):
        raise _refused(response, NOT_FOUND, f"{where} has no such page ({status}).", ErrorType.HTTP)
    if status >= 300:
        raise _refused(response, REFUSED, f"{where} refused the page ({status}).", ErrorType.HTTP)


def _refuse_unless_page(response: Response) -> None:
    _refuse_unless_answered(response)
    kind = (_header(response, "content-type") or "").lower()
    if kind and not any(known in kind for known in TEXTUAL):
        message = f"{_where(response)} sent {kind.partition(';')[0]}, which is no page."
        raise _refused(response, NOT_A_PAGE, message, ErrorType.PARSE)


def _refused(response: Response, reason: str, message: str, error_type: ErrorType) -> Permanent:
    facts = _facts(response)
    return Permanent(message, evidence=response.evidence(), cost=1, facts=facts, reason=reason, error_type=error_type)


def _header(response: Response, name: str) -> str | None:
    return next((value for key, value in response.headers.items() if key.lower() == name), None)


def _where(response: Response) -> str:
    """The page without its query."""
    parts = urlsplit(response.url)
    return f"{parts.hostname or 'The site'}{parts.path}"[:200]


def _facts(response: Response) -> dict[str, int]:
    return {"api_status": response.status, "api_ms": response.elapsed_ms, "rendered": int(response.rendered)}
