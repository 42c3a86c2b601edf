"""Job pages of the shared data set, read by the code that users run."""

from collections.abc import Iterator
from typing import Any

from bench.support.data_set import pages, read
from bench.support.judges import city_in, pays, same_company
from bench.support.scores import Judge, Score, same
from forager.fetch.page_classifier import looks


def jobs() -> Score:
    score = Score()
    for name, body, expected in pages("job"):
        if isinstance(expected, list) or "postings" in expected:
            continue  # a list of results is no posting
        facts = expected.get("page", expected)
        reading = read("job_posting", body, facts.get("url"))
        score.milliseconds.append(reading.milliseconds)
        if "must_report" in facts:
            shell = looks(200, {"content-type": "text/html"}, body) == "empty_shell"
            score.count(name, "needs a browser", shell or None, True, bool)
        for ours, theirs, judge in asserted(facts):
            score.count(name, ours, reading.result[ours], theirs, judge, reading.confidence(ours))
    return score


def asserted(facts: dict[str, Any]) -> Iterator[tuple[str, Any, Judge]]:
    """Field of ours, what is expected, and how to tell."""
    if "title" in facts:
        yield "job_title", facts["title"], same(facts["title"])
    if "organization" in facts:
        yield "company_name", facts["organization"], same_company(facts["organization"])
    place = facts.get("location") or facts.get("address")
    if place:
        yield "location", place, city_in(place)
    if "salary_min" in facts:
        wanted = f"{facts['salary_min']}-{facts['salary_max']} {facts['salary_currency']} {facts['salary_unit']}"
        yield "salary_range", wanted, pays(facts)
