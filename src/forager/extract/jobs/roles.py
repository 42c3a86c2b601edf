"""Recognises a job's title by its words, and an employer by its sentences, on pages that mark neither. Pure.

A page of an older applicant system may have no heading at all: the title is a line among lines. What tells it apart is
the noun for who is sought (`Senior Network Engineer`), and that the advertisement or the page's title uses it too.
"""

import re
from collections.abc import Iterator

from forager.extract.document import Document, Line
from forager.extract.organisations import bare, tidy

LONGEST = 90
MOST_WORDS = 12
MOST_TITLES = 3
"""More lines than this that could each be a title are a list of jobs."""
MOST_READ = 4_000
_ROLE = re.compile(
    r"\b(?:accountant|administrator|adviser|advisor|agent|analyst|apprentice|architect|assistant|associate|attendant"
    r"|auditor|baker|barber|barista|bartender|bookkeeper|bricklayer|butcher|buyer|captain|caregiver|carer|carpenter"
    r"|cashier|chef|chemist|cleaner|clerk|coach|consultant"
    r"|controller|cook|coordinator|co-ordinator|counsel(?:l?or)?|courier|dentist|designer|developer|director|dispatcher"
    r"|doctor|driver|editor|electrician|engineer|estimator|executive|fellow|foreman|gardener|hairdresser|handler"
    r"|head of|housekeeper|inspector|installer|joiner"
    r"|instructor|intern|internship|janitor|lawyer|lead|lecturer|librarian|machinist|manager|mechanic|merchandiser"
    r"|nurse|officer|operator|owner|paralegal|paramedic|partner|pharmacist|phd|physician|physicist|pilot|planner"
    r"|plumber|postdoc|president|principal|producer|professor|programmer|psychologist|receptionist|recruiter"
    r"|representative|researcher|sales(?:man|person|woman)|scientist|secretary|server|specialist|statistician"
    r"|stocker|strategist|student|supervisor|surgeon|surveyor|teacher|technician|technologist|tester|therapist|trainee"
    r"|trainer|translator|tutor|underwriter|vice president|warehouse \w+|welder|worker|writer"
    r"|\w*(?:entwickler|ingenieur|leiter|berater|mitarbeiter|techniker|fahrer|verkäufer|kaufmann|kauffrau|pfleger"
    r"|meister|assistent|referent|sachbearbeiter|praktikant|werkstudent)(?:/?:?\*?in(?:nen)?|en)?"
    r"|développeuse?|développeur|ingénieure?|responsable|chargée? d\w+|technicien(?:ne)?|vendeu(?:r|se)|comptable"
    r"|infirmi(?:er|ère)|stagiaire|chef de \w+|ingeniero|desarrollador|gerente|técnico|analista|vendedor|enfermer[oa]"
    r"|engenheiro|desenvolvedor|sviluppatore|ingegnere|impiegat[oa]|tecnico|medewerker|ontwikkelaar|adviseur"
    r"|verkoper|monteur|udvikler|konsulent|ingeniør|medarbejder|sygeplejerske|utvecklare|ingenjör|konsult|säljare"
    r"|specjalista|kierownik|inżynier|programista|sprzedawca|инженер|менеджер|разработчик|специалист|водитель)s?\b",
    re.IGNORECASE,
)
_AROUND = frozenset("nav footer aside".split())
_HEADINGS = frozenset("h1 h2 h3 h4 h5".split())
_EQUAL = re.compile(
    r"(?:^|[.!?:]\s+)(?P<name>[A-Z](?:[\w&,'’/ -]|\.(?!\s+[A-Z])){1,70}?),? (?:is|are) (?:proud to be )?(?:an? )?"
    r"(?:\w+[ /-]){0,3}?(?i:equal(?:[ -]employment)?[ -]opportunity|EEO|EOE)\b"
)
_ABOUT = re.compile(r"^About (?P<name>(?!the\b|us\b|our\b|this\b|you\b|your\b)[A-Z][\w&.,'’/ -]{1,60}?):?$")
_NO_NAME = re.compile(r"^(?:we|it|this|our|the (?:company|employer|client)|they|he|she|and|as|an?)\b", re.IGNORECASE)


def has_role(text: str) -> bool:
    """Whether a short text names who is sought: `Senior Network Engineer`."""
    return len(text.split()) <= MOST_WORDS and bool(_ROLE.search(text))


def titles_by_role(document: Document, names: list[str]) -> list[tuple[str, str]]:
    """Lines that can be the job's title, most likely first, each with its source; none on a page with many of them.

    `names` are the parts of the page's own title. A line counts if it is a heading or set apart, or if the page's title
    or the advertisement has it too.
    """
    lines = [line for line in document.shown if line.area not in _AROUND]
    prose = " ".join(line.text for line in lines if len(line.text) > LONGEST).casefold()
    titles = " ".join(names).casefold()
    scored: dict[str, int] = {}
    for line in lines:
        score = _score(line, titles, prose)
        if score:
            scored.setdefault(line.text, score)
    shown = sorted(scored, key=lambda text: -scored[text])
    if len(shown) > MOST_TITLES and scored[shown[0]] == scored[shown[1]]:
        return []
    return [*(("text:role", text) for text in shown), *(("title", name) for name in names if has_role(name))]


def _score(line: Line, titles: str, prose: str) -> int:
    text = line.text
    if not 3 < len(text) <= LONGEST or text[-1] in ".?!:;," or not text[0].isupper() or not has_role(text):
        return 0
    known = text.casefold()
    return 4 * (known in titles) + 2 * (line.tag in _HEADINGS) + (line.bold or known in prose)


def employers_by_sentence(document: Document) -> Iterator[str]:
    """Yield the employers that an advertisement names: `Kiln is an equal opportunity employer`, or `About Kiln`."""
    for line in document.shown:
        match = _ABOUT.match(line.text[:LONGEST]) or _EQUAL.search(line.text[:MOST_READ])
        name = tidy(match["name"]) if match else None
        if name and not _NO_NAME.match(name) and bare(name) and not has_role(name):
            yield name
