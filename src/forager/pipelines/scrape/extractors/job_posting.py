"""One advertised job: JSON-LD or microdata `JobPosting` first, then what a known system shows where, then labels and
headlines, then the page's own name. A list of jobs, a form to apply or an error page has no job."""

import re
from typing import Any

from pydantic import BaseModel

from forager.core.http import Click, Scroll, WaitFor
from forager.extract.html.document import Document
from forager.extract.html.page_fit import PageFit
from forager.extract.html.page_kind import page_kind
from forager.extract.html.structured_data import Thing, first, loads_tolerantly, of_type, script_data, text_of, things
from forager.extract.postings.answers import answer_of
from forager.extract.postings.kinds import NEVER, is_posting, kind_of
from forager.extract.text.locations import location_of_address
from forager.extract.text.normalise import Line, Location, Prose, Url
from forager.extract.text.salaries import salary_of
from forager.extract.text.strings import paragraphs
from forager.pipelines.scrape.extractor import Extracted, Extractor, FieldFindings, PageInput, page_url
from forager.pipelines.scrape.extractors.posting_json import read_json
from forager.pipelines.scrape.extractors.posting_page import (
    LEAST_TEXT,
    read_company,
    read_labels,
    read_prose,
    read_selectors,
    read_systems,
    read_title,
    read_under_title,
)
from forager.pipelines.scrape.job import CONSENT, CONSENT_WAIT
from forager.pipelines.scrape.steps import login_wall

MOST_COUNTRIES = 5
"""A job that is open to applicants from more countries than this has no location: it counts as open everywhere."""


class JobPosting(BaseModel):
    job_title: Line | None = None
    company_name: Line | None = None
    location: Location | None = None
    salary_range: Line | None = None
    description: Prose | None = None
    posting_url: Url | None = None


def parse(page: PageInput, wanted: frozenset[str]) -> Extracted:
    document = Document(page.html, page.url)
    findings = FieldFindings(wanted)
    if document.source.lstrip()[:1] in ("{", "["):
        kind = read_json(loads_tolerantly(document.source), page.url, findings)
        return findings.extracted("posting_url", page.url, kind=kind)
    known = things(document)
    postings = of_type(known, "JobPosting")
    posting = _main(document, postings)
    if posting is not None:
        _from_posting(posting, findings)
    elif postings:
        return Extracted(kind="list")
    else:
        wall = login_wall(document)
        if wall:
            return Extracted(wall=wall)
    kind = _read_page(document, known, findings, marked=posting is not None)
    if kind == "empty" or (kind == "other" and page_kind(document).kind not in NEVER):
        kind = _read_scripts(document, page.url, findings) or kind
    return findings.extracted("posting_url", page_url(document), kind=kind)


def _read_scripts(document: Document, url: str, findings: FieldFindings) -> PageFit | None:
    """Add what a page without an advertisement has in its scripts; None if that is neither a job nor a list of jobs."""
    for tree in script_data(document):
        answer = answer_of(tree)
        if answer.count:
            return read_json(tree, url, findings)
    return None


def _main(document: Document, postings: list[Thing]) -> Thing | None:
    """Return the posting that the page is about: the only one, or the one whose title the page has; None in a list of
    them."""
    titles = {posting.text("title", "name") for posting in postings}
    if len(titles) < 2:
        return postings[0] if postings else None
    headline = document.first_text("h1")
    shown = f"{document.title or ''} {headline[0] if headline else ''}".casefold()
    named = [posting for posting in postings if (posting.text("title", "name") or "-").casefold() in shown]
    if named or len(titles) == 2:
        return named[0] if named else postings[0]
    return None


def _read_page(document: Document, known: tuple[Thing, ...], findings: FieldFindings, *, marked: bool) -> PageFit:
    """Add what the visible page has, and return what kind of page it is. `marked`: it has a `JobPosting`."""
    title = None
    if len(document.text) >= LEAST_TEXT:
        read_systems(document, findings)
        title = read_title(document, findings)
        read_labels(document, findings, title)
        read_selectors(document, findings)
        read_under_title(document, title, findings)
        read_company(document, known, title, findings)
    if marked:
        read_prose(document, title, findings)
        return "item"
    details = findings.names & {"company_name", "location", "salary_range"}
    kind = kind_of(document, title, has_details=bool(details))
    if kind == "item" and not is_posting(document, title, findings.names):
        return "other"
    if kind == "item":
        read_prose(document, title, findings)
    return kind


def _from_posting(posting: Thing, findings: FieldFindings) -> None:
    findings.offer_thing("job_title", posting, "title", posting.text("title", "name"))
    findings.offer_thing("company_name", posting, "hiringOrganization", posting.text("hiringOrganization"))
    findings.offer_thing("location", posting, "jobLocation", _place(posting.get("jobLocation")))
    if findings.wants("location"):
        findings.offer_thing(
            "location", posting, "applicantLocationRequirements", _one_of(posting.get("applicantLocationRequirements"))
        )
    salary = salary_of(posting.get("baseSalary") or posting.get("estimatedSalary") or posting.get("salary"))
    if salary and posting.text("salaryCurrency") and not re.search(r"[^\W\d]|[£€$¥]", salary):
        salary = f"{posting.text('salaryCurrency')} {salary}"
    findings.offer_thing("salary_range", posting, "baseSalary", salary)
    prose = first(posting.get("description"))
    if isinstance(prose, str):
        findings.offer_thing("description", posting, "description", paragraphs(prose))


def _one_of(value: Any) -> str | None:
    """Return the location that applicants must live in, if it is one place or one of a few."""
    return None if isinstance(value, list) and len(value) > MOST_COUNTRIES else text_of(value)


def _place(value: Any) -> Any:
    """Return a Place, an address, or a text; of several places, the first."""
    value = first(value)
    if not isinstance(value, dict):
        return text_of(value)
    address = first(value.get("address"))
    if isinstance(address, dict):
        return location_of_address(address)
    if isinstance(address, str):
        return text_of(address)
    return location_of_address(value) or text_of(value)


job_posting = Extractor(
    name="job_posting",
    output=JobPosting,
    script=(
        WaitFor("script[type='application/ld+json'], [itemtype*='JobPosting'], h1", timeout=10.0),
        Click(CONSENT, timeout=CONSENT_WAIT),
        Scroll(2),
    ),
    parse=parse,
)
