"""One advertised job: JSON-LD or microdata `JobPosting` first, then labels and headlines, then the page's own name."""

import re
from typing import Any

from pydantic import BaseModel

from forager.core.visit import Click, Scroll, WaitFor
from forager.extract.document import Document
from forager.extract.json_ld import loads_tolerantly
from forager.extract.json_search import values_by_key
from forager.extract.labels import labelled
from forager.extract.locations import NormalizedLocation, location_of, location_of_address
from forager.extract.normalise import Line, Location, Prose, Url
from forager.extract.organisations import bare, copyright_owners, tidy, title_parts
from forager.extract.salaries import salary_in, salary_of
from forager.extract.structured_data import Thing, first, of_type, text_of, things
from forager.extract.text import paragraphs
from forager.pipelines.scrape.consent import CONSENT, CONSENT_WAIT
from forager.pipelines.scrape.extractor import Extracted, Extractor, Page
from forager.pipelines.scrape.findings import GUESS, LABEL, OPEN_GRAPH, SELECTOR, Findings, page_url
from forager.pipelines.scrape.walls import login_wall

LEAST_TEXT = 250
"""A page that shows less is no advertisement yet: its headline may be the name of the program behind it."""
LONGEST_TITLE = 200
A_SENTENCE = 60

_TITLES = (
    "[data-automation-id='jobPostingHeader']", "[data-qa='posting-name']", ".posting-headline h2", ".job-title",
    ".jobTitle", ".jobtitle", "[class*='job-title' i]", "[class*='jobtitle' i]", "[class*='vacancy-title' i]",
    "[data-testid*='job-title' i]", "h1",
)  # fmt: skip
_COMPANIES = (
    "[data-testid*='company-name' i]", "[class*='company-name' i]", "[class*='companyname' i]",
    "[class*='employer-name' i]", "[class*='hiring-organization' i]", ".topcard__org-name-link", ".company",
)  # fmt: skip
_PLACES = (
    "[data-automation-id='locations'] dd", "[data-testid*='job-location' i]", "[class*='job-location' i]",
    "[class*='joblocation' i]", ".posting-categories .location", ".topcard__flavor--bullet", ".location",
)  # fmt: skip
_PROSE = (
    "[data-automation-id='jobPostingDescription']", "[class*='job-description' i]", "[class*='jobdescription' i]",
    "[id*='job-description' i]", "[id*='jobdescription' i]", "[class*='show-more-less-html__markup']",
    "article", "main",
)  # fmt: skip

_PLACE_LABELS = (
    r"(?:job |work(?:ing)? )?locations?|place of work|city|(?:arbeits|dienst|stand)ort|einsatzort|lieu(?: de travail)?|"
    r"localisation|ubicación|lugar(?: de trabajo)?|localização|sede di lavoro|luogo di lavoro|(?:arbejds)?sted|"
    r"placering|lokation|plats|ort|locatie|standplaats|lokalizacja|miejsce pracy|место работы|город|勤務地"
)
_COMPANY_LABELS = (
    r"company(?: name)?|employer|organi[sz]ation|hiring organi[sz]ation|unternehmen|arbeitgeber|firma|entreprise|"
    r"employeur|société|empresa|azienda|virksomhed|arbejdsgiver|företag|arbetsgivare|bedrijf|werkgever|pracodawca|"
    r"компания|работодатель|会社名"
)
_PAY_LABELS = (
    r"salary(?: range)?|pay(?: range)?|compensation|remuneration|rate(?: of pay)?|wage|gehalt|vergütung|lohn|salaire|"
    r"rémunération|salario|salário|retribuzione|løn|lön|salaris|wynagrodzenie|зарплата|給与"
)
_CLIENT = re.compile(
    r"\bour (?:\w+[ -]){0,4}client\b|on behalf of (?:our|a) (?:\w+ ){0,3}client|employment (?:agency|business)",
    re.IGNORECASE,
)
_NOT_A_TITLE = re.compile(
    r"^(?:job(?:s| posting| details?| description| offers?| openings?)?|careers?|vacanc(?:y|ies)|apply(?: now)?|"
    r"(?:current )?openings?|stellenangebote?|karriere|ledige stillinger|jobannonce|offres? d.emploi|"
    r"sign in|log ?in|home|error|not found|page not found|cookies?.*|we (?:use|value).*)$",
    re.IGNORECASE,
)

_PARAGRAPHS = frozenset("p li h2 h3 h4 h5 td blockquote pre".split())
_OWNERS = ("Organization", "Corporation", "LocalBusiness", "CollegeOrUniversity", "EducationalOrganization")
_AROUND = frozenset("nav footer header aside form".split())


class JobPosting(BaseModel):
    job_title: Line | None = None
    company_name: Line | None = None
    location: Location | None = None
    salary_range: Line | None = None
    description: Prose | None = None
    posting_url: Url | None = None


def parse(page: Page, wanted: frozenset[str]) -> Extracted:
    document = Document(page.html, page.url)
    findings = Findings(wanted)
    if document.source.lstrip()[:1] in ("{", "["):
        _from_json(loads_tolerantly(document.source), findings)
        return findings.extracted("posting_url", page.url)
    known = things(document)
    for posting in of_type(known, "JobPosting"):
        _from_posting(posting, findings)
        break  # a second one is a similar job, not this one
    else:
        wall = login_wall(document)
        if wall:
            return Extracted(wall=wall)
    if len(document.text) >= LEAST_TEXT:
        title = _title(document, findings)
        _by_labels(document, findings, title)
        _by_selectors(document, findings)
        if findings.wants("company_name") and title and not _CLIENT.search(document.text):
            _company_of_site(document, known, title, findings)
    return findings.extracted("posting_url", page_url(document))


def _from_posting(posting: Thing, findings: Findings) -> None:
    findings.offer_thing("job_title", posting, "title", posting.text("title", "name"))
    findings.offer_thing("company_name", posting, "hiringOrganization", posting.text("hiringOrganization"))
    findings.offer_thing("location", posting, "jobLocation", _place(posting.get("jobLocation")))
    if findings.wants("location"):
        findings.offer_thing(
            "location", posting, "applicantLocationRequirements", text_of(posting.get("applicantLocationRequirements"))
        )
    salary = salary_of(posting.get("baseSalary") or posting.get("estimatedSalary") or posting.get("salary"))
    if salary and posting.text("salaryCurrency") and not re.search(r"[^\W\d]|[£€$¥]", salary):
        salary = f"{posting.text('salaryCurrency')} {salary}"
    findings.offer_thing("salary_range", posting, "baseSalary", salary)
    prose = first(posting.get("description"))
    if isinstance(prose, str):
        findings.offer_thing("description", posting, "description", paragraphs(prose))


def _place(value: Any) -> Any:
    """A Place, an address, or a text; of several places, the first."""
    value = first(value)
    if not isinstance(value, dict):
        return text_of(value)
    address = first(value.get("address"))
    if isinstance(address, dict):
        return location_of_address(address)
    if isinstance(address, str):
        return text_of(address)
    return location_of_address(value) or text_of(value)


def _from_json(tree: Any, findings: Findings) -> None:
    """A job as an API answers it: known by what its keys are called."""
    for name, keys, read in (
        ("job_title", ("positionTitle", "jobTitle", "vacancyTitle", "title"), text_of),
        (
            "company_name",
            ("hiringOrg", "hiringOrganization", "employerName", "companyName", "employer", "company", "organization"),
            _named,
        ),
        ("location", ("jobLocation", "workLocation", "workPlace", "location", "address"), _json_place),
        ("salary_range", ("baseSalary", "salaryRange", "salary"), salary_of),
        ("description", ("jobDescription", "descriptionHtml", "description", "purpose"), _json_prose),
    ):
        read_values = (
            (path, read(value)) for path, value in (values_by_key(tree, *keys) if findings.wants(name) else ())
        )
        got = [(path, value) for path, value in read_values if value]
        if got and not (name == "location" and _disagree([value for _, value in got])):
            findings.offer(name, got[0][1], f"json:{got[0][0]}", SELECTOR)


def _disagree(places: list[Any]) -> bool:
    """An employer here and work there, in one answer without a word which is meant: neither is sure."""
    cities = {place.city for place in places if isinstance(place, NormalizedLocation) and place.city}
    return len(cities) > 1


def _named(value: Any) -> str | None:
    if isinstance(value, dict):
        return text_of(value.get("Name") or value.get("name") or value.get("displayName"))
    return text_of(value)


def _json_place(value: Any) -> Any:
    if isinstance(value, dict):
        inner = value.get("Address") or value.get("address")
        return location_of_address(inner) if isinstance(inner, dict) else (location_of_address(value) or text_of(inner))
    return text_of(value)


def _json_prose(value: Any) -> str | None:
    return paragraphs(value) if isinstance(value, str) and len(value) > 40 else None


def _title(document: Document, findings: Findings) -> str | None:
    """Return the job's title, also if it is not wanted: other fields are recognised with its help."""
    own = text_of(findings.value("job_title"))
    if own:
        return own
    names = title_parts(document.title or "")
    for words, selector in _candidates(document):
        confidence = SELECTOR if selector != "h1" or any(words in name or name in words for name in names) else LABEL
        findings.offer("job_title", words, f"css:{selector}", confidence)
        return words
    shown = {line.text.partition(": ")[2] or line.text for line in document.lines} | {
        line.text for line in document.lines
    }
    social = document.metas.get("og:title", "")
    whole = (document.title or "").partition("|")[0]
    for source, parts in (("meta:og:title", [social, *title_parts(social)]), ("title", [whole.strip(), *names])):
        for part in parts:
            if part in shown and not _NOT_A_TITLE.match(part):
                findings.offer("job_title", part, source, OPEN_GRAPH)
                return part
    return None


def _candidates(document: Document) -> list[tuple[str, str]]:
    got: list[tuple[str, str]] = []
    for selector in _TITLES:
        nodes = document.tree.css(selector)[:20]
        texts = [" ".join(node.text(separator=" ").split()) for node in nodes]
        good = [text for text in texts if 2 < len(text) <= LONGEST_TITLE and not _NOT_A_TITLE.match(text)]
        if good and (selector == "h1" or len(set(good)) == 1):  # several different ones are a list of jobs
            got.append((good[0], selector))
    return got


def _by_labels(document: Document, findings: Findings, title: str | None) -> None:
    if findings.wants("location"):
        for labelled_line in labelled(document, _PLACE_LABELS, most=120):
            if labelled_line.sure and _is_place(labelled_line.value):
                findings.offer("location", labelled_line.value, f"label:{labelled_line.label}", LABEL)
                break
    if findings.wants("company_name"):
        for labelled_line in labelled(document, _COMPANY_LABELS, most=100):
            name = tidy(labelled_line.value)
            if labelled_line.sure and name and name != title:
                findings.offer("company_name", name, f"label:{labelled_line.label}", LABEL)
                break
    if findings.wants("salary_range"):
        for labelled_line in labelled(document, _PAY_LABELS, most=150):
            money = salary_in(labelled_line.value, labelled_line.label)
            if money:
                findings.offer("salary_range", money, f"label:{labelled_line.label}", LABEL)
                break


def _is_place(value: str) -> bool:
    where = location_of(value)
    return bool(where.city or where.country) and not re.search(r"[\[\]{}@]|https?:", value) and len(value.split()) <= 12


def _by_selectors(document: Document, findings: Findings) -> None:
    for name, selectors, most in (("company_name", _COMPANIES, 100), ("location", _PLACES, 120)):
        if findings.wants(name):
            got = document.first_text(*selectors)
            if got and len(got[0]) <= most and (name != "location" or _is_place(got[0])):
                findings.offer(name, got[0], f"css:{got[1]}", LABEL)
    if findings.wants("description"):
        for selector in _PROSE:
            node = document.tree.css_first(selector)
            words = paragraphs(node.html or "") if node else ""
            if len(words) >= LEAST_TEXT:
                title = text_of(findings.value("job_title"))
                prose = words.removeprefix(title).strip() if title else words
                findings.offer("description", prose, f"css:{selector}", LABEL)
                return
        _prose_by_lines(document, findings)


def _prose_by_lines(document: Document, findings: Findings) -> None:
    """Paragraphs under the job's title, where there is one."""
    title = text_of(findings.value("job_title"))
    lines = list(document.lines)
    start = next((at for at, line in enumerate(lines) if title and line.text == title), None)
    if start is None:
        return
    prose = (line.text for line in lines[start + 1 :] if line.tag in _PARAGRAPHS and line.area not in _AROUND)
    text = "\n".join(prose)
    if len(text) >= LEAST_TEXT:
        findings.offer("description", text, "text", GUESS)


def _company_of_site(document: Document, known: tuple[Thing, ...], title: str, findings: Findings) -> None:
    """Who runs the site, where the advertisement itself is written by them: their name stands in its sentences.

    A board's name stands all over its pages too, but around the advertisement, not in it.
    """
    prose = bare(
        " ".join(line.text for line in document.shown if len(line.text) > A_SENTENCE and line.area not in _AROUND)
    )
    owners = of_type(known, *_OWNERS)
    candidates = [
        *((one.text("name") or "", f"{one.source}:{min(one.types)}.name") for one in owners),
        *((document.metas.get(key, ""), f"meta:{key}") for key in ("og:site_name", "author", "application-name")),
        *((part, "title") for part in title_parts(document.title or "") if title in (document.title or "")),
        *((owner, "copyright") for owner in copyright_owners(document)),
    ]
    for name, source in candidates:
        tidied = tidy(name)
        if tidied and bare(tidied) and bare(tidied) not in bare(title) and bare(tidied) in prose:
            findings.offer("company_name", tidied, source, GUESS)
            return


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
