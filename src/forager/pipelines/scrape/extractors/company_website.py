"""A company by its own web site: `Organization` in structured data first, then labels and links, then the text.

Fields that the first page lacks may be on its contact, about or imprint page: links to these are proposed.
"""

import re
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel

from forager.core.http import Click, Scroll, WaitFor, WaitQuiet
from forager.extract.companies import LEGAL_FORM, ORGANISATIONS, bare, company_name, is_host, tidy
from forager.extract.html.document import Document, Link
from forager.extract.html.main_text import labelled
from forager.extract.html.page_fit import PageFit, error_of, is_empty
from forager.extract.html.structured_data import Thing, first, of_type, text_of, things
from forager.extract.text.addresses import NAMED, Address, addresses, region_of
from forager.extract.text.contacts import clean_email, e164, emails_in, phones_in, without_trunks
from forager.extract.text.locations import NormalizedLocation, location_of, location_of_address
from forager.extract.text.normalise import Email, Line, Location, Phone, Prose, Url
from forager.extract.text.urls import same_site, site_of
from forager.pipelines.scrape.extractor import (
    GUESS,
    LABEL,
    MOST_MORE,
    OPEN_GRAPH,
    SELECTOR,
    Extracted,
    Extractor,
    FieldFindings,
    PageInput,
)
from forager.pipelines.scrape.job import CONSENT, CONSENT_WAIT
from forager.pipelines.scrape.steps import LOGIN_PATH, login_wall

_HEADQUARTERS = (
    r"(?:world(?:wide)? |corporate |global |company )?headquarters?|head ?office|main office|registered office|hq|"
    r"(?:haupt|firmen|unternehmens)sitz|zentrale|siège(?: social)?|sede(?: (?:central|social|legale))?|hovedkontor|"
    r"huvudkontor|hoofdkantoor|siedziba|本社"
)
_INDUSTRY = r"industr(?:y|ies)|sector|branche|secteur(?: d.activité)?|sector|settore|sektor|отрасль|業種"
_SIZE = (
    r"company size|(?:number of )?employees|team size|headcount|mitarbeiter(?:zahl|innen)?|unternehmensgröße|effectif|"
    r"empleados|dipendenti|medarbejdere|anställda|werknemers"
)
_PEOPLE = re.compile(r"\b\d{1,3}(?:[.,\s]\d{3})*\s?\+?(?:\s?[-–—]\s?\d{1,3}(?:[.,\s]\d{3})*)?\s?\+?", re.ASCII)
_STAFF = re.compile(
    r"\b(?:team of|more than|over|about|around|some|approximately|employs?|über|rund|plus de|más de)?\s*"
    r"(?P<range>\d{1,3}(?:[.,]\d{3})+|\d{2,6})\s?\+?\s(?:employees|people work|members of staff|Mitarbeiter|"
    r"collaborateurs|salariés|empleados|dipendenti|medarbejdere)\b",
    re.IGNORECASE,
)
_FAX = re.compile(r"\b(?:tele)?fax\b|\bf(?:ax)?\s?[:.]", re.IGNORECASE)
_TEL = re.compile(
    r"\b(?:tel(?:e(?:phone|fon|fono|foon))?|phone|call|toll[ -]free|freephone|local|ph|fone|tlf|tfno|mobile|hotline|"
    r"switchboard|omstilling|t)\b\s?[:.]?|☎|📞|тел",
    re.IGNORECASE,
)
_PAGES = (
    re.compile(r"contact|kontakt|contatt?[oi]|ota-yhteytt|kapcsolat|お問い合わせ|联系|контакт", re.IGNORECASE),
    re.compile(
        r"about|(?:ü|u|ue)ber-?\s?uns|unternehmen|company|qui-sommes|a-propos|à propos|sobre|chi-siamo|om-oss?\b|"
        r"over-ons|o-nas|会社",
        re.IGNORECASE,
    ),
    re.compile(r"impressum|imprint|legal-?notice|mentions-legales|aviso-legal|note-legali", re.IGNORECASE),
)
"""Contact, about, imprint: in the order in which they are worth a look."""
_MAILBOXES = re.compile(
    r"^(?:info|contact|kontakt|office|hello|hallo|mail|post|enquir|inquir|service|support|sales|team|admin)",
    re.IGNORECASE,
)
_OTHERS = re.compile(
    r"ombuds|schlicht|mediat|dispute|consumer-?protection|datenschutz-?(?:behoerde|beauftrag)|webmaster@|webdesign|"
    r"web-?agen|werbeagentur|hosting|@(?:ec\.europa|sentry)",
    re.IGNORECASE,
)
_ELSEWHERE = frozenset(
    "gmail.com googlemail.com yahoo.com hotmail.com outlook.com gmx.de web.de aol.com icloud.com".split()
)
_SURE = ((6.0, 0.9), (4.0, LABEL), (2.5, OPEN_GRAPH), (1.5, GUESS - 0.1))
"""Votes for a name, and how sure that makes it. A name with fewer votes is not used."""
_LINKED_IN = re.compile(r"(?:^|\.)linkedin\.com$")


ESSENTIAL = frozenset(("company_name", "description", "contact_email", "contact_phone", "headquarters"))
"""Fields of which every company page has at least one."""


class CompanyWebsite(BaseModel):
    company_name: Line | None = None
    description: Prose | None = None
    industry: Line | None = None
    employee_count_range: Line | None = None
    headquarters: Location | None = None
    contact_email: Email | None = None
    contact_phone: Phone | None = None
    website_url: Url | None = None


def parse(page: PageInput, wanted: frozenset[str]) -> Extracted:
    document = Document(page.html, page.url)
    findings = FieldFindings(wanted)
    known = things(document)
    organisation = _main_organisation(known)
    if organisation is None:
        wall = login_wall(document)
        if wall:
            return Extracted(wall=wall)
    region = region_of(document)
    if organisation is not None:
        _from_organisation(organisation, findings, region)
    _by_labels(document, findings)
    places = list(addresses(document, region))
    _place(document, places or list(addresses(document, region, NAMED)), findings)
    _phone(document, findings, region)
    _name(document, places, findings)
    if organisation is not None and findings.wants("company_name"):
        findings.offer_thing("company_name", organisation, "name", tidy(organisation.text("name", "legalName") or ""))
    _email(document, findings)
    _prose(document, findings)
    missing = wanted - {"website_url"} - findings.names
    more = _more(document) if missing and not _is_linked_in(document) else ()
    nothing = not findings.names and not more and wanted >= ESSENTIAL
    kind = _kind(document, nothing=nothing) if organisation is None else "item"
    return findings.extracted("website_url", _website(document, findings), more=more, kind=kind, sure=SELECTOR)


def _kind(document: Document, *, nothing: bool) -> PageFit:
    """Any page of a site may describe its company, except an error page and one without data of a company."""
    if error_of(document):
        return "error"
    if nothing:
        return "empty" if is_empty(document) else "other"
    return "item"


def _main_organisation(known: tuple[Thing, ...]) -> Thing | None:
    """Return the outermost with most properties; a publisher of an article has only a name."""
    named = [one for one in of_type(known, *ORGANISATIONS) if tidy(one.text("name", "legalName") or "")]
    return max(named, key=lambda one: (-one.depth, len(one.data)), default=None)


def _from_organisation(one: Thing, findings: FieldFindings, region: str | None) -> None:
    name = tidy(one.text("name", "legalName") or "")
    if name and not is_host(name):  # what the page itself calls the company is better than a web address
        findings.offer_thing("company_name", one, "name", name)
    findings.offer_thing("description", one, "description", one.text("description"))
    findings.offer_thing("industry", one, "industry", one.text("industry", "naics"))
    staff = _staff(one.get("numberOfEmployees"))
    # A range on the page is preferred to a count: the field is a range.
    findings.offer(
        "employee_count_range",
        staff,
        f"{one.source}:numberOfEmployees",
        OPEN_GRAPH if (staff or "").isdigit() else SELECTOR,
    )
    address = first(one.get("address", "location"))
    if isinstance(address, dict) and "address" in address:
        address = first(address["address"])
    where = (
        location_of_address(address)
        if isinstance(address, dict)
        else (text_of(address) and location_of(text_of(address) or ""))
    )
    if isinstance(where, NormalizedLocation) and (where.city or where.country):
        findings.offer_thing("headquarters", one, "address", where)
    contact = first(one.get("contactPoint", "contactPoints"))
    inner = contact if isinstance(contact, dict) else {}
    country = where.country if isinstance(where, NormalizedLocation) and where.country else region
    findings.offer_thing(
        "contact_phone", one, "telephone", _dialled(one.text("telephone") or text_of(inner.get("telephone")), country)
    )
    findings.offer_thing("contact_email", one, "email", _mailed(one.text("email") or text_of(inner.get("email"))))


def _staff(value: object) -> str | None:
    if isinstance(value, dict):
        least, most = value.get("minValue"), value.get("maxValue")
        if least and most:
            return f"{least}-{most}"
        return text_of(value.get("value") or least or most)
    return text_of(value)


def _by_labels(document: Document, findings: FieldFindings) -> None:
    if findings.wants("headquarters"):
        for labelled_line in labelled(document, _HEADQUARTERS, most=150):
            where = location_of(labelled_line.value)
            is_name = LEGAL_FORM.search(labelled_line.value)  # a legal form marks a name, not a place
            if labelled_line.sure and not is_name and where.city and (where.country or where.state_region):
                findings.offer("headquarters", labelled_line.value, f"label:{labelled_line.label}", LABEL)
                break
    if findings.wants("industry"):
        for labelled_line in labelled(document, _INDUSTRY, most=80):
            if labelled_line.sure and len(labelled_line.value.split()) <= 8:
                findings.offer("industry", labelled_line.value, f"label:{labelled_line.label}", LABEL)
                break
    for labelled_line in labelled(document, _SIZE, most=60):  # a range that is shown is more than a count in the data
        people = _PEOPLE.search(labelled_line.value)
        if people:
            findings.offer("employee_count_range", people[0].strip(), f"label:{labelled_line.label}", LABEL)
            break
    if findings.wants("employee_count_range"):
        told = _STAFF.search(document.text)
        if told:
            findings.offer("employee_count_range", told["range"], "text", GUESS)


def _place(document: Document, places: list[Address], findings: FieldFindings) -> None:
    """The address under a word for headquarters, else the first one."""
    if findings.wants("headquarters"):
        heads = [
            at
            for at, line in enumerate(document.shown)
            if re.search(rf"\b(?:{_HEADQUARTERS})\b", line.text, re.IGNORECASE)
        ]
        near = [one for one in places if any(0 <= one.line - at <= 6 for at in heads)]
        for one in near or places:
            findings.offer("headquarters", one.where, "text:address", LABEL if near else GUESS)
            return


def _phone(document: Document, findings: FieldFindings, region: str | None) -> None:
    """A number by a link or a label before one in the open; never one of a fax."""
    if not findings.wants("contact_phone"):
        return
    for link in document.links:
        if link.url[:4].lower() == "tel:":
            findings.offer("contact_phone", _dialled(unquote(link.url[4:]), region), "css:a[href^=tel]", SELECTOR)
    texts = [line.text for line in document.shown]
    _phone_in(texts, findings, region)
    closed = [without_trunks(text) for text in texts] if findings.wants("contact_phone") else texts
    if closed != texts:
        _phone_in(closed, findings, region)


def _phone_in(texts: Sequence[str], findings: FieldFindings, region: str | None) -> None:
    before = ""
    for text in texts:
        for phone in phones_in(text, region) if len(text) <= 1_000 else ():
            ahead = text[max(0, phone.start - 25) : phone.start] or before
            if _FAX.search(ahead) and not _TEL.search(ahead[_last_fax(ahead) :]):
                continue
            labelled_so = bool(_TEL.search(ahead))
            findings.offer(
                "contact_phone", phone.number, "text:label" if labelled_so else "text", LABEL if labelled_so else GUESS
            )
        before = text if len(text) <= 25 else ""


def _last_fax(text: str) -> int:
    return max(match.end() for match in _FAX.finditer(text))


def _email(document: Document, findings: FieldFindings) -> None:
    if not findings.wants("contact_email"):
        return
    linked = [mail for link in document.links if link.url[:7].lower() == "mailto:" and (mail := _mailed(link.url))]
    written = list(emails_in(document.text))
    site = site_of(document.url).partition(".")[0]
    name = bare(str(findings.value("company_name") or "")) or "-"
    linked, written = ([mail for mail in mails if not _is_others(mail, site, name)] for mails in (linked, written))
    for source, sure, mails in (("css:a[href^=mailto]", SELECTOR, linked), ("text", LABEL, written)):
        ranked = sorted(
            mails,
            key=lambda mail: (
                bool(site) and site not in mail,
                mail.partition("@")[2] in _ELSEWHERE,
                not _MAILBOXES.match(mail),
            ),
        )
        for mail in ranked[:1]:
            findings.offer("contact_email", mail, source, sure)


def _is_others(mail: str, site: str, name: str) -> bool:
    """Return whether a mailbox belongs to an authority, an agency or the maker of the site."""
    label = bare(site_of(f"https://{mail.partition('@')[2]}/").partition(".")[0])
    return bool(_OTHERS.search(mail)) and not (site and site in mail) and label not in name and name not in label


def _name(document: Document, places: list[Address], findings: FieldFindings) -> None:
    """Find the site's own name: the more sources agree, the higher the confidence."""
    if not findings.wants("company_name"):
        return
    if _is_linked_in(document):
        got = document.first_text(
            "h1", ".org-top-card-primary-content__title", "[class*='top-card' i][class*='title' i]"
        )
        findings.offer("company_name", tidy(got[0]) if got else None, "css:h1", SELECTOR)
        return
    named = company_name(document, places)
    if named is not None:
        sure = next((confidence for least, confidence in _SURE if named.weight >= least), None)
        if sure is not None:
            findings.offer("company_name", named.name, named.source, sure)


def _prose(document: Document, findings: FieldFindings) -> None:
    for key in ("og:description", "description", "twitter:description"):
        words = document.metas.get(key, "")
        if len(words) >= 20:
            findings.offer("description", words, f"meta:{key}", OPEN_GRAPH)


def _website(document: Document, findings: FieldFindings) -> str | None:
    """Return the site's own address; on a page about a company elsewhere, the one that it gives for it."""
    if _is_linked_in(document):
        for labelled_line in labelled(document, r"website|site web|webseite|sitio web", most=200):
            if re.match(r"(?:https?://)?[\w-]+(?:\.[\w-]+)+(?:/\S*)?$", labelled_line.value):
                return labelled_line.value
        return None
    parts = urlsplit(document.url)
    return f"{parts.scheme or 'https'}://{parts.netloc}/" if parts.netloc else document.url


def _is_linked_in(document: Document) -> bool:
    return bool(_LINKED_IN.search(urlsplit(document.canonical or document.url).hostname or ""))


def _more(document: Document) -> tuple[str, ...]:
    """Contact, about and imprint pages that this page links to: one of each kind, on the same site."""
    here = document.url.partition("#")[0]
    chosen: list[str] = []
    for pattern in _PAGES:
        urls = (link.url.partition("#")[0] for link in document.links if _leads_to(pattern, link))
        url = next((url for url in urls if url not in (here, *chosen) and same_site(url, here)), None)
        if url:
            chosen.append(url)
    return tuple(chosen[:MOST_MORE])


def _leads_to(pattern: re.Pattern[str], link: Link) -> bool:
    path = urlsplit(link.url).path
    if not link.url.startswith(("http://", "https://")) or len(link.text) > 40 or LOGIN_PATH.search(path):
        return False
    return bool(pattern.search(path) or pattern.search(link.text))


def _dialled(text: str | None, region: str | None) -> str | None:
    for country in (None, region, "US" if region is None else None):
        try:
            return e164(text or "", country)
        except ValueError:
            continue
    return None


def _mailed(text: str | None) -> str | None:
    try:
        return clean_email(text or "")
    except ValueError:
        return None


company_website = Extractor(
    name="company_website",
    output=CompanyWebsite,
    script=(
        WaitFor("footer, h1, main, body", timeout=10.0),
        Click(CONSENT, timeout=CONSENT_WAIT),
        Scroll(5),
        WaitQuiet(timeout=3.0),
    ),
    parse=parse,
)
