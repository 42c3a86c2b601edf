"""Checks that the descriptions of job pages are clean: the advertisement, and nothing around it."""

import re

from bench.support.data_set import pages, read
from bench.support.scores import Score
from forager.extract.html.document import Document

SHORTEST = 250
MOST_AROUND = 0.05
"""Share of a description's characters that may come from around the advertisement."""
_AROUND = frozenset(("nav", "header", "footer", "aside"))
_BOILERPLATE = re.compile(
    r"cookie|privacy policy|^(?:log ?in|sign in|register|menu|search|home|share|print|back)\b|^apply (?:now|online)"
    r"|^similar jobs|all rights reserved|^©|^skip to|newsletter|^(?:first|last) name|^e-?mail\b.{0,3}$|^upload",
    re.IGNORECASE,
)


def descriptions() -> Score:
    """One answer for each page in HTML that has a description: right if it is clean."""
    score = Score()
    for name, body, expected in pages("job"):
        if body.lstrip()[:1] in (b"{", b"["):
            continue
        facts = expected.get("page", expected) if isinstance(expected, dict) else {}
        text = read("job_posting", body, facts.get("url")).result["description"]
        if text:
            score.count(name, "description", _around(text, body), "clean", lambda share: float(share) <= MOST_AROUND)
    return score


def _around(text: str, body: bytes) -> str:
    """The share of a description that stands around the advertisement; 1 if it is too short to be one."""
    if len(text) < SHORTEST:
        return "1"
    outside = {line.text for line in Document(body).lines if line.area in _AROUND or line.tag == "button"}
    lines = text.splitlines()
    wrong = sum(len(line) for line in lines if line in outside or (len(line) < 80 and _BOILERPLATE.search(line)))
    return f"{wrong / len(text):.3f}"
