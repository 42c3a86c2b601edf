"""Pages are stored before they are parsed: a parser's fault costs no download, and what is gone is observed."""

import asyncio
import zipfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID

import orjson
import pytest
from warcio.archiveiterator import ArchiveIterator

from forager.cli.main import run
from forager.core.http import Response
from forager.extract.html.document import Document
from forager.extract.image_size import image_size
from forager.extract.products.findings import ProductFindings
from forager.extract.products.parsers import base
from tests.support.s3 import address_of, s3_values
from tests.support.shop import OpenShop, open_shop

pytestmark = pytest.mark.one_store  # pages are files, parsers are pure

DAY = 86_400
AT = datetime(2026, 3, 14, 12, tzinfo=UTC)


def damage(blobs: Path) -> None:
    """Overwrite every stored page with zeros."""
    for file in blobs.rglob("*"):
        if file.is_file() and not file.name.startswith("index"):
            file.write_bytes(bytes(file.stat().st_size))


async def test_a_parser_that_breaks_costs_no_second_download__PR_4(
    shop_of: OpenShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = True

    def read(document: Document) -> ProductFindings:
        if broken:
            raise RuntimeError("the layout has changed")
        return base.read(document)

    monkeypatch.setattr(base, "parser", replace(base.parser, read=read))
    shop = await shop_of(pages=2)
    job = await shop.crawl(urls=[shop.site.product_url(1)])
    assert (job["completed"], job["failed"]) == (1, 1)  # fetched; not parsed
    (dead,) = await shop.get("/dead", job=job["id"])
    assert (dead["kind"], dead["error_type"]) == ("products.parse", "parse")
    assert "the layout has changed" in dead["error"]
    assert await shop.get("/products") == []
    broken = False
    assert (await shop.client.post(f"/api/v1/dead/{dead['id']}/retry")).status_code == 200
    await shop.work()
    assert (await shop.product(1))["product_name"] == shop.site.product(1).name
    assert shop.asked() == ["1"]


async def test_a_stored_page_that_is_lost_is_fetched_again__PR_4(
    shop_of: OpenShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = iter([True, False])

    def read(document: Document) -> ProductFindings:
        if next(calls):
            damage(shop.app.settings.home / "blobs")
            raise RuntimeError("not today")
        return base.read(document)

    monkeypatch.setattr(base, "parser", replace(base.parser, read=read))
    shop = await shop_of(pages=2)
    job = await shop.crawl(urls=[shop.site.product_url(1)])
    assert (job["completed"], job["failed"]) == (2, 0)
    assert (await shop.product(1))["product_name"] == shop.site.product(1).name
    assert shop.asked() == ["1", "1"]


@pytest.mark.one_store(False)
@pytest.mark.parametrize("how", ["404", "410"])
async def test_a_product_whose_page_is_gone_is_gone_with_its_evidence__PR_11(shop_of: OpenShop, how: str) -> None:
    shop = await shop_of(pages=4, gone_share=1.0, gone_days=1.0, gone=(how,), change_days=(0, 0))
    urls = [shop.site.product_url(n) for n in range(1, 5)]
    await shop.crawl(urls=urls)
    before = await shop.product(1)
    shop.site.time.advance(2 * DAY)
    for _ in range(2):
        job = await shop.crawl(urls=urls)
        assert job["completed"] == 4
    product = await shop.product(1)
    assert (product["gone_reason"], product["price"]) == ("not_found", before["price"])
    assert product["version"] == before["version"] + 1  # the second 404 changes nothing
    assert await shop.get("/products") == []
    points = await shop.get(f"/products/{product['id']}/history")
    assert [point["gone"] for point in points] == [True, False]


async def test_a_soft_404_shows_no_product_and_none_of_its_prices__PR_15(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=4, gone_share=1.0, gone_days=1.0, gone=("soft",), change_days=(0, 0))
    await shop.crawl(urls=[shop.site.product_url(1)])
    before = await shop.product(1)
    shop.site.time.advance(2 * DAY)
    await shop.crawl(urls=[shop.site.product_url(1)])
    after = await shop.product(1)
    assert (after["price"], after["version"]) == (before["price"], before["version"])


@pytest.mark.one_store(False)
async def test_a_price_that_cannot_be_right_overwrites_nothing_and_is_kept_with_its_reason__PR_15(
    shop_of: OpenShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = await shop_of(pages=2)
    url = shop.site.product_url(1)
    await shop.crawl(urls=[url])
    before = await shop.product(1)

    def negative(document: Document) -> ProductFindings:
        found = ProductFindings()
        found.add("product_name", before["product_name"], "json-ld")
        found.add("availability", "InStock", "json-ld")
        found.add_price("-5.00", "USD", "json-ld")
        return found

    monkeypatch.setattr(base.parser.__class__, "read", property(lambda self: negative), raising=False)
    job = await shop.crawl(urls=[url])
    after = await shop.product(1)
    assert (after["price"], after["currency"]) == (before["price"], before["currency"])
    assert "price" in after["unseen"]
    (row,) = await shop.get(f"/jobs/{job['id']}/rejected")
    assert "out of range" in row["reason"]


async def test_an_unchanged_page_is_stored_once_and_compressed__PR_14(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=6, change_days=(0, 0))
    urls = [shop.site.product_url(n) for n in range(1, 7)]
    await shop.crawl(urls=urls)
    first = await shop.app.stored_pages.stat()
    await shop.crawl(urls=urls)
    again = await shop.app.stored_pages.stat()
    assert (first.pages, again.pages) == (6, 6)
    assert again.stored == first.stored
    assert again.size is not None
    assert again.stored < again.size / 2
    kept = await shop.app.stored_pages.collect()
    assert kept.kept == 6  # what a page names is not collected


# ── read back ──

HTML = ("text/plain", "attachment")


@pytest.mark.one_store(False)
async def test_a_stored_page_is_read_back_by_its_id_its_url_and_its_path__PR_26(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=4)
    urls = [shop.site.product_url(n) for n in (1, 2, 3)]
    await shop.crawl(urls=urls)
    listed = await shop.get("/pages")
    assert {each["url"] for each in listed} == set(urls)
    (one,) = await shop.get("/pages", url=f"{urls[0]}#top")
    assert one in listed
    assert len(await shop.get("/pages", domain=f"127.0.0.1:{shop.site.port}")) == 3
    assert (await shop.client.get("/api/v1/pages", params={"domain": "other.example"})).status_code == 422
    assert await shop.get("/pages", url=shop.site.product_url(4)) == []
    rows = await shop.app.database.fetch("SELECT url, html_path FROM crawl_tasks")
    assert {row["url"]: row["html_path"] for row in rows} == {each["url"]: each["path"] for each in listed}
    detail = await shop.get(f"/pages/{one['id']}")
    assert (detail["url"], detail["status"], [file["name"] for file in detail["files"]]) == (urls[0], 200, ["raw"])
    assert detail["fetched_at"] is not None
    (file,) = detail["files"]
    body = await shop.client.get(file["path"])
    assert (body.status_code, len(body.content)) == (200, file["size"])
    assert shop.site.product(1).name in body.text
    assert f"blob:{one['id']}" in [row["html"] for row in await shop.app.database.fetch("SELECT html FROM pages")]
    by_blob = await shop.get(f"/pages/blob:{one['id']}")
    assert by_blob == detail


async def test_a_stored_page_never_runs_in_a_browser_with_our_address__PR_26(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=2)
    sent = {
        "text/html": HTML,
        "text/html; charset=iso-8859-1": ("text/plain; charset=iso-8859-1", "attachment"),
        "application/xhtml+xml": HTML,
        "image/svg+xml": HTML,
        "text/javascript": HTML,
        "application/octet-stream": ("application/octet-stream", "attachment"),
        "": ("application/octet-stream", "attachment"),
        "image/png": ("image/png", "inline"),
    }
    for number, (kind, (shown, disposition)) in enumerate(sent.items()):
        body = b"<script>alert(document.cookie)</script>"
        page = Response("https://evil.example/", 200, {"Content-Type": kind} if kind else {}, body, AT, number)
        blob = await shop.app.stored_pages.blobs.keep(page)
        got = await shop.client.get(f"/api/v1/pages/{blob.removeprefix('blob:')}/raw")
        assert (got.status_code, got.content) == (200, body)
        assert got.headers["content-type"].startswith(shown), kind
        assert got.headers["content-disposition"].startswith(disposition)
        assert got.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in got.headers["content-security-policy"]
        assert "default-src 'none'" in got.headers["content-security-policy"]


async def test_a_rendered_page_is_named_as_such_and_what_is_not_stored_is_refused__PR_26(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=2)
    page = Response("https://a.example/", 200, {"Content-Type": "text/html"}, b"<p>done", AT, 1, rendered=True)
    blob = (await shop.app.stored_pages.blobs.keep(page)).removeprefix("blob:")
    assert [file["name"] for file in (await shop.get(f"/pages/{blob}"))["files"]] == ["rendered"]
    assert (await shop.client.get(f"/api/v1/pages/{blob}/rendered")).content == b"<p>done"
    refused = await shop.client.get(f"/api/v1/pages/{blob}/raw")
    assert (refused.status_code, "There is: rendered" in refused.json()["error"]) == (404, True)
    for unknown in ("0" * 40, "nothing", "../../etc/passwd", str(UUID(int=7))):
        assert (await shop.client.get(f"/api/v1/pages/{quote(unknown, safe='')}")).status_code == 404
    assert (await shop.client.get(f"/api/v1/pages/{blob}/console")).status_code == 422
    wrong = await shop.client.get("/api/v1/pages", params={"kind": "product"})
    assert (wrong.status_code, "page, picture" in wrong.json()["error"]) == (422, True)
    without = await shop.client.get(f"/api/v1/pages/{blob}/rendered", headers={"X-Service-Key": "wrong"})
    assert without.status_code in (401, 403)


async def test_pictures_are_read_back_by_their_image_path__PR_26(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=2)
    await shop.crawl(urls=[shop.site.product_url(1)])
    await shop.app.rechecker.look()
    await shop.work()
    product = await shop.product(1)
    listed = {each["path"]: each["url"] for each in await shop.get("/pages", kind="picture")}
    assert {image["image_path"]: image["image_url"] for image in product["images"]} == listed
    for image in product["images"]:
        detail = (await shop.client.get(image["image_path"])).json()["data"]
        got = await shop.client.get(detail["files"][0]["path"])
        assert got.headers["content-type"] == "image/png"
        assert (len(got.content), image_size(got.content)) == (image["file_size"], (image["width"], image["height"]))


async def test_pages_in_s3_are_read_back__PR_26(tmp_path: Path) -> None:
    settings = {"blobs": str(address_of(tmp_path)), **s3_values()}
    async with open_shop(tmp_path / "home", None, pages=2, settings=settings) as shop:
        await shop.crawl(urls=[shop.site.product_url(1)])
        (one,) = await shop.get("/pages")
        got = await shop.client.get(f"{one['path']}/raw")
        assert shop.site.product(1).name in got.text


def test_the_command_shows_and_exports_stored_pages__PR_26(tmp_path: Path, capfdbinary: Any) -> None:
    home, url, name = tmp_path / "home", "", ""

    async def crawl() -> None:
        nonlocal url, name
        async with open_shop(home, None, pages=2) as shop:
            await shop.crawl(urls=[shop.site.product_url(1)])
            await shop.app.rechecker.look()
            await shop.work()
            url, name = shop.site.product_url(1), shop.site.product(1).name

    asyncio.run(crawl())

    def forager(*arguments: str) -> tuple[int, bytes, bytes]:
        capfdbinary.readouterr()
        code = run(["--home", str(home), *arguments])
        said = capfdbinary.readouterr()
        return code, said.out, said.err

    (listed,) = orjson.loads(forager("pages", "list", "--json")[1])
    assert listed["url"] == url
    for known in (listed["id"], url, listed["path"], f"{listed['path']}/raw", f"blob:{listed['id']}"):
        code, out, err = forager("pages", "show", known)
        assert (code, name.encode() in out) == (0, True), err
    assert orjson.loads(forager("pages", "show", url, "--json")[1])["files"][0]["name"] == "raw"
    assert b"There is: raw" in forager("pages", "show", url, "--file", "screenshot")[2]
    assert b"No page is stored for" in forager("pages", "show", "https://other.example/")[2]
    whole = orjson.loads(forager("pages", "show", url, "--json")[1])["id"]
    assert orjson.loads(forager("pages", "show", whole[:10], "--json")[1])["id"] == whole
    assert b"forager pages list" in forager("pages", "show", "ffff0000ffff")[2]
    saved = tmp_path / "page.html"
    assert forager("pages", "show", url, "--output", str(saved))[0] == 0
    assert name in saved.read_text()
    for kind, ending, number in (("page", ".html", 1), ("picture", ".png", 3)):
        folder = tmp_path / kind
        for _ in range(2):
            assert forager("pages", "export", str(folder), "--kind", kind)[0] == 0
        lines = [orjson.loads(line) for line in (folder / "index.jsonl").read_bytes().splitlines()]
        assert len(lines) == number
        assert all((folder / line["file_name"]).stat().st_size == line["size"] for line in lines)
        assert {Path(line["file_name"]).suffix for line in lines} == {ending}
    archive = tmp_path / "shop.warc.gz"
    assert forager("pages", "export", "--warc", str(archive))[0] == 0
    with archive.open("rb") as file:
        bodies = [each.content_stream().read() for each in ArchiveIterator(file) if each.rec_type == "response"]
    assert bodies == [saved.read_bytes()]
    assert len((tmp_path / "shop.warc.gz.cdxj").read_bytes().splitlines()) == 1
    assert forager("pages", "export", "--wacz", str(tmp_path / "shop.wacz"), "--kind", "picture")[0] == 0
    with zipfile.ZipFile(tmp_path / "shop.wacz") as package, package.open("archive/pages.warc.gz") as inner:
        assert sum(each.rec_type == "response" for each in ArchiveIterator(inner)) == 3
    assert forager("pages", "export", str(tmp_path / "a"), "--warc", str(archive))[0] == 2
    assert b"Name a folder, or one of --warc and --wacz" in forager("pages", "export")[2]
