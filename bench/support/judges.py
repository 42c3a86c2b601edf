"""Comparisons of our values with the expected ones of the shared data set."""

import re
from collections.abc import Callable
from typing import Any

from bench.support.scores import Judge, plain

_LEGAL_FORM = re.compile(
    r"(?:as|aps|co|coltd|inc|incorporated|llc|ltd|limited|gmbh|ag|plc|corp|sro|srl|spa|ptyltd|oy|ab|bv|nv)$"
)


def same_company(expected: str) -> Judge:
    """With or without its legal form: `Novo Nordisk A/S` is Novo Nordisk."""
    return lambda value: _LEGAL_FORM.sub("", plain(value)) == _LEGAL_FORM.sub("", plain(expected))


def same_number(expected: str) -> Judge:
    digits = re.sub(r"\D", "", re.sub(r"\(0(?:xx)?(?=\d|\))", "", expected)).lstrip("0")
    return lambda value: value[1:].endswith(digits) or digits.endswith(value[1:])


def same_city(expected: str) -> Judge:
    """The city, or the city with its state: `Washington, D.C.`"""
    return lambda value: plain(expected) in (plain(value["city"]), plain(f"{value['city']}{value['state_region']}"))


def exactly_at(expected: str) -> Judge:
    return lambda value: value["raw"] == expected


def starting_with(expected: str) -> Judge:
    return lambda value: value.startswith(expected)


def city_in(expected: str) -> Judge:
    return lambda value: bool(value["city"]) and plain(value["city"]) in plain(expected)


def same_url(expected: str) -> Judge:
    return lambda value: plain(value.partition("://")[2]) == plain(expected.partition("://")[2])


def one_of(judge: Callable[[Any], Judge]) -> Callable[[list[Any]], Judge]:
    return lambda values: lambda value: any(judge(one)(value) for one in values)


def pays(facts: dict[str, Any]) -> Judge:
    """Return whether a written salary has the amounts, the currency and the unit of time."""
    signs = {"GBP": "£", "EUR": "€", "USD": "$"}

    def judge(value: str) -> bool:
        amounts = [re.sub(r"\D", "", part) for part in re.findall(r"\d[\d,.\s]*", value)]
        currency = facts["salary_currency"]
        return (
            amounts == [str(facts["salary_min"]), str(facts["salary_max"])]
            and (currency in value or signs.get(currency, "-") in value)
            and facts["salary_unit"].lower() in value
        )

    return judge
