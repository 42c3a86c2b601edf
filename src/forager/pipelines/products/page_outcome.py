"""What a parsed page leads to: the records of the page and its product, and what is refused. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from forager.core.hosts import host_of
from forager.core.http import Response
from forager.core.outcome import Gone, Reject
from forager.core.record import CLEAR
from forager.extract.canonical import url_hash
from forager.extract.document import Document
from forager.extract.products.findings import Findings
from forager.extract.products.missing import says_missing
from forager.extract.products.parser import Parser
from forager.pipelines.products.answers import SOFT_NOT_FOUND, header
from forager.pipelines.products.links import FoundLink, followable
from forager.pipelines.products.records import Page, Product
from forager.pipelines.products.tasks import Crawl

ENOUGH_MISSES = 2
"""Soft 404s in a row after which the product is gone: a shop shows such a page by mistake, too."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What one page holds."""

    url: str
    """Canonical; where redirects led to."""
    parser: Parser
    findings: Findings = field(default_factory=Findings)
    missing: str | None = None
    """The words with which the page says that there is no such product."""
    links: tuple[FoundLink, ...] = ()


def read(response: Response, url: str, parser: Parser, *, links: bool = False) -> Seen:
    """Read a page with this canonical URL by its parser. Links are read only if they are wanted, and not from the page
    of a product."""
    document = Document(response.body, url, markup_first=True)
    missing = says_missing(document)
    if missing is not None:
        return Seen(url, parser, missing=missing)
    findings = parser.read(document)
    followed = tuple(followable(document)) if links and not findings.is_product else ()
    return Seen(url, parser, findings, links=followed)


def product_of(seen: Seen, response: Response, page_hash: str) -> Product:
    """The record of what a parser found. What is None on it leaves the stored value as it is."""
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


def page_of(task: Crawl, response: Response, outcome: str, **about: Any) -> Page:
    """The record of one visit."""
    whole = response.status == 200
    return Page(
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
        etag=header(response, "etag") or (CLEAR if whole else None),
        last_modified=header(response, "last-modified") or (CLEAR if whole else None),
        confirmed=task.confirmed + 1 if response.status == 304 else 0,
        failed_at=CLEAR,
        **about,
    )


def seen_again(task: Crawl) -> list[Product]:
    """The product of a page that has not changed: nothing new is known about it, but it was seen."""
    if task.product_url is None:
        return []
    return [Product(url_hash=url_hash(task.product_url), url=task.product_url, domain=host_of(task.product_url))]


def gone_of(task: Crawl, reason: str, **evidence: Any) -> Gone:
    """The product of a page that is no longer there."""
    url = task.product_url or task.url
    return Gone(Product(url_hash=url_hash(url), url=url, domain=host_of(url)), reason, {"url": task.url, **evidence})


def soft_gone(task: Crawl, seen: Seen) -> Iterator[Gone]:
    """The product, if this was not the first soft 404 in a row."""
    if task.misses + 1 >= ENOUGH_MISSES:
        yield gone_of(task, SOFT_NOT_FOUND, status=200, says=seen.missing, visits=task.misses + 1)


def offer_of(product: Product) -> str:
    """Price and availability in one text: two visits are compared by it."""
    return f"{product.price}/{product.currency}/{product.availability}"


def refused_of(seen: Seen) -> list[Reject]:
    """The values that could not be right, in one row of evidence."""
    refused = [(name, why) for name, why in seen.findings.refused if name not in seen.findings]
    if not refused:
        return []
    reason = "; ".join(f"{name}: {why}" for name, why in refused)
    payload = {"url": seen.url, "parser": seen.parser.name, "parser_version": seen.parser.version, "refused": refused}
    return [Reject(Product, reason[:1_000], payload, key=url_hash(seen.url))]
