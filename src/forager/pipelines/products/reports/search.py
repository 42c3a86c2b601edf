"""Full-text search over the catalogue: filters, facets, highlights."""

import html
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from pydantic import Field

from forager.core.database import Database, Row
from forager.core.errors import FieldError, Rejected
from forager.pipelines.products.reports.catalogue import (
    CENT,
    SCALE,
    ProductConditions,
    ProductReport,
    conditions,
    products_by_id,
)
from forager.sdk.queries import decode_cursor, encode_cursor
from forager.sdk.reports import Report
from forager.sdk.search import RankedHits, TextIndex
from forager.sdk.search.ranking import END, START

FACETS = ("brand", "category", "availability", "domain")
MOST_VALUES = 20
LONGEST_SNIPPET = 200
_OF, _ORDER = "product search", ("id",)


class SearchHit(Report):
    """A product that was found, and where."""

    product: ProductReport
    score: float = Field(description="Higher fits better; comparable within one search only.")
    highlights: dict[str, str] = Field(description="Text as HTML by field, escaped except for `<em>` around matches.")


class Facets(Report):
    """Distribution of the candidates: value and number, most frequent first."""

    brand: list[tuple[str, int]]
    category: list[tuple[str, int]]
    availability: list[tuple[str, int]]
    domain: list[tuple[str, int]]
    price_min: Decimal | None
    price_max: Decimal | None


class SearchReport(Report):
    hits: list[SearchHit]
    total: int = Field(description="Products that were ranked, at most 5,000.")
    more: bool = Field(description="True if older products also matched and were not ranked.")
    corrected: bool = Field(description="True if the words as written found little and similar ones were searched.")
    unindexed: int = Field(description="Products that are not in the index yet; 0 unless it is being rebuilt.")
    terms: list[list[str]] = Field(description="The words that were looked for, each with its near words.")
    facets: Facets
    next_cursor: str | None


async def search_products(
    db: Database,
    index: TextIndex,
    text: str,
    asked: ProductConditions,
    *,
    cursor: str | None = None,
    limit: int = 20,
) -> SearchReport:
    """Best first. Raises `Rejected` if the text has no word in it, or the cursor is not of a search."""
    only, values = conditions(asked, "i")
    matches = await index.search(text, (*FACETS, "price"), only, values)
    if not matches.terms:
        problem = FieldError("q", "has no word to look for")
        raise Rejected(f"q: {problem.message}.", fields=[problem])
    start = max(0, decode_cursor(_OF, _ORDER, cursor)[0]) if cursor is not None else 0
    end = start + limit
    scores = {int(hit.row["id"]): hit.score for hit in matches.hits[start:end]}
    products = {product.id: product for product in await products_by_id(db, list(scores))}
    marked = await index.marked(matches, list(scores))
    hits = [
        SearchHit(product=products[number], score=round(score, 6), highlights=_highlights(marked.get(number, {})))
        for number, score in scores.items()
        if number in products
    ]
    return SearchReport(
        hits=hits,
        total=len(matches.hits),
        more=matches.more,
        corrected=matches.corrected,
        unindexed=matches.unindexed,
        terms=[list(words) for words in matches.terms],
        facets=_facets(matches),
        next_cursor=encode_cursor(_OF, _ORDER, [end]) if end < len(matches.hits) else None,
    )


def _facets(matches: RankedHits) -> Facets:
    rows = [hit.row for hit in matches.hits]
    prices = [row["price"] for row in rows if row["price"] is not None]
    counted: dict[str, Any] = {name: _counts(rows, name) for name in FACETS}
    return Facets(
        **counted,
        price_min=(Decimal(min(prices)) / SCALE).quantize(CENT) if prices else None,
        price_max=(Decimal(max(prices)) / SCALE).quantize(CENT) if prices else None,
    )


def _counts(rows: Sequence[Row], name: str) -> list[tuple[str, int]]:
    counted = Counter(row[name] for row in rows if row[name])
    return sorted(counted.items(), key=lambda each: (-each[1], each[0]))[:MOST_VALUES]


def _highlights(marked: Mapping[str, str]) -> dict[str, str]:
    """Only fields in which something matched; a long text around its first match."""
    return {name: _as_html(_snippet(text)) for name, text in marked.items() if START in text}


def _snippet(text: str) -> str:
    if len(text) <= LONGEST_SNIPPET:
        return text
    first = max(0, text.index(START) - LONGEST_SNIPPET // 4)
    part = text[first : first + LONGEST_SNIPPET]
    if part.count(START) > part.count(END):
        part += END
    return f"{'…' if first else ''}{part}…"


def _as_html(text: str) -> str:
    """Scraped text is never trusted: all of it is escaped, and only our own marks become tags."""
    return html.escape(text).replace(START, "<em>").replace(END, "</em>")
