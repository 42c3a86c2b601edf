"""The sandbox's shop Depot: all of it in a JSON state, prices in cents. An example of a parser of script data."""

from typing import Any

from forager.extract.html.document import Document
from forager.extract.html.structured_data import loads_tolerantly
from forager.extract.products.findings import ProductFindings, Source
from forager.extract.products.parser import Parser

SOURCE: Source = "selector"
STOCK = {"AVAILABLE": "in_stock", "NO_STOCK": "out_of_stock", "PREORDER": "preorder"}


def read(document: Document) -> ProductFindings:
    findings = ProductFindings()
    script = document.tree.css_first("script#__STATE__")
    state = loads_tolerantly(script.text()) if script is not None else None
    product = _part(state, "product")
    pricing, codes, score = _part(product, "pricing"), _part(product, "codes"), _part(product, "score")
    findings.add("product_name", product.get("title"), SOURCE)
    findings.add("brand", product.get("maker"), SOURCE)
    findings.add("description", product.get("text"), SOURCE)
    trail = product.get("breadcrumb")
    findings.add("category", trail[-1] if isinstance(trail, list) and trail else None, SOURCE)
    findings.add("sku", codes.get("sku"), SOURCE)
    findings.add("gtin", codes.get("ean"), SOURCE)
    findings.add("rating", score.get("average"), SOURCE)
    findings.add("review_count", score.get("count"), SOURCE)
    findings.add("availability", STOCK.get(str(_part(product, "inventory").get("state"))), SOURCE)
    findings.add_price(_units(pricing.get("current")), pricing.get("currency"), SOURCE)
    if (regular := _units(pricing.get("list"))) is not None:
        findings.metadata["regular_price"] = regular
    variants = product.get("variants")
    if isinstance(variants, list) and variants:
        findings.metadata["offers"] = [
            {"name": each.get("label"), "price": _units(each.get("current"))}
            for each in variants
            if isinstance(each, dict)
        ]
    media = product.get("media")
    for each in media if isinstance(media, list) else ():
        if isinstance(each, dict) and isinstance(each.get("src"), str):
            findings.add_image(document.absolute(each["src"]), product.get("title"))
    return findings


def _part(value: Any, name: str) -> dict[str, Any]:
    part = value.get(name) if isinstance(value, dict) else None
    return part if isinstance(part, dict) else {}


def _units(cents: Any) -> str | None:
    """Cents as units: 129900 is 1299.00. Anything but a whole number is passed on, to be refused."""
    if cents is None:
        return None
    if isinstance(cents, bool) or not isinstance(cents, int):
        return str(cents)
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100}.{abs(cents) % 100:02}"


parser = Parser("depot", 1, read, ("depot.example",))
