"""Decides whether a page without markup is the page of one job posting. Pure."""

from collections.abc import Collection
from itertools import islice
from urllib.parse import urlsplit

from forager.extract.html.document import Document
from forager.extract.html.page_fit import PageFit, error_of, is_application_form, is_empty
from forager.extract.html.page_kind import page_kind
from forager.extract.html.page_signs import EMPLOYMENT, PageSigns
from forager.extract.postings.answers import has_role
from forager.extract.tables import any_of, table

_DATA = table("postings")

# Recognises the text of a posting: the matters that advertisements have, each by its words in many languages. Pure.
#
# A page without markup has a headline, and often a place and a company: so have the pages of shops, homes and firms.
# Only an advertisement also mentions applying, duties, qualifications, hours and pay.


_MATTERS: tuple[tuple[str, ...], ...] = tuple(map(tuple, _DATA["matters"].values()))
LANGUAGES = frozenset(_DATA["languages"].split())
"""Languages with words in the table. A page in another one is not judged by its words."""


def speaks_of_a_job(text: str, *, least: int) -> bool:
    """Return whether a text mentions at least `least` different topics of job postings. Stops reading as soon as
    that is certain."""
    plain = f" {' '.join(text.casefold().split())} "
    found = (True for words in _MATTERS if any(word in plain for word in words))
    return sum(islice(found, least)) == least


_JOB_LINK = any_of(
    _DATA["link"],
    r"/(?:{})/(?=[^/?]*(?:\d{3}|\w-\w))|[?&](?:job|jk|vacancy|requisition|position)_?-?(?:id|key)?=",
)
_LIST_TITLE = any_of(
    _DATA["list_title"],
    r"^(?:[\d.,\s]+\+?\s)?(?:\S+\s){0,6}?(?:{})(?:\s(?:in|at|near|bei|à|en|for|with|i)\s.*|\s*\(\d+\))?$"
    r"|\b(?:search results|job search|current openings|open positions|all (?:jobs|openings)|careers? at)\b"
    r"|\bsuchergebnisse\b",
)
_JOB_PATH = any_of(_DATA["path"], r"/(?:[\w-]*-)?(?:{})(?:[/._-]|$)")
_JOB_ELEMENTS = (
    "[class*='job-title' i], [class*='jobtitle' i], [class*='job-desc' i], [class*='jobdesc' i], [id*='job-desc' i], "
    "[id*='jobdesc' i], [class*='vacancy' i], [class*='employer' i], [class*='company-name' i], .company"
)
_STUDIES = any_of(_DATA["studies"], r"\b(?:{})\b")
A_NOTICE = 2_000
"""Characters of a page that is little more than its advertisement."""
MOST_STUDIES = 4
"""Different words of studies above which a page with a control to apply is that of a school."""
_OTHERS = any_of(_DATA["others"])
"""Headings over other postings, below an advertisement."""
LEAST_MATTERS = 3
"""Matters that a page must mention if neither its headline nor its address hints at a posting."""
ENOUGH_HINTS = 2
ENOUGH_SIGNS = 2
NEVER = frozenset(("article", "documentation", "forum", "product", "collection"))
"""Kinds of pages that are a posting only if the page itself is clear about it."""
A_SENTENCE = 60
LITTLE_PROSE = 800
"""A page of one posting has more characters in sentences."""
FEW_LINKS = 3
MANY_LINKS = 6
_AROUND = frozenset(("nav", "footer", "header"))


def is_list_title(words: str) -> bool:
    """`1,204 jobs in Berlin`, `Open positions`: the title of a list."""
    return bool(_LIST_TITLE.search(words.strip()))


def kind_of(document: Document, title: str | None, *, has_details: bool) -> PageFit:
    """Return the kind of a page without a `JobPosting`. `title`: the likely title of the posting; `has_details`:
    whether a place, an employer or pay was found. A page with a title but without the matters of a posting is
    `other`."""
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


def is_posting(document: Document, title: str | None, found: Collection[str]) -> bool:
    """Return whether a page without markup may be the page of a job: it has two of a control to apply, an employer, a
    place and words of employment, and the text mentions four matters of postings; one sign is enough if the title names
    the person sought or the address a job. A page that looks like one of another kind needs the control, and more."""
    can_apply = document.once(PageSigns).has_apply_control
    found_names = ("company_name" in found) + ("location" in found or "salary_range" in found)
    signs = found_names + can_apply + bool(EMPLOYMENT.search(document.text))
    kind = page_kind(document).kind
    hints = has_role(title or "") or _JOB_PATH.search(urlsplit(document.url).path) is not None
    if kind in NEVER:
        if not hints and len(set(map(str.casefold, _STUDIES.findall(document.text)))) >= MOST_STUDIES:
            return False
        is_clear = signs > ENOUGH_SIGNS or speaks_of_a_job(document.text, least=LEAST_MATTERS + 1)
        return can_apply and is_clear
    if hints or _is_foreign(document):
        return signs >= 1 or speaks_of_a_job(document.text, least=LEAST_MATTERS)
    # Firms and schools have a control to apply as well, and words of employment in their menus.
    is_other = kind == "company" or len(set(map(str.casefold, _STUDIES.findall(document.text)))) >= MOST_STUDIES
    missing = 0 if len(document.text) <= A_NOTICE else max(0, ENOUGH_SIGNS - signs)
    least = LEAST_MATTERS + missing  # the longer a page, the more it mentions by the way
    return not is_other and speaks_of_a_job(document.text, least=least)


def _is_foreign(document: Document) -> bool:
    """Return whether the page is in a language that the tables have no words of."""
    language = (document.language or "").casefold().replace("_", "-").partition("-")[0]
    return bool(language) and language not in LANGUAGES


def _is_advertisement(document: Document, title: str, *, has_details: bool) -> bool:
    """Return whether the page is an advertisement. Pages of firms, shops and homes also have a headline and a place.

    A headline that names the person sought, an address with a word for jobs, and elements named after parts of a
    posting each replace one matter that the text must mention. Two of them are enough if there are details.
    """
    if _is_foreign(document):
        return True
    hints = has_role(title) + bool(_JOB_PATH.search(urlsplit(document.url).path))
    hints += document.tree.css_first(_JOB_ELEMENTS) is not None
    least = 0 if has_details and hints >= ENOUGH_HINTS else max(0, LEAST_MATTERS - hints)
    return speaks_of_a_job(f"{title} {document.text}", least=least)


def _is_list(document: Document, links: int, least: int) -> bool:
    """Return whether the page links to postings and is not one itself: less than `least` characters of prose."""
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
    """Return the number of other postings that the page links to. Those under a heading for similar ones do not
    count: an advertisement has such a list as well."""
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
