"""Every setting of the shop sandbox."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

from forager.sandbox.knobs import Knobs
from forager.sandbox.trouble import Trouble

LAYOUTS = ("jsonld", "microdata", "opengraph", "plain", "amazon", "atelier", "depot")
"""How a product page is marked up; `docs/sandbox.md` describes each."""
CURRENCIES = {"USD": ("${}", ",", "."), "GBP": ("£{}", ",", "."), "EUR": ("{} €", ".", ",")}
"""How a price is written: the text around it, the separator of thousands and that of decimals."""
Validators = Literal["good", "weak", "none", "stuck", "fickle"]
Sitemap = Literal["index", "flat", "none", "broken"]


@dataclass(frozen=True, kw_only=True)
class ShopConfig(Knobs):
    name: ClassVar[str] = "shop"
    fault_names: ClassVar[frozenset[str]] = frozenset((*Trouble, "http403", "http404", "http410", "captcha"))
    live: ClassVar[frozenset[str]] = Knobs.live | {"rate_limit", "retry_after", "crawl_delay", "validators"}

    log_limit: int = 200_000
    pages: int = 1000
    """Products, numbered from 1. Each has one page."""
    page_bytes: int = 20_000
    """Size of a product page; a page that says more is bigger."""
    layout: str = "jsonld"
    """One of `LAYOUTS`, or `mixed`: by product."""
    hosts: Mapping[str, str] = field(default_factory=dict)
    """Another layout for some host names: one port can be several shops."""
    currency: str = "USD"
    categories: int = 12
    per_page: int = 24
    """Products on a category page."""
    images: int = 3

    change_days: tuple[float, float] = (1.0, 10.0)
    """How often a product changes, at the least and at the most; 0 to 0: never."""
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
    """Whether a category page beyond the last shows the last one again instead of a 404."""
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
        known = {*LAYOUTS, "mixed"}
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
