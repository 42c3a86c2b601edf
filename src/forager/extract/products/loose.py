"""Properties of schema.org that stand outside of any item: some shops mark values and forget the product around them.
Pure."""

from forager.extract.document import Document
from forager.extract.prices import parse_price
from forager.extract.products.findings import Findings
from forager.extract.text import one_line

FIELDS = {"sku": "sku", "mpn": "sku", "productID": "sku", "brand": "brand", "availability": "availability"}
MOST_NODES = 20


def read_loose(document: Document, findings: Findings) -> None:
    """Add what is marked with `itemprop` once on the page, where nothing better told it."""
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
    """The different values of a property, as a machine would read them; empty ones left out."""
    values: dict[str, None] = {}
    for node in document.tree.css(f"[itemprop='{prop}']")[:MOST_NODES]:
        attributes = node.attributes
        text = attributes.get("content") or attributes.get("href") or one_line(node.text(separator=" "))
        if text and len(text) <= 200:
            values[one_line(text)] = None
    return list(values)
