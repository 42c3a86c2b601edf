"""Values that a page's scripts hold about its product: the state of its program, data for its analytics. Pure.

A shop without markup still passes brand, number and price to its own scripts. An object in a script is about the
product of the page if it has the product's name; several of them must agree, or none is believed. What a reader sees is
asked as well: a brand or a price that the page does not show is not given.
"""

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from itertools import islice
from json import JSONDecoder
from typing import Any

from forager.extract.html.document import Document
from forager.extract.html.structured_data import text_of
from forager.extract.products.findings import ProductFindings, decimal_of
from forager.extract.text.prices import availability_of, parse_price

WANTED = ("sku", "brand", "price", "availability")
MOST_PLACES, MOST_OBJECTS = 60, 12
LONGEST_KEY, LONGEST_BEFORE, LONGEST_OBJECT = 40, 4_000, 100_000
LONGEST_BRAND, LONGEST_LINE = 60, 60
_KEY = re.compile(r'"(?:name|title|item_name|productName|product_name|displayName|productTitle)"\s{0,4}:\s{0,4}"\Z')
_CODE = re.compile(r"(?=.*\d)[\w][\w./-]{2,29}")
_CODES = ("sku", "productSKU", "productSku", "item_id", "productCode", "articleNumber", "article_number", "partNumber")
_BRANDS = ("brand", "item_brand", "brandName", "brand_name", "productBrand", "manufacturer")
_PRICES = ("salePrice", "currentPrice", "finalPrice", "price")
_CURRENCIES = ("priceCurrency", "currency", "currencyCode")
_STATES = ("availability", "available", "inStock", "in_stock", "isInStock", "stockStatus")
_DECODER = JSONDecoder(strict=False)


def read_script_values(document: Document, findings: ProductFindings, name: str | None) -> None:
    """Add what no markup has: article number, brand, price and stock, from the objects that have the product's name."""
    if not name or all(wanted in findings for wanted in WANTED):
        return
    objects = list(_objects(document.source, name))
    if not objects:
        return
    if "price" not in findings:
        _read_price(document, findings, objects)
    if "sku" not in findings:
        codes = _agreed(objects, _CODES)
        findings.add("sku", codes if codes and _CODE.fullmatch(codes) else None, "script")
    if "brand" not in findings:
        brand = _agreed(objects, _BRANDS)
        if (
            brand
            and len(brand) <= LONGEST_BRAND
            and (document.shows(brand) or brand.casefold() in (document.title or "").casefold())
        ):
            findings.add("brand", brand, "script")
    if "availability" not in findings and "price" in findings:
        findings.add("availability", _state(objects), "script")


def _objects(source: str, name: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects that have this name, in page order. Searching for the name itself costs less than looking
    at every key of the scripts."""
    found = 0
    for words in {json.dumps(name)[1:-1], json.dumps(name, ensure_ascii=False)[1:-1]}:
        named = re.compile(r"\s+".join(map(re.escape, words.split())) + '"')
        for match in islice(named.finditer(source), MOST_PLACES):
            key = _KEY.search(source, max(0, match.start() - LONGEST_KEY), match.start())
            start = _beginning(source, key.start()) if key else None
            value = _decoded(source, start) if start is not None else None
            if value is not None and "@type" not in value:
                found += 1
                yield value
            if found >= MOST_OBJECTS:
                return


def _decoded(source: str, start: int) -> dict[str, Any] | None:
    try:
        value, _ = _DECODER.raw_decode(source[start : start + LONGEST_OBJECT])
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _beginning(source: str, place: int) -> int | None:
    """Return where the object begins that has the key at this place."""
    depth = 0
    for at in range(place - 1, max(-1, place - LONGEST_BEFORE), -1):
        letter = source[at]
        if letter in "}]":
            depth += 1
        elif letter in "{[":
            if depth == 0:
                return at if letter == "{" else None
            depth -= 1
    return None


def _agreed(objects: list[dict[str, Any]], keys: tuple[str, ...]) -> str | None:
    """Return the value of the first of these keys that the objects have, if they all have the same one."""
    for key in keys:
        values = {text for each in objects if (text := text_of(each.get(key)))}
        if values:
            return values.pop() if len(values) == 1 else None
    return None


def _read_price(document: Document, findings: ProductFindings, objects: list[dict[str, Any]]) -> None:
    """Add the price if the page shows it: scripts also hold amounts in cents, without tax or for members."""
    shown = {
        price.amount
        for line in document.shown
        if len(line.text) <= LONGEST_LINE and (price := parse_price(line.text)).amount is not None
    }
    for key in _PRICES:
        amounts = {amount for each in objects if (amount := _amount(each.get(key))) is not None and amount in shown}
        if len(amounts) == 1:
            findings.add_price(amounts.pop(), _agreed(objects, _CURRENCIES), "script")
            return


def _amount(value: Any) -> Decimal | None:
    if isinstance(value, dict):
        value = next((value[key] for key in ("value", "amount", "current", "price") if key in value), None)
    text = text_of(value)
    try:
        return decimal_of(text) if text else None
    except ValueError:
        return parse_price(text).amount


def _state(objects: list[dict[str, Any]]) -> str | None:
    """In stock if one of the objects is: they may be variants."""
    for key in _STATES:
        values = [each[key] for each in objects if each.get(key) is not None]
        states = {
            ("in_stock" if value else "out_of_stock") if isinstance(value, bool) else availability_of(text_of(value))
            for value in values
        }
        if states:
            return "in_stock" if "in_stock" in states else states.pop() if len(states) == 1 else None
    return None
