"""Pages of homes of the shared data set, read by the code that users run."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from bench.support.data_set import pages, read
from bench.support.scores import Judge, Score, plain
from forager.fetch.page_classifier import looks


def listings() -> Score:
    score = Score()
    for name, body, expected in pages("listing"):
        reading = read("listing", body, expected.get("url"))
        score.milliseconds.append(reading.milliseconds)
        if expected.get("blocked"):
            seen = looks(200, {"content-type": "text/html"}, body) in ("block", "challenge")
            told = "blocked" if seen or reading.extracted.kind in ("empty", "error") else reading.extracted.kind
            score.count(name, "page kind", told, "blocked", lambda value: value == "blocked")
            continue
        if "kind" in expected or "first_items" in expected:
            score.count(name, "page kind", reading.extracted.kind, "list", lambda value: value == "list")
            continue
        for ours, theirs, judge in asserted(expected):
            score.count(name, ours, reading.result[ours], theirs, judge, reading.confidence(ours))
    return score


def asserted(facts: dict[str, Any]) -> Iterator[tuple[str, Any, Judge]]:
    """Yield (our field, the expected value, the comparison) of each asserted field."""
    if "price" in facts and facts["price"] is None:
        yield "price", None, lambda value: value is None
    prices = [facts[name] for name in ("price", "rent_cold", "price_min", "rent_min") if facts.get(name)]
    if prices:
        yield "price", prices, _among(prices)
    for name in ("bedrooms", "bathrooms"):
        if facts.get(name) is not None:
            yield name, facts[name], _among([facts[name]])
    areas = [facts[name] for name in ("sqft", "area_sqft", "area_m2") if facts.get(name)]
    if areas:
        yield "area", areas, _among(areas)
    for name, ours in (("street", "street"), ("city", "city"), ("zip", "postcode"), ("postcode", "postcode")):
        if facts.get(name):
            yield ours, facts[name], _same_text(str(facts[name]))


def _among(expected: list[Any]) -> Judge:
    amounts = {Decimal(str(each)) for each in expected}
    return lambda value: Decimal(str(value)) in amounts


def _same_text(expected: str) -> Judge:
    return lambda value: plain(value) == plain(expected)
