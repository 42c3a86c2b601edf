"""The admin routes, the domains, and the views in the seed's words."""

from typing import Any

from forager.core.hosts import host_of
from forager.pipelines.products.reports.domains import remember_parsed
from forager.sandbox.faults import When
from tests.support.shop import JOBS, OpenShop, Shop

DAY = 86_400


async def post(shop: Shop, path: str, status: int = 200, **body: Any) -> Any:
    got = await shop.client.post(f"/api/v1/admin{path}", json=body or None)
    assert got.status_code == status, got.text
    return got.json()["data"]


async def test_a_job_is_stopped_and_started_again_and_cancelled_for_good__PR_3(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=6)
    job = await shop.submit(urls=[shop.site.product_url(n) for n in range(1, 7)])
    assert (await post(shop, f"/crawl-jobs/{job}/stop"))["job"]["reason"] == "stopped"
    await shop.work()
    assert shop.asked() == []
    assert (await post(shop, f"/crawl-jobs/{job}/resume"))["job"]["state"] == "queued"
    assert (await post(shop, f"/crawl-jobs/{job}/pause"))["job"]["state"] == "paused"
    await post(shop, f"/crawl-jobs/{job}/resume")
    await shop.work()
    seen = await shop.get(f"/admin/crawl-jobs/{job}")
    assert (seen["job"]["state"], seen["job"]["completed"], seen["errors"]) == ("completed", 6, [])
    other = await shop.submit(urls=[shop.site.product_url(1)])
    assert (await post(shop, f"/crawl-jobs/{other}/cancel"))["job"]["state"] == "cancelled"
    await post(shop, f"/crawl-jobs/{other}/resume", 409)
    assert [each["id"] for each in await shop.get("/admin/crawl-jobs")] == [other, job]


async def test_a_higher_priority_is_crawled_first_also_if_it_is_given_later__PR_3(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=9, settings={"capacity": 1})
    shop.app.settings.home.joinpath("policies.yaml").write_text(
        f'domains:\n  "127.0.0.1:{shop.site.port}":\n    tokens_per_interval: 100000\n    interval_seconds: 1\n'
        "    max_concurrent_requests: 1\n"
    )
    await shop.app.rules.refresh()
    usual = await shop.submit(urls=[shop.site.product_url(n) for n in (1, 2, 3)])
    low = await shop.submit(urls=[shop.site.product_url(n) for n in (4, 5, 6)], priority=9)
    high = await shop.submit(urls=[shop.site.product_url(n) for n in (7, 8, 9)], priority=2)
    changed = await shop.client.patch(f"{JOBS}/{low}", json={"priority": 1})
    assert (changed.status_code, changed.json()["data"]["priority"]) == (200, 1)
    assert (await shop.get(f"/admin/crawl-jobs/{high}"))["priority"] == 2
    await shop.work()
    assert [set(shop.asked()[n : n + 3]) for n in (0, 3, 6)] == [{"4", "5", "6"}, {"7", "8", "9"}, {"1", "2", "3"}]
    assert (await shop.client.patch(f"{JOBS}/{usual}", json={"priority": 1})).status_code == 409


async def test_a_domain_is_paused_and_resumed_by_its_id__PR_3(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=3)
    job = await shop.submit(urls=[shop.site.product_url(1)])
    (domain,) = await shop.get("/admin/domains")
    assert (domain["domain_name"], domain["is_active"]) == (host_of(shop.site.url()), True)
    assert (domain["crawl_delay_seconds"], domain["max_concurrent_requests"]) == (1.0, 5)
    assert (await post(shop, f"/domains/{domain['id']}/pause"))["is_active"] is False
    elsewhere = await shop.submit(urls=[shop.site.product_url(2, "localhost")])
    async with shop.app.engine():
        await shop.ended(elsewhere)
        assert shop.asked() == ["2"]  # nothing of the paused domain
        assert (await post(shop, f"/domains/{domain['id']}/resume"))["is_active"] is True
        assert (await shop.ended(job))["state"] == "completed"
    await post(shop, "/domains/999/pause", 404)


async def test_a_page_is_crawled_at_once_on_request__PR_6(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=3)
    await shop.crawl(urls=[shop.site.product_url(1)])
    made = await post(shop, "/urls/recrawl", 202, urls=[shop.site.product_url(1)])
    await shop.work()
    assert (await shop.get(f"/jobs/{made['job_id']}"))["completed"] == 1
    assert shop.asked() == ["1", "1"]


async def test_a_request_to_crawl_at_once_keeps_the_options_of_the_page__PR_6(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=3)
    own = {"priority": 7, "frequency": 7_200, "recrawl": False, "max_retries": 1, "render": "auto"}
    await shop.crawl(urls=[shop.site.product_url(1)], **own)
    both = [shop.site.product_url(1), shop.site.product_url(2)]  # the second is new
    made = await post(shop, "/urls/recrawl", 202, urls=both)
    assert (await shop.get(f"/admin/crawl-jobs/{made['job_id']}"))["priority"] == 1
    await shop.work()
    asked = await shop.app.database.fetch(f"SELECT {', '.join(own)} FROM pages ORDER BY id")
    assert [dict(each) for each in asked] == [
        own,
        {"priority": 5, "frequency": None, "recrawl": True, "max_retries": 3, "render": "http"},
    ]


async def test_a_job_of_one_page_shows_the_job_that_crawls_it_and_the_result__PR_6(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=3)
    url, missing = shop.site.product_url(1), shop.site.url("/p/nothing-99")
    later = "2099-01-01T00:00:00Z"

    async def page_of(job: str) -> Any:
        return (await shop.get(f"/admin/crawl-jobs/{job}"))["page"]

    first = await shop.submit(urls=[url], scheduled_at=later)
    assert await page_of(first) is None, "it has not ended"
    second = await shop.submit(urls=[url])
    waiting = await page_of(second)
    assert {name: waiting[name] for name in ("url", "job_id", "job_state", "pages", "outcome", "product")} == {
        "url": url, "job_id": first, "job_state": "queued", "pages": 1, "outcome": None, "product": None,
    }  # fmt: skip
    await shop.work()
    assert await page_of(first) == await page_of(second), "the second job made the page of the first due"
    crawled = await page_of(first)
    assert (crawled["outcome"], crawled["job_id"], crawled["job_state"]) == ("product", first, "completed")
    assert crawled["product"] == await shop.product(1)
    gone = await page_of((await shop.crawl(urls=[missing]))["id"])
    assert (gone["outcome"], gone["http_status"], gone["product"]) == ("gone", 404, None)
    shop.site.faults.script.add([When("http403", operation="product", times=9)])
    refused = await page_of((await shop.crawl(urls=[shop.site.product_url(3)], max_retries=0))["id"])
    assert (refused["outcome"], "403" in refused["error"]) == (None, True)
    several = await shop.crawl(urls=[shop.site.product_url(1), shop.site.product_url(2)])
    assert await page_of(several["id"]) is None


async def test_a_domain_gives_its_pages_their_currency_and_frequency__PR_7(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=3, layout="plain")  # prices as `$5.00`, which names no currency
    await shop.crawl(urls=[shop.site.product_url(1)])
    await shop.crawl(urls=[shop.site.product_url(2)], frequency=7_200)
    assert (await shop.product(1))["currency"] is None
    (domain,) = await shop.get("/admin/domains")
    changes = {"currency": "USD", "crawl_frequency": 21_600}
    changed = await shop.client.patch(f"/api/v1/admin/domains/{domain['id']}", json=changes)
    assert changed.status_code == 200, changed.text
    assert (await shop.product(1))["currency"] == "USD"
    wrong = await shop.client.patch(f"/api/v1/admin/domains/{domain['id']}", json={"currency": "XXQ"})
    assert wrong.status_code == 422
    rows = await shop.app.database.fetch("SELECT url, crawled_at, next_crawl_at FROM pages ORDER BY id")
    assert [row["next_crawl_at"] - row["crawled_at"] for row in rows] == [21_600_000, 7_200_000]


async def test_a_domain_is_given_its_delay_its_requests_in_flight_and_is_paused__PR_3__PR_7(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=3)
    await shop.crawl(urls=[shop.site.product_url(1)])
    (domain,) = await shop.get("/admin/domains")
    path = f"/api/v1/admin/domains/{domain['id']}"
    changes = {"crawl_delay_seconds": 2.5, "max_concurrent_requests": 3, "is_active": False}
    changed = await shop.client.patch(path, json=changes)
    assert changed.status_code == 200, changed.text
    assert {name: changed.json()["data"][name] for name in changes} == changes
    (shown,) = await shop.get("/admin/domains")
    assert {name: shown[name] for name in changes} == changes
    lane = await shop.get(f"/lanes/{domain['domain_name']}")
    assert (lane["paused"], lane["rules"]["max_concurrent_requests"]["value"]) == (True, 3)
    assert lane["rules"]["crawl_delay_seconds"]["value"] == 2.5
    back = await shop.client.patch(
        path, json={"crawl_delay_seconds": None, "max_concurrent_requests": None, "is_active": True}
    )
    usual = back.json()["data"]
    assert (usual["crawl_delay_seconds"], usual["max_concurrent_requests"], usual["is_active"]) == (1.0, 5, True)
    assert (await shop.crawl(urls=[shop.site.product_url(2)]))["completed"] == 1
    for wrong in (
        {"crawl_delay_seconds": -1},
        {"max_concurrent_requests": 0},
        {"max_concurrent_requests": "3"},
        {"is_active": None},
        {"is_active": "no"},
    ):
        refused = await shop.client.patch(path, json=wrong)
        assert (refused.status_code, refused.json()["meta"]["fields"][0]["field"]) == (422, next(iter(wrong)))
    assert (await shop.client.patch(path, json={})).status_code == 422


async def test_crawl_tasks_are_listed_with_their_state_by_state_and_by_shop__PR_3__PR_4(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=6)
    urls = {number: shop.site.product_url(number) for number in range(1, 7)}
    await shop.crawl(urls=[urls[1], urls[2], shop.site.product_url(1, "localhost")])
    shop.site.adopt(shop.site.config.changed({"faults": {"http403": 1.0}}))
    await shop.crawl(urls=[urls[5]])
    await shop.submit(urls=[urls[3], urls[4]], scheduled_at="2099-01-01T00:00:00Z", priority=2)
    listed = await shop.get("/admin/crawl-tasks")
    states = {task["url"]: task["status"] for task in listed}
    assert len(listed) == len(states) == 6
    assert [states[urls[number]] for number in range(1, 6)] == ["completed"] * 2 + ["pending"] * 2 + ["failed"]
    assert [task["url"] for task in listed[:3]] == [urls[4], urls[3], urls[5]], "the one that was queued last is first"
    rows = await shop.app.database.fetch("SELECT id, url, status, url_hash FROM crawl_tasks")
    for row in rows:
        (task,) = [each for each in listed if each["url"] == row["url"]]
        assert {name: task[name] for name in row} == dict(row)
    assert {task["crawl_frequency"] for task in listed} == {86_400}
    (failed,) = await shop.get("/admin/crawl-tasks", status="failed")
    assert (failed["url"], "403" in failed["error_message"]) == (urls[5], True)
    assert [task["url"] for task in await shop.get("/admin/crawl-tasks", status="pending")] == [urls[4], urls[3]]
    assert await shop.get("/admin/crawl-tasks", status="parsing") == []
    elsewhere = await shop.get("/admin/crawl-tasks", domain=f"localhost:{shop.site.port}")
    assert [task["url"] for task in elsewhere] == [shop.site.product_url(1, "localhost")]
    here = await shop.get("/admin/crawl-tasks", domain=f"127.0.0.1:{shop.site.port}")
    assert {task["url"] for task in here} == {urls[number] for number in range(1, 6)}
    for query in ({}, {"domain": f"127.0.0.1:{shop.site.port}"}):
        seen: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            answer = (await shop.client.get("/api/v1/admin/crawl-tasks", params={**query, **cursor, "limit": 2})).json()
            seen += [task["url"] for task in answer["data"]]
            if answer["meta"]["next_cursor"] is None:
                break
            cursor = {"cursor": answer["meta"]["next_cursor"]}
        assert sorted(seen) == sorted(task["url"] for task in (here if query else listed))
    refused = await shop.client.get("/api/v1/admin/crawl-tasks", params={"status": "done"})
    assert (refused.status_code, refused.json()["meta"]["fields"][0]["field"]) == (422, "status")


async def test_a_currency_set_for_a_domain_beats_a_shared_sign_but_no_currency_that_the_page_names__PR_11(
    shop_of: OpenShop,
) -> None:
    shop = await shop_of(pages=3, layout="plain")
    await shop.crawl(urls=[shop.site.product_url(n) for n in (1, 2, 3)])
    for number, source in ((2, "sign"), (3, "heuristic")):  # as if the page were under a .com address
        await shop.app.database.write(
            "UPDATE items SET currency = 'USD', evidence = :evidence WHERE product_name LIKE :name",
            {"evidence": f'{{"currency": {{"source": "{source}", "confidence": 0.3}}}}', "name": f"% {number}"},
        )
    assert [(await shop.product(n))["currency"] for n in (1, 2, 3)] == [None, "USD", "USD"]
    (domain,) = await shop.get("/admin/domains")
    await shop.client.patch(f"/api/v1/admin/domains/{domain['id']}", json={"currency": "AUD"})
    assert [(await shop.product(n))["currency"] for n in (1, 2, 3)] == ["AUD", "AUD", "USD"]
    assert len(await shop.get("/products", currency="AUD")) == 2
    assert len(await shop.get("/products", currency="USD")) == 1
    shown = await shop.app.database.fetch("SELECT currency FROM products")
    assert sorted(row["currency"] for row in shown) == ["AUD", "AUD", "USD"]


async def test_the_seeds_tables_are_there_as_views__PR_4__PR_11__PR_17(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=3, currency="EUR")
    await shop.crawl(urls=[shop.site.product_url(1), shop.site.url("/p/nothing-99")], priority=3)
    await shop.submit(urls=[shop.site.product_url(2)], scheduled_at="2099-01-01T00:00:00Z")
    tasks = await shop.app.database.fetch("SELECT * FROM crawl_tasks ORDER BY url")
    assert list(tasks[0]) == [
        "id", "domain_id", "url", "url_hash", "status", "priority", "scheduled_at", "started_at", "completed_at",
        "retry_count", "max_retries", "error_message", "crawl_frequency", "next_crawl_at", "html_path", "created_at",
        "updated_at",
    ]  # fmt: skip
    by_url = {task["url"]: task for task in tasks}
    crawled, waiting = by_url[shop.site.product_url(1)], by_url[shop.site.product_url(2)]
    assert (crawled["status"], crawled["priority"], crawled["retry_count"]) == ("completed", 3, 0)
    assert crawled["html_path"].startswith("/api/v1/pages/")
    assert (waiting["status"], waiting["html_path"]) == ("pending", None)
    (product,) = await shop.app.database.fetch("SELECT * FROM products")
    assert float(product["price"]) == float(shop.site.shown(1)["price"])
    assert (product["crawl_task_id"], product["currency"]) == (crawled["id"], "EUR")
    assert product["domain_id"] == (await shop.get("/admin/domains"))[0]["id"]


async def test_a_plan_counts_pages_and_time_and_fetches_nothing__PR_1(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=5)
    params: dict[str, Any] = {"urls": [shop.site.product_url(n) for n in (1, 2, 3)] + ["https://other.example/p/1"]}
    planned = (await shop.client.post("/api/v1/jobs/plan", json={"pipeline": "products", "params": params})).json()
    shops = {each["domain"]: each for each in planned["data"]["shops"]}
    assert shops["other.example"]["seconds"] == 1.0  # one page a second, the default for shops
    assert shops[f"127.0.0.1:{shop.site.port}"]["pages"] == 3
    assert shops[f"127.0.0.1:{shop.site.port}"]["seconds"] < 0.1  # the policy file's own rate
    assert (planned["data"]["pages"], planned["data"]["more"]) == (4, False)
    assert shop.site.log.total == 0
    params = {"sitemap": shop.site.url("/"), "max_pages": 2}
    planned = (await shop.client.post("/api/v1/jobs/plan", json={"pipeline": "products", "params": params})).json()
    assert (planned["data"]["pages"], planned["data"]["more"]) == (None, True)
    assert shop.site.log.total == 0


async def test_a_shop_whose_job_a_schedule_made_has_its_row_too__PR_7(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=2)
    await shop.app.submit("products", {"urls": [shop.site.product_url(1)]})
    await shop.work()
    now, day_ms = await shop.app.ledger.now_ms(), 86_400_000
    await remember_parsed(shop.app.database, now + 3 * day_ms)  # only the newest counts are read
    assert await shop.get("/admin/domains") == []
    for _ in range(2):
        await remember_parsed(shop.app.database, now)
    (domain,) = await shop.get("/admin/domains")
    assert domain["base_url"] == shop.site.url().rstrip("/")
    (product,) = await shop.app.database.fetch("SELECT domain_id FROM products")
    assert product["domain_id"] == domain["id"]
