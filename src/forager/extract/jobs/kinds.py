"""Whether a page without markup is the page of one job. Pure."""

import re
from urllib.parse import urlsplit

from forager.extract.document import Document
from forager.extract.jobs.roles import has_role
from forager.extract.jobs.witnesses import LANGUAGES, speaks_of_a_job
from forager.extract.page_kind import PageKind, error_of, is_application_form, is_empty

_JOB_LINK = re.compile(
    r"/(?:jobs?|careers?|vacanc(?:y|ies)|positions?|openings?|postings?|requisitions?|stellen\w*|karriere|offres?|emplois?"
    r"|empleos?|vagas?|ofertas?|lavoro|jobb|stillinger|o|j|viewjob|job-detail\w*)/(?=[^/?]*(?:\d{3}|\w-\w))"
    r"|[?&](?:job|jk|vacancy|requisition|position)_?-?(?:id|key)?=",
    re.IGNORECASE,
)
_LIST_TITLE = re.compile(
    r"^(?:[\d.,\s]+\+?\s)?(?:\S+\s){0,6}?(?:jobs?|vacanc(?:y|ies)|openings?|positions?|stellenangebote|stellen|jobangebote"
    r"|offres d.emploi|emplois|empleos|ofertas de (?:empleo|trabajo)|vagas|ledige stillinger|lediga jobb)"
    r"(?:\s(?:in|at|near|bei|à|en|for|with|i)\s.*|\s*\(\d+\))?$"
    r"|\b(?:search results|job search|current openings|open positions|all (?:jobs|openings)|careers? at)\b"
    r"|\bsuchergebnisse\b",
    re.IGNORECASE,
)
_JOB_PATH = re.compile(
    r"/(?:[\w-]*-)?(?:jobs?|careers?|vacanc(?:y|ies)|positions?|openings?|postings?|requisitions?|stellen\w*|karriere|emplois?"
    r"|empleos?|vagas?|lavoro|jobb|stillinger|vacatures?|praca)(?:[/._-]|$)",
    re.IGNORECASE,
)
_JOB_ELEMENTS = (
    "[class*='job-title' i], [class*='jobtitle' i], [class*='job-desc' i], [class*='jobdesc' i], [id*='job-desc' i], "
    "[id*='jobdesc' i], [class*='vacancy' i], [class*='employer' i], [class*='company-name' i], .company"
)
_OTHERS = re.compile(
    r"(?:similar|related|recommended|other|more|further)\b.{0,25}\b(?:jobs|positions|vacancies|openings|opportunities|roles)"
    r"|(?:people|others) also (?:viewed|applied)|you (?:may|might) also (?:like|be interested)"
    r"|(?:ähnliche|weitere)\b.{0,20}(?:jobs|stellen\w*|angebote)|offres? (?:similaires|d.emploi similaires)"
    r"|(?:ofertas|empleos|vagas) (?:similares|relacionad[ao]s)|offerte simili|vergelijkbare vacatures"
    r"|lignende (?:jobs?|stillinger)|liknande (?:jobb|tjänster)|podobne oferty|podobné nabídky|похожие вакансии",
    re.IGNORECASE,
)
"""Headings over other jobs, below an advertisement."""
LEAST_MATTERS = 3
"""Matters of a job that a page speaks of, if neither its headline nor its address hints at one."""
ENOUGH_HINTS = 2
A_SENTENCE = 60
LITTLE_PROSE = 800
"""A page of one job has more characters in sentences."""
FEW_LINKS = 3
MANY_LINKS = 6
_AROUND = frozenset(("nav", "footer", "header"))


def is_list_title(words: str) -> bool:
    """`1,204 jobs in Berlin`, `Open positions`: the title of a list."""
    return bool(_LIST_TITLE.search(words.strip()))


def kind_of(document: Document, title: str | None, *, has_details: bool) -> PageKind:
    """The kind of a page without a `JobPosting`. `title`: what seems to be the job's; `has_details`: whether a place,
    an employer or pay stands beside it. A page with a title that does not speak of a job is `other`."""
    links = _links_to_jobs(document)
    if is_empty(document) and links < 2:
        return "empty"
    if error_of(document):
        return "error"
    least = LITTLE_PROSE // 2 if title and has_details else LITTLE_PROSE
    if _is_list(document, links, least):
        return "list"
    if title and has_details and _is_advertisement(document, title, has_details=True):
        return "item"
    if links > 1 and _prose(document) < LITTLE_PROSE // 2:
        return "list"
    if is_application_form(document):
        return "form"
    return "item" if title and _is_advertisement(document, title, has_details=has_details) else "other"


def _is_advertisement(document: Document, title: str, *, has_details: bool) -> bool:
    """Whether the page speaks of a job. A page of a firm, a shop or a home has a headline and a place, too.

    A headline that names who is sought, an address with a word for jobs, and elements that are named after parts of a
    job each replace one matter that the text must speak of. Two of them are enough beside details.
    """
    language = (document.language or "").casefold().replace("_", "-").partition("-")[0]
    if language and language not in LANGUAGES:
        return True
    hints = has_role(title) + bool(_JOB_PATH.search(urlsplit(document.url).path))
    hints += document.tree.css_first(_JOB_ELEMENTS) is not None
    least = 0 if has_details and hints >= ENOUGH_HINTS else max(0, LEAST_MATTERS - hints)
    return speaks_of_a_job(f"{title} {document.text}", least=least)


def _is_list(document: Document, links: int, least: int) -> bool:
    """Whether the page leads to jobs and has no advertisement itself: less than `least` characters of prose."""
    if links < FEW_LINKS:
        return False
    headline = document.first_text("h1")
    title = (document.title or "").partition("|")[0]
    prose = _prose(document)
    if any(is_list_title(words) for words in (title, headline[0] if headline else "")) and prose < 4 * LITTLE_PROSE:
        return True
    return links >= MANY_LINKS and prose < least


def _prose(document: Document) -> int:
    lines = (line for line in document.shown if line.area not in _AROUND)
    return sum(len(line.text) for line in lines if len(line.text) >= A_SENTENCE)


def _links_to_jobs(document: Document) -> int:
    """Number of other jobs that the page leads to. Those under a heading for similar jobs do not count: an
    advertisement has them, too."""
    here = document.url.partition("#")[0]
    found = set()
    for link in document.links:
        parts = urlsplit(link.url)
        is_other = 3 < len(link.text) <= 150 and link.url.partition("#")[0] != here
        if is_other and _JOB_LINK.search(f"{parts.path}?{parts.query}"):
            found.add(link.text)
    if len(found) < FEW_LINKS:
        return len(found)
    lines = document.shown
    end = next((at for at, line in enumerate(lines) if len(line.text) <= 60 and _OTHERS.match(line.text)), len(lines))
    if end == len(lines) or not any(line.tag in ("h1", "h2") for line in lines[:end]):
        return len(found)
    own = "\n".join(line.text for line in lines[:end])
    return sum(text in own for text in found)
