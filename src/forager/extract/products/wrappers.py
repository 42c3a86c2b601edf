"""Reads product pages by wrappers: paths to fields that the site's other pages have taught (`learning.py`). Pure.

A learnt value ranks below markup and the shop's own parser, and above the generic rules: it fills a field that has no
value and replaces a guess, nothing else. So a page whose markup is complete costs nothing more.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from forager.extract.html.document import Document
from forager.extract.html.page_kind import VETO, PageKind
from forager.extract.html.page_signs import PageSigns
from forager.extract.products.findings import ProductFindings, Value
from forager.extract.schemas.read import found_by, json_blocks
from forager.extract.schemas.spec import SchemaField
from forager.extract.schemas.template import fits
from forager.extract.text.prices import parse_price
from forager.extract.text.strings import one_line

GUESSES = ("heuristic", "sign")
"""Sources whose values a learnt one replaces."""
SURE_OF_KIND = 0.8
"""Confidence from which a page's own declaration of another kind stands, whatever its template."""
SUREST_LEARNT = 0.88
"""Confidence of a value whose path was right on all pages: below that of markup."""
OTHER_KINDS = VETO - {"FAQPage", "VideoObject"}
"""Declared types of a page that is no product whatever its template. Product pages have questions and films as well."""
OFFERED = ("price", "availability", "sku", "gtin")
LONGEST_AMOUNT = 60
Mode = Literal["teach", "heal"]
"""Taught by markup that is sure, or by the last good values of known products after a change of layout."""
_NUMBER = re.compile(r"\d[\d.,'’\s]*")


@dataclass(frozen=True, slots=True)
class FieldPath:
    """The path to one field on the pages of a template."""

    field: str
    path: SchemaField | None
    """None for a value that is the same on all pages, such as the shop's currency."""
    score: float
    before: str = ""
    after: str = ""
    """Words around the value in the text at the path: `Item no.` before a number."""
    constant: str | None = None

    @property
    def confidence(self) -> float:
        return round(SUREST_LEARNT * self.score, 3)


@dataclass(frozen=True, slots=True)
class PageWrapper:
    """The paths of one template."""

    template: str
    version: int
    anchors: tuple[str, ...]
    paths: tuple[FieldPath, ...]


def read_learnt(document: Document, findings: ProductFindings, wrappers: Sequence[PageWrapper]) -> PageWrapper | None:
    """Add the values that the wrapper of the page's template finds. Returns that wrapper if it was used for a field."""
    if findings.is_list and (findings.page is None or findings.page.confidence >= SURE_OF_KIND):
        return None
    is_other = findings.page is not None and findings.page.kind != "product"
    if is_other and findings.page is not None and findings.page.confidence >= SURE_OF_KIND:
        return None
    wanted = {path.field for each in wrappers for path in each.paths if _is_open(findings, path.field)}
    if not wanted:
        return None
    wrapper = next((each for each in wrappers if fits(each.anchors, document)), None)
    if wrapper is None:
        return None
    found = {path.field: value for path, value in read_paths(document, wrapper.paths) if path.field in wanted}
    known = found.keys() | findings.values.keys()
    if is_other or findings.is_list:
        if "product_name" not in found or not any(name in found for name in OFFERED):
            return wrapper
        if document.once(PageSigns).declared & OTHER_KINDS:
            return wrapper
        findings.page = PageKind("product", (f"template {wrapper.template}",), found["product_name"].confidence)
        findings.is_list = False
    elif "product_name" not in known:
        return wrapper
    for name, value in found.items():
        findings.values[name] = value
        findings.others.pop(name, None)
    return wrapper


def _is_open(findings: ProductFindings, name: str) -> bool:
    held = findings.values.get(name)
    return held is None or held.source in GUESSES


def read_paths(document: Document, paths: Sequence[FieldPath]) -> Iterator[tuple[FieldPath, Value]]:
    """Yield the value of each path that finds one. The currency is that of the price's own text, where it has one."""
    blocks: list[tuple[str, Any]] | None = None
    priced: str | None = None
    for path in sorted(paths, key=lambda each: each.field == "currency"):
        if path.path is not None and path.path.json_path and blocks is None:
            blocks = list(json_blocks(document))
        raw = path.constant if path.path is None else text_at(document, path, blocks or [])
        if path.field == "price" and isinstance(raw, str):
            priced = parse_price(raw).currency
        if path.field == "currency" and priced is not None:
            raw = priced
        value = None if raw is None else value_of(path.field, raw)
        if value is not None:
            yield path, Value(value, "learnt", path.confidence)


def text_at(document: Document, path: FieldPath, blocks: list[tuple[str, Any]]) -> str | int | float | None:
    """Return the text at a path, without the words around the value; or a number of the page's JSON."""
    if path.path is None:
        return None
    for _, texts in found_by(path.path, document, blocks):
        if texts and not isinstance(texts[0], dict | list | bool):
            if isinstance(texts[0], int | float):
                return texts[0]
            return bare(one_line(str(texts[0])), path.before, path.after)
    return None


def bare(text: str, before: str, after: str) -> str | None:
    """Return a text without the words around the value; None if it does not contain them."""
    if not text.startswith(before) or not text.endswith(after) or len(text) <= len(before) + len(after):
        return None
    return text[len(before) : len(text) - len(after)].strip()


def value_of(name: str, raw: Any) -> Any:
    """Return a text as a value of a field, checked as every value of a product is; None if it is none. A number is
    taken as it is."""
    text = one_line(str(raw))
    if not isinstance(raw, str):
        pass
    elif name == "price":
        price = parse_price(text) if len(text) <= LONGEST_AMOUNT else None
        text = str(price.amount) if price is not None and price.amount is not None else ""
    elif name in ("rating", "review_count"):
        number = _NUMBER.search(text) if len(text) <= LONGEST_AMOUNT else None
        text = number[0].strip().rstrip(".,") if number else ""
    elif name == "availability" and len(text) > LONGEST_AMOUNT:
        return None
    found = ProductFindings()
    if text:
        found.add(name, text, "learnt")
    value = found.get(name)
    return None if name == "price" and value == Decimal(0) else value
