"""What a page says about the listing that it should show: it is live, it is gone, or nothing. Pure.

Gone needs evidence: 404 or 410, a redirect to a search page, a phrase in the page's own text. A block, a captcha, a
log-in wall or a parked domain is none, and neither is it evidence that the listing is live: for that the page must show
the home's address, phone number or name.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from forager.core.http import Response
from forager.extract.document import decoded
from forager.extract.text import one_line
from forager.pipelines.listings.address import house_number

NOT_FOUND, NO_LONGER_AVAILABLE, SEARCH_PAGE = "not_found", "no_longer_available", "search_page"
_GONE: Final = frozenset({404, 410})
_SEARCH: Final = re.compile(
    r"\bsearch results\b|\b\d[\d,]* (?:rentals?|apartments?|listings?|homes?|results?|properties)\b", re.IGNORECASE
)
_PASSWORD: Final = re.compile(rb"<input\b[^>]*type\s*=\s*['\"]?password", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Home:
    """How the home can be recognised on its page."""

    title: str | None
    address: str | None
    phone: str | None


@dataclass(frozen=True, slots=True)
class Judgement:
    says: Literal["live", "gone", "nothing"]
    reason: str
    """One word: why it is gone, or why nothing can be said."""
    evidence: dict[str, Any]


def judge(response: Response, source_id: str, home: Home, phrases: Sequence[str]) -> Judgement:
    """Decide by the answer to a request for the page of a source."""
    seen: dict[str, Any] = {"status": response.status, "url": response.url.partition("?")[0]}
    if response.status in _GONE:
        return Judgement("gone", NOT_FOUND, seen)
    if response.looks != "page" or response.status != 200:
        return Judgement("nothing", "blocked" if response.looks != "page" else "failed", seen)
    text = one_line(decoded(response.body))
    if source_id.lower() not in urlsplit(response.url).path.lower():
        is_search = _SEARCH.search(text) is not None and _PASSWORD.search(response.body) is None
        return Judgement("gone", SEARCH_PAGE, seen) if is_search else Judgement("nothing", "elsewhere", seen)
    lowered = text.lower()
    for phrase in phrases:
        if phrase.lower() in lowered:
            return Judgement("gone", NO_LONGER_AVAILABLE, {**seen, "phrase": phrase})
    shown = _shown(lowered, home)
    return Judgement("live", shown, seen) if shown else Judgement("nothing", "not_recognised", seen)


def _shown(text: str, home: Home) -> str | None:
    """Which of the home's marks the page shows."""
    number = house_number(home.address or "")
    if number is not None and home.address is not None:
        name = home.address.split()[1:2]
        if name and re.search(rf"\b{re.escape(number)}\s+{re.escape(name[0].lower())}\b", text):
            return "address"
    digits = re.sub(r"\D", "", home.phone or "")[-10:]
    if len(digits) == 10 and digits in re.sub(r"\D", "", text):
        return "phone"
    return "title" if home.title and home.title.lower() in text else None
