"""Fields of your own: valid schemas, the values that they read from a page, and learning from examples."""

import time
from decimal import Decimal
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from forager.extract.html.document import Document
from forager.extract.schemas.described import QuotedText, answers_of, check_quotes, messages, reduce_page
from forager.extract.schemas.learn import learn
from forager.extract.schemas.read import read_schema
from forager.extract.schemas.spec import MOST_DESCRIBED, MOST_DESCRIBED_BYTES, PageSchema, SchemaField
from forager.extract.text.strings import one_line
from forager.pipelines.scrape.describe import QUESTION_BYTES, LanguageModel, Usage

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


def test_a_number_that_no_float_can_hold_is_left_out() -> None:
    schema = PageSchema.model_validate({"fields": {"x": {"type": "number", "css": "p"}}})
    result = read_schema(schema, Document(f"<p>{'9' * 400}</p>", URL))
    assert "x" not in result.values
    assert "too large" in result.invalid["x"]


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


# By description.


QUOTED = (
    "Oak  Table \u2014 \u201cDeluxe\u201d\nNow 1.299,50 \u20ac (was 15)\n"
    "Temp -5 C, ratio 3.5, SKU AB-17, size AB17\n\u4fa1\u683c\u306f3000\u5186"
)


@pytest.mark.parametrize(
    ("kind", "answer", "value"),
    [
        ("string", 'oak table - "deluxe"', "Oak Table \u2014 \u201cDeluxe\u201d"),
        ("string", "Deluxe\u201d now", "Deluxe\u201d Now"),
        ("number", "1.299,50", 1299.5),
        ("number", 1299.5, 1299.5),
        ("number", "was 15", 15),
        ("integer", -5, -5),
        ("integer", "3000", 3000),
        ("string", "SKU AB-17", "SKU AB-17"),
        ("array", ["AB-17", "steel", "Oak Table"], ["AB-17", "Oak Table"]),
    ],
)
def test_an_answer_that_the_page_shows_is_given_in_the_pages_own_characters(kind: str, answer: Any, value: Any) -> None:
    read = quoted(kind, answer)
    assert read.values == {"x": value}


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("string", "Pine Table"),
        ("string", "ak Tab"),
        ("string", "\u2014"),
        ("string", {"a": 1}),
        ("string", True),
        ("integer", "5"),
        ("integer", 5),
        ("number", "299,50"),
        ("number", "3"),
        ("integer", -17),
        ("integer", "AB17"),
        ("number", "1.299,50 \u20ac (was 15)"),
        ("array", ["steel"]),
    ],
)
def test_an_answer_that_the_page_does_not_show_is_rejected(kind: str, answer: Any) -> None:
    read = quoted(kind, answer)
    assert read.values == {}
    assert list(read.rejected) == ["x"]


@pytest.mark.parametrize("answer", [None, "", []])
def test_no_answer_is_neither_given_nor_rejected(answer: Any) -> None:
    read = quoted("string", answer)
    assert (read.values, read.rejected) == ({}, {})


def quoted(kind: str, answer: Any) -> Any:
    field = {"type": kind, "describe": "what"}
    return check_quotes(QUOTED.encode(), orjson.dumps({"x": answer}).decode(), orjson.dumps({"x": field}).decode(), URL)


@given(st.text(max_size=200), st.text(max_size=40))
def test_a_quote_is_always_a_part_of_the_text(text: str, answer: str) -> None:
    found = QuotedText(text).find(answer, SchemaField(describe="what"))
    assert found is None or found in one_line(text) or found in text


def test_a_reduced_page_has_each_visible_line_once_and_keeps_its_limit() -> None:
    html = "<title>T</title><nav><p>Menu</p></nav><p>One</p><p>One</p><script>x</script><p>Two \u00e9</p>".encode()
    whole = reduce_page(html, "text/html; charset=utf-8", URL, 1_000)
    assert (whole.text, whole.is_cut) == ("T\nMenu\nOne\nTwo \u00e9", False)
    exact = len(whole.text.encode())
    assert not reduce_page(html, None, URL, exact).is_cut
    cut = reduce_page(html, None, URL, exact - 1)
    assert (cut.text, cut.is_cut) == ("T\nOne\nTwo \u00e9", True)
    assert reduce_page(html, None, URL, 10).text == "T\nOne\nTwo ", "never half a character"


@pytest.mark.parametrize(
    ("content", "values"),
    [
        ('{"a": 1}', {"a": 1}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ("[1]", None),
        ("no", None),
        (None, None),
        ("```\nno\n```", None),
        ('  ``` \n\n{"a": 1}\n  ``` \n', {"a": 1}),
        ("```" + "\n" * 1_000, None),
    ],
)
def test_an_answer_is_a_json_object_or_nothing(content: Any, values: Any) -> None:
    assert answers_of(content) == values


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"fields": {"x": {"describe": "is it new", "type": "boolean"}}}, "true or false"),
        ({"fields": {"x": {"describe": "its link", "format": "uri"}}}, "attr"),
        ({"fields": {"x": {"describe": "a\nb"}}}, "one line"),
        ({"fields": {"x": {"describe": "a" * 501}}}, "500"),
        ({"fields": {"x": {"describe": " "}}}, "at least 1"),
        ({"items": {"css": "li", "fields": {"x": {"describe": "its name"}}}}, "selector"),
        ({"fields": {f"f{n}": {"describe": "what"} for n in range(31)}}, "at most 30"),
        ({"fields": {f"f{n:02}": {"describe": "a" * 400} for n in range(10)}}, "4,000"),
        (
            {
                "fields": {"x": {"describe": "what"}},
                "items": {"css": "li", "fields": {"y": {"css": "b"}}},
                "next": "a",
                "pages": 2,
            },
            "one page",
        ),
    ],
)
def test_a_description_that_no_model_can_answer_is_refused(schema: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        PageSchema.model_validate(schema)


def test_descriptions_at_their_limits_are_accepted() -> None:
    most = {f"f{n:02}": {"describe": "a" * 130} for n in range(30)}
    assert len(PageSchema.model_validate({"fields": most}).described) == 30
    assert PageSchema.model_validate({"fields": {"x": {"describe": "a" * 500}}}).described


def test_a_question_never_has_more_bytes_than_its_price_assumes() -> None:
    fields = {
        f"{'n' * 20}{n:02}": SchemaField(describe='"' * (MOST_DESCRIBED_BYTES // MOST_DESCRIBED - 22))
        for n in range(MOST_DESCRIBED)
    }
    PageSchema(fields=fields)
    told = messages("", fields, list(fields))
    assert sum(len(each["content"].encode()) for each in told) < QUESTION_BYTES


def test_prices_are_in_millionths_of_a_dollar_and_rounded_up() -> None:
    model = LanguageModel("http://x/v1", "m", Decimal("0.15"), Decimal("0.60"))
    assert model.cost(Usage(1_000_000, 0)) == 150_000
    assert model.cost(Usage(1, 0)) == 1
    assert model.worst_page == 2 * model.worst_call == 2 * (6_000 + 600)
    assert LanguageModel("http://x/v1", "m", Decimal(0), Decimal(0)).worst_page == 0
