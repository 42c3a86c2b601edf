"""The products demo: a small shop is crawled, five days pass, and a second crawl shows which prices changed."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import orjson

from forager.pipelines.products.cli import words
from forager.pipelines.products.cli.catalogue import price_of
from forager.sdk.cli import render
from forager.sdk.cli.client import Api
from forager.sdk.cli.demo import Demo, DemoUpstream
from forager.sdk.cli.render import Job
from forager.sdk.cli.run_job import seconds_of

PAGES = 200
DAYS = 5
SANDBOX: dict[str, Any] = {
    "latency_ms": 40.0,
    "latency_sigma": 0.25,
    "faults": {"http500": 0.01},
    "currency": "EUR",
    "page_bytes": 20_000,
}
"""A shop like many others; one answer in a hundred is an error."""
RATE = 100
RETRY_DELAY = 0.3
SHOWN = 10


def upstream(log: Path) -> Sequence[str]:
    config = orjson.dumps({**SANDBOX, "log_path": str(log)}).decode()
    size = ["--size", str(PAGES)]
    return [sys.executable, "-m", "forager.sandbox", "shop", "--until-stdin-closes", *size, "--config", config]


def settings(upstream: DemoUpstream) -> Mapping[str, Any]:
    """Return settings with a policy file that removes the pauses for the simulated shop."""
    rules = upstream.log.parent / "policies.yaml"
    rules.write_text(
        f'domains:\n  "{upstream.address}":\n    tokens_per_interval: {RATE}\n    interval_seconds: 1\n'
        "    max_concurrent_requests: 32\n"
    )
    return {
        "egress_allow": (upstream.address,),
        "domain_policies_path": rules,
        "product_retry_delay_seconds": RETRY_DELAY,
    }


def job(upstream: DemoUpstream) -> Mapping[str, Any]:
    return {"sitemap": f"{upstream.url}/", "max_retries": 3}


async def again(upstream: DemoUpstream) -> None:
    render.notes().print(f"[dim]… {DAYS} days pass in the shop …[/]")
    body = orjson.dumps({"advance_seconds": DAYS * 86_400})
    request = Request(f"{upstream.url}/_sandbox/clock", data=body, method="POST")  # noqa: S310 - our own sandbox
    await asyncio.to_thread(lambda: urlopen(request).read())  # noqa: S310 - our own sandbox


async def found(api: Api, job_id: str) -> Any:
    """Return the counts, and the products whose price or stock changed, each with the previous values."""
    products = [product async for page in api.pages("/products") for product in page]
    changed = [product for product in products if product["version"] > 1]
    moved = []
    for product in changed[: 3 * SHOWN]:
        points = await api.get(f"/products/{product['id']}/history")
        if len(points) > 1:
            moved.append({**product, "before": points[1]})
    return {"products": len(products), "changed": len(changed), "moved": moved[:SHOWN]}


def show(job: Job, results: Any) -> None:
    rows = render.table("product", "before", "now", "stock", right=("before", "now"))
    for product in results["moved"]:
        before = product["before"]
        stock = (product["availability"] or "-").replace("_", " ")
        if before["availability"] != product["availability"]:
            stock = f"{(before['availability'] or '-').replace('_', ' ')} → {stock}"
        rows.add_row(render.plain(product["product_name"]), price_of(before), price_of(product), stock)
    console = render.out()
    console.print()
    console.print(rows)
    console.print()
    figures = [
        (
            "products",
            f"{render.count(results['products'])}, {render.count(results['changed'])} changed since the first crawl",
        ),
        ("second crawl", f"{render.some(job['completed'], 'page')} in {render.duration(seconds_of(job))}"),
        ("retries", f"{render.count(job['retries'])}, after answers that failed on purpose"),
    ]
    console.print(render.facts(figures))


def next_steps(home: Path) -> list[tuple[str, str]]:
    program, where = render.program(), f"--home {render.near(home)}"
    return [
        ("the catalogue", f"{program} {where} products list --availability in_stock"),
        ("price history", f"{program} {where} products history 1"),
        ("products as CSV", f"{program} {where} export product -f csv"),
        ("a shop of yours", f"{program} crawl https://shop.example/ --sitemap"),
        ("API, engine, recrawls", f"{program} up"),
    ]


demo = Demo(
    intro=f"A products crawl: the sitemap of a simulated shop with [bold]{PAGES} products[/], twice,"
    f" {DAYS} days apart. No key, no network. One answer in a hundred fails on purpose.\n",
    upstream=upstream,
    settings=settings,
    path="/admin/crawl-jobs",
    job=job,
    again=again,
    found=found,
    show=show,
    next_steps=next_steps,
    name="products",
    words=words,
)
