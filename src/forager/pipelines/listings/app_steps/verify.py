"""The app step of a verification: fetches the pages of a listing one after the other until one shows it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from forager.core.database import Database, Row
from forager.core.errors import Disallowed, ParseFailed, Permanent, Transient
from forager.core.freshness import DOUBTFUL, VERIFIED, confidence, falls_below
from forager.core.http import Fetch, Request, Response
from forager.core.outcome import Done, Gone, Outcome
from forager.core.reading import Offload, ReadError, offload_of
from forager.core.record import CLEAR
from forager.extract.html.document import decoded
from forager.extract.text.strings import one_line
from forager.pipelines.listings.pipeline import NEXT_CYCLE
from forager.pipelines.listings.records import Listing, ListingSource, house_number
from forager.pipelines.listings.tasks import VerifyListing
from forager.sdk.queries import at

# Judges the page of a listing: live, gone, or undecided. Pure.
#
# "Gone" needs evidence: 404 or 410, a redirect to a search page, a phrase in the page's own text. A block, a captcha, a
# login wall or a parked domain is evidence for neither. "Live" needs the listing's address, phone number or name on the
# page.


NOT_FOUND, NO_LONGER_AVAILABLE, SEARCH_PAGE = "not_found", "no_longer_available", "search_page"
_GONE: Final = frozenset({404, 410})
_SEARCH: Final = re.compile(
    r"\bsearch results\b|\b\d[\d,]* (?:rentals?|apartments?|listings?|homes?|results?|properties)\b", re.IGNORECASE
)
_PASSWORD: Final = re.compile(rb"<input\b[^>]*type\s*=\s*['\"]?password", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ListingMarks:
    """Values by which a listing is recognised on its page."""

    title: str | None
    address: str | None
    phone: str | None


@dataclass(frozen=True, slots=True)
class Judgement:
    verdict: Literal["live", "gone", "undecided"]
    reason: str
    """One word: why it is gone, or why it is undecided."""
    evidence: dict[str, Any]


async def judge(
    offload: Offload, response: Response, source_id: str, listing: ListingMarks, phrases: Sequence[str]
) -> Judgement:
    """Decide by the answer to a request for the page of a source. Its text is read in a reader."""
    seen: dict[str, Any] = {"status": response.status, "url": response.url.partition("?")[0]}
    if response.status in _GONE:
        return Judgement("gone", NOT_FOUND, seen)
    if response.looks != "page" or response.status != 200:
        return Judgement("undecided", "blocked" if response.looks != "page" else "failed", seen)
    is_own = source_id.lower() in urlsplit(response.url).path.lower()
    try:
        return await offload(judge_page, response.body, seen, is_own, listing, tuple(phrases))
    except (ParseFailed, ReadError):
        return Judgement("undecided", "unreadable", seen)


def judge_page(
    body: bytes, seen: dict[str, Any], is_own: bool, listing: ListingMarks, phrases: Sequence[str]
) -> Judgement:
    """Decide by the text of a page. `is_own`: its address is that of the listing, and not where a redirect led to."""
    text = one_line(decoded(body))
    if not is_own:
        is_search = _SEARCH.search(text) is not None and _PASSWORD.search(body) is None
        return Judgement("gone", SEARCH_PAGE, seen) if is_search else Judgement("undecided", "elsewhere", seen)
    lowered = text.lower()
    for phrase in phrases:
        if phrase.lower() in lowered:
            return Judgement("gone", NO_LONGER_AVAILABLE, {**seen, "phrase": phrase})
    shown = _shown(lowered, listing)
    return Judgement("live", shown, seen) if shown else Judgement("undecided", "not_recognised", seen)


def _shown(text: str, listing: ListingMarks) -> str | None:
    """Return the first of the listing's marks that the page shows."""
    number = house_number(listing.address or "")
    if number is not None and listing.address is not None:
        name = listing.address.split()[1:2]
        if name and re.search(rf"\b{re.escape(number)}\s+{re.escape(name[0].lower())}\b", text):
            return "address"
    digits = re.sub(r"\D", "", listing.phone or "")[-10:]
    if len(digits) == 10 and digits in re.sub(r"\D", "", text):
        return "phone"
    return "title" if listing.title and listing.title.lower() in text else None


MOST_BYTES = 5 * 1024 * 1024
MOST_SOURCES = 5

_LISTING = "SELECT * FROM listings WHERE listing_key = :key"
_SOURCES = """
SELECT source_key, listing_key, market_id, source, source_id, url FROM listing_sources
WHERE gone_at IS NULL AND listing_key = :key
ORDER BY last_seen_at DESC, id LIMIT :most
"""


@dataclass(frozen=True, slots=True)
class VerifyStep:
    database: Database
    phrases: Sequence[str]
    timeout: float

    async def verify(self, task: VerifyListing, fetch: Fetch) -> Outcome:
        """Live: confidence 80. Gone on every source: gone. Otherwise it stays pending until the next cycle.

        At most `MOST_SOURCES` pages are fetched. If all of them are gone and the listing has more, it is verified again
        at once: pages that are gone are not fetched again, so the next ones have their turn.
        """
        rows = await self.database.fetch(_LISTING, {"key": task.listing_key})
        if not rows or rows[0]["gone_at"] is not None:
            return Done(updates=[_changed(task, verify_at=CLEAR)], cost=0, facts={"already_gone": 1})
        listing = rows[0]
        known = await self.database.fetch(_SOURCES, {"key": task.listing_key, "most": MOST_SOURCES + 1})
        sources = known[:MOST_SOURCES]
        marks = ListingMarks(listing["title"], listing["address"], listing["phone"])
        gone: list[Gone] = []
        undecided: Judgement | None = None
        answered_at: datetime | None = None
        for source in sources:
            judged, moment = await self._fetch(source, marks, fetch)
            answered_at = moment or answered_at
            if judged.verdict == "live" and moment is not None:
                return Done(updates=[_verified(task, listing, moment)], gone=gone, cost=0, facts={"live": 1})
            if judged.verdict == "gone":
                gone.append(_gone_source(source, judged))
            else:
                undecided = judged
        all_gone = undecided is None and bool(gone)
        if all_gone and len(known) == len(sources):
            return Done(gone=[*gone, _gone_listing(task, gone)], cost=0, facts={"gone": 1})
        reason = undecided.reason if undecided else "no_source"
        if answered_at is None:  # no answer: the engine records the failure, `on_end` the next cycle
            raise Permanent(f"The pages of {task.listing_key} cannot be fetched: {reason}.", reason="unverified")
        next_look = answered_at if all_gone else answered_at + NEXT_CYCLE
        again = _changed(task, verification_status="pending", verify_at=next_look)
        return Done(updates=[again], gone=gone, cost=0, facts={"undecided": 1})

    async def _fetch(self, source: Row, marks: ListingMarks, fetch: Fetch) -> tuple[Judgement, datetime | None]:
        """Fetch and judge one page. Returns when it answered; None if it did not."""
        request = Request(source["url"], timeout=self.timeout, max_bytes=MOST_BYTES, render="auto")
        try:
            response = await fetch(request)
        except (Transient, Permanent, Disallowed) as error:
            return Judgement("undecided", error.reason or "failed", {}), None
        judged = await judge(offload_of(fetch), response, source["source_id"], marks, self.phrases)
        return judged, response.at


def _changed(task: VerifyListing, **values: Any) -> Listing:
    return Listing(listing_key=task.listing_key, market_id=task.market_id, **values)


def _verified(task: VerifyListing, stored: Row, now: datetime) -> Listing:
    """Confidence 80 from now on. A listing that has more, because its verification was brought forward, keeps it."""
    base, since, rate = stored["confidence_base"], at(stored["confidence_updated_at"]), stored["decay_rate"]
    found = {"verification_status": "verified", "verified_at": now}
    if since is not None and confidence(base, since, rate, now) > VERIFIED:
        return _changed(task, **found, verify_at=falls_below(base, since, rate, DOUBTFUL))
    return _changed(task, **found, confidence_base=VERIFIED, confidence_updated_at=now, decay_rate=rate)


def _gone_source(source: Row, judged: Judgement) -> Gone:
    return Gone(ListingSource(**source), judged.reason, judged.evidence)


def _gone_listing(task: VerifyListing, sources: Sequence[Gone]) -> Gone:
    record = _changed(task, verification_status="gone", verify_at=CLEAR)
    evidence = {each.record.key(): {"reason": each.reason, **each.evidence} for each in sources}
    return Gone(record, sources[-1].reason, evidence)
