"""The fields that users of Scrapy and Crawlee read on any shop's page: extruct for the markup, price-parser for the
amounts."""

# mypy: ignore-errors
# (what it imports is installed in an environment of its own, not here)

import extruct
from price_parser import Price

SYNTAXES = ["json-ld", "microdata", "opengraph", "rdfa"]


def fields_of(html, url):
    """Return the fields of the first product of a page; None if its markup has none."""
    try:
        data = extruct.extract(html, base_url=url, syntaxes=SYNTAXES, uniform=True, errors="ignore")
    except Exception:  # noqa: BLE001 - it raises on some pages in spite of `errors`
        return None
    for thing in _things([*data["json-ld"], *data["microdata"], *data["rdfa"]]):
        kinds = thing.get("@type")
        if "Product" in (kinds if isinstance(kinds, list) else [kinds]):
            offer, rating = _first(thing.get("offers")), _first(thing.get("aggregateRating"))
            brand = _first(thing.get("brand"))
            raw = offer.get("price") or offer.get("lowPrice")
            price = Price.fromstring(str(raw) if raw is not None else None, offer.get("priceCurrency"))
            return {
                "name": thing.get("name"),
                "description": thing.get("description"),
                "brand": brand.get("name") or thing.get("brand"),
                "sku": thing.get("sku"),
                "images": thing.get("image"),
                "price": price.amount_float,
                "currency": offer.get("priceCurrency") or price.currency,
                "availability": offer.get("availability"),
                "rating": rating.get("ratingValue"),
                "review_count": rating.get("reviewCount"),
            }
    for graph in data["opengraph"]:
        if "product" in str(graph.get("@type") or graph.get("og:type")):
            price = Price.fromstring(graph.get("product:price:amount"), graph.get("product:price:currency"))
            return {"name": graph.get("og:title"), "price": price.amount_float, "currency": price.currency}
    return None


def _things(roots):
    for root in roots:
        if isinstance(root, dict):
            yield root
            graph = root.get("@graph")
            yield from (each for each in (graph if isinstance(graph, list) else []) if isinstance(each, dict))
        elif isinstance(root, list):
            yield from _things(root)


def _first(value):
    if isinstance(value, list):
        value = value[0] if value else None
    return value if isinstance(value, dict) else {}
