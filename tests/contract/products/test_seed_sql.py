"""The sample statements of the crawler's design run as they are in a plain session on PostgreSQL, and do what they
state."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from forager.pipelines.products.wiring import take_requests
from tests.support.shop import Shop, open_shop

SUBMIT = """INSERT INTO crawl_tasks (domain_id, url, url_hash, status, priority, scheduled_at)
VALUES (1, 'https://example.com/product1', SHA256('...'), 'pending', 5, NOW());"""
PENDING = """SELECT * FROM crawl_tasks
WHERE status = 'pending'
  AND scheduled_at <= NOW()
ORDER BY priority ASC, scheduled_at ASC
LIMIT 100;"""
BY_PRICE = """SELECT p.*, d.domain_name
FROM products p
JOIN domains d ON p.domain_id = d.id
WHERE p.price BETWEEN 10 AND 100
  AND p.availability = 'in_stock'
ORDER BY p.created_at DESC
LIMIT 20;"""
FULL_TEXT = """SELECT * FROM products
WHERE to_tsvector('english', product_name || ' ' || COALESCE(description, ''))
  @@ to_tsquery('english', 'wireless & headphones')
ORDER BY ts_rank(to_tsvector('english', product_name || ' ' || description),
                  to_tsquery('english', 'wireless & headphones')) DESC;"""
SCHEDULER = "SELECT * FROM crawl_tasks WHERE scheduled_at <= NOW() AND status = 'pending'"
NEXT_PROXY = "SELECT * FROM proxies WHERE is_active = TRUE ORDER BY last_used_at ASC LIMIT 1"
DISABLE = "UPDATE proxies SET is_active = FALSE WHERE failure_count > 10"
LISTINGS = "SELECT * FROM apartments WHERE freshness_confidence >= 40 AND is_active = 1"

DOMAINS = "id domain_name base_url crawl_delay_seconds max_concurrent_requests is_active created_at updated_at"
PROXIES = (
    "id proxy_url proxy_port proxy_protocol proxy_username proxy_password is_active failure_count success_count"
    " last_used_at last_success_at last_failure_at avg_response_time_ms created_at updated_at"
)
Sql = asyncpg.Connection


@pytest.fixture
async def shop(tmp_path: Path, postgres_url: str) -> AsyncIterator[Shop]:
    """A shop whose store is in the schema of a new installation."""
    async with open_shop(tmp_path / "home", postgres_url, pages=6, currency="EUR") as opened:
        yield opened


@pytest.fixture
async def sql(shop: Shop, postgres_url: str) -> AsyncIterator[Sql]:
    """A session as psql opens it: no search_path, no role of its own."""
    session = await asyncpg.connect(postgres_url)
    yield session
    await session.close()


async def test_every_sample_statement_runs_unchanged__PR_25(shop: Shop, sql: Sql) -> None:
    await sql.execute("INSERT INTO domains (domain_name, base_url) VALUES ('example.com', 'https://example.com')")
    assert await sql.fetchval("SELECT domain_name FROM domains WHERE id = 1") == "example.com"
    assert await sql.execute(SUBMIT) == "INSERT 0 1"
    for look in (PENDING, SCHEDULER):
        (row,) = await sql.fetch(look)
        assert (row["url"], row["status"], row["priority"]) == ("https://example.com/product1", "pending", 5)
    await take_requests(shop.app)
    (row,) = await sql.fetch(PENDING)
    assert (row["url"], row["domain_id"]) == ("https://example.com/product1", 1)
    (job,) = await shop.get("/admin/crawl-jobs")
    assert (job["pipeline"], job["total"], job["queued"]) == ("products", 1, 1)
    for statement in (BY_PRICE, FULL_TEXT, NEXT_PROXY, LISTINGS):
        assert await sql.fetch(statement) == []
    assert await sql.execute(DISABLE) == "UPDATE 0"


async def test_the_queries_find_what_was_crawled__PR_25(shop: Shop, sql: Sql) -> None:
    await shop.crawl(urls=[shop.site.product_url(n) for n in range(1, 7)])
    ((number, name),) = await sql.fetch("SELECT id, product_name FROM products LIMIT 1")
    changes = "price = 500000, availability = 'in_stock', description = 'Wireless headphones'"
    await shop.app.database.write(f"UPDATE items SET {changes} WHERE id = :id", {"id": number})
    priced = await sql.fetch(BY_PRICE)
    assert (number, f"127.0.0.1:{shop.site.port}") in [(row["id"], row["domain_name"]) for row in priced]
    assert all(10 <= row["price"] <= 100 for row in priced)
    (found,) = await sql.fetch(FULL_TEXT)
    assert (found["id"], found["product_name"]) == (number, name)


async def test_an_inserted_task_is_crawled_by_the_running_service__PR_25(shop: Shop, sql: Sql) -> None:
    url = shop.site.product_url(1)
    (given,) = await sql.fetch("INSERT INTO crawl_tasks (url, priority) VALUES ($1, 2) RETURNING *", url)
    assert (given["status"], given["priority"], given["max_retries"], given["id"] < 0) == ("pending", 2, 3, True)
    async with shop.app.engine():
        await shop.reached(lambda: sql.fetch("SELECT * FROM products"), bool)
        (row,) = await shop.reached(
            lambda: sql.fetch("SELECT * FROM crawl_tasks"), lambda rows: rows[0]["status"] == "completed"
        )
    assert (row["url"], row["priority"], shop.asked()) == (url, 2, ["1"])
    assert await sql.fetchval("SELECT count(*) FROM forager.sql_inbox") == 0


async def test_a_request_is_submitted_once_by_two_services_and_after_a_crash__PR_25(shop: Shop, sql: Sql) -> None:
    urls = [shop.site.product_url(n) for n in (1, 2, 3)]
    await sql.executemany("INSERT INTO crawl_tasks (url, max_retries) VALUES ($1, 1)", [(url,) for url in urls])
    rows = await sql.fetch("SELECT * FROM forager.sql_inbox")
    await asyncio.gather(take_requests(shop.app), take_requests(shop.app))
    while await take_requests(shop.app):
        pass
    assert [job["total"] for job in await shop.get("/admin/crawl-jobs")] == [3]
    # As if the process had died between the submission and the removal of the requests.
    await sql.executemany("INSERT INTO crawl_tasks (url, max_retries) VALUES ($1, 1)", [(shop.site.product_url(4),)])
    await sql.execute("UPDATE forager.sql_inbox SET batch = 'sql/once'")
    again = await sql.fetch("SELECT * FROM forager.sql_inbox")
    await take_requests(shop.app)
    await sql.execute(
        "INSERT INTO forager.sql_inbox (id, kind, body, batch) VALUES ($1, 'crawl', $2, 'sql/once')",
        again[0]["id"], again[0]["body"],
    )  # fmt: skip
    await take_requests(shop.app)
    assert [job["total"] for job in await shop.get("/admin/crawl-jobs")] == [1, 3]
    assert len(rows) == 3
    assert await sql.fetchval("SELECT count(*) FROM forager.sql_inbox") == 0


async def test_a_transaction_that_is_rolled_back_requests_nothing__PR_25(shop: Shop, sql: Sql) -> None:
    transaction = sql.transaction()
    await transaction.start()
    await sql.execute("INSERT INTO crawl_tasks (url) VALUES ('https://example.com/p/1')")
    await transaction.rollback()
    assert await take_requests(shop.app) == 0
    assert await sql.fetch("SELECT * FROM crawl_tasks") == []


@pytest.mark.parametrize(
    ("columns", "values", "wrong"),
    [
        ("url", "'ftp://example.com/'", "crawl_tasks.url"),
        ("url", "NULL", "crawl_tasks.url"),
        ("url, priority", "'https://example.com/', 11", "crawl_tasks.priority"),
        ("url, status", "'https://example.com/', 'completed'", "crawl_tasks.status"),
        ("url, max_retries", "'https://example.com/', 11", "crawl_tasks.max_retries"),
        ("url, crawl_frequency", "'https://example.com/', '1 second'", "crawl_tasks.crawl_frequency"),
        ("url, started_at", "'https://example.com/', NOW()", "started_at"),
        ("url, domain_id", "'https://example.com/', 77", "crawl_tasks.domain_id: there is no domain 77"),
    ],
)
async def test_a_wrong_value_is_refused_and_its_column_named__PR_25(
    shop: Shop, sql: Sql, columns: str, values: str, wrong: str
) -> None:
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match=wrong):
        await sql.execute(f"INSERT INTO crawl_tasks ({columns}) VALUES ({values})")
    assert await take_requests(shop.app) == 0


async def test_a_url_that_only_the_crawler_can_judge_is_shown_as_failed__PR_25(shop: Shop, sql: Sql) -> None:
    await sql.execute("INSERT INTO crawl_tasks (url) VALUES ('http://[::1/p'), ('https://example.com/p/1')")
    while await take_requests(shop.app):
        pass
    rows = {row["url"]: row for row in await sql.fetch("SELECT * FROM crawl_tasks")}
    assert rows["https://example.com/p/1"]["status"] == "pending"
    assert rows["http://[::1/p"]["status"] == "failed"
    assert "url" in rows["http://[::1/p"]["error_message"]


async def test_domains_and_proxies_have_the_columns_of_the_design__PR_7__PR_9(shop: Shop, sql: Sql) -> None:
    for view, columns in (("domains", DOMAINS), ("proxies", PROXIES)):
        names = [each.name for each in (await sql.prepare(f"SELECT * FROM {view}")).get_attributes()]
        assert names[: len(columns.split())] == columns.split()


async def test_a_domain_is_inserted_with_its_rules_and_listed_by_the_api__PR_25(shop: Shop, sql: Sql) -> None:
    number = await sql.fetchval(
        "INSERT INTO domains (domain_name, base_url, crawl_delay_seconds, max_concurrent_requests)"
        " VALUES ('Shop.Example', 'https://www.shop.example', 3, 2) RETURNING id"
    )
    (shown,) = await shop.get("/admin/domains")
    assert (shown["id"], shown["domain_name"], shown["base_url"]) == (
        number,
        "shop.example",
        "https://www.shop.example",
    )
    assert (shown["crawl_delay_seconds"], shown["max_concurrent_requests"], shown["is_active"]) == (3.0, 2, True)
    await shop.app.rules.refresh()
    assert shop.app.lane_for("shop.example").concurrency == 2
    await sql.execute("UPDATE domains SET max_concurrent_requests = 4 WHERE domain_name = 'shop.example'")
    await shop.app.rules.refresh()
    assert shop.app.lane_for("shop.example").concurrency == 4
    with pytest.raises(asyncpg.UniqueViolationError):
        await sql.execute("INSERT INTO domains (domain_name, base_url) VALUES ('shop.example', 'https://shop.example')")
    for wrong in ("https://shop.example", "", "a b"):
        with pytest.raises(asyncpg.CheckViolationError, match=r"domains\.domain_name"):
            await sql.execute("INSERT INTO domains (domain_name, base_url) VALUES ($1, 'https://shop.example')", wrong)
    with pytest.raises(asyncpg.FeatureNotSupportedError, match="cannot be deleted"):
        await sql.execute("DELETE FROM domains")


async def test_a_domain_that_is_switched_off_is_not_crawled_until_it_is_on_again__PR_25(shop: Shop, sql: Sql) -> None:
    await shop.crawl(urls=[shop.site.product_url(1)])
    (domain,) = await shop.get("/admin/domains")
    before = len(shop.asked())
    async with shop.app.engine():
        await sql.execute("UPDATE domains SET is_active = false WHERE id = $1", domain["id"])
        await shop.reached(lambda: shop.get("/lanes"), lambda lanes: any(each["paused"] for each in lanes))
        job = await shop.submit(urls=[shop.site.product_url(n) for n in (2, 3)])
        assert (await shop.get(f"/jobs/{job}"))["completed"] == 0
        assert len(shop.asked()) == before
        assert not (await shop.get("/admin/domains"))[0]["is_active"]
        await sql.execute("UPDATE domains SET is_active = true")
        ended = await shop.ended(job)
    assert (ended["state"], ended["completed"]) == ("completed", 2)


async def test_a_proxy_is_switched_by_sql_and_its_password_is_never_shown__PR_9__PR_25(shop: Shop, sql: Sql) -> None:
    added = await shop.app.proxies.add("http://me:s3cret@proxy.example:8080")
    (row,) = await sql.fetch(NEXT_PROXY)
    assert (row["proxy_url"], row["proxy_port"], row["proxy_protocol"]) == ("proxy.example", 8080, "http")
    assert (row["proxy_username"], row["proxy_password"]) == (None, None)
    await shop.app.database.write("UPDATE proxies SET failure_count = 11 WHERE id = :id", {"id": added.id})
    assert await sql.execute(DISABLE) == "UPDATE 1"
    assert await sql.fetch(NEXT_PROXY) == []
    (shown,) = await shop.get("/proxies")
    assert shown["is_active"] is False
    await sql.execute("UPDATE proxies SET is_active = TRUE")
    assert [row["failure_count"] for row in await sql.fetch(NEXT_PROXY)] == [0]
    for refused in (
        "UPDATE proxies SET proxy_port = 1",
        "DELETE FROM proxies",
        "INSERT INTO proxies (proxy_url, proxy_port) VALUES ('other.example', 8080)",
    ):
        with pytest.raises(asyncpg.FeatureNotSupportedError, match="proxies"):
            await sql.execute(refused)


async def test_a_role_with_a_grant_on_the_view_alone_may_submit__PR_25(shop: Shop, sql: Sql) -> None:
    role = f"forager_{(await sql.fetchval('SELECT current_database()'))}"[:60]
    try:
        await sql.execute(f'CREATE ROLE "{role}"')
    except asyncpg.InsufficientPrivilegeError:
        pytest.skip("the role on this server may not create another")
    try:
        await sql.execute(f'GRANT SELECT, INSERT ON crawl_tasks TO "{role}"; SET ROLE "{role}"')
        await sql.execute("INSERT INTO crawl_tasks (url) VALUES ('https://example.com/p/1')")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await sql.execute("SELECT * FROM forager.sql_inbox")
        assert len(await sql.fetch("SELECT * FROM crawl_tasks")) == 1
    finally:
        await sql.execute(f'RESET ROLE; DROP OWNED BY "{role}"; DROP ROLE "{role}"')
