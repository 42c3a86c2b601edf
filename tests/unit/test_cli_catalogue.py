"""The commands of products on a store that has some, against a sandbox shop in a thread."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import pytest

from forager.sandbox.shop import ShopConfig, ShopSandbox
from tests.support.cli import Forager
from tests.support.shop import no_pauses

CANDIDATE = """
from dataclasses import replace

from forager.extract.products.parsers import base

parser = replace(base.parser, version=99)
"""


@contextmanager
def shop(**config: object) -> Iterator[ShopSandbox]:
    """A sandbox shop on an event loop of its own, because a command runs another one in this thread."""
    loop, begun, end = asyncio.new_event_loop(), Future[ShopSandbox](), asyncio.Event()

    async def serve() -> None:
        async with ShopSandbox(ShopConfig(**config)) as site:  # type: ignore[arg-type]
            begun.set_result(site)
            await end.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        yield begun.result(30)
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join(30)
        loop.close()


def test_a_product_is_shown_lists_are_sorted_and_waiting_pictures_are_named__PR_18(
    forager: Forager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidate = tmp_path / "candidate.py"
    candidate.write_text(CANDIDATE)
    with shop(pages=8, change_days=(0, 0)) as site:
        address = f"127.0.0.1:{site.port}"
        (tmp_path / "policies.yaml").write_text(no_pauses(address))
        monkeypatch.setenv("FORAGER_EGRESS_ALLOW", address)
        monkeypatch.setenv("FORAGER_DOMAIN_POLICIES_PATH", str(tmp_path / "policies.yaml"))
        monkeypatch.setenv("FORAGER_PRODUCT_PARSER_CANDIDATES", str(candidate))
        urls = tmp_path / "urls.txt"
        urls.write_text("\n".join(site.product_url(n) for n in range(1, 9)))
        crawled = forager("crawl", "--file", str(urls))
        assert crawled.code == 0, crawled.all
        assert "Pictures of 8 products are not downloaded yet: `forager up` downloads them." in crawled.err
        planned = forager("crawl", site.url(""), "--sitemap", "--plan")
    assert "8 pages known; a sitemap or links may add more. Nothing was fetched." in planned.err
    products = forager("products", "list", "--json").data
    assert len(products) == 8

    def by(order: str, name: str) -> list[object]:
        return [each[name] for each in forager("products", "list", "--sort", order, "--json").data]

    prices = [float(each["price"]) for each in products if each["price"] is not None]
    assert [float(str(price)) for price in by("price", "price")] == sorted(prices)
    assert [float(str(price)) for price in by("-price", "price")] == sorted(prices, reverse=True)
    assert by("oldest", "id") == sorted(each["id"] for each in products)
    assert by("name", "product_name") == sorted(each["product_name"] for each in products)
    shown = forager("products", "show", str(products[0]["id"]))
    assert products[0]["product_name"] in shown.out
    assert products[0]["url"] in shown.out
    assert "json-ld" in shown.out or "microdata" in shown.out
    assert "of them downloaded" in shown.out
    assert forager("products", "show", str(products[0]["id"]), "--json").data["price_history"]

    told = forager("reparse", "--parser", "new", "--against", "current", "--sample", "500")
    assert "100.0%" in told.out
    assert "base/99 against base/" in told.err
    assert "Winner: none; base/" in told.err, "8 pages are too few"
    shadow = forager("reparse", "--parser", "new", "--shadow", "--json").data
    assert (shadow["source"], shadow["pages"]) == ("shadow", 8)
