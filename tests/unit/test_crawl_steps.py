"""Steps of the products pipeline with a fetch of their own, and the log lines of their results."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from forager.core.errors import NameUnknown, Permanent, Unreachable
from forager.core.http import Request, Response
from forager.core.ledger import Lease, Settlement
from forager.core.outcome import Done
from forager.core.states import TaskState
from forager.engine.work.job_log import reason_of
from forager.pipelines.products.cli.crawl import show_pages_without_product
from forager.pipelines.products.steps import Crawler
from forager.pipelines.products.tasks import Crawl, Sitemap
from forager.pipelines.products.wiring import parsers
from forager.sdk.cli.invocation import Reached

SHOP_PAGE = (
    b'<h1>Lamp</h1><script type="application/ld+json">{"@type": "Product", "name": "Lamp",'
    b' "offers": {"price": 12.5, "priceCurrency": "EUR"}}</script>'
)
ABOUT_PAGE = b"<h1>About us</h1><p>Since 1999.</p>"


@pytest.mark.parametrize("discover", [None, False, True])
async def test_a_host_that_does_not_exist_is_looked_up_once(discover: bool | None) -> None:
    async def fetch(request: Request) -> Response:
        raise NameUnknown("the name nosuch.invalid does not resolve.")

    crawler, url = Crawler(parsers()), "http://nosuch.invalid/p/1"
    if discover is None:
        step = crawler.crawl(Crawl(url=url), fetch)
    else:
        step = crawler.sitemap(Sitemap(url=url, discover=discover), fetch)
    with pytest.raises(Permanent, match="Check the URL") as caught:
        await step
    assert caught.value.reason == NameUnknown("").reason


async def test_name_servers_that_do_not_answer_are_queried_again() -> None:
    async def fetch(request: Request) -> Response:
        raise Unreachable("the name shop.example does not resolve (try again).")

    with pytest.raises(Unreachable):
        await Crawler(parsers()).crawl(Crawl(url="http://shop.example/p/1"), fetch)


@pytest.mark.parametrize(("page", "products"), [(SHOP_PAGE, 1), (ABOUT_PAGE, 0)])
async def test_a_crawled_page_records_whether_it_showed_a_product(page: bytes, products: int) -> None:
    async def fetch(request: Request) -> Response:
        return Response(request.url, 200, {"content-type": "text/html"}, page, datetime(2026, 3, 14, tzinfo=UTC), 5)

    done = await Crawler(parsers()).crawl(Crawl(url="http://shop.example/p/1"), fetch)
    assert isinstance(done, Done)
    assert (done.facts or {})["products"] == products


async def test_the_summary_of_a_crawl_names_the_pages_without_a_product(capsys: pytest.CaptureFixture[str]) -> None:
    class Api:
        async def pages(self, path: str) -> AsyncIterator[list[dict[str, Any]]]:
            assert path == "/jobs/7/tasks"
            yield [
                {"url": f"https://shop.example/{n}", "key": "k", "facts": {"products": int(n > 7)}} for n in range(12)
            ]
            yield [{"url": None, "key": "sitemap", "facts": {}}]

    await show_pages_without_product(cast("Reached", SimpleNamespace(api=Api())), {"id": 7, "total": 13})
    said = capsys.readouterr().err
    assert said.startswith("8 pages showed no product: https://shop.example/0, "), said
    assert "https://shop.example/4 …" in said


def settled(**more: Any) -> Settlement:
    return Settlement(cast("Lease", None), TaskState.FAILED, error="no", **more)


def test_a_failure_without_a_reason_is_counted_by_the_status_of_the_answer() -> None:
    assert reason_of(settled(reason="blocked", facts={"api_status": 403})) == "blocked"
    assert reason_of(settled(facts={"api_status": 501})) == "http_501"
    assert reason_of(settled(facts={"api_status": 200})) == reason_of(settled()) == "other"
