"""A crawl of a whole site: every useful page once, traps avoided, pages as records, conditional when repeated."""

from datetime import timedelta

from forager.pipelines.sites.reports import count_links
from forager.sandbox import When
from tests.contract.sites.conftest import OpenLinked
from tests.support.linked import Linked


async def test_a_crawl_by_links_stores_every_useful_page_and_leaves_the_traps(linked: OpenLinked) -> None:
    site = await linked(pages=60, sitemap=False)
    job = await site.crawl(limit=2_000)
    assert (job["state"], job["failed"]) == ("completed", 0)
    stored = await site.pages()
    useful = site.site.pages.useful()
    assert useful <= stored.keys()
    asked = site.asked()
    assert len([path for path in asked if path.startswith("/calendar")]) <= 14
    assert len([path for path in asked if path.startswith("/print")]) <= 40
    assert len(asked) < 400, "the traps are endless: without avoidance 2,000 pages are fetched"
    row = await site.row()
    assert (row["mode"], row["state"], row["job_id"]) == ("crawl", "completed", job["id"])
    assert row["duplicates"] > 0
    assert row["trapped"] > 0


async def test_a_copy_names_its_original_and_a_page_has_text_links_language_and_kind(linked: OpenLinked) -> None:
    site = await linked(pages=20, sitemap=False)
    await site.crawl(limit=500)
    stored = await site.pages(content="true")
    article = stored[site.site.pages.path(1)]
    assert article["title"] == site.site.pages.title(1)
    assert article["content"].startswith("# ")
    assert (article["language"], article["page_kind"], article["form"]) == ("en", "article", "markdown")
    assert article["duplicate_of"] is None
    copies = [page for path, page in stored.items() if path.startswith("/print/")]
    assert copies
    assert all(page["duplicate_of"] is not None for page in copies)
    await count_links(site.app)
    home = (await site.pages())["/"]
    linking = [path for path, page in stored.items() if page["links_out"]]
    assert home["links_in"] == len(linking) - 1, "every page links to the home page, which does not count itself"


async def test_a_repeated_crawl_sends_conditional_requests_and_writes_only_changes(linked: OpenLinked) -> None:
    site = await linked(pages=20, traps=False)
    await site.crawl()
    before = await site.pages()
    again = await site.crawl()
    assert again["state"] == "completed"
    row = await site.row()
    assert row["unchanged"] == row["pages"] == len(before)
    after = await site.pages()
    assert after.keys() == before.keys()
    assert [page["changed_at"] for page in after.values()] == [page["changed_at"] for page in before.values()]
    assert all(after[path]["last_seen_at"] > before[path]["last_seen_at"] for path in before)


async def test_pages_come_again_by_their_change_rate(small: Linked) -> None:
    await small.crawl(frequency="1d")
    (row,) = await small.app.database.fetch("SELECT visit_interval, next_visit_at, visited_at FROM site_pages LIMIT 1")
    assert row["visit_interval"] == 86_400
    assert row["next_visit_at"] - row["visited_at"] == timedelta(days=1) // timedelta(milliseconds=1)


async def test_a_page_that_is_gone_is_marked_and_keeps_its_content(small: Linked) -> None:
    await small.crawl()
    path = small.site.pages.path(12)
    small.site.faults.script.add([When("http404", subject=path)])
    await small.crawl()
    page = (await small.pages(content="true"))[path]
    assert page["gone_at"] is not None
    assert page["content"]


async def test_depth_and_patterns_bound_a_crawl(small: Linked) -> None:
    await small.crawl(depth=0)
    assert set(await small.pages()) == {"/"}
    await small.crawl(include=["/", "/s0/article-1*"], sitemap=False)
    assert all(path == "/" or path.startswith("/s0/article-1") for path in await small.pages())


async def test_a_redirect_is_stored_under_its_target_and_once(linked: OpenLinked) -> None:
    site = await linked(pages=20, sitemap=False)
    await site.crawl(path="/old/3", limit=100)
    stored = await site.pages()
    assert site.site.pages.path(3) in stored
    assert "/old/3" not in stored


async def test_a_slow_section_is_waited_for(linked: OpenLinked) -> None:
    site = await linked(pages=20, traps=False, slow_every=7, slow_seconds=0.3)
    job = await site.crawl()
    assert job["failed"] == 0
    assert site.site.pages.useful() <= (await site.pages()).keys()
