"""How much of real pages is read right: product, job, company and profile pages of the shared data set, its price
strings and its robots facts.

Recall: asserted fields found right. Precision: of the values given for asserted fields, those that are right. Every
page is read by the extractors that users run, and normalised as for them. Nothing here knows a page by name; what is
compared with what is BENCH.md's mapping.
"""

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.support.machine import Machine
from bench.support.options import Options, parse
from bench.support.product_pages import prices, products
from bench.support.scores import Judge, Score, plain, same
from bench.support.verdict import Target, conclude, print_table
from forager.extract.normalise import normalise
from forager.fetch.page_classifier import looks
from forager.fetch.robots_rules import Rules
from forager.pipelines.scrape.extractor import Page
from forager.pipelines.scrape.extractors import EXTRACTORS

DATA = Path(os.environ.get("FORAGER_DATA") or Path(__file__).parents[2] / "shared" / "data")
TARGETS = (
    Target("product_recall", at_least=0.80),
    Target("product_precision", at_least=0.95),
    Target("prices", at_least=0.97),
    Target("job_recall", at_least=0.90),
    Target("job_precision", at_least=0.97),
    Target("company_recall", at_least=0.75),
    Target("company_precision", at_least=0.95),
    Target("profile_recall", at_least=0.90),
    Target("robots", at_least=1.0),
)
AT = datetime(2026, 1, 1, tzinfo=UTC)


def main(options: Options) -> None:
    if not DATA.exists():
        sys.exit(f"the shared data set is not at {DATA}: set FORAGER_DATA")
    machine = Machine()
    machine.sample()
    scores = {"product": Score(), "job": Score(), "company": Score(), "profile": Score()}
    runs: tuple[Callable[[Score], Any], ...] = (
        lambda score: products(pages("product"), score),
        jobs,
        companies,
        profiles,
    )
    seconds = {kind: run(score) for (kind, score), run in zip(scores.items(), runs, strict=True)}
    priced = prices(DATA / "prices" / "price_strings.csv")
    right, of = robots()
    machine.sample()
    print_table(
        ("pages", "right", "wrong", "missing", "recall", "precision", "ms a page"),
        (
            (
                kind,
                one.right,
                one.wrong,
                one.missing,
                f"{one.recall:.3f}",
                f"{one.precision:.3f}",
                f"{seconds[kind]:.1f}",
            )
            for kind, one in scores.items()
        ),
    )
    failures = [failure for score in scores.values() for failure in score.failures]
    failures += priced.failures
    if failures:
        print_table(("page", "field", "ours", "expected"), failures)
    figures = {
        "product_recall": round(scores["product"].recall, 4),
        "product_precision": round(scores["product"].precision, 4),
        "prices": round(priced.share, 4),
        "prices_expected_to_fail": round(priced.share_of_hard, 4),
        "job_recall": round(scores["job"].recall, 4),
        "job_precision": round(scores["job"].precision, 4),
        "company_recall": round(scores["company"].recall, 4),
        "company_precision": round(scores["company"].precision, 4),
        "profile_recall": round(scores["profile"].recall, 4),
        "profile_precision": round(scores["profile"].precision, 4),
        "robots": round(right / of, 4),
    }
    conclude("extract", figures, TARGETS, machine)


def jobs(score: Score) -> float:
    spent = []
    for name, body, expected in pages("job"):
        if isinstance(expected, list):
            continue  # a list of results is no posting
        facts = expected.get("page", expected)
        result, ms = extracted("job_posting", body, facts.get("url"))
        spent.append(ms)
        if "must_report" in facts:
            shell = looks(200, {"content-type": "text/html"}, body) == "empty_shell"
            score.count(name, "needs a browser", shell or None, True, bool)
        if "title" in facts:
            score.count(name, "job_title", result["job_title"], facts["title"], same(facts["title"]))
        if "organization" in facts:
            score.count(
                name, "company_name", result["company_name"], facts["organization"], same_company(facts["organization"])
            )
        place = facts.get("location") or facts.get("address")
        if place:
            score.count(name, "location", result["location"], place, city_in(place))
        if "salary_min" in facts:
            wanted = f"{facts['salary_min']}-{facts['salary_max']} {facts['salary_currency']} {facts['salary_unit']}"
            score.count(name, "salary_range", result["salary_range"], wanted, pays(facts))
    return sum(spent) / len(spent)


def companies(score: Score) -> float:
    spent = []
    for name, body, expected in pages("company"):
        result, ms = extracted("company_website", body, expected.get("url"))
        spent.append(ms)
        for ours, theirs, judge in asserted(expected):
            score.count(name, ours, result[ours], theirs, judge)
    return sum(spent) / len(spent)


def asserted(expected: dict[str, Any]) -> Iterator[tuple[str, Any, Judge]]:
    """Field of ours, what is expected, and how to tell."""
    told = expected.get("entities_in_order")
    if told is not None:
        for ours, label, among in (
            ("company_name", "ORG", one_of(same)),
            ("contact_phone", "TEL", one_of(same_number)),
            ("contact_email", "EMAIL", one_of(same)),
            ("headquarters", "CITY", one_of(same_city)),
        ):
            values = [text for kind, text in told if kind == label]
            if values:
                yield ours, values, among(values)
        return
    microdata = dict(reversed(expected.get("microdata", [])))
    named = expected | {"name": expected.get("name") or microdata.get("name")}
    named |= {"telephone": expected.get("telephone") or microdata.get("telephone")}
    named |= {"headquarters": expected.get("headquarters") or microdata.get("addressLocality")}
    yield "company_name", named["name"], same(named["name"])
    if named["telephone"]:
        yield "contact_phone", named["telephone"], same_number(named["telephone"])
    if named["headquarters"]:
        yield "headquarters", named["headquarters"], city_in(named["headquarters"])
    elif "locations" in expected:
        yield "headquarters", expected["locations"], one_of(city_in)(expected["locations"])
    if "industry" in expected:
        yield "industry", expected["industry"], same(expected["industry"])
    if "company_size" in expected:
        size = expected["company_size"].removesuffix(" employees")
        yield "employee_count_range", size, same(size)
    if "website" in expected:
        yield "website_url", expected["website"], same_url(expected["website"])


def profiles(score: Score) -> float:
    spent = []
    for name, body, expected in pages("profile"):
        if not name.startswith("linkedin"):
            continue
        result, ms = extracted("linkedin_profile", body, None)
        spent.append(ms)
        basics = expected.get("basics", expected)
        headline = basics.get("headline") or basics.get("label")
        place = basics.get("location") or basics.get("contact", {}).get("location")
        start = basics.get("summary_starts") or basics.get("summary")
        now = expected.get("current_companies") or [expected["employment"][0]["employer"]]
        score.count(name, "name", result["name"], basics["name"], same(basics["name"]))
        score.count(name, "headline", result["headline"], headline, same(headline))
        score.count(name, "location", result["location"], place, exactly_at(place))
        score.count(name, "current_company", result["current_company"], now, one_of(same)(now))
        score.count(name, "summary", result["summary"], start, starting_with(start))
    return sum(spent) / len(spent)


def robots() -> tuple[int, int]:
    facts = json.loads((DATA / "robots" / "google_robotstxt_cases.json").read_text())
    right = sum(Rules(fact["robots_txt"], fact["user_agent"]).allows(fact["url"]) == fact["allowed"] for fact in facts)
    return right, len(facts)


def pages(kind: str) -> Iterator[tuple[str, bytes, Any]]:
    for told in sorted((DATA / "pages" / kind).glob("*.expected.json")):
        name = told.name.removesuffix(".expected.json")
        source = next(
            path for path in (told.with_name(f"{name}.html"), told.with_name(f"{name}.json")) if path.exists()
        )
        yield name, source.read_bytes(), json.loads(told.read_text())["expected"]


def extracted(kind: str, body: bytes, url: str | None) -> tuple[dict[str, Any], float]:
    """Where the set does not say a page's URL, one that gives nothing away: no country, no company."""
    extractor = next(one for one in EXTRACTORS if one.name == kind)
    began = time.perf_counter()
    found = extractor.parse(Page(url or "https://page.example/", body, 200, AT), extractor.fields)
    result = normalise(extractor.output, {name: one.value for name, one in found.fields.items()}).result
    return result.model_dump(), (time.perf_counter() - began) * 1000


def same_company(expected: str) -> Judge:
    """With or without its legal form: `Novo Nordisk A/S` is Novo Nordisk."""
    return lambda value: plain(value) == plain(expected) or re.fullmatch(
        rf"{re.escape(plain(expected))}(as|aps|inc|ltd|gmbh|ag|plc)", plain(value)
    ) is not None  # fmt: skip


def same_number(expected: str) -> Judge:
    digits = re.sub(r"\D", "", re.sub(r"\(0(?:xx)?(?=\d|\))", "", expected)).lstrip("0")
    return lambda value: value[1:].endswith(digits) or digits.endswith(value[1:])


def same_city(expected: str) -> Judge:
    return lambda value: plain(value["city"]) == plain(expected)


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
    signs = {"GBP": "£", "EUR": "€", "USD": "$"}

    def judge(value: str) -> bool:
        amounts = [re.sub(r"\D", "", part) for part in re.findall(r"\d[\d,.\s]*", value)]
        right_amounts = amounts == [str(facts["salary_min"]), str(facts["salary_max"])]
        currency = facts["salary_currency"]
        return (
            right_amounts
            and (currency in value or signs.get(currency, "-") in value)
            and facts["salary_unit"].lower() in value
        )

    return judge


if __name__ == "__main__":
    main(parse(__doc__ or ""))
