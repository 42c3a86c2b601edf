"""`forager products …`, `forager search` and `forager reparse` on a store without products."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from forager.pipelines.products.cli import request
from tests.support.cli import Forager


@pytest.mark.usefixtures("store")
def test_every_command_of_products_answers_on_an_empty_store__PR_18(forager: Forager) -> None:
    assert "products without page" in forager("products", "audit", "--run").out
    assert forager("products", "audit", "--json").data["findings"]["products"] == 0
    assert forager("products", "health", "--json").data == []
    assert forager("products", "health").err == "No pages were parsed in these days.\n"
    assert "No shop was crawled yet" in forager("products", "domains", "list").err
    assert forager("products", "quarantine", "list").err == "No values are held back.\n"
    assert "No products match. Crawl a shop" in forager("products", "list", "--brand", "Ikea").err
    assert forager("products", "reindex", "--json").data == {"left": 0}
    assert "0 products" in forager("search", "oak table").err
    assert "0 products" in forager("search", "for", "oak").err
    assert "0 products" in forager("search", "--", "rebuild").err, "a word, not the command"
    assert forager("search", "rebuild", "--json").data == {"left": 0}
    assert forager("search", "oak", "--json").data["hits"] == []


@pytest.mark.usefixtures("store")
def test_what_is_not_there_is_named__PR_16(forager: Forager) -> None:
    assert "No page of shop.example is stored" in forager("reparse", "--domain", "shop.example").err
    assert "There is no quarantine" in forager("products", "quarantine", "accept", "a/b/1/c").err


def test_a_plan_names_pages_and_time__PR_1(forager: Forager) -> None:
    planned = forager("crawl", "https://shop.example/p/1", "--plan")
    assert "shop.example" in planned.out
    assert "1 page. Nothing was fetched." in planned.err


def test_a_long_list_is_planned_and_checked_line_by_line__PR_1(forager: Forager, tmp_path: Path) -> None:
    file = tmp_path / "urls.txt"
    urls = [f"https://shop.example/p/{number}" for number in range(2_100)]
    file.write_text("# tables\n\n" + "\n".join(urls))
    planned = forager("crawl", "--file", str(file), "--plan", "--json").data
    assert (planned["pages"], [shop["domain"] for shop in planned["shops"]]) == (2_100, ["shop.example"])
    file.write_text("\n".join([*urls, "ftp://shop.example/"]))
    refused = forager("crawl", "--file", str(file))
    assert (refused.code != 0, "line 2101" in refused.err) == (True, True), refused.err
    assert request({"source": "urls.txt", "priority": 5}) == "pages of urls.txt"


def test_a_wrong_line_of_a_short_list_is_named_like_one_of_a_long_list__PR_1(forager: Forager, tmp_path: Path) -> None:
    file = tmp_path / "urls.txt"
    file.write_text("# tables\nhttps://shop.example/p/1\nftp://shop.example/\n")
    for options in ((), ("--plan",)):
        refused = forager("crawl", "--file", str(file), *options)
        assert (refused.code, "line 3: " in refused.err) == (2, True), refused.err


def test_a_url_beside_a_long_list_is_its_first_page__PR_1(forager: Forager, tmp_path: Path) -> None:
    file = tmp_path / "urls.txt"
    file.write_text("\n".join(f"https://shop.example/p/{number}" for number in range(2_100)))
    planned = forager("crawl", "https://other.example/p/1", "--file", str(file), "--plan", "--json").data
    assert {shop["domain"]: shop["pages"] for shop in planned["shops"]} == {"other.example": 1, "shop.example": 2_100}
    refused = forager("crawl", "ftp://other.example/", "--file", str(file))
    assert (refused.code, "URL: " in refused.err) == (2, True), refused.err


def test_time_and_retries_are_options_of_the_command__PR_1(forager: Forager) -> None:
    page = "https://shop.example/p/1"
    assert forager("crawl", page, "--scheduled-at", "2099-01-01T00:00:00Z", "--max-retries", "10", "--plan").code == 0
    assert "--max-retries: must be at most 10" in forager("crawl", page, "--max-retries", "11", "--plan").err
    assert "--scheduled-at: must be a time" in forager("crawl", page, "--scheduled-at", "tomorrow", "--plan").err


@pytest.mark.usefixtures("store")
def test_the_currency_and_frequency_of_a_shop_are_set_and_taken_back__PR_7(forager: Forager) -> None:
    unknown = forager("products", "domains", "set", "shop.example", "--currency", "eur")
    assert "was never crawled" in unknown.err
    forager("lanes", "set", "shop.example", "--concurrency", "2", "--new")
    changed = forager("products", "domains", "set", "Shop.example", "--currency", "eur", "--recrawl", "6h")
    assert "shop.example: currency EUR, crawled every 6 h, delay 1 s, 2 at once." in changed.err, changed.all
    (shop,) = forager("products", "domains", "list", "--json").data
    assert (shop["currency"], shop["crawl_frequency"], shop["max_concurrent_requests"]) == ("EUR", 21_600, 2)
    back = forager("products", "domains", "set", "shop.example", "--currency", "none", "--recrawl", "none", "--json")
    assert (back.data["currency"], back.data["crawl_frequency"]) == (None, None)
    assert "--recrawl" in forager("products", "domains", "set", "shop.example", "--recrawl", "6").err
    assert "--currency" in forager("products", "domains", "set", "shop.example", "--currency", "XXQ").err
    assert "Nothing to set" in forager("products", "domains", "set", "shop.example").err
    paced = forager("products", "domains", "set", "shop.example", "--delay", "2.5", "--at-once", "3", "--paused")
    assert "delay 2.5 s, 3 at once. It is paused." in paced.err, paced.all
    for flag, value in (("--delay", "soon"), ("--at-once", "1.5"), ("--at-once", "0"), ("--delay", "-1")):
        assert flag in forager("products", "domains", "set", "shop.example", flag, value).err
    again = forager("products", "domains", "set", "shop.example", "--delay", "none", "--at-once", "none", "--active")
    assert "delay 1 s, 5 at once." in again.err, again.all


def test_a_sitemap_that_was_never_read_has_an_unknown_number_of_pages__PR_1(forager: Forager) -> None:
    planned = forager("crawl", "https://shop.example/", "--sitemap", "--plan")
    assert "unknown until the sitemap is read. Nothing was fetched." in planned.err
    assert "unknown" in planned.out
    bounded = forager("crawl", "https://shop.example/", "--sitemap", "--max-pages", "100", "--plan")
    assert "unknown until the sitemap is read, at most 100 (--max-pages)." in bounded.err
    data = forager("crawl", "https://shop.example/", "--sitemap", "--max-pages", "100", "--plan", "--json").data
    assert (data["pages"], data["seconds"], data["at_most"], data["more"]) == (None, None, 100, True)


@pytest.mark.usefixtures("store")
def test_a_product_that_does_not_exist_and_an_unknown_order_are_named__PR_18(forager: Forager) -> None:
    missing = forager("products", "show", "7")
    assert (missing.code, "There is no product 7" in missing.err) == (4, True), missing.err
    refused = forager("products", "list", "--sort", "colour")
    assert (refused.code, "--sort" in refused.err) == (2, True), refused.err
    assert "No products match" in forager("products", "list", "--sort", "-price").err


@pytest.mark.usefixtures("store")
def test_comparing_parsers_refuses_what_it_cannot_do_and_names_the_option__PR_24(forager: Forager) -> None:
    assert "--domain" in forager("reparse").err
    both = forager("reparse", "--parser", "new", "--apply")
    assert (both.code, "--apply" in both.err) == (2, True), both.err
    unknown = forager("reparse", "--parser", "nosuch", "--against", "current", "--sample", "500")
    assert (unknown.code, "--parser" in unknown.err, "base/" in unknown.err) == (2, True, True), unknown.err
    none = forager("reparse", "--parser", "new", "--shadow")
    assert "FORAGER_PRODUCT_PARSER_CANDIDATES" in none.err


class Quarantines(BaseHTTPRequestHandler):
    """An API with one quarantine, whose name is longer than its column."""

    row: ClassVar = {
        "domain": "a-shop-with-a-very-long-name.shops.example",
        "parser": "generic",
        "parser_version": 12,
        "field": "original_price",
        "state": "open",
        "rate": 0.1,
        "mean": 0.9,
        "pages": 40,
        "since": "2026-03-14T12:00:00Z",
    }

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"success": True, "data": [self.row], "error": None, "meta": {}}).encode())

    def log_message(self, *_: object) -> None: ...


def test_the_name_of_a_quarantine_is_shown_whole(forager: Forager, monkeypatch: pytest.MonkeyPatch) -> None:
    """`quarantine accept` needs it."""
    with HTTPServer(("127.0.0.1", 0), Quarantines) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("FORAGER_API_URL", f"http://127.0.0.1:{server.server_port}")
        shown = forager("products", "quarantine", "list").out
        server.shutdown()
    lines = shown.splitlines()
    name = "".join(line.split()[0] for line in lines[2:] if line.strip())
    assert name == "a-shop-with-a-very-long-name.shops.example/generic/12/original_price"
    assert max(map(len, lines)) <= 80
