"""A person's public LinkedIn profile: JSON-LD `Person` first, then the page's own classes, of several of its layouts.

LinkedIn shows strangers a wall as often as a profile: that is an error, never a person without a name.
"""

import re
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from forager.core.http import Click, Scroll, WaitFor
from forager.extract.html.document import Document
from forager.extract.html.page_fit import OUTER, PageFit, declared_types, declares_other, error_of, is_empty
from forager.extract.html.structured_data import Thing, first, of_type, text_of, things
from forager.extract.text.locations import location_of_address
from forager.extract.text.normalise import Line, Location, Prose, Url
from forager.extract.text.strings import one_line, paragraphs
from forager.pipelines.scrape.extractor import (
    GUESS,
    OPEN_GRAPH,
    SELECTOR,
    Extracted,
    Extractor,
    FieldFindings,
    PageInput,
    page_url,
)
from forager.pipelines.scrape.job import CONSENT, CONSENT_WAIT
from forager.pipelines.scrape.steps import login_wall

# Newest layout first. Each page has one of them.
_NAMES = (
    ".top-card-layout__title",
    ".pv-text-details__left-panel h1",
    ".pv-top-card-section__name",
    "h1#name",
    "h1.fn",
    "h1",
)
_HEADLINES = (
    ".top-card-layout__headline", ".pv-text-details__left-panel .text-body-medium", ".pv-top-card-section__headline",
    "p.headline", ".headline",
)  # fmt: skip
_PLACES = (
    ".top-card__subline-item:first-child", ".top-card-layout__first-subline > span:first-child",
    ".profile-info-subheader span:first-child", ".pv-text-details__left-panel .text-body-small.inline",
    ".pv-top-card-section__location", "#demographics .locality", ".locality",
)  # fmt: skip
_SUMMARIES = (
    "section.summary .core-section-container__content", "[data-section='summary'] .core-section-container__content",
    ".pv-about-section p", "#summary .description", "section#summary", ".summary .description",
)  # fmt: skip
_COMPANIES = (
    "[data-section='currentPositionsDetails'] a", "[data-section='currentPositionsDetails'] span",
    ".top-card-link--company", "[data-section='currentPositions'] li:first-child",
    ".pv-top-card-v2-section__company-name",
    "tr[data-section='currentPositionsDetails'] .org", "#overview-summary-current .org", "#overview-summary-current a",
    ".experience-item__subtitle", "#experience .item-subtitle",
)  # fmt: skip
_HEADING = re.compile(r"^(?:summary|about|info|zusammenfassung|résumé|extracto|resumen)\s*", re.IGNORECASE)
_DASH = re.compile(r" [-–] ")
_NO_NAME = re.compile(r"^(?:sign|log)[\s-]?(?:in|on|up)\b|^join\b|\bhiring\b", re.IGNORECASE)
_OTHER_PATH = re.compile(
    r"//(?:[\w-]+\.)?linkedin\.com/(?:company|school|showcase|jobs|pulse|posts|feed)/", re.IGNORECASE
)
_AT = re.compile(r"\s(?:at|bei|chez|en|presso|hos|@)\s+(?P<company>[^|,·•]{2,80})", re.IGNORECASE)
_MORE = re.compile(r"\s*(?:see more|show more|…|\.\.\.)\s*$", re.IGNORECASE)


class LinkedInProfile(BaseModel):
    name: Line | None = None
    headline: Line | None = None
    current_company: Line | None = None
    location: Location | None = None
    summary: Prose | None = None
    profile_url: Url | None = None


def parse(page: PageInput, wanted: frozenset[str]) -> Extracted:
    document = Document(page.html, page.url)
    findings = FieldFindings(wanted)
    known = things(document)
    person = _main_person(known)
    if person is None and declares_other(known, "Person", "ProfilePage"):
        return Extracted(kind="other")
    if person is not None:
        _from_person(person, findings)
    elif document.first_text(*_NAMES[:-1]) is None:
        wall = login_wall(document)
        if wall:
            return Extracted(wall=wall)
    _by_selectors(document, findings)
    _by_title(document, findings)
    if findings.wants("current_company"):
        employer = _AT.search(text_of(findings.value("headline")) or _headline(document) or "")
        if employer:
            findings.offer("current_company", employer["company"], "text:headline", GUESS)
    kind: PageFit = "item"
    # Every page has a headline, so a name alone does not make a profile, unless the page calls it a person's.
    named = person is not None or _names_person(document, known)
    little = findings.names <= {"name"} and len(wanted - {"profile_url"}) > 1 and not named
    if "name" in wanted and (little or not findings.names):
        kind = "error" if error_of(document) else "empty" if is_empty(document) else "other"
    return findings.extracted("profile_url", _profile_url(document), kind=kind)


def _main_person(known: tuple[Thing, ...]) -> Thing | None:
    """Return the page's subject. A person that is only named in passing (an author, a reviewer) has a name and no more,
    unless the page is that person's `ProfilePage`."""
    near = OUTER if "ProfilePage" in declared_types(known) else 0
    rich = [
        one
        for one in of_type(known, "Person")
        if one.text("name") and (one.depth <= near or one.get("jobTitle", "worksFor"))
    ]
    return rich[0] if rich else None


def _names_person(document: Document, known: tuple[Thing, ...]) -> bool:
    """Return whether the headline is a person's name: by a class of a profile's layout, the page's type, a
    title of the form `Name | LinkedIn`, or a `Person` of that name. An author's name is not the headline."""
    if document.first_text(*_NAMES[:-1]) or "ProfilePage" in declared_types(known):
        return True
    if (document.metas.get("og:type") or "").casefold() == "profile" or any(_titles(document)):
        return True
    headline = one_line(document.headline or "").casefold()
    people = {(one.text("name") or "").casefold() for one in of_type(known, "Person")}
    return bool(headline) and headline in people


def _from_person(person: Thing, findings: FieldFindings) -> None:
    findings.offer_thing("name", person, "name", person.text("name"))
    titles = person.get("jobTitle")
    words = text_of(titles)
    if words and not re.fullmatch(r"[\s*•·-]+", words):
        findings.offer_thing("headline", person, "jobTitle", words)
    findings.offer_thing("current_company", person, "worksFor", _unmasked(person.get("worksFor")))
    address = first(person.get("address"))
    where = location_of_address(address) if isinstance(address, dict) else text_of(address)
    findings.offer_thing("location", person, "address", where)
    prose = person.get("description")
    if isinstance(prose, str):
        findings.offer_thing("summary", person, "description", paragraphs(prose))


def _unmasked(value: Any) -> str | None:
    """Strangers see some names as stars."""
    for one in value if isinstance(value, list) else [value]:
        words = text_of(one)
        if words and "*" not in words:
            return words
    return None


def _by_selectors(document: Document, findings: FieldFindings) -> None:
    for name, selectors in (
        ("name", _NAMES),
        ("headline", _HEADLINES),
        ("location", _PLACES),
        ("current_company", _COMPANIES),
    ):
        if findings.wants(name):
            got = document.first_text(*selectors)
            if got and "*" not in got[0]:
                findings.offer(name, got[0], f"css:{got[1]}", SELECTOR)
    if findings.wants("summary"):
        for selector in _SUMMARIES:
            node = document.tree.css_first(selector)
            words = _MORE.sub("", _HEADING.sub("", paragraphs(node.html or ""))) if node else ""
            if words:
                findings.offer("summary", words, f"css:{selector}", SELECTOR)
                return


def _headline(document: Document) -> str | None:
    got = document.first_text(*_HEADLINES)
    return got[0] if got else None


def _by_title(document: Document, findings: FieldFindings) -> None:
    """`Name - Title - Company | LinkedIn`, where nothing better is there."""
    for source, title in _titles(document):
        findings.offer("name", title[0], source, OPEN_GRAPH)
        if len(title) > 1:
            findings.offer("headline", title[1], source, GUESS)
        if len(title) > 2:
            findings.offer("current_company", title[-1], source, GUESS)


def _titles(document: Document) -> Iterator[tuple[str, list[str]]]:
    """Yield the parts of each title that names a person, with its source. LinkedIn's pages of companies and jobs have
    titles of the same form."""
    if _OTHER_PATH.search(document.url):
        return
    for source, words in (("meta:og:title", document.metas.get("og:title")), ("title", document.title)):
        before, _, site = (words or "").partition("|")
        name, *parts = _DASH.split(before.strip())
        if site.lstrip().casefold().startswith("linkedin") and name and "–" not in name and not _NO_NAME.search(name):
            yield source, [name, *parts]


def _profile_url(document: Document) -> str:
    url = page_url(document)
    return url.partition("?")[0].partition("#")[0]


linkedin_profile = Extractor(
    name="linkedin_profile",
    output=LinkedInProfile,
    script=(
        WaitFor("script[type='application/ld+json'], .top-card-layout__title, h1, [class*='authwall']", timeout=10.0),
        Click(CONSENT, timeout=CONSENT_WAIT),
        Click(
            "button[data-tracking-control-name='public_profile_contextual-sign-in-modal_modal_dismiss']",
            timeout=CONSENT_WAIT,
        ),
        Scroll(3),
    ),
    parse=parse,
    credentials="linkedin",
)
