"""Reads any shop: schema.org in JSON-LD and microdata, OpenGraph and meta tags, and what is visible last. Pure."""

import re
from decimal import Decimal

from forager.extract.html.document import Document
from forager.extract.html.page_kind import PageKind, page_kind
from forager.extract.products.findings import ProductFindings
from forager.extract.products.parser import BASE, Parser
from forager.extract.products.script_values import read_script_values
from forager.extract.products.structured import read_meta, read_structured
from forager.extract.products.visible import (
    GUESSED,
    doubt_unseen_brand,
    headline_of,
    prefer_shown_code,
    read_missing_facts,
    read_price_today,
    read_visible,
)
from forager.extract.products.visible_price import doubt_unseen_price, read_currency
from forager.extract.text.prices import parse_price
from forager.extract.text.strings import one_line

# Properties of schema.org that are outside of any item: some shops mark values and forget the product around them.
# Pure.


FIELDS = {"sku": "sku", "mpn": "sku", "productID": "sku", "brand": "brand", "availability": "availability"}
MOST_NODES = 20


def read_loose(document: Document, findings: ProductFindings) -> None:
    """Add fields that are marked with `itemprop` once on the page, where no better source has them."""
    if not document.marks.loose or findings.is_list:
        return
    for prop, name in FIELDS.items():
        if name not in findings:
            values = _values(document, prop)
            findings.add(name, values[0].removeprefix("mpn:") if len(values) == 1 else None, "meta")
    if "price" not in findings:
        prices, currencies = _values(document, "price"), _values(document, "priceCurrency")
        if len(prices) == 1:
            price = parse_price(prices[0], currencies[0] if len(currencies) == 1 else None)
            findings.add_price(price.amount, price.currency, "meta")


def _values(document: Document, prop: str) -> list[str]:
    """Return the different values of a property, as a machine would read them; empty ones left out."""
    values: dict[str, None] = {}
    for node in document.tree.css(f"[itemprop='{prop}']")[:MOST_NODES]:
        attributes = node.attributes
        text = attributes.get("content") or attributes.get("href") or one_line(node.text(separator=" "))
        if text and len(text) <= 200:
            values[one_line(text)] = None
    return list(values)


# Chooses between several prices in a page's markup. Pure.
#
# Markup contradicts itself: JSON-LD that has the list price while the meta tags have the sale price, or a range over
# all variants next to the price of the one that is shown.


DEEPEST_SALE = Decimal("0.2")
"""A price below this share of another one belongs to something else: a part, a month's instalment, a sample."""


_OPENING = re.compile(r"start(?:ing)? (?:price|bid)\W{0,3}(?:<[^<>]*>\s*){0,6}[$€£]?\s?([\d.,]+)")


def choose_price(document: Document, findings: ProductFindings) -> None:
    """Let the price hold that a buyer pays: a single price before the low end of a range; of two in the same currency
    the lower one, the other being the price before a discount. The price at which an auction began is no price."""
    if len({offered.amount for offered in findings.prices}) < 2:
        return
    opening = {parse_price(each[1]).amount for each in _OPENING.finditer(document.lowered)}
    prices = [offered for offered in findings.prices if offered.amount not in opening] or findings.prices
    best = next((offered for offered in prices if not offered.lowest), prices[0])
    for offered in prices:
        same = offered.currency in (None, best.currency) and not offered.lowest
        if same and best.amount * DEEPEST_SALE <= offered.amount < best.amount:
            findings.metadata.setdefault("regular_price", str(best.amount))
            best = offered
    if best.amount != findings.get("price"):
        findings.hold_price(best)


A_SENTENCE, MOST_PROSE = 80, 6_000
"""Characters of a sentence, and characters in sentences above which a page that declares nothing is no product's."""
ESSENTIAL = ("product_name", "price", "availability", "sku")
"""If markup has all of these, the visible text is not read: it takes longer than everything else."""


def read(document: Document) -> ProductFindings:
    findings = ProductFindings()
    read_structured(document, findings)
    read_meta(document, findings)
    read_loose(document, findings)
    choose_price(document, findings)
    findings.page = _page_of(document, findings)
    if findings.page.kind != "product":
        findings.is_list |= findings.page.kind in ("collection", "postings", "listings")
        return findings
    read_script_values(document, findings, findings.get("product_name") or headline_of(document))
    if any(name not in findings for name in ESSENTIAL):
        read_visible(document, findings)
    elif "brand" not in findings:
        read_missing_facts(document, findings)
    prefer_shown_code(document, findings)
    read_price_today(document, findings)
    doubt_unseen_brand(document, findings)
    doubt_unseen_price(document, findings)
    read_currency(document, findings)
    return findings


def _page_of(document: Document, findings: ProductFindings) -> PageKind:
    """Return the kind of the page. One without signs of any kind can still be a product's: its markup has a name and a
    price, or it declares nothing about itself at all, as pages of old shops do; then its visible words decide, and it
    may not be a long text."""
    kind = page_kind(document)
    if kind.kind in ("other", "company") and "price" in findings and "product_name" in findings:
        return PageKind("product", ("markup with a name and a price",), 0.6)
    if kind.kind != "other" or "og:type" in document.metas or document.marks.json_ld >= 0:
        return kind
    prose = sum(len(line.text) for line in document.shown if len(line.text) >= A_SENTENCE)
    return kind if prose > MOST_PROSE else PageKind("product", ("visible words",), GUESSED)


parser = Parser(BASE, 9, read)
