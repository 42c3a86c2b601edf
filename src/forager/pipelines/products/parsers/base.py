"""Reads any shop: schema.org in JSON-LD and microdata, OpenGraph and meta tags, and what is visible last. Pure."""

from forager.extract.document import Document
from forager.pipelines.products.findings import Findings
from forager.pipelines.products.parser import BASE, Parser
from forager.pipelines.products.structured import read_meta, read_structured
from forager.pipelines.products.visible import read_visible


def read(document: Document) -> Findings:
    found = Findings()
    read_structured(document, found)
    read_meta(document, found)
    if "price" not in found or "product_name" not in found:
        read_visible(document, found)
    return found


parser = Parser(BASE, 1, read)
