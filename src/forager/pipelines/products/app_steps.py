"""The steps that read a page, with the wrappers that the store has for its shop.

They are app steps because wrappers are adopted while Forager runs (decision 0115). The tables are read at most once a
second, never per page. For shops without wrappers, a crawl reads a single number.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from forager.core.errors import StoreError
from forager.core.pipeline import StepFunction
from forager.extract.products.wrappers import PageWrapper
from forager.pipelines.products.settings import ProductsSettings
from forager.pipelines.products.steps import Crawler
from forager.pipelines.products.tasks import Crawl, Parse
from forager.pipelines.products.wiring import crawler_of
from forager.pipelines.products.wrappers import Wrapper, page_wrappers
from forager.sdk.queries import read_rows
from forager.sdk.service import Service

REFRESH = 1.0
"""Seconds between two checks for new decisions in the store."""
MOST_SHOPS = 1_024
"""Shops whose wrappers are kept in memory."""


@dataclass(slots=True)
class StoredWrappers:
    """The adopted wrappers in the store, kept in memory until a new decision changes one."""

    service: Service
    _asked: float = field(default=-REFRESH)
    _stamp: tuple[int, int] = (0, 0)
    _domains: frozenset[str] = frozenset()
    _known: dict[str, tuple[PageWrapper, ...]] = field(default_factory=dict)

    async def of(self, domain: str, *, fresh: bool = False) -> tuple[PageWrapper, ...]:
        try:
            now = self.service.clock.monotonic()
            if fresh or now - self._asked >= REFRESH:
                self._asked = now
                await self._refresh()
            if domain in self._domains and domain not in self._known:
                if len(self._known) >= MOST_SHOPS:
                    self._known.clear()
                where = "state = 'adopted' AND domain = :domain"
                rows = await read_rows(self.service.database, Wrapper, where, {"domain": domain})
                self._known[domain] = page_wrappers(rows)
        except StoreError:  # a page is not lost over it: what is known still holds
            pass
        return self._known.get(domain, ())

    async def product_of(self, page_hash: str) -> str | None:
        try:
            rows = await self.service.database.fetch(
                "SELECT product_url FROM pages WHERE url_hash = :page", {"page": page_hash}
            )
        except StoreError:
            return None
        return str(rows[0]["product_url"]) if rows and rows[0]["product_url"] else None

    async def _refresh(self) -> None:
        """Forget everything if a decision was made since."""
        (newest,) = await self.service.database.fetch(
            "SELECT coalesce(max(decided_at), 0) AS at, (SELECT count(*) FROM wrappers WHERE state = 'adopted') AS n"
            " FROM wrappers"
        )
        stamp = (int(newest["at"]), int(newest["n"]))
        # Two decisions may share a millisecond: within the last seconds the same stamp proves nothing.
        if stamp == self._stamp and stamp[0] < await self.service.ledger.now_ms() - 2_000:
            return
        rows = await self.service.database.fetch("SELECT DISTINCT domain FROM wrappers WHERE state = 'adopted'")
        self._stamp, self._domains = stamp, frozenset(row["domain"] for row in rows)
        self._known.clear()


def app_steps(service: Service) -> Mapping[str, StepFunction]:
    """Return the functions of the steps that read pages."""
    crawler: Crawler = crawler_of(service.settings.of(ProductsSettings), StoredWrappers(service))
    return {Crawl.kind: crawler.crawl, Parse.kind: crawler.parse}
