"""Pages are crawled again when their time has come: sooner after a change, later without one, cheaply by a 304."""

from typing import Any
from uuid import UUID

import pytest

from forager.cli.process import work_until
from forager.sandbox.faults import When
from forager.sdk.cli.invocation import stop_on_signals
from tests.support.shop import JOBS, OpenShop, Shop

DAY = 86_400


async def page(shop: Shop, number: int) -> dict[str, Any]:
    """Return the stored page of a product."""
    rows = await shop.app.database.fetch("SELECT * FROM pages WHERE url = :url", {"url": shop.site.product_url(number)})
    return dict(rows[0])


async def come_due(shop: Shop) -> None:
    """Let the time of every page come, and dispatch the recheck."""
    await shop.app.database.write("UPDATE pages SET next_crawl_at = 1 WHERE next_crawl_at IS NOT NULL")
    await shop.app.rechecker.look()


async def recrawl(shop: Shop) -> int:
    """The same, and work. Returns how many requests that took."""
    before = shop.site.log.total
    await come_due(shop)
    await shop.work()
    return shop.site.log.total - before


async def frequent(shop: Shop, seconds: int) -> None:
    """Set the crawl frequency of the shop's domain."""
    (domain,) = await shop.get("/admin/domains")
    changed = await shop.client.patch(f"/api/v1/admin/domains/{domain['id']}", json={"crawl_frequency": seconds})
    assert changed.status_code == 200, changed.text


def interval(row: dict[str, Any]) -> float:
    return float(row["next_crawl_at"] - row["crawled_at"]) / 1000


async def test_a_page_comes_back_later_while_nothing_changes_and_sooner_after_a_change__PR_6(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=3, change_days=(1.0, 1.0), price_share=1.0, validators="none")
    job = await shop.crawl(urls=[shop.site.product_url(1)], frequency=3_600)
    assert interval(await page(shop, 1)) == 3_600
    waits = []
    for _ in range(7):
        await recrawl(shop)
        waits.append(interval(await page(shop, 1)))
    assert waits[:2] == [5_400, 8_100]
    assert waits[-1] == 8 * 3_600  # never longer
    for _ in range(9):
        shop.site.time.advance(2 * DAY)
        await recrawl(shop)
        waits.append(interval(await page(shop, 1)))
    assert waits[7] == 4 * 3_600
    assert waits[-1] == 3_600 / 8  # never shorter
    row = await page(shop, 1)
    assert row["next_crawl_at"] > row["crawled_at"]
    assert (await shop.get(f"/jobs/{job['id']}"))["state"] == "completed"  # recrawls belong to the standing job
    points = await shop.get(f"/products/{(await shop.product(1))['id']}/history")
    assert len(points) > 5
    assert [each["id"] for each in await shop.get("/jobs", pipeline="products")] == [job["id"]]
    jobs = await shop.get("/jobs", pipeline="products", internal=True)
    (standing,) = [each for each in jobs if each["params"] == {"recrawl": True, "domain": row["domain"]}]
    assert standing["total"] == 1  # one task, queued again and again


async def test_a_recrawl_leaves_the_time_that_a_person_has_chosen_for_the_page__PR_6(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=2, change_days=(0, 0))
    await shop.crawl(urls=[shop.site.product_url(1)], frequency="6h")
    job = await shop.submit(urls=[shop.site.product_url(1)], scheduled_at="2099-01-01T00:00:00Z")
    await come_due(shop)
    (task,) = await shop.get(f"/jobs/{job}/tasks")
    assert (task["state"], task["due_at"][:4]) == ("queued", "2099")
    assert (await page(shop, 1))["next_crawl_at"] is None
    await shop.app.ledger.cancel(UUID(job))
    assert (await page(shop, 1))["next_crawl_at"] is not None
    await recrawl(shop)
    assert shop.asked() == ["1", "1"]


async def test_a_page_that_has_not_changed_is_confirmed_by_a_304_and_not_parsed__PR_6(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=2, change_days=(0, 0))
    await shop.crawl(urls=[shop.site.product_url(1)])
    before, first = await shop.product(1), await page(shop, 1)
    await recrawl(shop)
    after, row = await shop.product(1), await page(shop, 1)
    assert (row["http_status"], row["outcome"], row["confirmed"]) == (304, "unchanged", 1)
    assert row["html"] == first["html"]
    assert row["fetched_at"] == first["fetched_at"]
    assert (after["version"], after["updated_at"]) == (before["version"], before["updated_at"])
    assert after["last_seen_at"] > before["last_seen_at"]
    assert interval(row) == 1.5 * DAY


async def test_a_site_that_answers_304_for_ever_is_fetched_whole_every_tenth_time__PR_6(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=2, validators="stuck", change_days=(1.0, 1.0), price_share=1.0)
    await shop.crawl(urls=[shop.site.product_url(1)])
    before = (await shop.product(1))["price"]
    shop.site.time.advance(30 * DAY)
    statuses = []
    for _ in range(11):
        await recrawl(shop)
        statuses.append((await page(shop, 1))["http_status"])
    assert statuses == [304] * 9 + [200, 304]
    assert (await shop.product(1))["price"] != before


async def test_a_crawl_that_failed_comes_back_sooner_and_keeps_its_interval__PR_6(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=2)
    await shop.crawl(urls=[shop.site.product_url(1)], max_retries=0)
    before = await page(shop, 1)
    shop.site.faults.script.add([When("http500", operation="product", times=1)])
    await recrawl(shop)
    failed = await page(shop, 1)
    assert failed["crawled_at"] == before["crawled_at"]
    assert (failed["next_crawl_at"] - failed["failed_at"]) / 1000 == DAY / 4
    await recrawl(shop)
    after = await page(shop, 1)
    assert after["failed_at"] is None
    assert after["crawled_at"] > before["crawled_at"]
    assert interval(after) == 1.5 * DAY


async def test_the_frequency_of_a_url_beats_that_of_its_domain__PR_1(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=3)
    await shop.crawl(urls=[shop.site.product_url(1)])
    await frequent(shop, 7_200)
    await shop.crawl(urls=[shop.site.product_url(2)])  # a page that is new to the domain
    await shop.crawl(urls=[shop.site.product_url(3)], frequency=600)
    assert [interval(await page(shop, number)) for number in (1, 2, 3)] == [7_200, 7_200, 600]


async def test_a_job_has_the_frequency_of_its_domain_however_it_was_created__PR_1__PR_7(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=6)
    await shop.crawl(urls=[shop.site.product_url(1)])
    await frequent(shop, 7_200)

    def job(number: int, **more: Any) -> dict[str, Any]:
        return {"pipeline": "products", "params": {"urls": [shop.site.product_url(number)]}, **more}

    generic = await shop.client.post("/api/v1/jobs", json=job(2))
    stored = await shop.client.put("/api/v1/schedules/nightly", json=job(3, cron="0 3 * * *"))
    fired = await shop.client.post("/api/v1/schedules/nightly/run")
    whole = await shop.client.post(f"{JOBS}/in-parts", json={"urls": [shop.site.product_url(4)]})
    opened = await shop.client.post(f"{JOBS}/in-parts", json={"urls": [shop.site.product_url(5)], "more": True})
    rest = {"urls": [shop.site.product_url(6)], "first": 1}
    added = await shop.client.post(f"{JOBS}/{opened.json()['data']['job_id']}/urls", json=rest)
    answers = (generic, stored, fired, whole, opened, added)
    assert [answer.status_code // 100 for answer in answers] == [2] * 6, [answer.text for answer in answers]
    await shop.work()
    assert [interval(await page(shop, number)) for number in range(1, 7)] == [7_200] * 6


@pytest.mark.parametrize("path", ["/api/v1/jobs", JOBS])
async def test_a_repeated_request_is_the_same_job_after_the_frequency_of_its_domain_changed(
    shop_of: OpenShop, path: str
) -> None:
    shop = await shop_of(pages=2)
    await shop.crawl(urls=[shop.site.product_url(1)])
    params = {"urls": [shop.site.product_url(2)]}
    body = params if path == JOBS else {"pipeline": "products", "params": params}

    async def submitted() -> str:
        made = await shop.client.post(path, json=body, headers={"Idempotency-Key": "once"})
        assert made.status_code == 202, made.text
        return str(made.json()["data"]["job_id" if path == JOBS else "id"])

    first = await submitted()
    await frequent(shop, 7_200)
    assert await submitted() == first


@pytest.mark.parametrize("visits", [1, 2])
async def test_a_product_is_gone_after_the_second_soft_404_in_a_row__PR_15(shop_of: OpenShop, visits: int) -> None:
    shop = await shop_of(pages=4, gone_share=1.0, gone_days=1.0, gone=("soft",), change_days=(0, 0))
    await shop.crawl(urls=[shop.site.product_url(1)])
    shop.site.time.advance(2 * DAY)
    for _ in range(visits):
        await recrawl(shop)
    product = await shop.product(1)
    if visits == 1:
        assert product["gone_at"] is None
    else:
        assert product["gone_reason"] == "soft_not_found"
        rows = await shop.app.database.fetch("SELECT gone_evidence FROM items")
        assert '"visits": 2' in str(rows[0]["gone_evidence"]).replace('":2', '": 2')


async def test_the_running_engine_recrawls_by_itself_and_once_means_once__PR_6(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=3)
    async with shop.app.engine():
        await shop.ended(await shop.submit(urls=[shop.site.product_url(1)], frequency=60))
        await shop.ended(await shop.submit(urls=[shop.site.product_url(2)], recrawl=False))
        first = await page(shop, 1)
        await shop.app.database.write("UPDATE pages SET next_crawl_at = 1 WHERE next_crawl_at IS NOT NULL")
        await shop.reached(lambda: page(shop, 1), lambda row: row["crawled_at"] > first["crawled_at"])
    assert shop.asked().count("1") == 2
    assert (await page(shop, 2))["next_crawl_at"] is None
    assert (await page(shop, 1))["next_crawl_at"] > first["crawled_at"]


async def test_the_recrawls_of_one_domain_are_stopped_and_resumed_alone__PR_3__PR_6(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=2)
    await shop.crawl(urls=[shop.site.product_url(1), shop.site.product_url(2, "localhost")])
    await recrawl(shop)
    assert sorted(shop.asked()) == ["1", "1", "2", "2"]
    domains = {each["domain_name"].partition(":")[0]: each for each in await shop.get("/admin/domains")}
    jobs = {name: domain["recrawl_job"] for name, domain in domains.items()}
    assert (await shop.get(f"/jobs/{jobs['localhost']}"))["params"]["domain"].startswith("localhost:")
    assert len(set(jobs.values())) == 2
    await come_due(shop)
    stopped = await shop.client.post(f"/api/v1/admin/crawl-jobs/{jobs['127.0.0.1']}/stop")
    assert stopped.status_code == 200, stopped.text
    await shop.work()
    assert shop.asked()[4:] == ["2"]
    await shop.client.post(f"/api/v1/admin/crawl-jobs/{jobs['127.0.0.1']}/resume")
    await shop.work()
    assert shop.asked()[4:] == ["2", "1"]


async def test_a_worker_until_idle_runs_what_is_due_before_it_ends(shop_of: OpenShop) -> None:
    """`listings verify` and others only make a record due; no task of it exists yet."""
    shop = await shop_of(pages=3)
    await shop.crawl(urls=[shop.site.product_url(1)])
    await shop.app.database.write("UPDATE pages SET next_crawl_at = 1 WHERE next_crawl_at IS NOT NULL")
    with stop_on_signals() as stop:
        assert not await work_until(shop.app, stop, idle=True)
    assert (await page(shop, 1))["next_crawl_at"] > 1
