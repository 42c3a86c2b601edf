"""Pictures of products are downloaded when the list of a page has changed; the same bytes are stored once."""

import json

import pytest

from forager.core.storage import PAGES
from forager.extract.image_size import image_size
from tests.support.shop import OpenShop, Shop

pytestmark = pytest.mark.one_store  # downloads and files are the same on both

IMAGE = ("image_url", "image_path", "alt_text", "image_type", "position", "width", "height", "file_size")
"""The columns of the view `images` that a product's images have."""


async def download(shop: Shop) -> None:
    """Let the recheck notice the products, and work until every picture is there."""
    await shop.app.rechecker.look()
    await shop.work()


@pytest.mark.one_store(False)
async def test_pictures_are_downloaded_with_size_and_place_and_the_same_bytes_once__PR_13(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=14, change_days=(0, 0))
    await shop.crawl(urls=[shop.site.product_url(n) for n in (1, 7, 14)])
    await download(shop)
    product = await shop.get(f"/products/{(await shop.product(7))['id']}")
    assert [image["image_type"] for image in product["images"]] == ["primary", "gallery", "gallery"]
    (row,) = await shop.app.database.fetch("SELECT * FROM products WHERE id = :id", {"id": product["id"]})
    assert (product["domain_id"], product["crawl_task_id"]) == (row["domain_id"], row["crawl_task_id"])
    assert [image["position"] for image in product["images"]] == [0, 1, 2]
    assert all(image["width"] > 0 and image["height"] > 0 and image["file_size"] > 0 for image in product["images"])
    rows = await shop.app.database.fetch("SELECT * FROM images ORDER BY product_id, position")
    assert len(rows) == 9
    images = [{name: row[name] for name in IMAGE} for row in rows if row["product_id"] == product["id"]]
    assert product["images"] == images, "each value once, under the name of its column"
    listed = await shop.get("/products")
    assert next(each for each in listed if each["id"] == product["id"])["images"] == images, "the list has the same"
    assert {row["product_id"] for row in rows} == {each["id"] for each in listed}
    paths = [row["image_path"] for row in rows]
    assert len(set(paths)) == 8  # the logo of products 7 and 14 is one file
    logo = next(path for path in paths if paths.count(path) == 2)
    stored = await shop.app.read_page(f"blob:{logo.removeprefix(PAGES)}")
    assert image_size(stored.body) == (80, 60)
    asked = shop.site.log.total
    await shop.crawl(urls=[shop.site.product_url(7)])  # the same list: nothing to download
    await download(shop)
    assert shop.site.log.total == asked + 1


async def test_a_changed_list_is_downloaded_again_and_removed_pictures_are_gone__PR_13(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=3, change_days=(0, 0))
    await shop.crawl(urls=[shop.site.product_url(1)])
    await download(shop)
    assert len(await shop.app.database.fetch("SELECT * FROM images")) == 3
    await shop.app.database.write("UPDATE items SET images = :none", {"none": "[]"})
    await shop.app.database.write("UPDATE pictures SET width = 1")
    shop.site.config = type(shop.site.config)(**{**vars(shop.site.config), "images": 1})
    await shop.crawl(urls=[shop.site.product_url(1)])
    await download(shop)
    (left,) = await shop.app.database.fetch("SELECT * FROM images")
    assert left["position"] == 0
    assert left["width"] > 1


async def test_a_picture_that_is_missing_too_big_or_none_at_all_stops_nothing__PR_13(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=3, settings={"product_image_max_bytes": 100_000})
    await shop.crawl(urls=[shop.site.product_url(1)])
    url = shop.site.url
    images = [{"url": url(f"/img/{name}")} for name in ("1-1.png", "huge.png", "broken.png", "none.png")]
    await shop.app.database.write("UPDATE items SET images = :images", {"images": json.dumps(images)})
    await download(shop)
    rows = await shop.app.database.fetch("SELECT image_url FROM images")
    assert [row["image_url"] for row in rows] == [url("/img/1-1.png")]


async def test_no_picture_is_downloaded_if_none_is_wanted__PR_13(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=3, settings={"product_images_max": 0})
    await shop.crawl(urls=[shop.site.product_url(1)])
    await download(shop)
    assert shop.asked("image") == []
    assert len((await shop.product(1))["images"]) == 3
