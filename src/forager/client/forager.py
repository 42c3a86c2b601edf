"""`Forager` and `AsyncForager`: the client for programs. Both have the same methods.

with Forager("http://127.0.0.1:8080", key) as forager:      # a running Forager
with Forager(home="data") as forager:                       # no server: the store is opened in this process
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from forager.client.connection import PATIENCE, TIMEOUT, ApiConnection, ApiResult, Send
from forager.client.errors import PageFailed
from forager.client.groups import (
    AsyncChanges,
    AsyncJobs,
    AsyncListings,
    AsyncPages,
    AsyncPlaces,
    AsyncProducts,
    AsyncRecords,
    AsyncReviews,
    AsyncSites,
    AsyncWeb,
    PageResult,
)
from forager.client.loop_thread import LoopThread, PlainGroup, plain, plain_iterator
from forager.client.operations import AsyncOperations, Operations
from forager.client.rows import plain_rows
from forager.client.types import JobReport


class AsyncForager:
    """The client as coroutines. `api` has every operation of the API under its operation id."""

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        home: str | Path | None = None,
        settings: Mapping[str, object] | None = None,
        timeout: float = TIMEOUT,
        patience: float = PATIENCE,
        send: Send | None = None,
    ) -> None:
        """`url` and `key` of a running Forager; or `home`, a data folder, whose running Forager is used if there is
        one; or neither, and the environment decides. `timeout`: seconds for one request; `patience`: seconds during
        which a request that is safe to repeat is sent again; `send`: carries the requests instead, as inside the
        API's own process."""
        connection = ApiConnection(
            url, key, home=home, settings=settings, timeout=timeout, patience=patience, send=send
        )
        self._connection = connection
        self._pages = AsyncPages(connection)
        self.api = AsyncOperations(connection)
        self.jobs = AsyncJobs(connection)
        self.records = AsyncRecords(connection)
        self.changes = AsyncChanges(connection)
        self.web = AsyncWeb(connection)
        self.sites = AsyncSites(connection)
        self.places = AsyncPlaces(connection)
        self.products = AsyncProducts(connection)
        self.listings = AsyncListings(connection)
        self.reviews = AsyncReviews(connection)

    async def scrape(self, url: str, target_type: str = "page", **options: Any) -> PageResult:
        """Read one page now. Options: `formats` (such as `["markdown"]`), `requested_fields`, `render`,
        `min_confidence`, `workspace_id`, `timeout` in seconds. Raises `PageFailed` with the reason."""
        return await self._pages.read(url, target_type, **options)

    def scrape_many(
        self, urls: Iterable[str], target_type: str = "page", **options: Any
    ) -> AsyncIterator[PageResult | PageFailed]:
        """Read pages as one job, and yield each page, or why it could not be read, in their order."""
        return self._pages.read_many(urls, target_type, **options)

    async def crawl(self, *urls: str, wait: bool = True, **options: Any) -> JobReport:
        """Crawl a shop's pages. Options: `follow`, `depth`, `max_pages`, `sitemap`, `render`, `recrawl`."""
        return await self.products.crawl(*urls, wait=wait, **options)

    async def map(self, url: str, **options: Any) -> list[str]:
        """Return the addresses of a site. Options: `limit`, `include`, `exclude`, `subdomains`. `sites.crawl` reads
        its pages."""
        return await self.sites.map(url, **options)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        idempotency_key: str | None = None,
    ) -> ApiResult:
        """Send any request: `await forager.request("GET", "/lanes")`. Returns its data with `meta`."""
        return await self._connection.request(method, path, query=query, body=body, idempotency_key=idempotency_key)

    async def work(self) -> None:
        """Work on the jobs of the store in this process while the client is open, if no Forager runs on it."""
        await self._connection.work()

    async def close(self) -> None:
        await self._connection.close()

    async def __aenter__(self) -> Self:
        await self._connection.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class Forager:
    """The same client for plain code. It runs its own event loop in a thread, and may be used from several threads."""

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        home: str | Path | None = None,
        settings: Mapping[str, object] | None = None,
        timeout: float = TIMEOUT,
        patience: float = PATIENCE,
    ) -> None:
        """As `AsyncForager`."""
        self._client = AsyncForager(url, key, home=home, settings=settings, timeout=timeout, patience=patience)
        thread = self._thread = LoopThread()
        self.api = Operations(thread, self._client.api)
        self.jobs = SyncJobs(thread, self._client.jobs)
        self.records = SyncRecords(thread, self._client.records)
        self.changes = SyncChanges(thread, self._client.changes)
        self.web = SyncWeb(thread, self._client.web)
        self.sites = SyncSites(thread, self._client.sites)
        self.places = SyncPlaces(thread, self._client.places)
        self.products = SyncProducts(thread, self._client.products)
        self.listings = SyncListings(thread, self._client.listings)
        self.reviews = SyncReviews(thread, self._client.reviews)

    def scrape(self, url: str, target_type: str = "page", **options: Any) -> PageResult:
        """Read one page now. Options: `formats` (such as `["markdown"]`), `requested_fields`, `render`,
        `min_confidence`, `workspace_id`, `timeout` in seconds. Raises `PageFailed` with the reason."""
        return self._thread.run(self._client.scrape(url, target_type, **options))

    def scrape_many(
        self, urls: Iterable[str], target_type: str = "page", **options: Any
    ) -> Iterator[PageResult | PageFailed]:
        """Read pages as one job, and yield each page, or why it could not be read, in their order."""
        return self._thread.iterate(self._client.scrape_many(urls, target_type, **options))

    def crawl(self, *urls: str, wait: bool = True, **options: Any) -> JobReport:
        """Crawl a shop's pages. Options: `follow`, `depth`, `max_pages`, `sitemap`, `render`, `recrawl`."""
        return self._thread.run(self._client.crawl(*urls, wait=wait, **options))

    def map(self, url: str, **options: Any) -> list[str]:
        """Return the addresses of a site. Options: `limit`, `include`, `exclude`, `subdomains`. `sites.crawl` reads
        its pages."""
        return self._thread.run(self._client.map(url, **options))

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        idempotency_key: str | None = None,
    ) -> ApiResult:
        """Send any request: `forager.request("GET", "/lanes")`. Returns its data with `meta`."""
        return self._thread.run(
            self._client.request(method, path, query=query, body=body, idempotency_key=idempotency_key)
        )

    def work(self) -> None:
        """Work on the jobs of the store in this process while the client is open, if no Forager runs on it."""
        self._thread.run(self._client.work())

    def close(self) -> None:
        self._thread.run(self._client.close())
        self._thread.close()

    def __enter__(self) -> Self:
        self._thread.run(self._client.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SyncJobs(PlainGroup[AsyncJobs]):
    create = plain(AsyncJobs.create)
    estimate = plain(AsyncJobs.estimate)
    get = plain(AsyncJobs.get)
    wait = plain(AsyncJobs.wait)
    cancel = plain(AsyncJobs.cancel)
    pause = plain(AsyncJobs.pause)
    resume = plain(AsyncJobs.resume)
    retry = plain(AsyncJobs.retry)
    iter = plain_rows(AsyncJobs.iter)


class SyncRecords(PlainGroup[AsyncRecords]):
    get = plain(AsyncRecords.get)
    kinds = plain(AsyncRecords.kinds)
    history = plain_rows(AsyncRecords.history)
    iter = plain_rows(AsyncRecords.iter)


class SyncChanges(PlainGroup[AsyncChanges]):
    follow = plain_iterator(AsyncChanges.follow)
    number_at = plain(AsyncChanges.number_at)
    last = plain(AsyncChanges.last)


class SyncWeb(PlainGroup[AsyncWeb]):
    plan = plain(AsyncWeb.plan)
    search = plain(AsyncWeb.search)
    get = plain(AsyncWeb.get)


class SyncSites(PlainGroup[AsyncSites]):
    plan = plain(AsyncSites.plan)
    crawl = plain(AsyncSites.crawl)
    map = plain(AsyncSites.map)
    pages = plain_rows(AsyncSites.pages)
    addresses = plain_rows(AsyncSites.addresses)
    page = plain(AsyncSites.page)


class SyncPlaces(PlainGroup[AsyncPlaces]):
    plan = plain(AsyncPlaces.plan)
    run = plain(AsyncPlaces.run)
    iter = plain_rows(AsyncPlaces.iter)


class SyncProducts(PlainGroup[AsyncProducts]):
    crawl = plain(AsyncProducts.crawl)
    search = plain(AsyncProducts.search)
    iter = plain_rows(AsyncProducts.iter)


class SyncListings(PlainGroup[AsyncListings]):
    iter = plain_rows(AsyncListings.iter)


class SyncReviews(PlainGroup[AsyncReviews]):
    run = plain(AsyncReviews.run)
    iter = plain_rows(AsyncReviews.iter)
