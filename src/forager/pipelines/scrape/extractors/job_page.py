"""A job by its page: a system's selectors, labels, headlines and the text around them. Pure."""

import re
from collections.abc import Sequence

from forager.extract.document import Document, Line
from forager.extract.jobs.employers import employers
from forager.extract.jobs.kinds import is_list_title
from forager.extract.jobs.roles import employers_by_sentence, titles_by_role
from forager.extract.jobs.systems import SYSTEMS
from forager.extract.labels import labelled
from forager.extract.locations import location_of
from forager.extract.main_text import main_text
from forager.extract.organisations import bare, tidy, title_parts
from forager.extract.salaries import salary_in
from forager.extract.structured_data import Thing, text_of
from forager.extract.text import one_line
from forager.pipelines.scrape.extractors.job_words import (
    A_PART_OF_PLACE,
    CITY_LABELS,
    CLIENT,
    COMPANY_LABELS,
    COUNTRY_LABELS,
    ENDS,
    NOT_A_TITLE,
    NOT_PAY,
    PAY_LABELS,
    PAY_WORD,
    PLACE_LABELS,
    REGION_LABELS,
    TITLE_LABELS,
)
from forager.pipelines.scrape.findings import GUESS, LABEL, OPEN_GRAPH, SELECTOR, Findings

LEAST_TEXT = 250
"""A page that shows less is not an advertisement yet: its headline may be the name of the program behind it."""
LONGEST_TITLE = 200
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


def read_systems(document: Document, findings: Findings) -> None:
    """Add what stands where a known system has it, if it stands there once."""
    for system in SYSTEMS:
        for name, selector in system.css.items():
            if not findings.wants(name):
                continue
            nodes = document.tree.css(selector)[:5]
            if name == "description":
                text = _text_of(document.lines_in(nodes[0])) if nodes else ""
                if len(text) >= LEAST_TEXT:
                    findings.offer(name, text, f"css:{selector}", SELECTOR)
                continue
            texts = {text for node in nodes if (text := one_line(node.text(separator=" ")))}
            if len(texts) == 1 and len(text := texts.pop()) <= LONGEST_TITLE and _fits(name, text):
                findings.offer(name, text, f"css:{selector}", SELECTOR)


def _fits(name: str, text: str) -> bool:
    if name == "job_title":
        return not NOT_A_TITLE.match(text)
    return is_place(text) if name == "location" else True


def read_title(document: Document, findings: Findings) -> str | None:
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
    """A bold line shortly above the first label of a job's facts, whose words the advertisement uses too."""
    lines = document.shown
    first = next((told.line for told in labelled(document, rf"{PLACE_LABELS}|job category|req(?:uisition)? ?id")), None)
    if first is None:
        return []
    prose = " ".join(line.text for line in lines if len(line.text) > 60)
    above = [line for line in lines[max(0, first - 15) : first] if len(line.text) <= LONGEST_TITLE]
    good = [line for line in above if len(line.text.split()) > 1 and not _is_generic(line.text)]
    headed = [("text:heading", line.text) for line in good if line.tag in ("h2", "h3", "h4")]
    return headed + [("text:bold", line.text) for line in good if line.bold and line.text in prose]


def read_labels(document: Document, findings: Findings, title: str | None) -> None:
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


def _place_by_labels(document: Document, findings: Findings) -> None:
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


def _pay_in_prose(document: Document, findings: Findings) -> None:
    """Money in a sentence, with a word for pay shortly before it, and none for a bonus or the like beside it."""
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
    return bool(where.city or where.country) and not re.search(r"[\[\]{}@]|https?:", value) and len(value.split()) <= 12


def read_selectors(document: Document, findings: Findings) -> None:
    for name, selectors, most in (("company_name", _COMPANIES, 100), ("location", _PLACES, 120)):
        if findings.wants(name):
            got = document.first_text(*selectors)
            if got and len(got[0]) <= most and (name != "location" or is_place(got[0])):
                findings.offer(name, got[0], f"css:{got[1]}", LABEL)


def read_company(document: Document, known: tuple[Thing, ...], title: str | None, findings: Findings) -> None:
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


def read_prose(document: Document, title: str | None, findings: Findings) -> None:
    """Add the advertisement: an element that is called so, else the page's main text, else what is under the title."""
    if not findings.wants("description"):
        return
    if _prose_in(_PROSE, LABEL, document, title, findings):
        return
    main = main_text(document, "text")
    text = _trimmed([line.strip(" |").removeprefix("- ") for line in main[0].splitlines()], title) if main else ""
    if main and len(text) >= LEAST_TEXT:
        findings.offer("description", text, main[1] if ":" in main[1] else "text", OPEN_GRAPH)
        return
    if not _prose_in(_WHOLE, GUESS, document, title, findings):
        _prose_by_lines(document, title, findings)


def _prose_in(
    selectors: Sequence[str], confidence: float, document: Document, title: str | None, findings: Findings
) -> bool:
    """Add the text of the first of these elements that has enough of it. Returns whether one has."""
    for selector in selectors:
        node = document.tree.css_first(selector)
        text = _text_of(document.lines_in(node), title) if node else ""
        if len(text) >= LEAST_TEXT:
            findings.offer("description", text, f"css:{selector}", confidence)
            return True
    return False


def _prose_by_lines(document: Document, title: str | None, findings: Findings) -> None:
    """Paragraphs under the job's title, where there is one."""
    lines = list(document.lines)
    start = next((at for at, line in enumerate(lines) if title and line.text == title), None)
    if start is None:
        return
    prose = [line.text for line in lines[start + 1 :] if line.tag in _PARAGRAPHS and line.area not in _AROUND]
    text = _trimmed(prose, title)
    if len(text) >= LEAST_TEXT:
        findings.offer("description", text, "text", GUESS)


def _text_of(lines: tuple[Line, ...], title: str | None = None) -> str:
    """Lines without menus, forms and buttons."""
    return _trimmed([line.text for line in lines if line.area not in _AROUND and line.tag != "button"], title)


def _trimmed(lines: list[str], title: str | None) -> str:
    """Without the title at the beginning, and without what follows the end of the advertisement."""
    lines = [line for line in lines if line and not (line.count(" | ") > MENU and len(line) < LEAST_TEXT)]
    named = next((at for at, line in enumerate(lines[: max(1, len(lines) // 3)]) if title and line == title), -1)
    lines = lines[named + 1 :]
    while lines and (ENDS.match(lines[0]) or NOT_A_TITLE.match(lines[0])):
        lines = lines[1:]
    half = len(lines) // 2
    end = next((at for at, line in enumerate(lines) if at >= half and ENDS.match(line)), len(lines))
    return "\n".join(lines[:end]).strip()
