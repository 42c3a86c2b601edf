"""`forager products …`, `forager search` and `forager reparse` on a store without products."""

from tests.support.cli import Forager


def test_every_command_of_products_answers_on_an_empty_store__PR_18(forager: Forager) -> None:
    assert "products without page" in forager("products", "audit", "--run").out
    assert forager("products", "audit", "--json").data["findings"]["products"] == 0
    assert forager("products", "health", "--json").data == []
    assert forager("products", "health").err == "No pages were parsed in these days.\n"
    assert forager("products", "quarantine", "list").err == "No values are held back.\n"
    assert "No products match. Crawl a shop" in forager("products", "list", "--brand", "Ikea").err
    assert forager("products", "reindex", "--json").data == {"left": 0}
    assert "0 products" in forager("search", "oak table").err
    assert "0 products" in forager("search", "for", "oak").err
    assert "0 products" in forager("search", "--", "rebuild").err, "a word, not the command"
    assert forager("search", "rebuild", "--json").data == {"left": 0}
    assert forager("search", "oak", "--json").data["hits"] == []


def test_what_is_not_there_is_named__PR_16(forager: Forager) -> None:
    assert "No page of shop.example is stored" in forager("reparse", "--domain", "shop.example").err
    assert "There is no quarantine" in forager("products", "quarantine", "accept", "a/b/1/c").err


def test_a_plan_names_pages_and_time__PR_1(forager: Forager) -> None:
    planned = forager("crawl", "https://shop.example/p/1", "--plan")
    assert "shop.example" in planned.out
    assert "1 page. Nothing was fetched." in planned.err
