"""Product pages with the structure of Amazon's: the ids and classes that a parser of that shop looks for. Pure."""

from html import escape

import orjson

from forager.sandbox.shop.config import CURRENCIES
from forager.sandbox.shop.products import IN_STOCK, OUT_OF_STOCK, Product
from forager.sandbox.shop.structured import Parts


def amazon(product: Product, url: str, images: list[str], category: str) -> Parts:
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


def _price(product: Product) -> str:
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


def _tag(product: Product, cents: int) -> str:
    return f"<span class='a-price'><span class='a-offscreen'>{product.money(cents)}</span></span>"


def _availability(product: Product) -> str:
    if product.availability == OUT_OF_STOCK:
        return "<span class='a-size-medium a-color-price'> Currently unavailable. </span>"
    if product.availability == IN_STOCK:
        words = "Only 3 left in stock - order soon." if product.number % 3 == 0 else "In Stock"
        return f"<span class='a-size-medium a-color-success'> {words} </span>"
    return "<span class='a-size-medium a-color-success'> This item will be released soon. Pre-order now. </span>"


def _gallery(product: Product, images: list[str]) -> str:
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


def _carousel(product: Product) -> str:
    """Sponsored products: their prices are not the page's."""
    cards = "".join(
        f"<li class='a-carousel-card'><a class='a-link-normal' href='/dp/B000000{n:03}'>Sponsored {n}</a>"
        f"{_tag(product, 999 + n)}</li>"
        for n in range(3)
    )
    return f"<div id='sp_detail' class='a-carousel-container'><ol class='a-carousel'>{cards}</ol></div>"
