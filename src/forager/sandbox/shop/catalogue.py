"""The pages around the products: home, categories with pagination, robots.txt, sitemaps. Pure but for a small cache."""

import gzip
from collections.abc import Iterator
from datetime import UTC, datetime
from html import escape
from typing import NamedTuple

from forager.sandbox.shop.layouts import category_name
from forager.sandbox.shop.products import Shelf, ShopConfig, asin_of

_TRACKING = ("utm_source=grid&utm_medium=shop", "ref=cat_{}", "gclid=x{}", "fbclid=y{}&utm_campaign=spring")
_XML = "<?xml version='1.0' encoding='UTF-8'?>"
_NAMESPACE = "xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'"
_KEPT = 8


class ShopLink(NamedTuple):
    address: str
    text: str


class Catalogue:
    """Addresses and lists of one shop."""

    def __init__(self, config: ShopConfig, shelf: Shelf) -> None:
        self._config = config
        self._shelf = shelf
        self._zipped: dict[tuple[str, int, int], bytes] = {}

    def path(self, number: int, layout: str) -> str:
        """Return the address of a product: each layout has its own form."""
        slug = self._shelf.name_parts(number)
        return f"/{slug}/dp/{asin_of(number)}" if layout == "amazon" else f"/p/{slug}"

    def category_path(self, number: int) -> str:
        return f"/c/{number}-{category_name(number).lower().replace(' & ', '-').replace(' ', '-')}"

    def links(self, host: str = "") -> list[ShopLink]:
        """Return the categories, then some products: the navigation of every page."""
        departments = [ShopLink(self.category_path(n), category_name(n)) for n in range(self._config.categories)]
        numbers = range(1, min(self._config.pages, 40) + 1)
        products = [ShopLink(self.path(n, self._shelf.layout(n, host)), f"Item {n}") for n in numbers]
        return departments + products

    def home(self) -> str:
        rows = "".join(
            f"<li><a href='{self.category_path(n)}'>{escape(category_name(n))}</a></li>"
            for n in range(self._config.categories)
        )
        return f"<h1>All departments</h1><ul class='departments'>{rows}</ul>"

    def category(self, number: int, page: int, host: str) -> str | None:
        """Return a page of a category (from 1); None if there is no such page. Endless pages show the last one
        again."""
        config = self._config
        if not 0 <= number < config.categories or page < 1:
            return None
        first = number or config.categories
        count = len(range(first, config.pages + 1, config.categories))
        last = max(1, -(-count // config.per_page))
        if page > last and not config.endless_pages:
            return None
        shown = min(page, last)
        rows = "".join(
            f"<li class='tile'><a href='{escape(self._link(n, host))}'>{escape(self._shelf.name_parts(n))}</a></li>"
            for n in range(first, config.pages + 1, config.categories)[
                (shown - 1) * config.per_page : shown * config.per_page
            ]
        )
        path = self.category_path(number)
        more = (
            f"<a rel='next' class='next' href='{path}?page={page + 1}'>Next</a>"
            if page < last or config.endless_pages
            else ""
        )
        sorts = "".join(
            f"<a rel='nofollow' href='{path}?sort={sort}&amp;page={shown}'>{sort}</a>" for sort in ("price", "new")
        )
        return (
            f"<h1>{escape(category_name(number))}</h1><p class='sorts'>{sorts}</p><ul class='grid'>{rows}</ul>"
            f"<nav class='pages'><span>Page {shown} of {last}</span>{more}</nav>"
        )

    def robots(self, base: str) -> str:
        delay = self._config.crawl_delay
        lines = ["User-agent: *", "Disallow: /cart", "Disallow: /search", "Disallow: /*?sort="]
        if delay is not None:
            lines.append(f"Crawl-delay: {delay:g}")
        if self._config.sitemap != "none":
            lines += ["", f"Sitemap: {base}/sitemap.xml"]
        return "\n".join(lines) + "\n"

    def sitemap(self, base: str, host: str, moment: float) -> str | None:
        """`/sitemap.xml`; None if the shop has none."""
        config = self._config
        if config.sitemap == "none":
            return None
        if config.sitemap == "flat":
            return self._urls(range(1, config.pages + 1), base, host, moment)
        if config.sitemap == "broken":
            return self._urls(range(1, config.pages + 1), base, host, moment)[:-40] + "<loc>&nope;</urlset"
        parts = max(1, -(-config.pages // config.sitemap_urls))
        rows = "".join(
            f"<sitemap><loc>{base}/sitemaps/products-{n}.xml.gz</loc></sitemap>" for n in range(1, parts + 1)
        )
        rows += f"<sitemap><loc>{base}/sitemaps/categories.xml</loc></sitemap>"
        return f"{_XML}<sitemapindex {_NAMESPACE}>{rows}</sitemapindex>"

    def product_sitemap(self, part: int, base: str, host: str, moment: float) -> bytes | None:
        """Return one gzip file of the index (from 1); None if there is no such part."""
        config = self._config
        first = (part - 1) * config.sitemap_urls + 1
        if config.sitemap != "index" or part < 1 or (first > config.pages and part > 1):
            return None
        key = (base, part, int(moment // 3600))
        if key not in self._zipped:
            numbers = range(first, min(config.pages, first + config.sitemap_urls - 1) + 1)
            if len(self._zipped) >= _KEPT:
                del self._zipped[next(iter(self._zipped))]
            self._zipped[key] = gzip.compress(self._urls(numbers, base, host, moment).encode(), 1, mtime=0)
        return self._zipped[key]

    def category_sitemap(self, base: str) -> str:
        rows = "".join(f"<url><loc>{base}{self.category_path(n)}</loc></url>" for n in range(self._config.categories))
        return f"{_XML}<urlset {_NAMESPACE}>{rows}</urlset>"

    def _urls(self, numbers: range, base: str, host: str, moment: float) -> str:
        return f"{_XML}<urlset {_NAMESPACE}>{''.join(self._entries(numbers, base, host, moment))}</urlset>"

    def _entries(self, numbers: range, base: str, host: str, moment: float) -> Iterator[str]:
        shelf, old_share = self._shelf, self._config.old_share
        for number in numbers:
            old = old_share and shelf.share(number, b"old") < old_share
            path = f"/old/{number}" if old else self.path(number, shelf.layout(number, host))
            day = datetime.fromtimestamp(shelf.changed(number, moment), UTC).date().isoformat()
            yield f"<url><loc>{base}{path}</loc><lastmod>{day}</lastmod></url>\n"

    def _link(self, number: int, host: str) -> str:
        path = self.path(number, self._shelf.layout(number, host))
        if self._shelf.share(number, b"tracking") >= self._config.tracking_share:
            return path
        return f"{path}?{_TRACKING[number % len(_TRACKING)].format(number)}"
