"""Product pages and price strings of the shared data set, read by the code that users run."""

import csv
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from bench.support.data_set import UNSAID, pages
from bench.support.scores import Judge, Score, plain, same
from forager.extract.html.document import Document
from forager.extract.products.findings import says_missing
from forager.extract.text.prices import availability_of, parse_price
from forager.pipelines.products.wiring import parsers


def products() -> Score:
    score = Score()
    installed = parsers()
    for name, body, expected in pages("product"):
        url = expected.get("url") or expected.get("canonical") or UNSAID
        began = time.process_time()
        document = Document(body, url)
        found = installed.for_url(url).read(document)
        shown = found.is_product and says_missing(document) is None
        score.milliseconds.append((time.process_time() - began) * 1000)
        for ours, theirs, judge in asserted(expected):
            sure = found.values[ours].confidence if ours in found else None
            score.count(name, ours, found.get(ours) if shown else None, theirs, judge, sure)
    return score


def asserted(expected: dict[str, Any]) -> Iterator[tuple[str, Any, Judge]]:
    """Yield (our field, the expected value, the comparison) of each asserted field."""
    facts = dict(expected)
    if "results" in facts:
        facts |= {name: value[0] for name, value in facts["results"][0].items() if isinstance(value, list) and value}
    name = facts.get("name", facts.get("title"))
    if "name" in facts or "title" in facts:
        yield "product_name", name, same(name)
    elif "name_prefix" in facts:
        yield "product_name", facts["name_prefix"], starts_as(facts["name_prefix"])
    if "price" in facts:
        amount = None if facts["price"] is None else Decimal(str(facts["price"]))
        yield "price", amount, equal_to(amount)
    if "currency" in facts:
        yield "currency", facts["currency"], same(facts["currency"])
    if facts.get("availability"):
        word = availability_of(facts["availability"])
        yield "availability", word, same(word)
    if facts.get("brand"):
        yield "brand", facts["brand"], same(facts["brand"])
    codes = [facts[code] for code in ("sku", "asin", "mpn") if facts.get(code)]
    if codes:
        yield "sku", codes, one_of(codes)
    if facts.get("rating") is not None:
        yield "rating", facts["rating"], near(facts["rating"])
    count = facts.get("rating_count", facts.get("number_of_reviews"))
    if count is not None:
        yield "review_count", count, equal_to(count)


def equal_to(expected: Any) -> Judge:
    return lambda value: bool(value == expected)


def one_of(expected: Iterable[str]) -> Judge:
    accepted = {plain(each) for each in expected}
    return lambda value: plain(value) in accepted


def starts_as(expected: str) -> Judge:
    return lambda value: plain(value).startswith(plain(expected))


def near(expected: Any) -> Judge:
    return lambda value: abs(Decimal(value) - Decimal(str(expected))) < Decimal("0.1")


@dataclass(slots=True)
class Priced:
    """Counts of price strings, and of those that were read right."""

    right: int = 0
    strings: int = 0
    hard_right: int = 0
    hard: int = 0
    failures: list[tuple[str, str, str, str]] = field(default_factory=list)

    @property
    def share(self) -> float:
        return self.right / max(1, self.strings)

    @property
    def share_of_hard(self) -> float:
        """Return the share right of the strings that their own source marks as expected failures."""
        return self.hard_right / max(1, self.hard)


def prices(file: Path) -> Priced:
    """Amount and currency of each string. A string is right if both are."""
    told = Priced()
    with file.open(newline="") as rows:
        for row in csv.DictReader(rows):
            price = parse_price(row["price_raw"], row["currency_raw"], decimal=row["forced_decimal_separator"] or None)
            amount = Decimal(row["expected_amount"]) if row["expected_amount"] else None
            right = price.amount == amount and (price.symbol or "") == row["expected_currency"]
            if "xfail" in row["set"]:
                told.hard, told.hard_right = told.hard + 1, told.hard_right + right
                continue
            told.strings, told.right = told.strings + 1, told.right + right
            if not right:
                ours = f"{price.amount} {price.symbol}"
                told.failures.append(("prices", row["price_raw"], ours, f"{amount} {row['expected_currency']}"))
    return told
