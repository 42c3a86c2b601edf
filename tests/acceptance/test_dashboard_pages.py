"""The pages of the pipelines in the dashboard: the main task of each, done by clicking, on a desk and on a phone."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.contract.web.test_web_search import opened
from tests.support.api import open_front
from tests.support.dashboard_visits import PHONE, WIDE, at_work, open_browser, signed_in
from tests.support.listings import open_rentals
from tests.support.reviews import TOKEN, open_reviews
from tests.support.scrape import open_service
from tests.support.shop import open_shop
from tests.support.watched import open_watched

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = [pytest.mark.acceptance, pytest.mark.asyncio(loop_scope="module")]
BOTH = (WIDE, PHONE)
DAY = 86_400_000


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator["Browser"]:
    async with open_browser() as running:
        yield running


async def test_a_person_finds_a_flat_by_its_badge_and_steers_its_market__LI_15__LI_19(
    browser: "Browser", tmp_path: Path
) -> None:
    async with open_rentals(tmp_path) as rentals, at_work(rentals.app, engine=False) as url:
        await rentals.keep_only("nyc")
        await rentals.scrape("nyc")
        rows = await rentals.rows(
            "SELECT id, confidence_base, decay_rate FROM listings WHERE gone_at IS NULL ORDER BY id DESC"
        )
        wanted = (
            (60, "Listed 6 days ago", "yellow"),
            (45, "May no longer be available", "orange"),
            (95, "Recently verified", "green"),
        )
        badges = {row["id"]: each for row, each in zip(rows, wanted, strict=False)}
        for row in rows[:3]:
            back = round((row["confidence_base"] - badges[row["id"]][0] - 0.5) / row["decay_rate"] * 3_600_000)
            await rentals.app.database.write(
                "UPDATE listings SET confidence_updated_at = confidence_updated_at - :back, zero_at = zero_at - :back,"
                " verify_at = verify_at - :back, first_seen_at = first_seen_at - :days WHERE id = :id RETURNING id",
                {"back": back, "days": 6 * DAY + back, "id": row["id"]},
            )
        for width in BOTH:
            async with signed_in(browser, url, width) as page:
                await page.goto(f"{url}/listings")
                for number, (_, text, colour) in badges.items():
                    shown = page.locator(f".tile[data-id='{number}'] .tag.{colour}")
                    assert await shown.inner_text() == text
                total = len(rows)
                assert await page.locator(".map .point, .map .cluster").count() > 0
                await page.get_by_label("Beds").select_option("1")
                expected = await rentals.get("/listings", beds=1, limit=1000)
                assert 0 < len(expected) < total, "the filter has to make a difference"
                await page.get_by_text(f"{len(expected)} listing", exact=False).first.wait_for()
                assert await page.locator(".tile").count() == min(24, len(expected))
                chosen = expected[0]
                await page.locator(f".tile[data-id='{chosen['id']}']").click()
                await page.get_by_role("heading", name="Rent over time").wait_for()
                await page.get_by_role("heading", name="Shown by").wait_for()
                await page.get_by_role("button", name="Verify now").click()
                await page.get_by_text("Verification is queued").wait_for()
                await page.go_back()
                assert "beds=1" in page.url, "the filters are in the address"
                await page.get_by_role("link", name="Markets").click()
                market = page.locator("[data-market=nyc]")
                if width == WIDE:
                    await market.get_by_role("button", name="Disable").click()
                    await market.get_by_role("button", name="Enable").wait_for()
                    assert (await rentals.market("nyc"))["is_enabled"] is False
                else:  # last, since it changes how fast confidence falls
                    await market.locator("select").select_option("cool")
                    await page.get_by_text("the tier is changed").wait_for()
                    assert (await rentals.market("nyc"))["tier"] == "cool"


async def test_a_person_finds_a_product_and_sees_where_its_price_came_from(browser: "Browser", tmp_path: Path) -> None:
    async with open_shop(tmp_path, pages=30) as shop, at_work(shop.app, engine=False) as url:
        await shop.crawl(sitemap=shop.site.url("/sitemap.xml"))
        (before,) = await shop.get("/products", limit=1)
        await shop.app.database.write(
            "INSERT INTO quarantines (domain, parser, parser_version, field, state, rate, mean, pages, since)"
            " VALUES (:domain, 'base', 5, 'rating', 'open', 0.1, 0.9, 200, :now), (:domain, 'base', 5, 'brand', 'open',"
            " 0.2, 0.9, 200, :now) RETURNING domain",
            {"domain": before["domain_name"], "now": await shop.app.ledger.now_ms()},
        )
        word = before["product_name"].split()[1]
        for width, held in ((WIDE, "rating"), (PHONE, "brand")):
            async with signed_in(browser, url, width) as page:
                await page.goto(f"{url}/products")
                await page.get_by_text("30 products").wait_for()
                await page.get_by_label("Search").fill(word)
                await page.locator(".tile mark").first.wait_for()
                found = await shop.get("/products/search", q=word, limit=1000)
                await page.get_by_text(f"{found['total']} product", exact=False).first.wait_for()
                brand, count = found["facets"]["brand"][0]
                await page.locator(".facet-row", has_text=brand).first.click()
                await page.get_by_text(f"{count} product", exact=False).first.wait_for()
                await page.goto(f"{url}/products/{before['id']}")
                price = page.locator("tr", has_text="price").first
                assert "json-ld" in await price.inner_text() or "microdata" in await price.inner_text()
                assert "%" in await price.inner_text()
                await page.get_by_role("link", name="← Catalogue").click()
                await page.get_by_role("link", name="Shops and parsers").click()
                row = page.locator(f"[data-quarantine$='/{held}']")
                if held == "brand":
                    stored = "UPDATE items SET brand = 'Another' WHERE id = :id"
                    await shop.app.database.write(stored, {"id": before["id"]})
                    await row.get_by_role("button", name="Values").click()
                    assert await page.locator("dialog del").first.inner_text() == "Another"
                    await page.get_by_role("button", name="Page", exact=True).first.click()
                    shown = page.locator("dialog .beside-value mark").first
                    assert await shown.inner_text() == await page.locator("dialog ins").first.inner_text()
                    await page.get_by_role("button", name="Close").click()
                await row.get_by_role("button", name="Reject").click()
                await row.get_by_text("rejected").wait_for()
        assert {each["state"] for each in await shop.get("/admin/quarantines")} == {"rejected"}


async def test_what_changed_in_the_catalogue_is_shown_before_and_after(browser: "Browser", tmp_path: Path) -> None:
    async with (
        open_shop(tmp_path, pages=20, categories=2, change_days=(1.0, 1.0), price_share=0.5) as shop,
        at_work(shop.app, engine=False) as url,
    ):
        await shop.crawl(sitemap=shop.site.url("/sitemap.xml"))
        shop.site.time.advance(2 * 86_400)
        await shop.crawl(sitemap=shop.site.url("/sitemap.xml"))
        changes = await shop.get("/products/changes")
        priced = next(each for each in changes if any(field["field"] == "price" for field in each["fields"]))
        for width in BOTH:
            async with signed_in(browser, url, width) as page:
                await page.goto(f"{url}/products/changes")
                row = page.locator("tr", has_text=priced["product_name"]).first
                price = next(field for field in priced["fields"] if field["field"] == "price")
                await row.wait_for()
                assert f"{float(price['before']):,.2f}" in await row.locator("del").first.inner_text()
                assert f"{float(price['now']):,.2f}" in await row.locator("ins").first.inner_text()


async def test_a_person_sees_places_on_a_map_and_starts_a_job_with_its_price(
    browser: "Browser", tmp_path: Path
) -> None:
    async with open_front(tmp_path) as front, at_work(front.app) as url:
        await front.create(keyword="bars", state="AZ", pages=2)
        for width, code in ((WIDE, "85001"), (PHONE, "02139")):
            async with signed_in(browser, url, width, allowed=("422",)) as page:
                await page.goto(f"{url}/places/coverage")
                await page.get_by_text("ZIP by ZIP").wait_for()
                assert await page.locator(".heat i").count() == 3 if width == WIDE else True
                await page.goto(f"{url}/places")
                await page.locator(".plain-row").first.wait_for()
                count = await page.locator(".panel header .faint").last.inner_text()
                for _ in range(6):
                    await page.get_by_role("button", name="Zoom in").click()
                await page.get_by_role("heading", name="In this part of the map").wait_for()
                assert await page.locator(".panel header .faint").last.inner_text() != count, (
                    "the table follows the map"
                )
                await page.get_by_role("button", name="Show all").click()
                first = page.locator(".plain-row").first
                title = await first.locator(".strong").inner_text()
                await first.click()
                await page.locator("[data-place] h2", has_text=title).wait_for()
                await page.get_by_role("link", name="Plan", exact=True).click()
                await page.get_by_label("What").fill("coffee")
                await page.get_by_label("… or ZIP codes").fill("123")
                await page.get_by_role("alert").first.wait_for()
                await page.get_by_label("… or ZIP codes").fill(code)
                await page.get_by_role("button", name="Start for about").click()
                await page.wait_for_url("**/jobs/*")
        jobs = await front.data("/api/v1/jobs", pipeline="places")
        assert [job["params"]["zips"] for job in jobs[:2]] == [["02139"], ["85001"]]


async def test_a_person_fetches_a_page_and_sees_the_source_of_each_field(browser: "Browser", tmp_path: Path) -> None:
    async with open_service(tmp_path) as service, at_work(service.app) as url:
        for width in BOTH:
            # The browser's own line about a request that the API has refused.
            async with signed_in(browser, url, width, allowed=("422",)) as page:
                await page.goto(f"{url}/scrape")
                await page.fill("input[name=url]", "nowhere")
                await page.get_by_role("button", name="Fetch", exact=True).click()
                await page.locator(".field .error", has_text="http").wait_for()
                await page.fill("input[name=url]", service.site.url("/jobs/jsonld/1"))
                await page.get_by_role("button", name="job posting").click()
                await page.get_by_role("button", name="Fetch", exact=True).click()
                title = page.locator("tr", has_text="job title")
                await title.get_by_text("json-ld:JobPosting.title").wait_for()
                wanted = await title.locator("td").nth(1).inner_text()
                await title.get_by_role("button", name="in the source").click()
                await page.locator(".source mark").first.wait_for()
                assert await page.locator(".source mark").first.inner_text() == wanted
                await page.get_by_role("button", name="Save as a batch").click()
                first = await page.locator("dialog [name=targets]").input_value()
                await page.fill("dialog [name=targets]", f"{first}\n{service.site.url('/jobs/jsonld/2')}")
                await page.get_by_role("button", name="Close").click()
                await page.get_by_role("tab", name="Python").click()
                assert '"target_type": "job_posting"' in await page.locator(".codebox").first.inner_text()
                await page.get_by_role("tab", name="answer").click()
                assert '"status": "completed"' in await page.locator(".codebox").last.inner_text()


async def test_reviews_of_a_token_appear_without_a_reload(browser: "Browser", tmp_path: Path) -> None:
    async with open_reviews(tmp_path, locations=6) as service, at_work(service.app) as url:
        for width in BOTH:
            async with signed_in(browser, url, width, allowed=("400",)) as page:
                await page.goto(f"{url}/reviews")
                await page.get_by_label("Access token").fill("two words")
                await page.get_by_role("button", name="Fetch the reviews").click()
                await page.locator(".field .error", has_text="white space").wait_for()
                await page.get_by_label("Access token").fill(TOKEN)
                await page.get_by_role("button", name="Fetch the reviews").click()
                await page.wait_for_url("**/reviews/*")
                await page.locator(".card .tag", has_text="completed").wait_for()
                seen = await service.seen(page.url.rpartition("/")[2])
                for name in ("accounts", "locations", "reviews"):
                    await page.locator(f"[data-figure={name}]", has_text=f"{seen[name]:,}").wait_for()
                leaf = page.locator(".leaf").first
                await leaf.click()
                expected = int((await leaf.locator(".faint").inner_text()).replace(",", ""))
                await page.wait_for_function(
                    "count => document.querySelectorAll('.review').length === count", arg=min(30, expected)
                )


async def test_a_person_watches_a_page_adds_a_rule_with_its_preview_and_tests_a_channel(
    browser: "Browser", tmp_path: Path
) -> None:
    async with open_watched(tmp_path) as watched, at_work(watched.app) as url:
        hostile = "<img src=x onerror=window.__ran=1>"
        for width, name in ((WIDE, "oak"), (PHONE, "elm")):
            # The browser's own line about a request that the API has refused.
            async with signed_in(browser, url, width, allowed=("422",)) as page:
                await page.goto(f"{url}/watches")
                if width == WIDE:
                    await page.get_by_text("forager watch add").wait_for()
                    await page.get_by_text("forager channels add").wait_for()
                watched.site.pages[f"/{name}"] = "<title>Table</title><p class=t>Price 60 now</p>"
                await page.get_by_role("button", name="Watch a page").first.click()
                await page.fill("dialog [name=url]", "nowhere")
                await page.get_by_role("button", name="Watch", exact=True).click()
                await page.locator(".field .error", has_text="http").wait_for()
                await page.fill("dialog [name=url]", watched.site.url(f"/{name}"))
                await page.fill("dialog [name=name]", name)
                await page.fill("dialog [name=select]", ".t")
                await page.get_by_role("button", name="Watch", exact=True).click()
                row = page.locator(f"[data-watch={name}]")
                await row.get_by_text("works").wait_for()
                assert "elements .t" in await row.inner_text()
                watched.site.pages[f"/{name}"] = "<title>Table</title><p class=t>Price 45 now</p>"
                await row.get_by_role("button", name="Check now").click()
                await row.locator("del", has_text="60").wait_for()
                assert await row.locator("ins").inner_text() == "45"
                given = {"title": hostile, "summary": f"Price [-60-] {{+{hostile}+}}", "name": name}
                await watched.app.database.write(
                    "UPDATE watched_pages SET title = :title, summary = :summary WHERE watch = :name RETURNING watch",
                    given,
                )
                await page.reload()
                assert await row.locator("ins").inner_text() == hostile
                await row.get_by_role("button", name="History").click()
                await page.locator("dialog ins", has_text="45").wait_for()
                await page.locator("dialog h2", has_text=hostile).wait_for()
                await page.get_by_role("button", name="Close").click()

                await page.get_by_role("button", name="Add a channel").click()
                await page.fill("dialog [name=name]", f"team-{name}")
                await page.fill("dialog [name=url]", watched.site.hook)
                await page.get_by_role("button", name="Add", exact=True).click()
                channel = page.locator(f"[data-channel=team-{name}]")
                await channel.get_by_role("button", name="Test").click()
                await page.get_by_text(f"team-{name} has accepted a message").wait_for()

                await page.get_by_role("button", name="Add a rule").click()
                await page.fill("dialog [name=name]", f"any-{name}")
                await page.select_option("dialog [name=kind]", "watched_page")
                await page.fill("dialog [name=notify]", f"team-{name}")
                await page.fill("dialog [name=when]", "nothing_of_the_kind > 1")
                await page.locator("[data-preview] .notice.warn", has_text="nothing_of_the_kind").wait_for()
                await page.fill("dialog [name=when]", 'change.op == "changed"')
                await page.locator("[data-preview]", has_text="would have fired").wait_for()
                await page.get_by_role("button", name="Add the rule").click()
                rule = page.locator(f"[data-rule=any-{name}]")
                await rule.get_by_role("button", name="Pause").click()
                await rule.get_by_role("button", name="Resume").wait_for()

                await row.get_by_role("button", name="Pause").click()
                await row.get_by_role("button", name="Resume").wait_for()
                await row.get_by_role("button", name="Remove").click()
                await page.locator("dialog").get_by_role("button", name="Remove").click()
                await row.wait_for(state="detached")
                assert await page.evaluate("window.__ran") is None
        assert len(watched.site.got) == 2, "each test of a channel was one message"
        assert await watched.get("/watches") == []
        assert {each["name"]: each["paused"] for each in await watched.get("/rules")} == {
            "any-oak": True,
            "any-elm": True,
        }


async def test_a_person_reads_fields_of_their_own_and_keeps_a_session(browser: "Browser", tmp_path: Path) -> None:
    async with open_service(tmp_path) as service, at_work(service.app) as url:
        schema = {"fields": {"headline": {"css": "h1"}}}
        stored = await service.client.put("/api/v1/schemas/headlines", json=schema)
        assert stored.status_code in (200, 201), stored.text
        for width in BOTH:
            async with signed_in(browser, url, width, allowed=("422",)) as page:
                await page.goto(f"{url}/scrape")
                await page.fill("input[name=url]", service.site.url("/jobs/jsonld/1"))
                await page.get_by_text("Options", exact=True).click()
                await page.get_by_text("the name of a stored one: headlines").wait_for()
                await page.fill("textarea[name=schema]", '{"fields": {"headline": {"css": ":::"}}}')
                await page.get_by_role("button", name="Fetch", exact=True).click()
                await page.locator(".field .error").first.wait_for()
                await page.fill("textarea[name=schema]", "headlines")
                await page.get_by_role("button", name="Fetch", exact=True).click()
                await page.locator("tr", has_text="headline").get_by_text("css:h1").wait_for()
                await page.fill("input[name=session]", "two words")
                await page.get_by_role("button", name="Fetch", exact=True).click()
                await page.locator(".field .error").first.wait_for()


async def test_a_person_searches_the_web_with_its_price_and_reads_a_result(browser: "Browser", tmp_path: Path) -> None:
    async with opened(tmp_path) as (service, _), at_work(service.app) as url:
        for width in BOTH:
            async with signed_in(browser, url, width, allowed=("422",)) as page:
                await page.goto(f"{url}/web")
                await page.fill("input[name=query]", "oak table care")
                await page.locator("[data-price]", has_text="at most 1 credit").wait_for()
                await page.fill("input[name=read]", "11")
                await page.locator(".field .error").first.wait_for()
                await page.fill("input[name=read]", "2")
                await page.get_by_role("button", name="Search", exact=True).click()
                await page.wait_for_url("**/web/*-*")
                first = page.locator("[data-hit='1']")
                await first.get_by_role("button", name="Read").click()
                await page.locator("[data-page] .codebox").wait_for()
                assert len(await page.locator("[data-page] .codebox").inner_text()) > 50
                assert await page.locator("[data-hit]").count() == 10
