"""What a reader can find on a product page of each layout: the answers to compare a parser with. Pure."""

from typing import Any

from forager.sandbox.shop.products import OUT_OF_STOCK, Product

_ALL = frozenset(
    (
        "name",
        "price",
        "currency",
        "availability",
        "brand",
        "category",
        "rating",
        "review_count",
        "sku",
        "gtin",
        "description",
    )
)
FIELDS: dict[str, frozenset[str]] = {
    "jsonld": _ALL,
    "microdata": _ALL,
    "opengraph": _ALL - {"rating", "review_count", "gtin"},
    "plain": _ALL,
    "amazon": _ALL,
    "atelier": _ALL,
    "depot": _ALL,
}
"""The fields that a layout shows."""


def shown(product: Product, layout: str) -> dict[str, Any]:
    """The values on the page. Amazon shows no price for what is not available; its SKU is the ASIN."""
    values: dict[str, Any] = {
        "name": product.name,
        "price": product.price,
        "currency": product.currency,
        "availability": product.availability,
        "brand": product.brand,
        "category": category_name(product.category),
        "rating": product.rating / 10,
        "review_count": product.reviews,
        "sku": product.asin if layout == "amazon" else product.sku,
        "gtin": product.gtin,
        "description": product.description,
    }
    if layout == "amazon" and product.availability == OUT_OF_STOCK:
        del values["price"], values["currency"]
    return {name: value for name, value in values.items() if name in FIELDS[layout]}


def category_name(number: int) -> str:
    again, place = divmod(number, len(_CATEGORIES))
    return f"{_CATEGORIES[place]} {again + 1}" if again else _CATEGORIES[place]


_CATEGORIES = (
    "Tables",
    "Lamps",
    "Kitchen",
    "Chairs",
    "Storage",
    "Clocks",
    "Textiles",
    "Garden",
    "Office",
    "Bath & Body",
)
