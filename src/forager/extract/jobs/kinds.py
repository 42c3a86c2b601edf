"""Whether a page without markup is the page of one job. Pure."""

import re
from urllib.parse import urlsplit

from forager.extract.document import Document
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
    an employer or pay stands beside it."""
    links = _links_to_jobs(document)
    if is_empty(document) and links < 2:
        return "empty"
    if error_of(document):
        return "error"
    least = LITTLE_PROSE // 2 if title and has_details else LITTLE_PROSE
    if _is_list(document, links, least):
        return "list"
    if title and has_details:
        return "item"
    if links > 1 and _prose(document) < LITTLE_PROSE // 2:
        return "list"
    if is_application_form(document):
        return "form"
    return "item" if title else "other"


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
    here = document.url.partition("#")[0]
    found = set()
    for link in document.links:
        parts = urlsplit(link.url)
        is_other = 3 < len(link.text) <= 150 and link.url.partition("#")[0] != here
        if is_other and _JOB_LINK.search(f"{parts.path}?{parts.query}"):
            found.add(link.text)
    return len(found)
