"""Decides the outcome of a parsed page: the records of the page and its product, or an error. Pure."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from forager.core.errors import Permanent, Transient
from forager.core.hosts import host_of
from forager.core.http import Response
from forager.core.outcome import Gone, Reject
from forager.core.reading import Offload
from forager.core.record import CLEAR
from forager.core.states import ErrorType, Reason
from forager.extract.html.document import Document, is_binary
from forager.extract.html.page_kind import page_kind
from forager.extract.products.findings import ProductFindings, says_missing
from forager.extract.products.parser import Parser
from forager.extract.products.wrappers import PageWrapper, read_learnt
from forager.extract.text.urls import canonical_url, url_hash
from forager.pipelines.products.records import CrawledPage, Product
from forager.pipelines.products.tasks import Crawl
from forager.pipelines.products.wrappers import reader_with

# The links of a page that a crawl of its site may follow. Pure.
#
# One pass over `a[href]`, and only on pages whose links are followed: reading links costs more than parsing the page.


MOST = 3_000
"""Maximum number of links that are read from one page."""
_NO_PAGE = re.compile(
    r"\.(?:jpe?g|png|gif|webp|svg|ico|css|js|json|xml|pdf|zip|gz|mp[34]|avi|mov|docx?|xlsx?|pptx?|woff2?|rss|atom)$",
    re.IGNORECASE,
)
_NOT_FOR_US = re.compile(
    r"/(?:cart|basket|checkout|log-?in|sign-?in|sign-?up|register|account|my-account|wish-?list|compare|search|privacy"
    r"|terms|imprint|impressum|contact|help|faq|cookies?|warenkorb|panier|customer)(?:/|\.|$)",
    re.IGNORECASE,
)
_ORDER = re.compile(r"(?:^|&)(?:sort|order|dir|view|limit|per_page|sid|sessionid|add-to-cart)=", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FoundLink:
    url: str
    """Canonical."""
    is_next: bool
    """Leads to the next page of the same list: following it goes no deeper."""


def followable(document: Document) -> Iterator[FoundLink]:
    """Yield the links to pages of the same host, each once, in page order. Carts, logins, files and sort orders are
    left out."""
    host = host_of(document.url)
    own = canonical_url(document.url)
    seen = {own}
    for node in document.tree.css("a[href]")[:MOST]:
        attributes = node.attributes
        rel = (attributes.get("rel") or "").lower().split()
        if "nofollow" in rel:
            continue
        url = _page_of(document, attributes.get("href") or "", host)
        if url is not None and url not in seen:
            seen.add(url)
            yield FoundLink(url, "next" in rel)


def _page_of(document: Document, href: str, host: str) -> str | None:
    absolute = document.absolute(href)
    if absolute is None or not absolute.startswith(("http://", "https://")):
        return None
    try:
        url = canonical_url(absolute)
        if host_of(url) != host:
            return None
    except ValueError:
        return None
    parts = urlsplit(url)
    if _NO_PAGE.search(parts.path) or _NOT_FOR_US.search(parts.path) or _ORDER.search(parts.query):
        return None
    return url


# Answers that are not a page, and what they mean: try again, give up, or the page is gone. Pure.


BLOCKED, NOT_FOUND, REFUSED, NOT_A_PAGE = Reason.BLOCKED.value, "not_found", "refused", "not_a_page"
SOFT_NOT_FOUND = "soft_not_found"
REASONS = frozenset({NOT_FOUND, REFUSED, NOT_A_PAGE})
GONE = frozenset({404, 410})
_TEXTUAL = ("html", "xml", "text/plain")


def refuse_unless_answered(response: Response) -> None:
    """Raise unless the answer is a success: `Transient` if it may pass, `Permanent` with the page if it will not."""
    status, where = response.status, response.subject()
    if status >= 500:
        message, reason = f"{where} failed ({status}).", Reason.SERVER_ERROR
        raise Transient(message, facts=response.facts(), reason=reason, error_type=ErrorType.HTTP)
    if response.looks in ("block", "challenge"):
        message = f"{where} blocked the request as a bot ({status}). Slow the lane down, or use other proxies."
        raise _refused(response, BLOCKED, message, ErrorType.BLOCKED)
    if status in GONE:
        raise _refused(response, NOT_FOUND, f"{where} has no such page ({status}).", ErrorType.HTTP)
    if status >= 300:
        raise _refused(response, REFUSED, f"{where} refused the page ({status}).", ErrorType.HTTP)


def refuse_unless_page(response: Response) -> None:
    """The same, and it must be text."""
    refuse_unless_answered(response)
    kind = (response.header("content-type") or "").lower()
    if is_binary(response.body, kind):
        message = f"{response.subject()} sent binary data, which is not a web page."
        raise _refused(response, NOT_A_PAGE, message, ErrorType.PARSE)
    if kind and not any(known in kind for known in _TEXTUAL):
        message = f"{response.subject()} sent {kind.partition(';')[0]}, which is not a web page."
        raise _refused(response, NOT_A_PAGE, message, ErrorType.PARSE)


def _refused(response: Response, reason: str, message: str, error_type: ErrorType) -> Permanent:
    evidence, facts = response.evidence(), response.facts()
    return Permanent(message, evidence=evidence, cost=1, facts=facts, reason=reason, error_type=error_type)


SURE = 0.8
"""Confidence of a page's kind that its markup decides; below, only the visible words of the page speak for it."""
ENOUGH_MISSES = 2
"""Consecutive soft 404s after which the product is gone: a shop may show one such page by mistake."""


@dataclass(frozen=True, slots=True)
class ProductPageRead:
    """The result of reading one page, as it comes from a reader."""

    findings: ProductFindings = field(default_factory=ProductFindings)
    missing: str | None = None
    links: tuple[FoundLink, ...] = ()
    offers_product: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """One page that was read."""

    url: str
    """Canonical; where redirects led to."""
    parser: Parser
    findings: ProductFindings = field(default_factory=ProductFindings)
    missing: str | None = None
    """The text on the page that reports the product as missing."""
    links: tuple[FoundLink, ...] = ()
    offers_product: bool = False
    """The parser found no product, though the page clearly presents one."""


def read_page(
    body: bytes,
    url: str,
    read: Callable[[Document], ProductFindings],
    links: bool = False,
    wrappers: Sequence[PageWrapper] = (),
) -> ProductPageRead:
    """Read a page with this canonical URL by the function of its parser, then by the wrapper of its template. Links are
    read only if they are wanted, and not from the page of a product."""
    document = Document(body, url, markup_first=True)
    missing = says_missing(document)
    if missing is not None:
        return ProductPageRead(missing=missing)
    findings = read(document)
    if wrappers:
        read_learnt(document, findings, wrappers)
    if findings.is_product:
        return ProductPageRead(findings)
    followed = tuple(followable(document)) if links else ()
    return ProductPageRead(findings, links=followed, offers_product=_offers_product(document, findings))


def _offers_product(document: Document, findings: ProductFindings) -> bool:
    """Return whether the markup of a page presents one product, whatever its parser has found: a parser that finds
    nothing cannot testify for itself."""
    if findings.is_list:
        return False
    kind = findings.page or page_kind(document)
    return kind.kind == "product" and kind.confidence >= SURE


async def read_by(
    offload: Offload,
    body: bytes,
    url: str,
    parser: Parser,
    *,
    links: bool = False,
    wrappers: tuple[PageWrapper, ...] = (),
) -> Seen:
    """Read a page by its parser and the shop's wrappers, in a reader. Raises `ReadError` if the parser raises, and
    `ParseFailed`."""
    further = (wrappers,) if wrappers else ()
    page = await offload(read_page, body, url, parser.read, links, *further)
    return Seen(
        url, reader_with(parser, wrappers), page.findings.restored(), page.missing, page.links, page.offers_product
    )


def product_of(seen: Seen, response: Response, page_hash: str) -> Product:
    """Build the record from a parser's findings. A None leaves the stored value unchanged."""
    findings = seen.findings
    images = [{"url": image.url, "alt": image.alt, "type": image.kind} for image in findings.images]
    values: dict[str, Any] = {name: finding.value for name, finding in findings.values.items()}
    return Product(
        url_hash=url_hash(seen.url),
        url=seen.url,
        domain=host_of(seen.url),
        images=images or None,
        metadata=findings.metadata or None,
        page_hash=page_hash,
        evidence=findings.evidence(),
        shown=sorted(findings.values),
        fetched_at=response.at,
        parser=seen.parser.name,
        parser_version=seen.parser.version,
        **values,
    )


def page_of(task: Crawl, response: Response, outcome: str, **about: Any) -> CrawledPage:
    """Return the record of one visit."""
    whole = response.status == 200
    return CrawledPage(
        url_hash=task.key(),
        url=task.url,
        domain=task.lane(),
        priority=task.priority,
        frequency=task.frequency,
        usual_frequency=task.usual_frequency,
        recrawl=task.recrawl,
        max_retries=task.max_retries,
        render=task.render,
        outcome=outcome,
        http_status=response.status,
        crawled_at=response.at,
        fetched_at=response.at if whole else None,
        html=response.blob,
        etag=response.header("etag") or (CLEAR if whole else None),
        last_modified=response.header("last-modified") or (CLEAR if whole else None),
        confirmed=task.confirmed + 1 if response.status == 304 else 0,
        failed_at=CLEAR,
        **about,
    )


def seen_again(task: Crawl) -> list[Product]:
    """Return the product of a page that has not changed: nothing new is known about it, but it was seen."""
    if task.product_url is None:
        return []
    return [Product(url_hash=url_hash(task.product_url), url=task.product_url, domain=host_of(task.product_url))]


def gone_of(task: Crawl, reason: str, **evidence: Any) -> Gone:
    """Return the product of a page that is no longer there."""
    url = task.product_url or task.url
    return Gone(Product(url_hash=url_hash(url), url=url, domain=host_of(url)), reason, {"url": task.url, **evidence})


def soft_gone(task: Crawl, seen: Seen) -> Iterator[Gone]:
    """Yield the product, if this was not the first soft 404 in a row."""
    if task.misses + 1 >= ENOUGH_MISSES:
        yield gone_of(task, SOFT_NOT_FOUND, status=200, says=seen.missing, visits=task.misses + 1)


def offer_of(product: Product) -> str:
    """Price and availability in one text: two visits are compared by it."""
    return f"{product.price}/{product.currency}/{product.availability}"


def refused_of(seen: Seen) -> list[Reject]:
    """Return the values that could not be right, in one row of evidence."""
    refused = [(name, why) for name, why in seen.findings.refused if name not in seen.findings]
    if not refused:
        return []
    reason = "; ".join(f"{name}: {why}" for name, why in refused)
    payload = {"url": seen.url, "parser": seen.parser.name, "parser_version": seen.parser.version, "refused": refused}
    return [Reject(Product, reason[:1_000], payload, key=url_hash(seen.url))]
