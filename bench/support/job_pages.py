"""Job pages of the shared data set, read by the code that users run."""

import json
from collections.abc import Iterator
from typing import Any

from bench.support.data_set import pages, read
from bench.support.judges import city_in, pays, same_company
from bench.support.scores import Judge, Score, same
from forager.fetch.page_classifier import looks


def jobs() -> tuple[Score, Score]:
    """The pages; and the postings of the systems' lists, each read as if it were an answer of its own."""
    score, apart = Score(), Score()
    for name, body, expected in pages("job"):
        if _is_list(expected):
            reading = read("job_posting", body, None)
            score.count(name, "page kind", reading.extracted.kind, "list", same("list"))
            _postings(name, body, expected, apart)
            continue
        facts = expected.get("page") or (expected["postings"][0] if "postings" in expected else expected)
        reading = read("job_posting", body, facts.get("url"))
        score.milliseconds.append(reading.milliseconds)
        if "must_report" in facts:
            shell = looks(200, {"content-type": "text/html"}, body) == "empty_shell"
            score.count(name, "needs a browser", shell or None, True, bool)
        for ours, theirs, judge in asserted(facts):
            score.count(name, ours, reading.result[ours], theirs, judge, reading.confidence(ours))
    return score, apart


def _is_list(expected: Any) -> bool:
    """Return whether several jobs are expected; one job in several places is one."""
    told = expected if isinstance(expected, list) else expected.get("postings", [])
    return len({facts["title"] for facts in told}) > 1


def _postings(name: str, body: bytes, expected: Any, score: Score) -> None:
    """Read each posting of a list alone, where the list has as many entries as are expected."""
    told = expected if isinstance(expected, list) else expected["postings"]
    if body.lstrip()[:1] not in (b"{", b"["):
        return
    entries = next((each for each in _lists(json.loads(body)) if len(each) == len(told)), ())
    for entry, facts in zip(entries, told, strict=False):
        reading = read("job_posting", json.dumps(entry).encode(), None)
        score.milliseconds.append(reading.milliseconds)
        named = {key: value for key, value in facts.items() if key in ("title", "organization")}
        if facts.get("city"):
            named["location"] = facts["city"]
        for ours, theirs, judge in asserted(named):
            score.count(name, ours, reading.result[ours], theirs, judge, reading.confidence(ours))


def _lists(tree: Any) -> Iterator[list[Any]]:
    if isinstance(tree, list):
        yield tree
    for inner in tree.values() if isinstance(tree, dict) else ():
        yield from _lists(inner)


def asserted(facts: dict[str, Any]) -> Iterator[tuple[str, Any, Judge]]:
    """Yield (our field, the expected value, the comparison) of each asserted field."""
    if "title" in facts:
        yield "job_title", facts["title"], same(facts["title"])
    if "organization" in facts:
        yield "company_name", facts["organization"], same_company(facts["organization"])
    place = facts.get("location") or facts.get("address") or facts.get("city")
    if place:
        yield "location", place, city_in(place)
    if "salary_min" in facts:
        wanted = f"{facts['salary_min']}-{facts['salary_max']} {facts['salary_currency']} {facts['salary_unit']}"
        yield "salary_range", wanted, pays(facts)
