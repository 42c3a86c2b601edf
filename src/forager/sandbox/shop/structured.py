"""Product pages with structured data: JSON-LD, microdata, OpenGraph. Pure.

Each function returns (what goes into the head, what goes into the body).
"""

from html import escape
from typing import Any

import orjson

from forager.sandbox.shop.products import IN_STOCK, OUT_OF_STOCK, Product

Parts = tuple[str, str]
_SCHEMA = {IN_STOCK: "InStock", OUT_OF_STOCK: "OutOfStock"}


def jsonld(product: Product, url: str, images: list[str], category: str) -> Parts:
    """schema.org as JSON-LD, after a breadcrumb block of its own."""
    crumbs = {
        "@context": "https://schema.org",
        "@type": "BreadcrumbList",
        "itemListElement": [{"@type": "ListItem", "position": 1, "name": category, "item": "/"}],
    }
    head = f"{_script(crumbs)}{_script(jsonld_of(product, url, images, category))}"
    return head, _visible(product, images)


def jsonld_of(product: Product, url: str, images: list[str], category: str) -> dict[str, Any]:
    return {
        "@context": "https://schema.org",
        "@type": "Product",
        "name": product.name,
        "description": product.description,
        "sku": product.sku,
        "gtin13": product.gtin,
        "brand": {"@type": "Brand", "name": product.brand},
        "category": category,
        "image": images,
        "offers": _offers(product, url),
        "aggregateRating": {
            "@type": "AggregateRating",
            "ratingValue": f"{product.rating / 10:.1f}",
            "reviewCount": product.reviews,
        },
    }


def microdata(product: Product, url: str, images: list[str], category: str) -> Parts:
    """schema.org as microdata, with values in attributes and in texts."""
    pictures = "".join(f"<img itemprop='image' src='{image}' alt='{escape(product.name)}'>" for image in images)
    state = _SCHEMA.get(product.availability, "PreOrder")
    body = (
        f"<div itemscope itemtype='https://schema.org/Product'><h1 itemprop='name'>{escape(product.name)}</h1>"
        f"{pictures}"
        f"<span itemprop='brand' itemscope itemtype='https://schema.org/Brand'>"
        f"<meta itemprop='name' content='{escape(product.brand)}'></span>"
        f"<meta itemprop='sku' content='{product.sku}'><meta itemprop='gtin13' content='{product.gtin}'>"
        f"<meta itemprop='category' content='{escape(category)}'>"
        f"<div itemprop='offers' itemscope itemtype='https://schema.org/Offer'>"
        f"<span itemprop='price' content='{product.price}'>{product.money(product.cents)}</span>{_was(product)}"
        f"<meta itemprop='priceCurrency' content='{product.currency}'>"
        f"<link itemprop='availability' href='https://schema.org/{state}'><link itemprop='url' href='{url}'></div>"
        f"<div itemprop='aggregateRating' itemscope itemtype='https://schema.org/AggregateRating'>"
        f"<span itemprop='ratingValue'>{product.rating / 10:.1f}</span> stars, "
        f"<span itemprop='reviewCount'>{product.reviews}</span> reviews</div>"
        f"<p itemprop='description'>{escape(product.description)}</p></div>"
    )
    return "", body


def opengraph(product: Product, url: str, images: list[str], category: str) -> Parts:
    """OpenGraph and product meta tags; the body repeats little. Has no rating."""
    state = {IN_STOCK: "in stock", OUT_OF_STOCK: "oos"}.get(product.availability, "preorder")
    named = (
        ("og:type", "product"),
        ("og:title", product.name),
        ("og:description", product.description),
        ("og:url", url),
        ("product:price:amount", product.price),
        ("product:price:currency", product.currency),
        ("product:availability", state),
        ("product:brand", product.brand),
        ("product:category", category),
        ("product:retailer_item_id", product.sku),
        *(("og:image", image) for image in images),
    )
    head = "".join(f"<meta property='{name}' content='{escape(value)}'>" for name, value in named)
    return head, f"<h1>{escape(product.name)}</h1><p>{escape(product.description)}</p>"


def _offers(product: Product, url: str) -> dict[str, Any]:
    state = f"https://schema.org/{_SCHEMA.get(product.availability, 'PreOrder')}"
    if not product.variants:
        return {
            "@type": "Offer",
            "url": url,
            "price": product.price,
            "priceCurrency": product.currency,
            "availability": state,
        }
    cents = [variant.cents for variant in product.variants]
    return {
        "@type": "AggregateOffer",
        "lowPrice": f"{min(cents) / 100:.2f}",
        "highPrice": f"{max(cents) / 100:.2f}",
        "priceCurrency": product.currency,
        "offerCount": len(cents),
        "availability": state,
        "offers": [
            {
                "@type": "Offer",
                "name": name,
                "price": f"{each / 100:.2f}",
                "priceCurrency": product.currency,
                "availability": state,
            }
            for name, each in product.variants
        ],
    }


def _visible(product: Product, images: list[str]) -> str:
    pictures = "".join(f"<img src='{image}' alt='{escape(product.name)}'>" for image in images)
    return (
        f"<h1>{escape(product.name)}</h1>{pictures}<p class='price'>{product.money(product.cents)}</p>{_was(product)}"
        f"<p>{escape(product.description)}</p>"
    )


def _was(product: Product) -> str:
    return "" if product.regular is None else f"<del class='was'>{product.money(product.regular)}</del>"


def _script(value: dict[str, Any]) -> str:
    return f"<script type='application/ld+json'>{orjson.dumps(value).decode()}</script>"
