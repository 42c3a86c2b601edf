"""The products of a shop, as a pure function of a seed, a number and the time. Nothing is stored.

`Product` is what is true: a test compares it with what was read from the page.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, ClassVar, Literal, NamedTuple, get_args

from forager.sandbox.config import Knobs
from forager.sandbox.faults import Trouble

# Every setting of the shop sandbox.


LAYOUTS = ("jsonld", "microdata", "opengraph", "plain", "amazon", "atelier", "depot")
"""Markup of a product page; `docs/sandbox.md` describes each."""
STATES = ("marked", "bare", "moved")
"""Layouts of one shop with markup, without it, and after a change: for the learning of wrappers. `partly` is `marked`
for one product in `MARKED_EVERY`, and `bare` for the others."""
MARKED_EVERY = 3
CURRENCIES = {"USD": ("${}", ",", "."), "GBP": ("£{}", ",", "."), "EUR": ("{} €", ".", ",")}
"""Form of a price: the text around it, the separator of thousands and that of decimals."""
Validators = Literal["good", "weak", "none", "stuck", "fickle"]
Sitemap = Literal["index", "flat", "none", "broken"]


@dataclass(frozen=True, kw_only=True)
class ShopConfig(Knobs):
    name: ClassVar[str] = "shop"
    fault_names: ClassVar[frozenset[str]] = frozenset((*Trouble, "http403", "http404", "http410", "captcha"))
    live: ClassVar[frozenset[str]] = Knobs.live | {"layout", "rate_limit", "retry_after", "crawl_delay", "validators"}

    log_limit: int = 200_000
    pages: int = 1000
    """Products, numbered from 1. Each has one page."""
    page_bytes: int = 20_000
    """Size of a product page; a page with more content is bigger."""
    layout: str = "jsonld"
    """One of `LAYOUTS` or `STATES`; `mixed`: one of `LAYOUTS` by product; `partly`: `marked` or `bare` by product."""
    hosts: Mapping[str, str] = field(default_factory=dict)
    """Another layout for some host names: one port can be several shops."""
    currency: str = "USD"
    categories: int = 12
    per_page: int = 24
    """Products on a category page."""
    images: int = 3

    change_days: tuple[float, float] = (1.0, 10.0)
    """Least and greatest number of changes of a product; 0 to 0: never."""
    price_share: float = 0.6
    """Share of these changes that move the price; others move the stock, or nothing that a reader sees."""
    gone_share: float = 0.0
    """Share of products that end within `gone_days` after the start: 404, 410 or a soft 404."""
    gone_days: float = 30.0
    gone: tuple[str, ...] = ("404", "410", "soft")

    validators: Validators = "good"
    """ETag and Last-Modified: right, weak, absent, `stuck` (304 for ever), or `fickle` (another one every time)."""
    sitemap: Sitemap = "index"
    """An index of gzip files, one plain file, none (and no line in robots.txt), or one whose XML is broken."""
    sitemap_urls: int = 10_000
    old_share: float = 0.0
    """Share of products that the sitemap lists under an old address, which redirects."""
    tracking_share: float = 0.2
    """Share of links to products that carry tracking parameters: the same page under another address."""
    endless_pages: bool = False
    """True if a category page beyond the last shows the last one again instead of a 404."""
    broken_share: float = 0.0
    """Share of product pages with broken or hostile markup."""
    crawl_delay: float | None = None
    rate_limit: int | None = None
    """Most requests per host name in any second; more get a 429."""
    retry_after: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_shares_of_one("price_share", "gone_share", "old_share", "tracking_share", "broken_share")
        for name in ("categories", "per_page", "sitemap_urls"):
            self.check(name, getattr(self, name) > 0, "at least 1")
        for name in ("pages", "page_bytes", "images"):
            self.check(name, getattr(self, name) >= 0, "at least 0")
        known = {*LAYOUTS, *STATES, "mixed", "partly"}
        self.check("layout", {self.layout, *self.hosts.values()} <= known, f"one of {', '.join(sorted(known))}")
        self.check("currency", self.currency in CURRENCIES, f"one of {', '.join(CURRENCIES)}")
        self.check("validators", self.validators in get_args(Validators), f"one of {', '.join(get_args(Validators))}")
        self.check("sitemap", self.sitemap in get_args(Sitemap), f"one of {', '.join(get_args(Sitemap))}")
        self.check("gone", bool(self.gone) and set(self.gone) <= {"404", "410", "soft"}, "some of 404, 410, soft")
        low, high = self.change_days
        self.check("change_days", 0 <= low <= high, "two numbers, the lower first")

    def _decoded(self, values: dict[str, Any]) -> dict[str, Any]:
        for name in ("gone", "change_days"):
            if name in values:
                values[name] = tuple(values[name])
        return super()._decoded(values)


DAY = 86_400.0
IN_STOCK, OUT_OF_STOCK, PREORDER = "in_stock", "out_of_stock", "preorder"
_MADE = ("Oak", "Walnut", "Linen", "Copper", "Slate", "Wool", "Cedar", "Enamel", "Bamboo", "Leather", "Glass", "Cork")
_KIND = ("Table", "Lamp", "Kettle", "Chair", "Shelf", "Clock", "Bowl", "Blanket", "Desk", "Mirror", "Stool", "Tray")
_STYLE = ("Classic", "No. 4", "Compact", 'Wide 24"', "Set & Stand", "Mini", "Plus", "Outdoor")
BRANDS = ("Harbour Works", "Fieldstone", "Oak & Sons", "Lantern", "Quiet Rooms", "Northern", "Still", "Juniper Lane")
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Variant(NamedTuple):
    name: str
    cents: int


@dataclass(frozen=True, slots=True)
class SimulatedProduct:
    """Everything that is true about one product at one moment."""

    number: int
    version: int
    """Changes whenever the product may have changed; so do its ETag and Last-Modified."""
    changed: float
    """Start of this version, in seconds since 1970."""
    name: str
    slug: str
    brand: str
    category: int
    cents: int
    """The price that the page shows; with variants the lowest."""
    regular: int | None
    """The price before a reduction."""
    currency: str
    availability: str
    rating: int
    """In tenths."""
    reviews: int
    sku: str
    gtin: str
    variants: tuple[Variant, ...]
    """All offers, if there are several; the first is the one shown."""
    description: str

    @property
    def price(self) -> str:
        """As a plain number: `1299.00`."""
        return f"{self.cents // 100}.{self.cents % 100:02}"

    @property
    def asin(self) -> str:
        return asin_of(self.number)

    def money(self, cents: int) -> str:
        """As people write it in this currency: `$1,299.00`, `1.299,00 €`."""
        around, thousands, point = CURRENCIES[self.currency]
        whole = f"{cents // 100:,}".replace(",", thousands)
        return around.format(f"{whole}{point}{cents % 100:02}")


class Shelf:
    """Products by number. `epoch` is when the shop opened: then every product is in its first version."""

    def __init__(self, config: ShopConfig, epoch: float) -> None:
        self._config = config
        self.epoch = epoch
        self._seed = f"{config.seed}/shop/".encode()

    def adopt(self, config: ShopConfig) -> None:
        self._config = config

    def product(self, number: int, moment: float) -> SimulatedProduct:
        """Return the product at this moment, also if it is gone by then."""
        config = self._config
        drawn = self._draw(number, b"")
        version, changed = self._version(drawn, moment)
        price, regular, availability = self._state(number, drawn, version)
        made, kind, style = _MADE[drawn[0] % 12], _KIND[drawn[1] % 12], _STYLE[drawn[2] % 8]
        brand = BRANDS[drawn[3] % 8]
        variants: tuple[Variant, ...] = ()
        if drawn[4] % 12 == 0:
            variants = tuple(Variant(f"{size} cm", price + n * 500) for n, size in enumerate((40, 60, 90)))
        return SimulatedProduct(
            number, version, changed, f"{made} {kind} {style} {number}", f"{made}-{kind}-{number}".lower(), brand,
            number % config.categories, price, regular, config.currency, availability, drawn[5] % 31 + 20,
            (drawn[6] << 8 | drawn[7]) % 3000, f"SKU-{drawn[8]:02X}{number:07}", gtin_of(number), variants,
            f"{style} {kind.lower()} in {made.lower()}, made by {brand}. Part {number} of the collection.",
        )  # fmt: skip

    def name_parts(self, number: int) -> str:
        """Return the slug alone: what a link needs."""
        drawn = self._draw(number, b"")
        return f"{_MADE[drawn[0] % 12]}-{_KIND[drawn[1] % 12]}-{number}".lower()

    def changed(self, number: int, moment: float) -> float:
        """Return when the product last changed."""
        return self._version(self._draw(number, b""), moment)[1]

    def end(self, number: int) -> tuple[float, str] | None:
        """Return when and how the product ends (`404`, `410`, `soft`); None if it stays."""
        config = self._config
        if not config.gone_share:
            return None
        drawn = self._draw(number, b"end")
        if int.from_bytes(drawn[:4], "big") / 2**32 >= config.gone_share:
            return None
        after = int.from_bytes(drawn[4:8], "big") / 2**32 * config.gone_days * DAY
        return self.epoch + after, config.gone[drawn[8] % len(config.gone)]

    def gone(self, number: int, moment: float) -> str | None:
        """Return how the product is gone at this moment; None if it is there."""
        end = self.end(number)
        return end[1] if end is not None and moment >= end[0] else None

    def layout(self, number: int, host: str) -> str:
        layout = self._config.hosts.get(host, self._config.layout)
        if layout == "partly":
            return "marked" if number % MARKED_EVERY == 0 else "bare"
        return LAYOUTS[number % len(LAYOUTS)] if layout == "mixed" else layout

    def share(self, number: int, what: bytes) -> float:
        """Return a number in [0, 1) that belongs to this product and purpose."""
        return int.from_bytes(self._draw(number, what)[:6], "big") / 2**48

    def pick(self, number: int, what: bytes, count: int) -> int:
        return self._draw(number, what)[7] % count

    def _version(self, drawn: bytes, moment: float) -> tuple[int, float]:
        low, high = self._config.change_days
        if not high:
            return 0, self.epoch
        period = (low + (high - low) * drawn[9] / 255) * DAY
        phase = period * drawn[10] / 256
        version = max(0, int((moment - self.epoch + phase) // period)) if period else 0
        return version, self.epoch - phase + version * period

    def _state(self, number: int, drawn: bytes, version: int) -> tuple[int, int | None, str]:
        """(price, regular price, availability) of a version."""
        usual = 500 + (drawn[11] << 8 | drawn[12]) % 9000 * 20 + drawn[13] % 4 * 25
        stock = drawn[14]
        price = usual
        if version:
            # A version moves the price, or the stock, or neither; what it does not move is as it was at first.
            now = self._draw(number, b"v%d" % version)
            if now[0] / 256 < self._config.price_share:
                price = usual * (70 + now[1] % 60) // 100
            elif now[0] / 256 < self._config.price_share + 0.3:
                stock = now[2]
        availability = OUT_OF_STOCK if stock < 30 else PREORDER if stock < 38 else IN_STOCK
        return price, (price * 5 // 4 if drawn[15] % 5 == 0 else None), availability

    def _draw(self, number: int, what: bytes) -> bytes:
        return blake2b(b"%b%d/%b" % (self._seed, number, what), digest_size=16).digest()


def asin_of(number: int) -> str:
    text = ""
    for _ in range(8):
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
    return "B0" + text


def number_of(asin: str) -> int | None:
    """Return the product with this ASIN; None if no product has it."""
    if len(asin) != 10 or not asin.startswith("B0") or not set(asin) <= set(_DIGITS):
        return None
    return int(asin[2:], 36)


def gtin_of(number: int) -> str:
    """Return a GTIN-13 with a right check digit, in the range that is kept for use inside a shop."""
    text = f"20{number % 10**10:010}"
    total = sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(text))
    return f"{text}{-total % 10}"
