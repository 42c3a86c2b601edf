"""A job as the JSON of an applicant tracking system has it. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from forager.extract.html.page_fit import PageFit
from forager.extract.html.structured_data import text_of, values_by_key
from forager.extract.postings.answers import PostingFields, answer_of, employer_in, values_at
from forager.extract.postings.employers import written_out
from forager.extract.postings.systems import System
from forager.extract.text.locations import NormalizedLocation, location_of, location_of_address
from forager.extract.text.salaries import salary_of
from forager.extract.text.strings import paragraphs
from forager.pipelines.scrape.extractor import GUESS, LABEL, SELECTOR, FieldFindings

SHORTEST_TEXT = 40
_NAMES = (
    ("job_title", ("positionTitle", "jobTitle", "vacancyTitle", "title")),
    (
        "company_name",
        (
            "hiringOrg",
            "hiringOrgName",
            "hiringOrganization",
            "employerName",
            "companyName",
            "employer",
            "company",
            "organization",
        ),
    ),
    ("location", ("jobLocation", "workLocation", "workPlace", "workPlaceCity", "location", "address", "city")),
    ("salary_range", ("baseSalary", "salaryRange", "salary")),
    ("description", ("jobDescription", "descriptionHtml", "description", "purpose")),
)
"""Names of keys in the JSON of an unknown system."""


def read_json(tree: Any, url: str, findings: FieldFindings) -> PageFit:
    """Add what the answer has of its one posting. Returns `list` for several, `other` for none."""
    answer = answer_of(tree)
    if answer.count > 1:
        return "list"
    if answer.posting is not None and answer.system is not None:
        _read_system(answer.posting, answer.system, findings)
        _read_employer(answer, url, findings)
    _read_by_names(answer.posting or tree, findings)
    return "item" if findings.names else "other"


def _read_system(posting: Mapping[str, Any], system: System, findings: FieldFindings) -> None:
    for name, paths in (
        ("job_title", system.title),
        ("company_name", system.company),
        ("location", system.place),
        ("salary_range", system.pay),
        ("description", system.text),
    ):
        for path in paths:
            values = [
                value
                for part in path.split("+")
                for each in values_at(posting, part)
                if (value := _READERS[name](each)) is not None
            ]
            if values:
                value = "\n".join(values) if name == "description" else values[0]
                findings.offer(name, value, f"json:{path}", SELECTOR)
                break


def _read_employer(answer: PostingFields, url: str, findings: FieldFindings) -> None:
    """The employer where the posting itself does not name it: from the board around it, or from the address."""
    if not findings.wants("company_name") or answer.posting is None:
        return
    board = text_of(answer.around.get("name")) if answer.around else None
    if board:
        findings.offer("company_name", board, "json:name", LABEL)
        return
    urls = (url, *(value for value in answer.posting.values() if isinstance(value, str) and value[:4] == "http"))
    told = next((told for each in urls if (told := employer_in(each))), None)
    if told:
        text = str(findings.value("description") or "")
        written = written_out(told[1], text)
        findings.offer("company_name", written or told[1].replace("-", " "), "url", LABEL if written else GUESS - 0.1)


def _read_by_names(tree: Any, findings: FieldFindings) -> None:
    for name, keys in _NAMES:
        if not findings.wants(name):
            continue
        read_values = ((path, _READERS[name](value)) for path, value in values_by_key(tree, *keys))
        got = [(path, value) for path, value in read_values if value]
        if got and not (name == "location" and _disagree([value for _, value in got])):
            findings.offer(name, got[0][1], f"json:{got[0][0]}", SELECTOR)


def _disagree(places: list[Any]) -> bool:
    """Return whether the places of one answer are in different cities, as an employer here and work there. No word of
    it decides which one is meant, so neither is sure."""
    cities = {place.city for place in places if isinstance(place, NormalizedLocation) and place.city}
    return len(cities) > 1


def _named(value: Any) -> str | None:
    if isinstance(value, dict):
        return text_of(value.get("Name") or value.get("name") or value.get("displayName"))
    return text_of(value)


def _place(value: Any) -> Any:
    """Return a place with a city, or at least a region; `Remote` alone is not a place."""
    if isinstance(value, dict):
        inner = value.get("Address") or value.get("address")
        where = location_of_address(inner if isinstance(inner, dict) else value)
        if where is not None and (where.city or where.state_region or where.country):
            return where
        return _place(value.get("name") or value.get("label") or (inner if isinstance(inner, str) else None))
    text = text_of(value)
    where = location_of(text) if text else None
    return text if where is not None and (where.city or where.state_region or where.country) else None


def _prose(value: Any) -> str | None:
    return (paragraphs(value) or None) if isinstance(value, str) and len(value) > SHORTEST_TEXT else None


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "job_title": text_of,
    "company_name": _named,
    "location": _place,
    "salary_range": salary_of,
    "description": _prose,
}
