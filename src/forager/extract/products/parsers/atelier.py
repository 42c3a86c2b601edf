"""The sandbox's shop Atelier: class names of its own, the price in two parts. An example of a parser by selectors."""

import re

from forager.extract.html.document import Document
from forager.extract.products.findings import ProductFindings, Source
from forager.extract.products.parser import Parser, attribute_at, text_at
from forager.extract.text.prices import parse_price

SOURCE: Source = "selector"
STOCK = {"stock--in": "in_stock", "stock--out": "out_of_stock", "stock--soon": "preorder"}


def read(document: Document) -> ProductFindings:
    findings = ProductFindings()
    findings.add("product_name", text_at(document, ".piece__name"), SOURCE)
    findings.add("brand", text_at(document, ".piece__maker b"), SOURCE)
    findings.add("category", text_at(document, ".trail"), SOURCE)
    findings.add("description", text_at(document, ".piece__story"), SOURCE)
    findings.add("sku", attribute_at(document, ".piece", "data-sku"), SOURCE)
    findings.add("rating", attribute_at(document, "meter.stars", "value"), SOURCE)
    findings.add("review_count", re.sub(r"\D", "", text_at(document, ".opinions") or ""), SOURCE)
    findings.add("availability", _stock(document), SOURCE)
    _read_price(document, findings)
    for term in document.tree.css("dl.facts dt"):
        value = term.next
        if term.text(strip=True) == "EAN" and value is not None:
            findings.add("gtin", value.text(strip=True), SOURCE)
    for image in document.tree.css(".look img[data-zoom]"):
        findings.add_image(document.absolute(image.attributes.get("data-zoom") or ""), image.attributes.get("alt"))
    return findings


def _read_price(document: Document, findings: ProductFindings) -> None:
    whole, cents = text_at(document, ".cost__whole"), text_at(document, ".cost__cents")
    if whole and re.fullmatch(r"[\d,]+", whole):
        amount = f"{whole.replace(',', '')}.{cents or '00'}"
        findings.add_price(amount, attribute_at(document, ".cost__currency", "title"), SOURCE)
    elif whole:
        findings.refused.append(("price", f"{whole[:20]!r} is not a price"))
    was = parse_price(text_at(document, ".cost__was")).amount
    if was is not None:
        findings.metadata["regular_price"] = str(was)


def _stock(document: Document) -> str | None:
    classes = (attribute_at(document, ".stock", "class") or "").split()
    return next((STOCK[name] for name in classes if name in STOCK), None)


parser = Parser("atelier", 1, read, ("atelier.example",))
