"""Whatever a submission, a sitemap or a page names: requests go only to the allowed shop and the public internet."""

from collections.abc import AsyncIterator

import pytest

from forager.extract.text.urls import canonical_url
from tests.support.origin import Origin, Seen, reply
from tests.support.shop import OpenShop
from tests.support.ssrf import forbidden_urls

pytestmark = pytest.mark.one_store  # the guard of requests has no store


@pytest.fixture
async def canary() -> AsyncIterator[Origin]:
    """Listens where an attack would land. It must receive nothing."""
    async with Origin(lambda _: reply(body=b"internal")) as origin:
        yield origin


async def test_a_forbidden_page_or_sitemap_is_refused_without_a_request__S1__S2(
    shop_of: OpenShop, canary: Origin
) -> None:
    shop = await shop_of(pages=1)
    urls = [*map(canonical, forbidden_urls(canary.port)[::25])]
    named = [url for url in urls if url]
    job = await shop.crawl(urls=named[::2], pages=[{"url": url} for url in named[1::2]])
    assert (job["completed"], job["failed"]) == (0, job["total"])
    assert job["total"] > 10
    tasks = await shop.get(f"/jobs/{job['id']}/tasks", limit=1_000)
    assert {task["reason"] for task in tasks} == {"egress_refused"}
    first, *rest = named[:12]
    made = await shop.client.post("/api/v1/admin/crawl-jobs/in-parts", json={"urls": [first], "more": True})
    listed = made.json()["data"]["job_id"]
    await shop.client.post(f"/api/v1/admin/crawl-jobs/{listed}/urls", json={"urls": rest, "first": 1})
    await shop.work()
    job = await shop.get(f"/jobs/{listed}")
    assert (job["completed"], job["failed"]) == (0, job["total"])
    sitemap = await shop.crawl(sitemap=f"http://127.0.0.1:{canary.port}/sitemap.xml")
    assert sitemap["completed"] == 0
    assert canary.connections == 0


def canonical(url: str) -> str | None:
    """None for what is refused at once."""
    try:
        return canonical_url(url)
    except ValueError:
        return None


async def test_a_url_that_names_no_web_page_is_refused_at_once__S4(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=1)
    for url in (
        "file:///etc/passwd",
        "blob:" + "0" * 40,
        "ftp://x.example/",
        "data:text/html,x",
        "view-source:http://x",
    ):
        for body in ({"urls": [url]}, {"sitemap": url}):
            got = await shop.client.post("/api/v1/admin/crawl-jobs", json=body)
            assert got.status_code == 422, (url, got.text)


async def test_a_sitemap_and_links_lead_to_no_other_host__S1(shop_of: OpenShop, canary: Origin) -> None:
    def answer(seen: Seen) -> bytes:
        if seen.target == "/robots.txt":
            return reply(404)
        inner = f"http://127.0.0.1:{canary.port}/secret"
        if seen.target == "/sitemap.xml":
            return reply(body=f"<urlset><url><loc>{inner}</loc></url></urlset>".encode())
        return reply(body=f"<h1>List</h1><a href='{inner}'>x</a>".encode(), Content_Type="text/html")

    async with Origin(answer) as site:
        shop = await shop_of(pages=1, settings={"egress_allow": (f"127.0.0.1:{site.port}",)})
        await shop.crawl(urls=[f"http://127.0.0.1:{site.port}/"], follow=True)
        await shop.crawl(sitemap=f"http://127.0.0.1:{site.port}/sitemap.xml")
    assert canary.connections == 0
