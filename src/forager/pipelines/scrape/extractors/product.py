"""One product of a shop, read by the parsers of the products pipeline: the shop's own, or the one for any shop."""

from collections.abc import Mapping
from functools import cache

from pydantic import BaseModel

from forager.core.http import Click, Scroll, WaitFor
from forager.extract.html.document import Document
from forager.extract.html.page_fit import PageFit, error_of, is_empty
from forager.extract.products.findings import ProductFindings, says_missing
from forager.extract.products.parser import Parsers, shipped_parsers
from forager.extract.text.normalise import Line, Prose, Url
from forager.pipelines.scrape.extractor import Extracted, Extractor, FieldFindings, PageInput, page_url
from forager.pipelines.scrape.job import CONSENT, CONSENT_WAIT
from forager.pipelines.scrape.steps import login_wall

_SOURCES: Mapping[str, str] = {
    "json-ld": "json-ld:Product",
    "microdata": "microdata:Product",
    "opengraph": "meta:og",
    "meta": "meta",
    "selector": "css",
    "script": "script",
}
"""Sources of a parser to the source names of this service; every other source is text."""


class ProductFields(BaseModel):
    product_name: Line | None = None
    brand: Line | None = None
    price: Line | None = None
    """A decimal with two places; of a range, the low end."""
    currency: Line | None = None
    """ISO 4217; null if the page does not show it."""
    availability: Line | None = None
    """`in_stock`, `out_of_stock`, `preorder` or `discontinued`."""
    rating: Line | None = None
    """From 0 to 5."""
    review_count: Line | None = None
    sku: Line | None = None
    gtin: Line | None = None
    category: Line | None = None
    description: Prose | None = None
    image_url: Url | None = None
    product_url: Url | None = None


def parse(page: PageInput, wanted: frozenset[str]) -> Extracted:
    document = Document(page.html, page.url, markup_first=True)
    told = _parsers().for_url(page.url).read(document)
    findings = FieldFindings(wanted)
    kind = _kind(document, told)
    if kind != "item":
        wall = login_wall(document)
        return Extracted(wall=wall) if wall else Extracted(kind=kind)
    for name, value in told.values.items():
        findings.offer(name, str(value.value), _SOURCES.get(value.source, "text"), value.confidence)
    for name, others in told.others.items():
        findings.disagree(name, ((str(each.value), _SOURCES.get(each.source, "text")) for each in others))
    if told.images:
        findings.offer("image_url", told.images[0].url, "meta:image", 0.7)
    return findings.extracted("product_url", page_url(document))


def _kind(document: Document, told: ProductFindings) -> PageFit:
    if told.is_list:
        return "list"
    if says_missing(document):
        return "error"
    if told.is_product:
        return "item"
    return "error" if error_of(document) else "empty" if is_empty(document) else "other"


@cache
def _parsers() -> Parsers:
    return Parsers.of(tuple(shipped_parsers()))


product = Extractor(
    name="product",
    output=ProductFields,
    script=(
        WaitFor("script[type='application/ld+json'], [itemprop='price'], h1", timeout=10.0),
        Click(CONSENT, timeout=CONSENT_WAIT),
        Scroll(2),
    ),
    parse=parse,
)
