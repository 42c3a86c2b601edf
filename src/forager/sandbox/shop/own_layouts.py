"""Product pages without structured data: a plain one, and two shops with a markup of their own. Pure.

`plain` is what heuristics must read; `atelier` has class names of its own and splits the price; `depot` renders from
a JSON state with prices in cents.
"""

from html import escape

import orjson

from forager.sandbox.shop.products import IN_STOCK, OUT_OF_STOCK, Product
from forager.sandbox.shop.structured import Parts

_PLAIN = {IN_STOCK: "In stock, ships tomorrow", OUT_OF_STOCK: "Sold out"}
_ATELIER = {IN_STOCK: ("in", "Ready to ship"), OUT_OF_STOCK: ("out", "Not in the workshop at the moment")}
_DEPOT = {IN_STOCK: "AVAILABLE", OUT_OF_STOCK: "NO_STOCK"}


def plain(product: Product, url: str, images: list[str], category: str) -> Parts:
    """Headline, price, button, table: no hint for machines but a canonical link."""
    pictures = "".join(f"<img src='{image}' alt='{escape(product.name)}' width='640'>" for image in images)
    was = f"<s>{product.money(product.regular)}</s> " if product.regular is not None else ""
    body = (
        f"<p><a href='/'>Home</a> &gt; {escape(category)}</p><h1>{escape(product.name)}</h1>{pictures}"
        f"<p>{was}<b>{product.money(product.cents)}</b></p><p>{_PLAIN.get(product.availability, 'Pre-order now')}</p>"
        f"<button>Add to cart</button><p>Rated {product.rating / 10:.1f} out of 5 ({product.reviews} reviews)</p>"
        f"<table><tr><td>Brand</td><td>{escape(product.brand)}</td></tr>"
        f"<tr><td>Item number</td><td>{product.sku}</td></tr>"
        f"<tr><td>EAN</td><td>{product.gtin}</td></tr></table><p>{escape(product.description)}</p>"
    )
    return f"<link rel='canonical' href='{url}'>", body


def atelier(product: Product, url: str, images: list[str], category: str) -> Parts:
    mark, words = _ATELIER.get(product.availability, ("soon", "Order ahead"))
    looks = "".join(
        f"<figure class='look'><img src='{image}?w=100' data-zoom='{image}' alt='{escape(product.name)}'></figure>"
        for image in images
    )
    was = f"<del class='cost__was'>{product.money(product.regular)}</del>" if product.regular is not None else ""
    body = (
        f"<article class='piece' data-sku='{product.sku}'><p class='trail'>{escape(category)}</p>"
        f"<h1 class='piece__name'>{escape(product.name)}</h1>"
        f"<p class='piece__maker'>by <b>{escape(product.brand)}</b></p>"
        f"<div class='cost'><abbr class='cost__currency' title='{product.currency}'></abbr>"
        f"<span class='cost__whole'>{product.cents // 100:,}</span>"
        f"<sup class='cost__cents'>{product.cents % 100:02}</sup>"
        f"{was}</div><span class='stock stock--{mark}'>{words}</span>"
        f"<meter class='stars' min='0' max='5' value='{product.rating / 10:.1f}'></meter>"
        f"<a class='opinions' href='#opinions'>{product.reviews} opinions</a>"
        f"<dl class='facts'><dt>Article no.</dt><dd>{product.sku}</dd><dt>EAN</dt><dd>{product.gtin}</dd></dl>"
        f"<section class='piece__story'><p>{escape(product.description)}</p></section>{looks}</article>"
    )
    return f"<link rel='canonical' href='{url}'>", body


def depot(product: Product, url: str, images: list[str], category: str) -> Parts:
    pricing = {"current": product.cents, "list": product.regular, "currency": product.currency, "unit": "cents"}
    variants = [{"label": name, "current": cents} for name, cents in product.variants]
    state = {
        "page": {"kind": "pdp", "url": url},
        "product": {
            "id": product.number,
            "title": product.name,
            "maker": product.brand,
            "breadcrumb": [category],
            "pricing": pricing,
            "variants": variants,
            "inventory": {"state": _DEPOT.get(product.availability, "PREORDER")},
            "score": {"average": product.rating / 10, "count": product.reviews},
            "codes": {"sku": product.sku, "ean": product.gtin},
            "text": product.description,
            "media": [{"src": image, "role": "main" if n == 0 else "more"} for n, image in enumerate(images)],
        },
        "recommended": [{"title": "Another thing", "pricing": {"current": 100, "currency": product.currency}}],
    }
    script = orjson.dumps(state).decode().replace("</", "<\\/")
    body = f"<div id='app'><h1>{escape(product.name)}</h1></div>"
    return "", f"{body}<script id='__STATE__' type='application/json'>{script}</script>"
