"""Place and pay of a job, without a label in the lines under its title: `Berlin, Germany · Full-time`. Pure."""

import re

from forager.extract.document import Document
from forager.extract.jobs.roles import has_role
from forager.extract.locations import location_of
from forager.extract.salaries import MONEY, salary_in
from forager.pipelines.scrape.findings import GUESS, Findings

NEAR = 6
"""Lines under the title in which they stand."""
LONGEST = 80
_PIECES = re.compile(r"\s*[|·•]\s*|\s+[–—-]\s+(?=[^\W\d])")
_CITY = re.compile(r"(?:(?>[A-ZÀ-Þ](?:(?![a-zß-ÿ]{3}[A-Z])[\w.'’-])*+|der|d[aeio]s?|am|an|sur|upon|la|le)\s?+){1,4}")
"""A name of few words. Two words that are glued together are the end of a label and the beginning of its value. A word
is atomic: capital letters could otherwise be divided among four words in many ways, and all would be tried."""
_BESIDE_PAY = re.compile(r"[^\W\d]{4,}")
MOST_WORDS = 4
"""Words beside the amount in a line that is about pay alone: `per year, before tax`."""


def read_under_title(document: Document, title: str | None, findings: Findings) -> None:
    """Add a place that names its country or state after a comma, and an amount that is a range or has a period."""
    if not title or not (findings.wants("location") or findings.wants("salary_range")):
        return
    lines = document.shown
    start = next((at for at, line in enumerate(lines) if line.text == title and line.area != "nav"), None)
    if start is None:
        return
    for line in lines[start + 1 : start + 1 + NEAR]:
        if len(line.text) > LONGEST or line.area in ("nav", "footer", "aside"):
            continue
        for piece in _PIECES.split(line.text):
            if findings.wants("location") and _is_place(piece):
                findings.offer("location", piece, "text:headline", GUESS)
            if findings.wants("salary_range") and (pay := _pay(piece)):
                findings.offer("salary_range", pay, "text:headline", GUESS)


def _is_place(piece: str) -> bool:
    """`Berlin, Germany` or `Austin, TX`: a name, a comma, and a country or state that there is."""
    if piece.count(",") not in (1, 2) or re.search(r"\d", piece) or has_role(piece) or not piece[:1].isupper():
        return False
    where = location_of(piece)
    return bool(where.city and where.country) and bool(_CITY.fullmatch(where.city or ""))


def _pay(piece: str) -> str | None:
    if not MONEY.search(piece) or len(_BESIDE_PAY.findall(MONEY.sub(" ", piece, count=1))) > MOST_WORDS:
        return None
    pay = salary_in(piece)
    return pay if pay and (" per " in pay or len(re.findall(r"\d[\d.,\s]*", pay)) > 1) else None
