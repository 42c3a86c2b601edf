"""Reads any shop: schema.org in JSON-LD and microdata, OpenGraph and meta tags, and what is visible last. Pure."""

from forager.extract.document import Document
from forager.extract.products.findings import Findings
from forager.extract.products.loose import read_loose
from forager.extract.products.parser import BASE, Parser
from forager.extract.products.price_choice import choose_price
from forager.extract.products.structured import read_meta, read_structured
from forager.extract.products.visible import read_visible
from forager.extract.products.visible_price import read_currency

ESSENTIAL = ("product_name", "price", "availability", "sku")
"""If markup tells all of these, the visible text is not read: it takes longer than everything else."""


def read(document: Document) -> Findings:
    findings = Findings()
    read_structured(document, findings)
    read_meta(document, findings)
    read_loose(document, findings)
    choose_price(findings)
    if any(name not in findings for name in ESSENTIAL):
        read_visible(document, findings)
    read_currency(document, findings)
    return findings


parser = Parser(BASE, 5, read)
