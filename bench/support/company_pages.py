"""Company and profile pages of the shared data set, read by the code that users run."""

from collections.abc import Iterator
from typing import Any

from bench.support.data_set import pages, read
from bench.support.judges import (
    city_in,
    exactly_at,
    one_of,
    same_city,
    same_company,
    same_number,
    same_url,
    starting_with,
)
from bench.support.scores import Judge, Score, same


def companies() -> Score:
    score = Score()
    for name, body, expected in pages("company"):
        reading = read("company_website", body, expected.get("url"))
        score.milliseconds.append(reading.milliseconds)
        for ours, theirs, judge in asserted(expected):
            score.count(name, ours, reading.result[ours], theirs, judge, reading.confidence(ours))
    return score


def asserted(expected: dict[str, Any]) -> Iterator[tuple[str, Any, Judge]]:
    """Yield (our field, the expected value, the comparison) of each asserted field."""
    told = expected.get("entities_in_order")
    if told is not None:
        for ours, label, among in (
            ("company_name", "ORG", one_of(same_company)),
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


def profiles() -> Score:
    score = Score()
    for name, body, expected in pages("profile"):
        if not name.startswith("linkedin"):
            continue
        reading = read("linkedin_profile", body, None)
        score.milliseconds.append(reading.milliseconds)
        basics = expected.get("basics", expected)
        headline = basics.get("headline") or basics.get("label")
        place = basics.get("location") or basics.get("contact", {}).get("location")
        start = basics.get("summary_starts") or basics.get("summary")
        now = expected.get("current_companies") or [expected["employment"][0]["employer"]]
        for ours, theirs, judge in (
            ("name", basics["name"], same(basics["name"])),
            ("headline", headline, same(headline)),
            ("location", place, exactly_at(place)),
            ("current_company", now, one_of(same)(now)),
            ("summary", start, starting_with(start)),
        ):
            score.count(name, ours, reading.result[ours], theirs, judge, reading.confidence(ours))
    return score
