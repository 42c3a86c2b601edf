"""Product pages as they should not be: broken, ambiguous or hostile markup. Pure.

Each kind turns a good page into a bad one. `READABLE` names the kinds from which a careful reader still gets the
product; from the others it must get nothing rather than something wrong.
"""

from collections.abc import Callable

from forager.sandbox.shop.products import SimulatedProduct

Spoil = Callable[[bytes, SimulatedProduct], bytes]
_OTHER = (
    b'<script type="application/ld+json">{"@context":"https://schema.org","@type":"Product","name":"Another thing",'
    b'"offers":{"@type":"Offer","price":"1.00","priceCurrency":"USD"}}</script>'
)


def spoil(kind: str, page: bytes, product: SimulatedProduct) -> bytes:
    """Return the page in this bad form; the kinds are the keys of `KINDS`."""
    return KINDS[kind](page, product)


def _truncated(page: bytes, _product: SimulatedProduct) -> bytes:
    return page[: page.find(b"<h1") + 20]


def _invalid_jsonld(page: bytes, _product: SimulatedProduct) -> bytes:
    """Return a block that is not JSON (a trailing comma, a comment) before the good ones."""
    return _in_head(page, b'<script type="application/ld+json">{"@type":"Product","name":"Broken",/* soon */}</script>')


def _unclosed(page: bytes, _product: SimulatedProduct) -> bytes:
    for tag in (b"</p>", b"</li>", b"</div>", b"</span>", b"</body>", b"</html>"):
        page = page.replace(tag, b"")
    return page


def _nul(page: bytes, _product: SimulatedProduct) -> bytes:
    return page.replace(b"<main>", b"<main>\x00\x00", 1)


def _wrong_charset(page: bytes, _product: SimulatedProduct) -> bytes:
    """Bytes of Latin-1 in a page that calls itself UTF-8."""
    return page.replace(b"<main>", "<main><p>Café Süß</p>".encode("latin-1"), 1)


def _deep(page: bytes, _product: SimulatedProduct) -> bytes:
    return page.replace(b"<main>", b"<main>" + b"<div>" * 3000, 1)


def _huge_attribute(page: bytes, _product: SimulatedProduct) -> bytes:
    return page.replace(b"<main>", b"<main data-x='" + b"y" * 500_000 + b"'>", 1)


def _many_links(page: bytes, _product: SimulatedProduct) -> bytes:
    links = b"".join(b"<a href='/trap/%d?x=%d'>%d</a>" % (n, n, n) for n in range(5000))
    return page.replace(b"</main>", links + b"</main>", 1)


def _foreign_base(page: bytes, _product: SimulatedProduct) -> bytes:
    return _in_head(page, b"<base href='http://elsewhere.example/'>")


def _odd_links(page: bytes, _product: SimulatedProduct) -> bytes:
    odd = (
        b"<a href='javascript:alert(1)'>a</a><a href='mailto:x@example.com'>b</a><a href='http://[::1'>c</a>"
        b"<a href='//'>d</a><a href='http://127.0.0.1:1/'>e</a><a href='ftp://example.com/'>f</a><a href>g</a>"
        b"<a href='http://user:secret@example.com/'>h</a><a href='   /c/lamps  '>i</a><a href='tel:+1'>j</a>"
    )
    return page.replace(b"<main>", b"<main>" + odd, 1)


def _other_product(page: bytes, _product: SimulatedProduct) -> bytes:
    """Structured data of another product is in a carousel at the end of the page."""
    return page.replace(b"</main>", b"<aside class='carousel'>" + _OTHER + b"</aside></main>", 1)


def _in_comment(page: bytes, _product: SimulatedProduct) -> bytes:
    return page.replace(b"<main>", b"<main><!-- <h1>Old name</h1><p class='price'>$1.00</p> -->", 1)


def _absurd_price(page: bytes, product: SimulatedProduct) -> bytes:
    """Every price of the product on the page is nonsense: nothing about the price may be believed."""
    return _priced(page, product, '"NaN"', "NaN")


def _negative_price(page: bytes, product: SimulatedProduct) -> bytes:
    return _priced(page, product, f"-{product.cents}", f"-{product.price}")


def _priced(page: bytes, product: SimulatedProduct, number: str, text: str) -> bytes:
    """Replace the price in all the forms in which layouts write it; `number` is its form in JSON, in cents."""
    for old, new in (
        (f'"current":{product.cents},', f'"current":{number},'),
        (f"cost__whole'>{product.cents // 100:,}<", f"cost__whole'>{text}<"),
        (f"a-price-whole'>{product.cents // 100:,}<", f"a-price-whole'>{text}<"),
        (product.price, text),
        (product.money(product.cents), text),
    ):
        page = page.replace(old.encode(), new.encode())
    return page


def _empty(_page: bytes, _product: SimulatedProduct) -> bytes:
    return b""


def _binary(_page: bytes, product: SimulatedProduct) -> bytes:
    return bytes(range(256)) * (20 + product.number % 20)


def _in_head(page: bytes, what: bytes) -> bytes:
    return page.replace(b"<meta charset='utf-8'>", b"<meta charset='utf-8'>" + what, 1)


KINDS: dict[str, Spoil] = {
    "truncated": _truncated,
    "invalid_jsonld": _invalid_jsonld,
    "unclosed": _unclosed,
    "nul": _nul,
    "wrong_charset": _wrong_charset,
    "deep": _deep,
    "huge_attribute": _huge_attribute,
    "many_links": _many_links,
    "foreign_base": _foreign_base,
    "odd_links": _odd_links,
    "other_product": _other_product,
    "in_comment": _in_comment,
    "absurd_price": _absurd_price,
    "negative_price": _negative_price,
    "empty": _empty,
    "binary": _binary,
}
READABLE = frozenset(KINDS) - {"truncated", "absurd_price", "negative_price", "empty", "binary"}
