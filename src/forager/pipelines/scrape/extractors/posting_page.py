"""A job by its page: a system's selectors, labels, headlines and the text around them. Pure."""

import re
from collections.abc import Iterator, Sequence

from selectolax.lexbor import LexborNode

from forager.extract.companies import bare, tidy, title_parts
from forager.extract.html.document import Document, VisibleLine
from forager.extract.html.main_text import SOURCE, labelled, main_text
from forager.extract.html.page_signs import APPLY, EMPLOYMENT
from forager.extract.html.structured_data import Thing, text_of
from forager.extract.postings.answers import employers_by_sentence, has_role, titles_by_role
from forager.extract.postings.employers import employers
from forager.extract.postings.kinds import is_list_title
from forager.extract.postings.systems import SYSTEMS
from forager.extract.tables import any_of, table
from forager.extract.text.gazetteer import city_named, is_city_in
from forager.extract.text.locations import POSTCODE, location_of
from forager.extract.text.salaries import MONEY, salary_in
from forager.extract.text.strings import one_line
from forager.pipelines.scrape.extractor import GUESS, LABEL, OPEN_GRAPH, SELECTOR, FieldFindings

# Words that job pages use, in the languages that are read: labels, generic headlines, ends of an advertisement.


PLACE_LABELS = (
    r"(?:job |work(?:ing)? |office |primary )?locations?|place of work|city|(?:arbeits|dienst|stand)ort|einsatzort|"
    r"lieu(?: de travail)?|"
    r"localisation|ubicación|lugar(?: de trabajo)?|localização|sede di lavoro|luogo di lavoro|(?:arbejds)?sted|"
    r"placering|lokation|plats|ort|locatie|standplaats|lokalizacja|miejsce pracy|место работы|город|勤務地"
)
_PART_OF_PLACE = r"(?:(?:job |work |primary )?location(?: name)?\s*[:/–-]\s*)?"
CITY_LABELS = rf"{_PART_OF_PLACE}(?:city|town|city/town|stadt|ville|ciudad|cidade|città|by|stad|miasto)"
REGION_LABELS = (
    rf"{_PART_OF_PLACE}(?:state|province|region|state\s?/\s?province|bundesland|kanton|département|provincia|estado)"
)
COUNTRY_LABELS = rf"{_PART_OF_PLACE}(?:country|land|pays|país|paese|kraj)"
A_PART_OF_PLACE = re.compile(rf"^(?:{CITY_LABELS}|{REGION_LABELS}|{COUNTRY_LABELS})$", re.IGNORECASE)
"""Labels of forms that have a field for each part of a place: `Location: City`."""
COMPANY_LABELS = (
    r"company(?: name)?|employer|organi[sz]ation|hiring organi[sz]ation|unternehmen|arbeitgeber|firma|entreprise|"
    r"employeur|société|empresa|azienda|virksomhed|arbejdsgiver|företag|arbetsgivare|bedrijf|werkgever|pracodawca|"
    r"компания|работодатель|会社名"
)
PAY_LABELS = (
    r"salary(?: range)?|pay(?: range| rate)?|(?:base )?compensation|remuneration|rate(?: of pay)?|wage|gehalt|"
    r"vergütung|lohn|salaire|rémunération|salario|salário|retribuzione|løn|lön|salaris|wynagrodzenie|mzda|plat|"
    r"зарплата|給与"
)
TITLE_LABELS = (
    r"(?:(?:external |internal |official |working )?(?:job|position|posting|vacancy|role|requisition)[ -]?"
    r"(?:posting )?(?:title|name)(?: ?/ ?\w+)?|title(?: of (?:the )?(?:job|position|vacancy))?|position|vacancy|role)|"
    r"stellenbezeichnung|intitulé(?: du poste)?|puesto|stillingsbetegnelse|functietitel|stanowisko|должность|職種"
)
CLIENT = re.compile(
    r"\bour (?:\w+[ -]){0,4}client\b|on behalf of (?:our|a) (?:\w+ ){0,3}client|employment (?:agency|business)",
    re.IGNORECASE,
)
NOT_A_TITLE = re.compile(
    r"^(?:job(?:s| postings?| details?| descriptions?| offers?| openings?| search| summary| information)?"
    r"|vacanc(?:y|ies)|careers?(?: (?:opportunit(?:y|ies)|at .*|page|site|portal|center))?"
    r"|employment(?: opportunities)?|work with us"
    r"|join (?:us|our team)|apply(?: now| here| online)?|(?:current |job )?openings?|opportunit(?:y|ies)|requirements?"
    r"|stellenangebote?|karriere|ledige stillinger|jobannonce|offres? d.emploi|recruitment|responsibilities|overview"
    r"|sign in|log ?in|home|error|not found|page not found|menu|search|about(?: us| the (?:job|role|company))?"
    r"|description|benefits|share|cookies?.*|we (?:use|value).*|your privacy.*|privacy.*)$",
    re.IGNORECASE,
)
ENDS = re.compile(
    r"^(?:(?:similar|related|recommended|other|more) (?:jobs|positions|vacancies|openings|opportunities)\b.*"
    r"|(?:people|others) also (?:viewed|applied).*|share (?:this )?(?:job|vacancy|position|page|via|on)\b.*"
    r"|apply (?:now|online|for this (?:job|position|role))\b.{0,20}|(?:ähnliche|weitere) (?:jobs|stellen)\b.*"
    r"|(?:apply to this|add to job|send (?:this )?job to|view similar|e-?mail this|save this)\b.{0,30}"
    r"|get (?:job )?alerts.*|sign up for (?:job )?alerts.*|back to (?:jobs|search|results|list).*)$",
    re.IGNORECASE,
)
"""A line after which an advertisement is over."""
PAY_WORD = re.compile(
    r"\b(?:salary|base pay|pay (?:range|rate)|compensation|remuneration|wages?|hourly rate|rate of pay|gehalt|vergütung"
    r"|lohn|salaire|rémunération|salario|salário|retribuzione|salaris|wynagrodzenie|mzda|зарплата|løn|lön)\b",
    re.IGNORECASE,
)
NOT_PAY = re.compile(
    r"\b(?:bonus|stipend|allowance|sign[ -]?on|relocation|reimburse\w*|referral|revenue|funding|raised|budget|insurance"
    r"|voucher|401|equity|stock|prämie|zuschuss|prime|turnover|million|billion|discount)\b",
    re.IGNORECASE,
)


LEAST_TEXT = 250
"""A page that shows less is not an advertisement yet: its headline may be the name of the program behind it."""
LONGEST_TITLE = 200
LONGEST_CONTROL = 40
MENU = 3
"""Separators in a line that make it a menu."""
_TITLES = (
    ".job-title", ".jobTitle", ".jobtitle", "[class*='job-title' i]", "[class*='jobtitle' i]",
    "[class*='vacancy-title' i]", "[data-testid*='job-title' i]", "[data-qa='posting-name']", "h1",
)  # fmt: skip
_COMPANIES = (
    "[data-testid*='company-name' i]", "[class*='company-name' i]", "[class*='companyname' i]",
    "[class*='employer-name' i]", "[class*='hiring-organization' i]", ".company",
)  # fmt: skip
_PLACES = (
    "[data-testid*='job-location' i]", "[class*='job-location' i]", "[class*='joblocation' i]", ".location",
)  # fmt: skip
_PROSE = (
    "[class*='job-description' i]", "[class*='jobdescription' i]", "[id*='job-description' i]",
    "[id*='jobdescription' i]",
)  # fmt: skip
_WHOLE = ("article", "main")
_PARAGRAPHS = frozenset("p li h2 h3 h4 h5 td blockquote pre".split())
_AROUND = frozenset("nav footer header aside form".split())


def read_systems(document: Document, findings: FieldFindings) -> None:
    """Add the fields from the places where a known system shows them, if such a place is there once."""
    for system in SYSTEMS:
        for name, selector in system.css.items():
            if not findings.wants(name):
                continue
            nodes = document.tree.css(selector)[:5]
            if name == "description":
                text = "\n".join(filter(None, (_text_of(document.lines_in(node)) for node in _outermost(nodes))))
                if len(text) >= LEAST_TEXT:
                    findings.offer(name, text, f"css:{selector}", SELECTOR)
                continue
            texts = {text for node in nodes if (text := one_line(node.text(separator=" ")))}
            if len(texts) == 1 and len(text := texts.pop()) <= LONGEST_TITLE and _fits(name, text):
                findings.offer(name, text, f"css:{selector}", SELECTOR)


def _outermost(nodes: Sequence[LexborNode]) -> list[LexborNode]:
    """Return the elements that are in none of the others."""
    within = {node.mem_id for node in nodes}
    return [node for node in nodes if not any(above.mem_id in within for above in _above(node))]


def _above(node: LexborNode) -> Iterator[LexborNode]:
    above = node.parent
    while above is not None:
        yield above
        above = above.parent


def _fits(name: str, text: str) -> bool:
    if name == "job_title":
        return not NOT_A_TITLE.match(text)
    return is_place(text) if name == "location" else True


def read_title(document: Document, findings: FieldFindings) -> str | None:
    """Add the job's title, and return it also if it is not wanted: other fields are recognised with its help."""
    own = text_of(findings.value("job_title"))
    if own:
        return own
    names = title_parts(document.title or "")
    for words, selector in _candidates(document):
        confidence = SELECTOR if selector != "h1" or any(words in name or name in words for name in names) else LABEL
        findings.offer("job_title", words, f"css:{selector}", confidence)
        return words
    for told in labelled(document, TITLE_LABELS, most=LONGEST_TITLE):
        sure = told.sure or "title" in told.label.casefold()
        if sure and not NOT_A_TITLE.match(told.value) and len(told.value) > 2:
            findings.offer("job_title", told.value, f"label:{told.label}", LABEL)
            return told.value
    for source, words in (*_parts_shown(document, names), *_above_facts(document)):
        findings.offer("job_title", words, source, OPEN_GRAPH)
        return words
    for source, words in titles_by_role(document, names):
        if not _is_generic(words):
            findings.offer("job_title", words, source, GUESS)
            return words
    return None


def _candidates(document: Document) -> list[tuple[str, str]]:
    got: list[tuple[str, str]] = []
    for selector in _TITLES:
        texts = [one_line(node.text(separator=" ")) for node in document.tree.css(selector)[:20]]
        good = [text for text in texts if 2 < len(text) <= LONGEST_TITLE and not _is_generic(text)]
        if good and (selector == "h1" or len(set(good)) == 1):  # several different ones are a list of jobs
            title = (document.title or "").casefold()
            got.append((next((text for text in good if text.casefold() in title), good[0]), selector))
    return got


def _is_generic(text: str) -> bool:
    return bool(NOT_A_TITLE.match(text)) or is_list_title(text)


def _parts_shown(document: Document, names: list[str]) -> list[tuple[str, str]]:
    """Parts of the page's titles that are lines of their own."""
    lines = {line.text.casefold() for line in document.lines}
    lines |= {line.text.partition(": ")[2].casefold() for line in document.lines}
    social = document.metas.get("og:title", "")
    whole = (document.title or "").partition("|")[0].strip()
    parts = [("meta:og:title", part) for part in (social, *title_parts(social))]
    parts += [("title", part) for part in (whole, *names)]
    return [(source, part) for source, part in parts if part and part.casefold() in lines and not _is_generic(part)]


def _above_facts(document: Document) -> list[tuple[str, str]]:
    """Return a bold line shortly above the first label of a job's facts, whose words the advertisement repeats."""
    lines = document.shown
    first = next((told.line for told in labelled(document, rf"{PLACE_LABELS}|job category|req(?:uisition)? ?id")), None)
    if first is None:
        return []
    prose = " ".join(line.text for line in lines if len(line.text) > 60)
    above = [line for line in lines[max(0, first - 15) : first] if len(line.text) <= LONGEST_TITLE]
    good = [line for line in above if len(line.text.split()) > 1 and not _is_generic(line.text)]
    headed = [("text:heading", line.text) for line in good if line.tag in ("h2", "h3", "h4")]
    return headed + [("text:bold", line.text) for line in good if line.bold and line.text in prose]


def read_labels(document: Document, findings: FieldFindings, title: str | None) -> None:
    if findings.wants("location"):
        _place_by_labels(document, findings)
    if findings.wants("company_name"):
        for told in labelled(document, COMPANY_LABELS, most=100):
            name = tidy(told.value)
            if told.sure and name and name != title:
                findings.offer("company_name", name, f"label:{told.label}", LABEL)
                break
    if findings.wants("salary_range"):
        for told in labelled(document, PAY_LABELS, most=150):
            money = salary_in(told.value, told.label)
            if money:
                findings.offer("salary_range", money, f"label:{told.label}", LABEL)
                break
        else:
            _pay_in_prose(document, findings)


def _place_by_labels(document: Document, findings: FieldFindings) -> None:
    """Add the place by its label, or by the labels of its parts: one field for the city, one for the state."""
    parts = [
        next((told for told in labelled(document, words, most=60) if told.sure and told.value[:1].isalpha()), None)
        for words in (CITY_LABELS, REGION_LABELS, COUNTRY_LABELS)
    ]
    if parts[0] and any(parts[1:]):
        value = ", ".join(dict.fromkeys(part.value for part in parts if part))
        if is_place(value):
            findings.offer("location", value, f"label:{parts[0].label}", LABEL)
            return
    for told in labelled(document, PLACE_LABELS, most=120):
        if told.sure and is_place(told.value) and not A_PART_OF_PLACE.match(told.value):
            findings.offer("location", told.value, f"label:{told.label}", LABEL)
            return


def _pay_in_prose(document: Document, findings: FieldFindings) -> None:
    """Find money in a sentence, with a word for pay shortly before it and none for a bonus or the like near it."""
    for line in document.shown:
        if line.area in ("nav", "footer", "aside"):
            continue
        for word in PAY_WORD.finditer(line.text[:2_000]):
            near = line.text[word.start() : word.start() + 160]
            money = salary_in(near)
            if money and re.search(r"\d{2}", money) and not NOT_PAY.search(near.partition(money[:6])[0]):
                findings.offer("salary_range", money, "text:pay", GUESS)
                return


def is_place(value: str) -> bool:
    where = location_of(value)
    is_known = bool(where.country) or (where.city is not None and _is_known_city(where.city, value))
    return is_known and not re.search(r"[\[\]{}@]|https?:", value) and len(value.split()) <= 12


MOST_NAME = 2
_INVITES = any_of(table("postings")["invites"], r"(?:{})\b")
"""Beginnings of the text of a control next to a place."""


def _is_known_city(city: str, text: str) -> bool:
    """Return whether a name without a country is that of a place: there is such a city, a postcode is next to it, or
    it is a short name. Labels for a place are also before `Change location` and `Enter city`."""
    if is_city_in(city, None) or POSTCODE.search(text) is not None:
        return True
    return city[:1].isupper() and len(city.split()) <= MOST_NAME and not _INVITES.match(city)


def read_selectors(document: Document, findings: FieldFindings) -> None:
    for name, selectors, most in (("company_name", _COMPANIES, 100), ("location", _PLACES, 120)):
        if findings.wants(name):
            got = document.first_text(*selectors)
            if got and len(got[0]) <= most and (name != "location" or is_place(got[0])):
                findings.offer(name, got[0], f"css:{got[1]}", LABEL)


def read_company(document: Document, known: tuple[Thing, ...], title: str | None, findings: FieldFindings) -> None:
    """Add who runs the site, where the advertisement itself is written by them; never the client of an agency."""
    if not findings.wants("company_name") or not title or CLIENT.search(document.text):
        return
    told = [(name, source) for name, source, confirmed in employers(document, known, title) if confirmed]
    said = [(name, "text:employer") for name in employers_by_sentence(document)]
    if told and said and not _one_employer(told[0][0], [name for name, _ in said]):
        return  # the page's owner and the advertisement's own words differ: either may be a parent company
    for name, source in (*told, *said):
        findings.offer("company_name", name, source, GUESS)
        return


def _one_employer(name: str, others: list[str]) -> bool:
    return any(bare(name) in bare(other) or bare(other) in bare(name) for other in others)


def read_prose(document: Document, title: str | None, findings: FieldFindings) -> None:
    """Add the advertisement: an element named so, else the page's main text, else the lines below the title."""
    if not findings.wants("description"):
        return
    if _prose_in(_PROSE, LABEL, document, title, findings):
        return
    main = main_text(document, "text")
    text = _trimmed([line.strip(" |").removeprefix("- ") for line in main.splitlines()], title) if main else ""
    if len(text) >= LEAST_TEXT:
        findings.offer("description", text, SOURCE, OPEN_GRAPH)
        return
    if not _prose_in(_WHOLE, GUESS, document, title, findings):
        _prose_by_lines(document, title, findings)


def _prose_in(
    selectors: Sequence[str], confidence: float, document: Document, title: str | None, findings: FieldFindings
) -> bool:
    """Add the text of the first of these elements that has enough of it. Returns whether one has."""
    for selector in selectors:
        node = document.tree.css_first(selector)
        text = _text_of(document.lines_in(node), title) if node else ""
        if len(text) >= LEAST_TEXT:
            findings.offer("description", text, f"css:{selector}", confidence)
            return True
    return False


def _prose_by_lines(document: Document, title: str | None, findings: FieldFindings) -> None:
    """Paragraphs under the job's title, where there is one."""
    lines = list(document.lines)
    start = next((at for at, line in enumerate(lines) if title and line.text == title), None)
    if start is None:
        return
    prose = [line.text for line in lines[start + 1 :] if line.tag in _PARAGRAPHS and line.area not in _AROUND]
    text = _trimmed(prose, title)
    if len(text) >= LEAST_TEXT:
        findings.offer("description", text, "text", GUESS)


def _text_of(lines: tuple[VisibleLine, ...], title: str | None = None) -> str:
    """Return lines without menus, forms and buttons."""
    return _trimmed([line.text for line in lines if line.area not in _AROUND and line.tag != "button"], title)


def _is_control(text: str) -> bool:
    return len(text) <= LONGEST_CONTROL and APPLY.search(text) is not None


def _trimmed(lines: list[str], title: str | None) -> str:
    """Without the title at the beginning, and without what follows the end of the advertisement."""
    lines = [line for line in lines if line and not (line.count(" | ") > MENU and len(line) < LEAST_TEXT)]
    named = next((at for at, line in enumerate(lines[: max(1, len(lines) // 3)]) if title and line == title), -1)
    lines = lines[named + 1 :]
    while lines and (ENDS.match(lines[0]) or NOT_A_TITLE.match(lines[0]) or _is_control(lines[0])):
        lines = lines[1:]
    half = len(lines) // 2
    end = next((at for at, line in enumerate(lines) if at >= half and ENDS.match(line)), len(lines))
    return "\n".join(lines[:end]).strip()


# Place and pay of a job, without a label in the lines under its title: `Berlin, Germany · Full-time`. Pure.


NEAR = 6
"""Lines under the title in which they stand."""
LONGEST = 80
_PIECES = re.compile(r"\s*[|·•]\s*|\s+[–—-]\s+(?=[^\W\d])")
_IN_BRACKETS = re.compile(r"\s*\(\d{1,5}\)$")
"""The number of a French department after its city."""
_CITY = re.compile(r"(?:(?>[A-ZÀ-Þ](?:(?![a-zß-ÿ]{3}[A-Z])[\w.'’-])*+|der|d[aeio]s?|am|an|sur|upon|la|le)\s?+){1,4}")
"""A name of few words. Two words that are glued together are the end of a label and the beginning of its value. A word
is atomic: capital letters could otherwise be divided among four words in many ways, and all would be tried."""
_BESIDE_PAY = re.compile(r"[^\W\d]{4,}")
MOST_WORDS = 4
"""Words besides the amount in a line that is about pay alone: `per year, before tax`."""


def read_under_title(document: Document, title: str | None, findings: FieldFindings) -> None:
    """Add a place that names its country or state after a comma, is a large city, or is a city in a line with words of
    employment (`Full-time · Füssen`); and an amount that is a range or has a period."""
    if not title or not (findings.wants("location") or findings.wants("salary_range")):
        return
    lines = document.shown
    start = next((at for at, line in enumerate(lines) if line.text == title and line.area != "nav"), None)
    if start is None:
        return
    for line in lines[start + 1 : start + 1 + NEAR]:
        if len(line.text) > LONGEST or line.area in ("nav", "footer", "aside"):
            continue
        pieces = _PIECES.split(line.text)
        is_summary = len(pieces) > 1 and EMPLOYMENT.search(line.text) is not None
        for piece in pieces:
            piece = _IN_BRACKETS.sub("", piece)
            is_named = _is_large_city(piece) or (is_summary and _is_city_beside_terms(piece))
            if findings.wants("location") and (_is_place(piece) or is_named):
                findings.offer("location", piece, "text:headline", GUESS)
            if findings.wants("salary_range") and (pay := _pay(piece)):
                findings.offer("salary_range", pay, "text:headline", GUESS)


def _is_place(piece: str) -> bool:
    """`Berlin, Germany` or `Austin, TX`: a name, a comma, and a country or state that there is."""
    if piece.count(",") not in (1, 2) or re.search(r"\d", piece) or has_role(piece) or not piece[:1].isupper():
        return False
    where = location_of(piece)
    return bool(where.city and where.country) and bool(_CITY.fullmatch(where.city or ""))


def _is_city_beside_terms(piece: str) -> bool:
    """A known city that is no abbreviation or word of employment itself: there is a town called CDI."""
    is_name = piece[:1].isupper() and not piece.isupper() and EMPLOYMENT.search(piece) is None
    return is_name and is_city_in(piece, None)


def _is_large_city(piece: str) -> bool:
    """A line under the title that is the name of a large city and no more."""
    known = city_named(piece) if len(piece) > 3 and piece[:1].isupper() else None
    return known is not None and known.is_large and not has_role(piece)


def _pay(piece: str) -> str | None:
    if not MONEY.search(piece) or len(_BESIDE_PAY.findall(MONEY.sub(" ", piece, count=1))) > MOST_WORDS:
        return None
    pay = salary_in(piece)
    return pay if pay and (" per " in pay or len(re.findall(r"\d[\d.,\s]*", pay)) > 1) else None
