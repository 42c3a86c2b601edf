"""Product pages with structured data: JSON-LD, microdata, OpenGraph. Pure.

Each function returns (what goes into the head, what goes into the body).
"""

from bisect import bisect_right
from collections.abc import Sequence
from html import escape
from itertools import accumulate
from typing import Any

import orjson

from forager.sandbox.shop.products import CURRENCIES, IN_STOCK, OUT_OF_STOCK, SimulatedProduct

Parts = tuple[str, str]
_SCHEMA = {IN_STOCK: "InStock", OUT_OF_STOCK: "OutOfStock"}


def jsonld(product: SimulatedProduct, url: str, images: list[str], category: str) -> Parts:
    """schema.org as JSON-LD, after a breadcrumb block of its own."""
    crumbs = {
        "@context": "https://schema.org",
        "@type": "BreadcrumbList",
        "itemListElement": [{"@type": "ListItem", "position": 1, "name": category, "item": "/"}],
    }
    head = f"{_script(crumbs)}{_script(jsonld_of(product, url, images, category))}"
    return head, _visible(product, images)


def jsonld_of(product: SimulatedProduct, url: str, images: list[str], category: str) -> dict[str, Any]:
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


def microdata(product: SimulatedProduct, url: str, images: list[str], category: str) -> Parts:
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


def opengraph(product: SimulatedProduct, url: str, images: list[str], category: str) -> Parts:
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


def _offers(product: SimulatedProduct, url: str) -> dict[str, Any]:
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


def _visible(product: SimulatedProduct, images: list[str]) -> str:
    pictures = "".join(f"<img src='{image}' alt='{escape(product.name)}'>" for image in images)
    return (
        f"<h1>{escape(product.name)}</h1>{pictures}<p class='price'>{product.money(product.cents)}</p>{_was(product)}"
        f"<p>{escape(product.description)}</p>"
    )


def _was(product: SimulatedProduct) -> str:
    return "" if product.regular is None else f"<del class='was'>{product.money(product.regular)}</del>"


def _script(value: dict[str, Any]) -> str:
    return f"<script type='application/ld+json'>{orjson.dumps(value).decode()}</script>"


# Product pages with the structure of Amazon's: the ids and classes for a parser of that shop. Pure.


def amazon(product: SimulatedProduct, url: str, images: list[str], category: str) -> Parts:
    """Title, byline, price block or range, availability, rating, gallery, details, and a carousel of other prices."""
    byline = f"Visit the {product.brand} Store" if product.number % 2 else f"Brand: {product.brand}"
    stars = f"{product.rating / 10:.1f} out of 5 stars"
    body = (
        f"<div id='wayfinding-breadcrumbs_feature_div'><ul class='a-unordered-list'><li><span class='a-list-item'>"
        f"<a class='a-link-normal a-color-tertiary' href='/'>{escape(category)}</a></span></li></ul></div>"
        f"<div id='dp' class='en_US'>{_gallery(product, images)}"
        f"<div id='centerCol'><div id='title_feature_div'><h1 id='title'><span id='productTitle' "
        f"class='a-size-large product-title-word-break'>        {escape(product.name)}       </span></h1></div>"
        f"<a id='bylineInfo' class='a-link-normal' href='/stores/x'>{escape(byline)}</a>"
        f"<div id='averageCustomerReviews'><span id='acrPopover' title='{stars}'><i class='a-icon a-icon-star'>"
        f"<span class='a-icon-alt'>{stars}</span></i></span><a id='acrCustomerReviewLink' href='#customerReviews'>"
        f"<span id='acrCustomerReviewText' class='a-size-base'>{product.reviews:,} ratings</span></a></div>"
        f"{_price(product)}<div id='feature-bullets'><ul class='a-unordered-list'><li><span class='a-list-item'> "
        f"{escape(product.description)} </span></li></ul></div></div>"
        f"<div id='rightCol'><div id='availability'>{_availability(product)}</div>"
        f"<input type='hidden' id='ASIN' name='ASIN' value='{product.asin}'></div>"
        f"<table id='productDetails_detailBullets_sections1'><tr><th> ASIN </th><td> {product.asin} </td></tr>"
        f"<tr><th> UPC </th><td> {product.gtin} </td></tr></table>{_carousel(product)}</div>"
    )
    return f"<link rel='canonical' href='{url}'><meta name='title' content='Shop: {escape(product.name)}'>", body


def _price(product: SimulatedProduct) -> str:
    if product.availability == OUT_OF_STOCK:
        return "<div id='corePriceDisplay_desktop_feature_div'></div>"
    if product.variants:
        low, high = product.variants[0].cents, product.variants[-1].cents
        return (
            "<div id='corePrice_desktop'><span class='a-price-range'>"
            f"{_tag(product, low)}<span class='a-text-price'> - </span>{_tag(product, high)}</span></div>"
        )
    whole, cents = f"{product.cents // 100:,}", f"{product.cents % 100:02}"
    symbol = CURRENCIES[product.currency][0].format("").strip()
    was = ""
    if product.regular is not None:
        was = (
            "<span class='a-size-small basisPrice'>List Price: <span class='a-price a-text-price' data-a-strike='true'>"
            f"<span class='a-offscreen'>{product.money(product.regular)}</span></span></span>"
        )
    return (
        "<div id='corePriceDisplay_desktop_feature_div'><span class='a-price aok-align-center priceToPay'>"
        f"<span class='a-offscreen'>{product.money(product.cents)}</span><span aria-hidden='true'>"
        f"<span class='a-price-symbol'>{symbol}</span><span class='a-price-whole'>{whole}"
        f"<span class='a-price-decimal'>.</span></span>"
        f"<span class='a-price-fraction'>{cents}</span></span></span>{was}</div>"
    )


def _tag(product: SimulatedProduct, cents: int) -> str:
    return f"<span class='a-price'><span class='a-offscreen'>{product.money(cents)}</span></span>"


def _availability(product: SimulatedProduct) -> str:
    if product.availability == OUT_OF_STOCK:
        return "<span class='a-size-medium a-color-price'> Currently unavailable. </span>"
    if product.availability == IN_STOCK:
        words = "Only 3 left in stock - order soon." if product.number % 3 == 0 else "In Stock"
        return f"<span class='a-size-medium a-color-success'> {words} </span>"
    return "<span class='a-size-medium a-color-success'> This item will be released soon. Pre-order now. </span>"


def _gallery(product: SimulatedProduct, images: list[str]) -> str:
    if not images:
        return ""
    sizes = orjson.dumps({image: [640, 480] for image in images[:1]}).decode()
    initial = orjson.dumps([{"hiRes": image, "large": image, "thumb": f"{image}?w=100"} for image in images]).decode()
    return (
        f"<div id='imgTagWrapperId'><img id='landingImage' alt='{escape(product.name)}' src='{images[0]}?w=100' "
        f"data-old-hires='{images[0]}' data-a-dynamic-image='{sizes}'></div>"
        f"<script type='text/javascript'>P.when('A').register('ImageBlockATF', function(A){{ var data = "
        f"{{ 'colorImages': {{ 'initial': {initial} }}, 'heroImage': {{}} }}; return data; }});</script>"
    )


def _carousel(product: SimulatedProduct) -> str:
    """Sponsored products: their prices are not the page's."""
    cards = "".join(
        f"<li class='a-carousel-card'><a class='a-link-normal' href='/dp/B000000{n:03}'>Sponsored {n}</a>"
        f"{_tag(product, 999 + n)}</li>"
        for n in range(3)
    )
    return f"<div id='sp_detail' class='a-carousel-container'><ol class='a-carousel'>{cards}</ol></div>"


# Product pages without structured data: a plain one, and two shops with a markup of their own. Pure.
#
# `plain` is what heuristics must read; `atelier` has class names of its own and splits the price; `depot` renders from
# a JSON state with prices in cents.


_PLAIN = {IN_STOCK: "In stock, ships tomorrow", OUT_OF_STOCK: "Sold out"}
_ATELIER = {IN_STOCK: ("in", "Ready to ship"), OUT_OF_STOCK: ("out", "Not in the workshop at the moment")}
_DEPOT = {IN_STOCK: "AVAILABLE", OUT_OF_STOCK: "NO_STOCK"}


def plain(product: SimulatedProduct, url: str, images: list[str], category: str) -> Parts:
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


def atelier(product: SimulatedProduct, url: str, images: list[str], category: str) -> Parts:
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


def depot(product: SimulatedProduct, url: str, images: list[str], category: str) -> Parts:
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


# Three states of one shop for the learning of wrappers. `marked` and `bare` have one template, which generic rules read
# wrongly: the first amount is not the price. Only `marked` has markup. `moved` is the same shop after a change of
# layout, without markup; no generic rule takes its pages for products. Pure.


_GALLERY = {IN_STOCK: "In stock", OUT_OF_STOCK: "Sold out", "preorder": "Pre-order"}


def marked(product: SimulatedProduct, url: str, images: list[str], category: str) -> Parts:
    """Return the template of `bare`, with JSON-LD."""
    head = _script(jsonld_of(product, url, images, category))
    return head, bare(product, url, images, category)[1]


def bare(product: SimulatedProduct, url: str, images: list[str], category: str) -> Parts:
    """No markup; an amount of another kind before the price, labels in a table whose rows come and go."""
    crate = product.money(product.number % 40 * 100 + 590)
    pictures = "".join(f"<img src='{image}' alt='' width='640'>" for image in images)
    more = "<tr><th>Care</th><td>Wipe with a dry cloth</td></tr>" if product.number % 3 == 0 else ""
    body = (
        f"<article class='exhibit'><p class='exhibit__section'>{escape(category)}</p>{pictures}"
        f"<h1 class='exhibit__name'>{escape(product.name)}</h1>"
        f"<p class='exhibit__crate'>{crate}</p><div class='exhibit__cost'>{product.money(product.cents)}</div>"
        f"<p class='exhibit__state'>{_GALLERY[product.availability]}</p><button>Add to cart</button>"
        f"<p class='exhibit__votes'>{product.rating / 10:.1f} of 5</p><p class='exhibit__voters'>{product.reviews}</p>"
        f"<table class='exhibit__facts'>{more}<tr><th>Maker</th><td>{escape(product.brand)}</td></tr>"
        f"<tr><th>Order code</th><td>No. {product.sku}</td></tr>"
        f"<tr><th>Barcode</th><td>{product.gtin}</td></tr></table>"
        f"<p class='exhibit__text'>{escape(product.description)}</p></article>"
    )
    return "", body


def moved(product: SimulatedProduct, url: str, images: list[str], category: str) -> Parts:
    """Another template of the same shop: no headline, no button, no markup, the amounts without a sign."""
    pictures = "".join(f"<img src='{image}' alt='' width='640'>" for image in images)
    body = (
        f"<section class='hall'><div class='hall__left'>{pictures}</div><div class='hall__right'>"
        f"<div class='hall__title'>{escape(product.name)}</div><div class='hall__house'>{escape(product.brand)}</div>"
        f"<div class='hall__sum'>{product.cents // 100}.{product.cents % 100:02}</div>"
        f"<div class='hall__stand'>{_GALLERY[product.availability]}</div>"
        f"<ul class='hall__list'><li class='hall__code'>{product.sku}</li>"
        f"<li class='hall__bar'>{product.gtin}</li></ul>"
        f"<div class='hall__text'>{escape(product.description)}</div></div></section>"
    )
    return "", body


# The frame of a page: head, navigation, a body, and filler up to the wanted size. Built from pieces made once.
#
# The filler is markup as shops have it around their product: cards with links, lists, paragraphs, a script. It names no
# price, so that no reader takes one from it.


NAVIGATION = 12
_END = b"</main><footer><p>Fair trade since 1931.</p></footer></body></html>"
_BEGIN = "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
_COMMENT = b"<!--%b-->"


class Frame:
    """Renders pages of one shop."""

    def __init__(self, size: int, links: Sequence[tuple[str, str]]) -> None:
        """`links` are (address, text) of the navigation and of the cards of the filler."""
        menu = "".join(f"<li><a href='{address}'>{escape(text)}</a></li>" for address, text in links[:NAVIGATION])
        self._menu = f"<body><header><a href='/'>Home</a><nav><ul>{menu}</ul></nav></header><main>".encode()
        self._size = size
        blocks = [_block(number, links) for number in range(size // 300 + 1)]
        self._filler = b"".join(blocks)
        self._ends = [0, *accumulate(len(block) for block in blocks)]

    def page(self, title: str, body: str, head: str = "") -> bytes:
        """Return a whole page of exactly the wanted size, if its content leaves room for that."""
        opening = f"{_BEGIN}<title>{escape(title)}</title>{head}</head>"
        begin = opening.encode() + self._menu + body.encode()
        room = self._size - len(begin) - len(_END)
        if room <= 0:
            return begin + _END
        end = self._ends[bisect_right(self._ends, room) - 1]
        rest = room - end
        padding = b" " * rest if rest < 7 else _COMMENT % (b"x" * (rest - 7))
        return b"".join((begin, self._filler[:end], padding, _END))


def _block(number: int, links: Sequence[tuple[str, str]]) -> bytes:
    address, text = links[number % len(links)] if links else ("/", "Home")
    if number % 9 == 4:
        return (
            b"<script>window.dataLayer=window.dataLayer||[];dataLayer.push({'event':'view','slot':%d});</script>"
            % number
        )
    return (
        f"<div class='card card--{number % 5}'><a class='card__link' href='{address}'><span>{escape(text)}</span></a>"
        f"<p class='card__text'>Made to last and easy to mend. Delivered within a week, {number} of many.</p>"
        f"<ul><li>Solid</li><li>Plain</li><li>Honest</li></ul></div>"
    ).encode()


# The fields on a product page of each layout: the expected values for a parser. Pure.


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
    "marked": _ALL,
    "bare": _ALL - {"currency"},
    "moved": _ALL - {"currency", "rating", "review_count", "category"},
}
"""The fields that a layout shows."""


def shown(product: SimulatedProduct, layout: str) -> dict[str, Any]:
    """Return the values on the page. Amazon shows no price for what is not available; its SKU is the ASIN."""
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
