"""Fields of your own: what a schema may say, what a page gives by it, and what is learnt from examples."""

import time
from typing import Any

import pytest
from pydantic import ValidationError

from forager.extract.html.document import Document
from forager.extract.schemas.learn import learn
from forager.extract.schemas.read import read_schema
from forager.extract.schemas.spec import PageSchema

PAGE = """<html lang="en"><head><title>Oak Table | Shop</title><meta property="og:site_name" content="Shop">
<script type="application/ld+json">{"@type": "Product", "name": "Oak Table", "offers": {"price": "1299.50"}}</script>
<script id="__NEXT_DATA__" type="application/json">{"props": {"tags": ["oak", "table"], "stock": 3}}</script>
<script>window.__STATE__ = {"rating": 4.5, "open": true}; go();</script></head>
<body><h1 class="title">Oak  Table</h1><p class="price">EUR 1.299,50</p><a class="seller" href="/s/9">Harbour</a>
<p>SKU: AB-17 in stock</p><time datetime="2026-03-14">14 March</time><a href="mailto:hi@shop.example?x=1">mail</a>
<ul><li class="row"><b>One</b> <i>1,5</i></li><li class="row"><b>Two</b> <i>2</i></li><li class="row"></li></ul>
<a rel="next" href="?page=2">Next</a></body></html>"""
URL = "https://shop.example/p/7"


def read(**schema: Any) -> Any:
    return read_schema(PageSchema.model_validate(schema), Document(PAGE, URL))


@pytest.mark.parametrize(
    ("field", "value", "source"),
    [
        ({"css": "h1"}, "Oak Table", "css:h1"),
        ({"css": "a.seller", "attr": "href", "format": "uri"}, "https://shop.example/s/9", "css:a.seller@href"),
        ({"css": ".price", "type": "number"}, 1299.5, "css:.price"),
        ({"json": "$.offers.price", "type": "number"}, 1299.5, "json:ld+json$.offers.price"),
        ({"json": "$.props.tags", "type": "array"}, [["oak", "table"]], "json:#__NEXT_DATA__$.props.tags"),
        ({"json": "props.tags[*]", "type": "array"}, ["oak", "table"], "json:#__NEXT_DATA__props.tags[*]"),
        ({"json": "$..rating", "type": "number"}, 4.5, "json:__STATE__$..rating"),
        ({"json": "$.open", "type": "boolean"}, True, "json:__STATE__$.open"),
        ({"meta": "og:site_name"}, "Shop", "meta:og:site_name"),
        ({"regex": r"SKU: (\S+)"}, "AB-17", r"regex:SKU: (\S+)"),
        ({"css": "title", "regex": r"^(.*?) \|"}, "Oak Table", "css:title"),
        ({"xpath": "//time/@datetime", "format": "date"}, "2026-03-14", "xpath://time/@datetime"),
        ({"css": "a[href^=mailto]", "attr": "href", "format": "email"}, "hi@shop.example", None),
        ({"css": "li.row b", "type": "array"}, ["One", "Two"], "css:li.row b"),
    ],
)
def test_each_way_finds_its_value_with_its_source(field: dict[str, Any], value: Any, source: str | None) -> None:
    found = read(fields={"x": field}).values["x"]
    assert found.value == value
    assert source is None or found.source == source
    assert 0 < found.confidence <= 1


@pytest.mark.parametrize(
    "field",
    [
        {"css": ".missing"},
        {"css": "h1", "type": "number"},
        {"css": "h1", "format": "date"},
        {"css": "h1", "format": "uri", "enum": ["x"]},
        {"css": ".price", "type": "integer"},
        {"css": ".price", "type": "number", "maximum": 1000},
        {"css": "h1", "type": "boolean"},
        {"json": "$.offers"},
        {"json": "$.nothing.here"},
        {"regex": "ISBN: (.+)"},
    ],
)
def test_what_is_not_on_the_page_or_does_not_fit_is_never_given(field: dict[str, Any]) -> None:
    result = read(fields={"x": field})
    assert "x" not in result.values


def test_the_first_path_with_a_valid_value_counts_and_failures_of_others_are_reported() -> None:
    both = read(fields={"x": {"json": "$.name", "css": ".price", "type": "number"}})
    assert both.values["x"].source == "css:.price"
    wrong = read(fields={"x": {"json": "$.name", "type": "number"}})
    assert "no number" in wrong.invalid["x"]


def test_items_and_the_next_page_are_read() -> None:
    found = read(
        items={"css": "li.row", "fields": {"name": {"css": "b"}, "size": {"css": "i", "type": "number"}}},
        next="a[rel=next]",
    )
    assert found.items == [{"name": "One", "size": 1.5}, {"name": "Two", "size": 2}]
    assert found.next == "https://shop.example/p/7?page=2"


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        ({}, "fields"),
        ({"fields": {"x": {}}}, "x"),
        ({"fields": {"X": {"css": "h1"}}}, "X"),
        ({"fields": {"x": {"css": "h1["}}}, "css"),
        ({"fields": {"x": {"json": "$.a b"}}}, "JSON path"),
        ({"fields": {"x": {"regex": "("}}}, "regex"),
        ({"fields": {"x": {"regex": r"(a)\1"}}}, "regex"),
        ({"fields": {"x": {"xpath": "//a["}}}, "xpath"),
        ({"fields": {"x": {"css": "h1", "type": "money"}}}, "type"),
        ({"fields": {"x": {"css": "h1", "type": "number", "format": "date"}}}, "format"),
        ({"fields": {"x": {"meta": "m", "attr": "href"}}}, "attr"),
        ({"fields": {f"f{n}": {"css": "h1"} for n in range(101)}}, "100"),
        ({"fields": {"x": {"css": "h1"}}, "next": "a"}, "next"),
        ({"items": {"css": "li", "fields": {"x": {"json": "$.a"}}}}, "items"),
        ({"fields": {"x": {"css": "h1"}}, "pages": 51}, "pages"),
    ],
)
def test_a_wrong_schema_is_refused_and_the_message_names_the_place(schema: dict[str, Any], where: str) -> None:
    with pytest.raises(ValidationError, match=where.replace("$", r"\$")):
        PageSchema.model_validate(schema)


def test_a_schema_of_a_hundred_fields_and_fifty_pages_is_accepted_and_survives_json() -> None:
    fields = {f"f{n}": {"css": "h1", "json": "$.a"} for n in range(100)}
    schema = PageSchema.model_validate(
        {"fields": fields, "items": {"css": "li", "fields": {"x": {"css": "b"}}}, "next": "a", "pages": 50}
    )
    assert PageSchema.model_validate(schema.as_json()) == schema
    assert PageSchema.model_validate(schema.model_dump(mode="json")) == schema


def test_a_hostile_pattern_takes_time_in_proportion_to_the_page() -> None:
    page = Document(f"<p>{'a' * 100_000}</p>", URL)
    began = time.process_time()
    read_schema(PageSchema.model_validate({"fields": {"x": {"regex": "(a*)*b"}, "y": {"regex": "(a|aa)+$x"}}}), page)
    assert time.process_time() - began < 5


def _recipe(number: int, name: str, minutes: int, *, extra: str = "") -> tuple[Document, dict[str, Any]]:
    html = f"""<html><body><nav><a href="/">Home</a></nav>{extra}<div class="recipe"><h1 class="name">{name}</h1>
    <span class="css-1x{number}a9f">{minutes} min</span><span itemprop="totalTime">{minutes}</span>
    <p>By <a class="author" href="/u/{number}">Cook {name[0]}</a></p></div></body></html>"""
    return Document(html, f"https://r.example/{number}"), {
        "title": name,
        "minutes": minutes,
        "author": f"Cook {name[0]}",
    }


def test_paths_are_learnt_from_three_examples_and_hold_on_another_page() -> None:
    learnt = learn([_recipe(1, "Soup", 30), _recipe(2, "Bread", 75, extra="<p>Ad</p>"), _recipe(3, "Cake", 50)])
    assert set(learnt.fields) == {"title", "minutes", "author"}
    assert set(learnt.checked.values()) == {"3 of 3"}
    assert learnt.unsure == {}
    page, wanted = _recipe(4, "Pie", 95, extra="<div><p>Another ad</p></div>")
    found = read_schema(learnt.schema(), page)
    assert {name: each.value for name, each in found.values.items()} == wanted
    assert learnt.fields["minutes"].css == '[itemprop="totalTime"]'


def test_fields_that_cannot_be_learnt_or_checked_are_reported() -> None:
    document, values = _recipe(1, "Soup", 30)
    one = learn([(document, values)])
    assert "one page only" in one.unsure["title"]
    absent = learn([(document, {**values, "chef": "Nobody Here"}), _recipe(2, "Bread", 75)])
    assert "chef" not in absent.fields
    assert "chef" in absent.unsure
