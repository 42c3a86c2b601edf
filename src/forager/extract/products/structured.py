"""Products in structured data: schema.org as JSON-LD or microdata, and OpenGraph. Pure.

Several offers are never averaged: the offer that the page shows is the price, of a range the low end. All of them are
in the metadata.
"""

import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, cast

from forager.core.hosts import host_of
from forager.extract.html.document import Document
from forager.extract.html.structured_data import Thing, first, of_type, text_of, things
from forager.extract.products.findings import ProductFindings, Source, decimal_of
from forager.extract.tables import any_of, spoken
from forager.extract.text.prices import parse_price
from forager.extract.text.strings import one_line

PRODUCT_TYPES = (
    "Product",
    "ProductGroup",
    "IndividualProduct",
    "ProductModel",
    "SomeProducts",
    "Book",
    "Car",
    "Vehicle",
)
GTINS = ("gtin13", "gtin", "gtin14", "gtin12", "gtin8", "isbn", "ean")
MOST_OFFERS = 50
Data = dict[str, Any]


def read_structured(document: Document, findings: ProductFindings) -> None:
    """Add the fields of the page's main product from schema.org markup."""
    marked = things(document)
    products = [thing for thing in of_type(marked, *PRODUCT_TYPES) if thing.depth <= 3]
    for source in ("json-ld", "microdata", "rdfa"):
        same = [each for each in products if each.source == source]
        thing = _main(document, same)
        if thing is not None:
            _read_product(document, thing, findings)
        elif same and not findings.values:
            findings.is_list = True
    _read_breadcrumbs(marked, findings)


def _main(document: Document, products: Sequence[Thing]) -> Thing | None:
    """Return the product that the page is about: with an offer and the name of the headline, before others of the
    page."""
    if len(products) < 2:
        return products[0] if products else None
    headline = _words(document.title) | _words(document.headline)

    def fits(thing: Thing) -> tuple[int, int, bool, bool, bool]:
        name = _words(thing.text("name"))
        shared = len(name & headline) / len(name) if name else 0.0
        is_shown = name == _words(document.headline)
        is_group = "ProductGroup" in thing.types  # before its variants, which may be on the same level
        return (-int(shared > 0.6), thing.depth, not is_shown, not is_group, "offers" not in thing.data)

    if all(not thing.data.get("offers") for thing in products):
        return min(products, key=fits)
    ordered = sorted(products, key=fits)
    # A list of equal products is a list, not the page of one of them.
    alike = [each for each in products if each.depth == ordered[0].depth and each.data.get("offers")]
    return None if len(alike) > 3 and fits(ordered[0])[0] == 0 else ordered[0]


def _words(text: str | None) -> frozenset[str]:
    return frozenset((text or "").casefold().split())


def _read_product(document: Document, thing: Thing, findings: ProductFindings) -> None:
    source: Source = "json-ld" if thing.source == "json-ld" else "microdata"
    data = thing.data
    findings.add("product_name", thing.text("name"), source)
    findings.add("description", thing.text("description"), source)
    findings.add("brand", _unlabelled(thing.text("brand", "manufacturer")), source)
    findings.add("category", _category(data.get("category")), source)
    findings.add("sku", _code(thing.text("sku", "productID", "mpn")), source)
    for name in GTINS:
        if not findings.add("gtin", _bare(thing.text(name)), source):
            continue
        break
    rating = first(data.get("aggregateRating"))
    if isinstance(rating, dict):
        _read_rating(rating, findings, source)
    for url in _image_urls(data.get("image")):
        findings.add_image(document.absolute(url))
    offers = list(_offers(data))
    if offers:
        _read_offers(offers, findings, source)


def _read_rating(rating: Data, findings: ProductFindings, source: Source) -> None:
    value, best = text_of(rating.get("ratingValue")), text_of(rating.get("bestRating"))
    if value and best:
        try:
            scale = decimal_of(best)
            if scale > 5:
                value = str(decimal_of(value.replace(",", ".")) * 5 / scale)
        except ValueError:
            pass
    findings.add("rating", value, source)
    count = text_of(rating.get("reviewCount")) or text_of(rating.get("ratingCount"))
    findings.add("review_count", count, source)


def _read_offers(offers: Sequence[Data], findings: ProductFindings, source: Source) -> None:
    amounts = [_amount(offer) for offer in offers]
    place = next((number for number, amount in enumerate(amounts) if amount is not None), 0)
    shown = offers[place]
    currency = _currency_of(shown)
    lowest = not text_of(shown.get("price")) and "lowPrice" in shown
    findings.add_price(amounts[place], currency, source, lowest=lowest)
    findings.add("availability", _availability(offers, shown), source)
    if len(offers) > 1 or "highPrice" in shown:
        priced = zip(offers[:MOST_OFFERS], amounts, strict=False)
        listed = [_told(offer, amount) for offer, amount in priced if amount is not None]
        if len(listed) > 1 or any("high" in each for each in listed):
            findings.metadata.setdefault("offers", listed)
    for offer in offers:
        regular = _regular(offer)
        if regular is not None:
            findings.metadata.setdefault("regular_price", regular)


def _offers(data: Data) -> Iterator[Data]:
    """Yield the offers in the page's order; an aggregate comes before its offers, because its values are the ones
    shown."""
    waiting = _dicts(data.get("offers")) + _dicts(data.get("hasVariant"))
    for each in waiting[:MOST_OFFERS]:
        inner = _dicts(each.get("offers"))
        if "price" in each or "lowPrice" in each or "priceSpecification" in each or not inner:
            yield each
        yield from inner[:MOST_OFFERS]


def _dicts(value: Any) -> list[Data]:
    values = value if isinstance(value, list) else [value]
    return [cast("Data", each) for each in values if isinstance(each, dict)]


def _amount(offer: Data) -> str | None:
    """Return the amount as plain text. Structured data has a point as its separator, but not every shop follows
    that."""
    for name in ("price", "lowPrice"):
        text = text_of(offer.get(name))
        if text:
            return _plain_number(text)
    for spec in _dicts(offer.get("priceSpecification")):
        kind = str(spec.get("priceType") or "")
        text = text_of(spec.get("price")) or text_of(spec.get("minPrice"))
        if text and not kind.endswith(("ListPrice", "SRP", "StrikethroughPrice")):
            return _plain_number(text)
    return None


def _plain_number(text: str) -> str | None:
    try:
        return str(decimal_of(text))
    except ValueError:
        amount = parse_price(text).amount
        return text if amount is None else str(amount)


def _currency_of(offer: Data) -> str | None:
    """Return the currency of an offer, or of its price specification; else the one that the price itself is written
    with."""
    for part in (offer, *_dicts(offer.get("priceSpecification"))):
        written = text_of(part.get("priceCurrency")) or parse_price(text_of(part.get("price"))).currency
        if written:
            return written
    return None


def _availability(offers: Sequence[Data], shown: Data) -> str | None:
    """Return the availability of the offer that is shown; variants of one price, such as sizes, are in stock if one of
    them is."""
    availability = text_of(shown.get("availability"))
    of_one_price = {amount for offer in offers if (amount := _amount(offer)) is not None}
    if availability is None or (len(offers) > 1 and len(of_one_price) == 1):
        stated = [text for offer in offers if (text := text_of(offer.get("availability")))]
        availability = next(
            (text for text in stated if text.lower().endswith("instock")),
            availability or (stated[0] if stated else None),
        )
    return availability


def _told(offer: Data, amount: str) -> Data:
    told = {
        "name": text_of(offer.get("name")) or text_of(offer.get("sku")),
        "price": amount,
        "high": text_of(offer.get("highPrice")),
        "currency": text_of(offer.get("priceCurrency")),
        "availability": text_of(offer.get("availability")),
    }
    return {name: value for name, value in told.items() if value is not None}


def _regular(offer: Data) -> str | None:
    for spec in _dicts(offer.get("priceSpecification")):
        if str(spec.get("priceType") or "").endswith(("ListPrice", "SRP", "StrikethroughPrice")):
            return _plain_number(text_of(spec.get("price")) or "")
    return None


def _category(value: Any) -> str | None:
    """Return the last part of a path: `Home > Tables` is Tables."""
    text = text_of(value)
    if text is None or text.startswith("http"):
        return None
    return text.replace("›", ">").replace("»", ">").rpartition(">")[2].strip() or None


_LABEL = any_of(
    (*spoken("brand"), *spoken("sku"), "mpn", r"(?:item|model|product|part)(?: (?:no\.?|number|code|id|#))?"),
    r"\A[^:#]{0,40}?(?:{})\s{0,4}[:#]\s*",
)
_CODED = re.compile(r"(?=\S*\d)([\w./-]{6,40})\s+[^\W\d]{3,}\s")
"""A code with the words of a category behind it."""


def _unlabelled(text: str | None) -> str | None:
    """`Manufacturer: Black Leaf` is Black Leaf: some shops mark the label up with the value."""
    label = _LABEL.match(text) if text else None
    return text[label.end() :] if text and label else text


def _code(text: str | None) -> str | None:
    """Return a code without the words after it: `TE502955-1293415 Covers for sofas` is TE502955-1293415."""
    plain = _unlabelled(text)
    coded = _CODED.match(plain) if plain else None
    return coded[1] if coded else plain


def _bare(text: str | None) -> str | None:
    return text.partition(":")[2] if text and text.lower().startswith(("isbn:", "ean:", "upc:", "gtin:")) else text


def _image_urls(value: Any) -> Iterator[str]:
    for each in (value if isinstance(value, list) else [value])[:30]:
        url = each.get("contentUrl") or each.get("url") if isinstance(each, dict) else each
        if isinstance(url, str) and url.strip():
            yield url.strip()


def _read_breadcrumbs(marked: Sequence[Thing], findings: ProductFindings) -> None:
    """The category from a breadcrumb trail: its last entry that is not the product itself or the home page."""
    if "category" in findings:
        return
    for thing in of_type(marked, "BreadcrumbList"):
        names = [_crumb(each) for each in _dicts(thing.data.get("itemListElement"))]
        product = (findings.get("product_name") or "").casefold()
        kept = [name for name in names if name and name.casefold() not in (product, "home", "start", "accueil")]
        if kept:
            findings.add("category", kept[-1], "json-ld" if thing.source == "json-ld" else "microdata")
            return


def _crumb(entry: Data) -> str | None:
    item = entry.get("item")
    return text_of(entry.get("name")) or (text_of(item) if isinstance(item, dict) else None)


_TITLE_ENDS = re.compile(r"\s*>\s+|\s+[|–—•·»>:-]\s+")


def _without_site(document: Document, title: str) -> str:
    """`Blue lamp | Lamps Ltd` without the name of the site, which its meta tags or its host have."""
    parts = list(_TITLE_ENDS.finditer(title))
    if not parts:
        return title
    last = "".join(char for char in title[parts[-1].end() :].casefold() if char.isalnum())
    names = (
        "".join(char for char in name.casefold() if char.isalnum())
        for name in (
            document.metas.get("og:site_name", ""),
            host_of(document.url).removeprefix("www.").partition(".")[0],
        )
    )
    return (
        title[: parts[-1].start()] if last and any(name and (name in last or last in name) for name in names) else title
    )


def _own_title(document: Document, title: str | None) -> str | None:
    """Return the page's title for social media without the shop's name and the like: its headline, if it is a part of
    it, or else the part before a separator that the page shows as a line of its own."""
    headline = document.headline
    if not title or (headline and headline.casefold() in title.casefold() and len(headline) > 3):
        return headline if title and headline else title
    title = _without_site(document, title)
    first = _TITLE_ENDS.split(title)[0]
    shown = first != title and (first == document.metas.get("og:description") or _is_a_line(document, first))
    return first if shown else title


def _is_a_line(document: Document, text: str) -> bool:
    return document.shows(text, alone=True) or document.shows(escape(text), alone=True)


_META_PRICE = ("product:price:amount", "og:price:amount", "product:sale_price:amount")
_META_CURRENCY = ("product:price:currency", "og:price:currency", "product:sale_price:currency")


def read_meta(document: Document, findings: ProductFindings) -> None:
    """Add the values of OpenGraph and product meta tags."""
    metas = document.metas
    is_product = metas.get("og:type", "").lower() in ("product", "og:product", "product.item") or any(
        name in metas for name in _META_PRICE
    )
    if not is_product and not findings.values:
        return
    findings.add("product_name", _own_title(document, metas.get("og:title")), "opengraph")
    findings.add("description", metas.get("og:description") or metas.get("description"), "opengraph")
    amount = next((metas[name] for name in _META_PRICE if name in metas), None)
    currency = next((metas[name] for name in _META_CURRENCY if name in metas), None)
    if amount:
        findings.add_price(_plain_number(one_line(amount)), currency, "opengraph")
    for name in ("product:availability", "og:availability"):
        findings.add("availability", metas.get(name), "opengraph")
    findings.add("brand", metas.get("product:brand") or metas.get("og:brand"), "opengraph")
    findings.add("category", _category(metas.get("product:category")), "opengraph")
    findings.add("sku", metas.get("product:retailer_item_id"), "opengraph")
    for name in ("product:ean", "product:isbn", "product:upc"):
        findings.add("gtin", metas.get(name), "opengraph")
    if "og:image" in metas:
        for node in document.beginning.css("meta[property='og:image']")[:20]:
            findings.add_image(document.absolute(node.attributes.get("content") or ""))
