"""Pages whose kind is known (`kinds`) and product pages at their real size (`products-2021`) of the shared data set.

A page is named `host/number`, so that all pages of a site are held out together.
"""

import gzip
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from bench.support.data_set import DATA, UNSAID, read
from bench.support.held_out import is_held_out
from bench.support.product_pages import equal_to, one_of
from bench.support.scores import Judge, Score, same
from forager.extract.html.document import Document
from forager.extract.html.page_kind import page_kind
from forager.extract.text.prices import availability_of
from forager.fetch.page_classifier import looks
from forager.pipelines.products.wiring import parsers


@dataclass(frozen=True, slots=True)
class KnownPage:
    """One page of the set, with its address and its annotation."""

    name: str
    """Host without `www.`, and the number of the page."""
    url: str
    body: bytes
    expected: dict[str, Any]


def known_pages(folder: str) -> Iterator[KnownPage]:
    """Yield the pages of `kinds` or `products-2021` in the order of their numbers."""
    for file in sorted((DATA / folder).glob("*.expected.json")):
        told = json.loads(file.read_text())
        number = file.name.removesuffix(".expected.json")
        host = (urlsplit(told["url"] or "").hostname or "").removeprefix("www.")
        body = gzip.decompress(file.with_name(f"{number}.html.gz").read_bytes())
        yield KnownPage(f"{host}/{number}", told["url"] or UNSAID, body, told["expected"])


_OURS = {
    "product": {"product"},
    "collection": {"collection"},
    "article": {"article"},
    "documentation": {"documentation"},
    "forum": {"forum"},
    "service": {"company", "other"},
    "listing": {"collection", "postings", "listings", "other", "company"},
}
"""Kinds of the annotation, and the kinds of ours that are right. A `service` there is a page about what a firm does, a
`listing` any list of links."""


def kinds() -> tuple[Score, dict[str, float]]:
    """The kind of every page, and shares: product pages found, other pages refused as a product, posting and listing,
    pages that the recogniser of challenges and shells lets pass."""
    score = Score()
    verdicts: list[tuple[bool, str, bool]] = []
    for page in known_pages("kinds"):
        began, told = time.process_time(), page.expected["page_kind"]
        found = page_kind(Document(page.body, page.url, markup_first=True)).kind
        score.milliseconds.append((time.process_time() - began) * 1000)
        score.count(page.name, told, found, told, _OURS[told].__contains__)
        held = is_held_out(page.name)
        verdicts.append(
            (held, "found" if told == "product" else "refused", (found == "product") == (told == "product"))
        )
        if told != "product":
            verdicts.append((held, "not_stored", not _is_item("product", page)))
        verdicts.append((held, "no_posting", not _is_item("job_posting", page)))
        verdicts.append((held, "no_home", not _is_item("listing", page)))
        if not page.expected.get("spa"):
            verdicts.append((held, "not_walled", looks(200, {"content-type": "text/html"}, page.body) == "page"))
    figures = {}
    for name in ("found", "refused", "not_stored", "no_posting", "no_home", "not_walled"):
        for part, rows in (("", verdicts), ("_held_out", [each for each in verdicts if each[0]])):
            right = [is_right for _, key, is_right in rows if key == name]
            figures[f"kinds_{name}{part}"] = round(sum(right) / max(1, len(right)), 4)
    return score, figures


def _is_item(extractor: str, page: KnownPage) -> bool:
    extracted = read(extractor, page.body, page.url).extracted
    return extracted.kind == "item" and extracted.wall is None


def products_2021() -> tuple[Score, dict[str, float]]:
    """Price, availability, SKU and brand of real product pages, and the F1 of each field."""
    score, installed = Score(), parsers()
    for page in known_pages("products-2021"):
        began = time.process_time()
        found = installed.for_url(page.url).read(Document(page.body, page.url, markup_first=True))
        score.milliseconds.append((time.process_time() - began) * 1000)
        told = {name: value[0] if isinstance(value, list) else value for name, value in page.expected.items()}
        listed = page.expected.get("sku")
        codes = [*(listed if isinstance(listed, list) else ()), told.get("sku"), told.get("mpn"), told.get("gtin")]
        codes = [code for code in codes if code]
        facts: tuple[tuple[str, Any, Callable[[Any], Judge]], ...] = (
            ("price", Decimal(told["price"]) if told.get("price") else None, equal_to),
            ("availability", availability_of(told.get("availability")), same),
            ("sku", codes or None, one_of),
            ("brand", told.get("brand"), same),
        )
        for name, expected, judge in facts:
            if expected is not None:
                value = found.get(name) if found.is_product else None
                sure = found.values[name].confidence if name in found else None
                score.count(page.name, name, value, expected, judge(expected), sure)
    figures = {}
    for name, part in score.by_field().items():
        for key, each in ((name, part), (f"{name}_held_out", part.held_out())):
            both = each.recall + each.precision
            figures[f"real_{key}_f1"] = round(2 * each.recall * each.precision / both if both else 0.0, 4)
    return score, figures
