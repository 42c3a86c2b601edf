"""Lists of pages of any size: sent in parts, interrupted and continued, one job with each page once."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from forager.client.connect import LocalTransport
from forager.core.errors import NotFound, Rejected
from forager.core.ledger import NewJob
from forager.pipelines.products.cli import crawl, words
from forager.pipelines.products.cli.crawl import UrlFile, crawl_list, plan_list, url_file
from forager.pipelines.products.job import CrawlJobInParts
from forager.sdk.cli.client import Api, JobNotDone
from forager.sdk.cli.invocation import Reached
from tests.support.api import KEY
from tests.support.dying_transport import DyingTransport, Killed
from tests.support.shop import JOBS, OpenShop, Shop

PAGES = 25
PART = 10


def api_of(shop: Shop) -> Any:
    """The application that the shop's client calls in this process."""
    return shop.client._transport.app  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crawl, "MOST_URLS", PART)
    monkeypatch.setattr(crawl, "FEW", 2)


def url_list(shop: Shop, folder: Path, *more: str) -> UrlFile:
    """A file with every page of the shop, some of them twice, in other spellings and in other parts."""
    urls = [shop.site.product_url(number) for number in range(1, PAGES + 1)]
    again = [f"{urls[0]}?utm_source=mail", urls[3]]
    path = folder / "urls.txt"
    path.write_text("\n".join(["# our shop", *urls[:PART], "", *again, *urls[PART:], *again, *more]))
    return UrlFile(path, path.name)


async def sent(shop: Shop, file: UrlFile, *, requests: float = float("inf"), acts: bool = True, **options: Any) -> None:
    """Run the command beside a running Forager, until its client is gone."""
    at = Reached(Api(DyingTransport(api_of(shop), requests, acts=acts), KEY))
    await crawl_list(at, file, options, watch=False, as_json=True)


async def crawls(shop: Shop) -> list[dict[str, Any]]:
    return [job for job in await shop.get("/jobs") if job["pipeline"] == "products"]


@pytest.mark.parametrize("acts", [False, True], ids=["unsent", "unanswered"])
async def test_a_client_that_dies_between_parts_and_runs_again_ends_with_one_job_and_each_page_once(
    shop_of: OpenShop, tmp_path: Path, acts: bool
) -> None:
    shop = await shop_of(pages=PAGES)
    file = url_list(shop, tmp_path)
    for requests in (1, 2, 3):
        with pytest.raises(Killed):
            await sent(shop, file, requests=requests, acts=acts, recrawl=False, max_pages=100)
    await sent(shop, file, recrawl=False, max_pages=100)
    await shop.work()
    (job,) = await crawls(shop)
    assert (job["state"], job["total"], job["completed"]) == ("completed", PAGES, PAGES)
    assert sorted(map(int, shop.asked())) == list(range(1, PAGES + 1))
    assert len(await shop.get("/products", limit=100)) == PAGES
    assert "urls" not in job["params"]
    assert job["params"]["source"] == "urls.txt"
    await sent(shop, file, recrawl=False, max_pages=100)
    await shop.work()
    assert len(await crawls(shop)) == 2, "the same command crawls again when the job has ended"


async def test_a_list_that_fits_into_one_part_is_one_job_with_its_source_and_without_its_pages(
    shop_of: OpenShop, tmp_path: Path
) -> None:
    shop = await shop_of(pages=4)
    path = tmp_path / "four.txt"
    path.write_text("\n".join(shop.site.product_url(number) for number in (1, 2, 3, 4, 1)))
    file = UrlFile(path, path.name)
    assert file.few() is None
    for _ in range(2):
        await sent(shop, file, recrawl=False, priority=2)
    (job,) = await crawls(shop)
    assert (job["total"], job["params"]["source"], "urls" in job["params"]) == (4, "four.txt", False)
    assert words.request(job["params"]) == "pages of four.txt"
    await shop.work()
    assert sorted(map(int, shop.asked())) == [1, 2, 3, 4]


async def test_a_key_names_a_list_of_one_part_until_its_end_whatever_was_stored_of_it(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=2)
    urls = [shop.site.product_url(number) for number in (1, 2)]
    about = CrawlJobInParts(source="two.txt").model_dump(mode="json")
    opened = await shop.app.ledger.open_job(NewJob("products", about, idempotency_key="two", until_end=True))

    async def post(*urls: str) -> tuple[int, Any]:
        body = {"urls": urls, "source": "two.txt"}
        got = await shop.client.post(f"{JOBS}/in-parts", json=body, headers={"Idempotency-Key": "two"})
        return got.status_code, got.json()["data"] if got.is_success else got.json()["error"]

    stored = {"job_id": str(opened.job), "total": 2, "status": "queued"}
    assert await post(*urls) == (202, stored), "the process that opened the job died before it stored its part"
    assert await post(*urls) == (202, stored)
    status, error = await post(urls[0], f"{urls[0]}0")
    assert (status, "was sent whole, with 2 tasks" in error) == (409, True)
    await shop.work()
    assert sorted(shop.asked()) == ["1", "2"]
    assert (await post(*urls))[1]["job_id"] != stored["job_id"]


async def test_the_options_of_a_list_hold_for_all_of_its_parts(shop_of: OpenShop, tmp_path: Path) -> None:
    shop = await shop_of(pages=PAGES)
    await sent(shop, url_list(shop, tmp_path), max_pages=12, priority=2, frequency=7_200)
    await shop.work()
    (job,) = await crawls(shop)
    assert (job["completed"], job["skipped"], job["spent"]) == (12, PAGES - 12, 12)
    seen = await shop.get(f"/admin/crawl-jobs/{job['id']}")
    assert seen["priority"] == 2
    rows = await shop.app.database.fetch("SELECT priority, frequency FROM pages")
    assert {(row["priority"], row["frequency"]) for row in rows} == {(2, 7_200)}


async def test_a_list_with_a_line_that_is_no_url_starts_nothing(shop_of: OpenShop, tmp_path: Path) -> None:
    shop = await shop_of(pages=1)
    with pytest.raises(Rejected) as refused:
        await sent(shop, url_list(shop, tmp_path, "ftp://shop.example/", "no url at all"))
    assert [each.field for each in refused.value.fields] == ["line 32", "line 33"]
    assert await crawls(shop) == []


@pytest.mark.parametrize(
    ("wrong", "lines"),
    [
        (["ftp://shop.example/", "no url at all"], ["line 32", "line 33"]),
        (["https://a.example/" + 2_048 * "a"], ["line 32"]),
    ],
    ids=["found here", "found by the API"],
)
async def test_the_plan_of_a_list_names_the_same_lines(
    shop_of: OpenShop, tmp_path: Path, wrong: list[str], lines: list[str]
) -> None:
    shop = await shop_of(pages=1)
    file = url_list(shop, tmp_path, *wrong)
    at = Reached(Api(DyingTransport(api_of(shop), float("inf"), acts=True), KEY))
    with pytest.raises(Rejected) as planned:
        await plan_list(at, file, {}, as_json=True)
    with pytest.raises(Rejected) as refused:
        await sent(shop, file)
    assert [each.field for each in planned.value.fields] == lines
    assert planned.value.fields == refused.value.fields


async def test_parts_must_continue_one_another_and_have_at_most_ten_thousand_pages(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=1)
    base = "https://shop.example/p"

    async def post(path: str, **body: Any) -> tuple[int, Any]:
        got = await shop.client.post(f"{JOBS}{path}", json=body, headers={"Idempotency-Key": "list"})
        said = got.json()
        return got.status_code, said["data"] if said["success"] else said["error"]

    assert (await post("/in-parts", urls=[f"{base}/{n}" for n in range(10_001)], more=True))[0] == 422
    assert (await post("/in-parts", urls=[], more=True))[0] == 422
    assert (await post("/in-parts", urls=["ftp://shop.example/"], more=True))[0] == 422
    assert await crawls(shop) == []
    status, made = await post("/in-parts", urls=[f"{base}/{n}" for n in range(10_000)], more=True)
    assert (status, made["total"], made["status"]) == (202, 10_000, "receiving")
    add = f"/{made['job_id']}/urls"
    status, gap = await post(add, urls=[f"{base}/a"], first=10_001)
    assert (status, "Send from 10,000" in gap) == (409, True)
    assert (await post(add, urls=["ftp://shop.example/"], first=10_000))[0] == 422
    status, last = await post(add, urls=[f"{base}/a", f"{base}/a#x", f"{base}/7"], first=10_000)
    assert (status, last["total"], last["status"]) == (202, 10_001, "queued")
    again = await post(add, urls=[f"{base}/a", f"{base}/a#x", f"{base}/7"], first=10_000)
    assert again == (202, last), "its answer may have been lost"
    assert (await post(add, urls=[f"{base}/b"], first=10_001))[0] == 409
    places = await shop.submit(urls=[f"{base}/c"])
    assert (await post(f"/{places}/urls", urls=[f"{base}/d"], first=1))[0] == 409
    unknown = "00000000-0000-4000-8000-000000000000"
    assert (await post(f"/{unknown}/urls", urls=[f"{base}/d"], first=1))[0] == 404


async def test_a_long_list_is_planned_in_parts_and_a_pipe_is_read_once(shop_of: OpenShop, tmp_path: Path) -> None:
    shop = await shop_of(pages=1)
    at = Reached(Api(DyingTransport(api_of(shop), float("inf"), acts=True), KEY))
    path = tmp_path / "urls.txt"
    path.write_text("\n".join(f"https://{host}.example/p/{n}" for host in "ab" for n in range(PAGES)))
    with url_file(path) as file:
        assert file.few() is None
        planned = await plan_list(at, file, {}, as_json=True)
        bounded = await plan_list(at, file, {"max_pages": 30}, as_json=True)
    assert (planned["pages"], planned["seconds"], planned["more"]) == (2 * PAGES, PAGES, False)
    assert [(shop["domain"], shop["pages"]) for shop in planned["shops"]] == [("a.example", 25), ("b.example", 25)]
    assert bounded["pages"] == 30
    assert shop.asked() == []


async def test_a_page_that_another_job_keeps_for_later_is_crawled_and_printed_now__PR_6(
    shop_of: OpenShop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = await shop_of(pages=2)
    url = shop.site.product_url(1)
    await shop.submit(urls=[url], scheduled_at="2099-01-01T00:00:00Z")
    at = Reached(Api(LocalTransport(api_of(shop)), KEY))
    async with shop.app.engine():
        await crawl._one_page(at, {"urls": [url]}, url, quiet=True)
        missing = shop.site.url("/p/nothing-99")
        with pytest.raises(NotFound, match=r"has no such page \(404\)"):
            await crawl._one_page(at, {"urls": [missing]}, missing, quiet=True)
    assert f'"url": "{url}"' in capsys.readouterr().out
    big = await shop.submit(urls=[shop.site.product_url(2), shop.site.url("/c/1")], scheduled_at="2099-01-01T00:00:00Z")
    with pytest.raises(JobNotDone, match=f"job {big}, which is queued. Follow it: forager jobs watch {big}"):
        await crawl._one_page(at, {"urls": [shop.site.product_url(2)]}, shop.site.product_url(2), quiet=True)


async def test_a_page_of_a_paused_job_is_answered_with_how_to_resume_that_job__PR_6(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=3)
    single = await shop.submit(urls=[shop.site.product_url(1)])
    big = await shop.submit(urls=[shop.site.product_url(2), shop.site.product_url(3)])
    at = Reached(Api(LocalTransport(api_of(shop)), KEY))
    for job, number in ((single, 1), (big, 2)):
        await shop.app.ledger.pause(UUID(job))
        url = shop.site.product_url(number)
        with pytest.raises(JobNotDone, match=f"{job}.* is paused.* Resume it: forager jobs resume {job}"):
            await crawl._one_page(at, {"urls": [url]}, url, quiet=True)
    assert shop.asked() == []
