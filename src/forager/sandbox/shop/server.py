"""A shop on a port of this machine: product pages in several markups, categories, sitemaps, images.

Prices and stock follow the world's time. Nothing is kept per page, and a page costs some tens of microseconds, so that
a crawler is measured and not the shop.
"""

import re
import zlib
from collections.abc import Callable, Mapping
from datetime import datetime
from email.utils import formatdate
from struct import pack
from typing import Any, ClassVar
from urllib.parse import parse_qs

from forager.sandbox.faults import Trouble
from forager.sandbox.journal import Call
from forager.sandbox.rate import SlidingWindow
from forager.sandbox.scrape_pages import TEXT
from forager.sandbox.shop import hostile
from forager.sandbox.shop.catalogue import Catalogue
from forager.sandbox.shop.layouts import (
    Frame,
    Parts,
    amazon,
    atelier,
    bare,
    category_name,
    depot,
    jsonld,
    marked,
    microdata,
    moved,
    opengraph,
    plain,
    shown,
)
from forager.sandbox.shop.products import Shelf, ShopConfig, SimulatedProduct, number_of
from forager.sandbox.upstream import Reply, Upstream
from forager.sandbox.wire import HTML, WireRequest

# Pictures of products: small valid PNG files, different for each, some with the same bytes. Pure.


_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def png(width: int, height: int, shade: int, tail: int = 0) -> bytes:
    """Return a grey picture; `tail` bytes follow its end, which makes it big without being slow to make."""
    header = pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = (b"\x00" + bytes((shade % 256,)) * width) * height
    parts = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows, 1)) + _chunk(b"IEND", b"")
    return _SIGNATURE + parts + b"\x00" * tail


def product_image(number: int, place: int, *, small: bool = False) -> bytes:
    """Return the picture of a product. The last-but-one of every seventh product is the same file: a logo."""
    if place == 2 and number % 7 == 0:
        return png(80, 60, 200)
    width, height = 240 + number % 97, 180 + (number * 7 + place) % 61
    return png(width // 4, height // 4, number + place) if small else png(width, height, number * 3 + place * 50)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return pack(">I", len(data)) + kind + data + pack(">I", zlib.crc32(kind + data))


Layout = Callable[[SimulatedProduct, str, list[str], str], Parts]
_LAYOUTS: dict[str, Layout] = {
    "jsonld": jsonld,
    "microdata": microdata,
    "opengraph": opengraph,
    "plain": plain,
    "amazon": amazon,
    "atelier": atelier,
    "depot": depot,
    "marked": marked,
    "bare": bare,
    "moved": moved,
}
_UTF8 = b"text/html; charset=utf-8"
_XML = b"application/xml"
_PNG = b"image/png"
_PRODUCT = re.compile(r"/(?:p/(?:[a-z0-9-]*-)?(\d+)|(?:[^/]+/)?dp/([0-9A-Z]{10}))/?")
_IMAGE = re.compile(r"/img/(\d+)-(\d+)\.png")


class ShopSandbox(Upstream[ShopConfig]):
    """`async with ShopSandbox(config, now=clock.now) as shop:` — then crawl `shop.url("/")`.

    `shop.product(n)` is what is true now, `shop.shown(n)` what the page shows of it. Any host name reaches the port.
    """

    host_names: ClassVar[tuple[str, ...]] = ("shop",)

    def __init__(
        self,
        config: ShopConfig | None = None,
        *,
        now: Callable[[], datetime] | None = None,
        ports: Mapping[str, int] | None = None,
        port: int = 0,
    ) -> None:
        super().__init__(config or ShopConfig(), now=now, ports=ports or {"shop": port})
        self.prepare()

    @property
    def port(self) -> int:
        return self.hosts["shop"].port

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def product_url(self, number: int, host: str = "127.0.0.1") -> str:
        """Return the canonical address of a product."""
        return self.url(self.catalogue.path(number, self.shelf.layout(number, host)), host)

    def product(self, number: int) -> SimulatedProduct:
        return self.shelf.product(number, self.time.seconds())

    def shown(self, number: int, host: str = "127.0.0.1") -> dict[str, Any]:
        """Return what the page of a product shows now, by field."""
        return shown(self.product(number), self.shelf.layout(number, host))

    def render(self, number: int, host: str) -> bytes:
        """Return the page of a product as it is served now."""
        layout = self.shelf.layout(number, host)
        return self._render(self.product(number), layout, self.catalogue.path(number, layout), host)

    def spoiled(self, number: int) -> str | None:
        """Return the kind of bad markup that the product's page has; None for a good page."""
        share = self.config.broken_share
        if not share or self.shelf.share(number, b"broken") >= share:
            return None
        return tuple(hostile.KINDS)[self.shelf.pick(number, b"broken", len(hostile.KINDS))]

    def adopt(self, config: ShopConfig) -> None:
        """Take another configuration while running. The products stay; the layout of their pages may change."""
        super().adopt(config)
        self.shelf.adopt(config)

    def prepare(self) -> None:
        self.shelf = Shelf(self.config, self.time.seconds())
        self.catalogue = Catalogue(self.config, self.shelf)
        self._frames: dict[str, Frame] = {}
        self._windows: dict[str, SlidingWindow] = {}

    def announcement(self) -> dict[str, Any]:
        return {"url": self.url(""), "sitemap": self.url("/sitemap.xml"), "products": self.config.pages}

    def error(self, fault: str, call: Call) -> Reply | None:
        status = _STATUSES.get(fault)
        if status is None:
            return None
        if fault == "captcha":
            return Reply(403, _CAPTCHA, HTML)
        return Reply(status, b"<html><body><h1>%d</h1></body></html>" % status, HTML, self._wait(status))

    def answer(self, host: str, request: WireRequest, call: Call) -> Reply:
        name = request.headers.get(b"host", b"").decode("latin-1").rpartition(":")[0]
        call.host = name
        match = _PRODUCT.fullmatch(request.path)
        number = 0
        if match is not None:
            number = int(match[1]) if match[1] else number_of(match[2]) or 0
            call.operation, call.subject = "product", str(number)
        else:
            call.operation, call.subject = _operation(request.path), request.path
        limit = self.config.rate_limit
        if limit is not None and not self._windows.setdefault(name, SlidingWindow()).admit(call.at, limit):
            return Reply(429, b"<html><body><h1>429</h1></body></html>", HTML, self._wait(429))
        fault, failed = self.fault_of(call)
        if failed is not None:
            return failed
        reply = self._product(number, name, request) if match is not None else self._other(request, name, call)
        reply.fault = fault
        return reply

    def _product(self, number: int, host: str, request: WireRequest) -> Reply:
        if not 1 <= number <= self.config.pages:
            return self._page("Not found", "<h1>Page not found</h1>", host, 404)
        moment = self.time.seconds()
        gone = self.shelf.gone(number, moment)
        if gone == "soft":
            return self._soft(number, host)
        if gone is not None:
            return self._page("Not found", "<h1>This product is gone</h1>", host, int(gone))
        layout = self.shelf.layout(number, host)
        product = self.shelf.product(number, moment)
        path = f"/{product.slug}/dp/{product.asin}" if layout == "amazon" else f"/p/{product.slug}"
        if request.path != path and layout != "amazon":
            return Reply(301, b"", HTML, f"Location: {path}\r\n".encode())
        headers, fresh = self._validators(product, request.headers)
        if fresh:
            return Reply(304, b"", _UTF8, headers)
        return Reply(200, self._render(product, layout, path, host), _UTF8, headers)

    def _render(self, product: SimulatedProduct, layout: str, path: str, host: str) -> bytes:
        base = f"http://{host}:{self.port}"
        images = [f"{base}/img/{product.number}-{n}.png" for n in range(1, self.config.images + 1)]
        head, body = _LAYOUTS[layout](product, base + path, images, category_name(product.category))
        page = self._frame(host).page(product.name, body, head)
        kind = self.spoiled(product.number) if self.config.broken_share else None
        return page if kind is None else hostile.spoil(kind, page, product)

    def _validators(self, product: SimulatedProduct, headers: Mapping[bytes, bytes]) -> tuple[bytes, bool]:
        """(header lines, whether the client's copy is reported as current)."""
        mode = self.config.validators
        if mode == "none":
            return b"", False
        asked = b"if-none-match" in headers or b"if-modified-since" in headers
        tag = b'"%x-%x"' % (product.number, product.version)
        if mode == "fickle":
            tag = b'"%x"' % self.log.total
        elif mode == "weak":
            tag = b"W/" + tag
        date = formatdate(product.changed, usegmt=True).encode()
        lines = b"ETag: %b\r\nLast-Modified: %b\r\n" % (tag, date)
        if mode == "stuck":
            return lines, asked
        if b"if-none-match" in headers:
            return lines, tag.removeprefix(b"W/") == headers[b"if-none-match"].removeprefix(b"W/")
        return lines, headers.get(b"if-modified-since") == date

    def _other(self, request: WireRequest, host: str, call: Call) -> Reply:
        path, moment, base = request.path, self.time.seconds(), f"http://{host}:{self.port}"
        if path == "/":
            return self._page("Shop", self.catalogue.home(), host)
        if path == "/robots.txt":
            return Reply(200, self.catalogue.robots(base).encode(), TEXT)
        if call.operation == "image":
            return self._image(path, request.query)
        if path == "/sitemap.xml":
            text = self.catalogue.sitemap(base, host, moment)
            return (
                self._page("Not found", "<h1>404</h1>", host, 404) if text is None else Reply(200, text.encode(), _XML)
            )
        if call.operation == "sitemap":
            return self._sitemap(path, base, host, moment)
        if call.operation == "category":
            return self._category(path, request.query, host, call)
        if call.operation == "redirect":
            return self._redirect(path, host)
        return self._page("Not found", "<h1>Page not found</h1>", host, 404)

    def _category(self, path: str, query: str, host: str, call: Call) -> Reply:
        number, page = path[3:].partition("-")[0], parse_qs(query).get("page", ["1"])[0]
        call.page = int(page) if page.isdigit() else 0
        body = self.catalogue.category(int(number), call.page, host) if number.isdigit() else None
        if body is None:
            return self._page("Not found", "<h1>Page not found</h1>", host, 404)
        return self._page(category_name(int(number)), body, host)

    def _sitemap(self, path: str, base: str, host: str, moment: float) -> Reply:
        if path == "/sitemaps/categories.xml":
            return Reply(200, self.catalogue.category_sitemap(base).encode(), _XML)
        part = path.removeprefix("/sitemaps/products-").removesuffix(".xml.gz")
        zipped = self.catalogue.product_sitemap(int(part), base, host, moment) if part.isdigit() else None
        if zipped is None:
            return self._page("Not found", "<h1>404</h1>", host, 404)
        return Reply(200, zipped, b"application/gzip")

    def _redirect(self, path: str, host: str) -> Reply:
        """`/old/7` goes to the product over one more hop; `/loop` never ends; `/away` leaves the shop."""
        _, kind, *rest = path.split("/")
        number = int(rest[0]) if rest and rest[0].isdigit() else 0
        target = {"loop": "/loop", "away": "http://elsewhere.example/"}.get(kind, f"/older/{number}")
        if kind == "older" and 1 <= number <= self.config.pages:
            target = self.catalogue.path(number, self.shelf.layout(number, host))
        elif kind == "older":
            return self._page("Not found", "<h1>404</h1>", host, 404)
        return Reply(301 if kind == "old" else 302, b"", HTML, f"Location: {target}\r\n".encode())

    def _image(self, path: str, query: str) -> Reply:
        match = _IMAGE.fullmatch(path)
        if match is not None and 1 <= int(match[1]) <= self.config.pages and 1 <= int(match[2]) <= self.config.images:
            return Reply(200, product_image(int(match[1]), int(match[2]), small=query.startswith("w=")), _PNG)
        if path == "/img/huge.png":
            return Reply(200, png(8, 8, 1, tail=12_000_000), _PNG)
        if path == "/img/broken.png":
            return Reply(200, b"<html>no picture</html>", _PNG)
        return Reply(404, b"<html>404</html>", HTML)

    def _soft(self, number: int, host: str) -> Reply:
        """Return a page with status 200 that shows other products, with their prices."""
        others = [self.product(n) for n in (number % self.config.pages + 1, (number + 1) % self.config.pages + 1)]
        rows = "".join(f"<li>{other.name} <b class='price'>{other.money(other.cents)}</b></li>" for other in others)
        body = f"<h1>Sorry, this product is no longer available</h1><p>You may also like:</p><ul>{rows}</ul>"
        return self._page("Product not found", body, host)

    def _page(self, title: str, body: str, host: str, status: int = 200) -> Reply:
        return Reply(status, self._frame(host).page(title, body), _UTF8)

    def _frame(self, host: str) -> Frame:
        frame = self._frames.get(host)
        if frame is None:
            frame = self._frames[host] = Frame(self.config.page_bytes, self.catalogue.links(host))
        return frame

    def _wait(self, status: int) -> bytes:
        after = self.config.retry_after
        return f"Retry-After: {after}\r\n".encode() if after is not None and status in (429, 503) else b""


def _operation(path: str) -> str:
    for prefix, operation in _OPERATIONS:
        if path.startswith(prefix):
            return operation
    return "site"


_OPERATIONS = (
    ("/img/", "image"),
    ("/c/", "category"),
    ("/sitemap", "sitemap"),
    ("/old", "redirect"),
    ("/loop", "redirect"),
    ("/away", "redirect"),
)
_STATUSES = {
    "http403": 403,
    "http404": 404,
    "http410": 410,
    "captcha": 403,
    Trouble.HTTP429: 429,
    Trouble.HTTP500: 500,
    Trouble.HTTP503: 503,
}
_CAPTCHA = b"<html><head><title>Robot Check</title></head><body><div class='h-captcha'></div></body></html>"
