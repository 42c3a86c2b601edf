"""The products part of `forager demo`: a shop is crawled three times, some days apart, and its prices move."""

from collections.abc import Mapping, Sequence
from typing import Any

from forager.pipelines.products import demo
from forager.pipelines.products.cli import words
from forager.pipelines.products.cli.catalogue import price_of
from forager.sdk.cli import report_html as html
from forager.sdk.cli.client import Api
from forager.sdk.cli.render import Job, count, some
from forager.sdk.cli.showcase import CostLine, DemoWorld, Found, Showcase

PAGES = 100
LOOKS = 3
DAYS_APART = 5.0
SHOWN = 12


def lanes(world: DemoWorld) -> Mapping[str, Mapping[str, Any]]:
    rules = {"tokens_per_interval": demo.RATE, "interval_seconds": 1, "max_concurrent_requests": 32}
    return {world.url("shop").removeprefix("http://"): rules}


def settings(world: DemoWorld) -> Mapping[str, Any]:
    address = world.url("shop").removeprefix("http://")
    return {"egress_allow": (address,), "product_retry_delay_seconds": demo.RETRY_DELAY}


async def start(api: Api, world: DemoWorld, look: int) -> Sequence[str]:
    """Crawl the shop, some days after the look before. Only the shop's time moves: what is stored ends now."""
    if look:
        await world.advance("shop", DAYS_APART)
    created = await api.post("/admin/crawl-jobs", {"sitemap": f"{world.url('shop')}/", "max_retries": 3})
    return [created["job_id"]]


async def found(api: Api, world: DemoWorld, looks: Sequence[Sequence[Job]]) -> Found:
    products = [product async for page in api.pages("/products") for product in page]
    changed = [product for product in products if product["version"] > 1]
    moved: list[tuple[Mapping[str, Any], list[Mapping[str, Any]]]] = []
    for product in changed[: 4 * SHOWN]:
        points = await api.get(f"/products/{product['id']}/history")
        if points and product["price"] and points[-1]["price"] not in (None, product["price"]):
            moved.append((product, points))
    pages = sum(job["completed"] for look in looks for job in look)
    requests = sum(job["completed"] + job["retries"] for look in looks for job in look)
    cards = [
        {
            "title": product["product_name"],
            "lines": (f"{price_of(points[-1])} → {price_of(product)}", product["brand"] or product["category"]),
            "chart": html.spark([float(point["price"]) for point in reversed(points) if point["price"]]),
        }
        for product, points in moved[:SHOWN]
    ]
    return Found(
        figures=[
            ("products", f"{count(len(products))} of one shop, looked at {LOOKS} times"),
            ("changed", f"{some(len(changed), 'product')} since the first look (prices, stock)"),
        ],
        spending=CostLine("pages", None, float(requests), "no charge"),
        sections=[
            html.section(
                "Products: prices that moved",
                html.cards(cards),
                note=f"{count(pages)} pages in {LOOKS} looks at a simulated shop, {DAYS_APART:.0f} days apart.",
            )
        ],
        data={"products": len(products), "changed": len(changed), "pages": pages},
    )


showcase = Showcase(
    title="products",
    upstream="shop",
    config={**demo.SANDBOX, "pages": PAGES},
    settings=settings,
    lanes=lanes,
    start=start,
    found=found,
    looks=LOOKS,
    kinds=("product",),
    words=words,
)
