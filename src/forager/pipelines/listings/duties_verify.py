"""The verification of a listing: its pages are asked one after the other until one shows it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from forager.core.database import Database, Row
from forager.core.errors import Disallowed, Permanent, Transient
from forager.core.freshness import DOUBTFUL, VERIFIED, confidence, falls_below
from forager.core.http import Fetch, Request
from forager.core.outcome import Done, Gone, Outcome
from forager.core.record import CLEAR
from forager.kit.queries import at
from forager.pipelines.listings.ends import NEXT_CYCLE
from forager.pipelines.listings.evidence import Home, Judgement, judge
from forager.pipelines.listings.records import Listing, ListingSource
from forager.pipelines.listings.tasks import VerifyListing

MOST_BYTES = 5 * 1024 * 1024
MOST_SOURCES = 5

_LISTING = "SELECT * FROM listings WHERE listing_key = :key"
_SOURCES = """
SELECT source_key, listing_key, market_id, source, source_id, url FROM listing_sources
WHERE gone_at IS NULL AND listing_key = :key
ORDER BY last_seen_at DESC, id LIMIT :most
"""


@dataclass(frozen=True, slots=True)
class VerifyDuty:
    database: Database
    phrases: Sequence[str]
    timeout: float

    async def verify(self, task: VerifyListing, fetch: Fetch) -> Outcome:
        """Live: confidence 80. Gone on every source: gone. Otherwise it stays pending until the next cycle.

        At most `MOST_SOURCES` pages are asked. If all of them are gone and the home has more, it is verified again at
        once: those that were found gone are not asked any more, so the next ones have their turn.
        """
        rows = await self.database.fetch(_LISTING, {"key": task.listing_key})
        if not rows or rows[0]["gone_at"] is not None:
            return Done(updates=[_changed(task, verify_at=CLEAR)], cost=0, facts={"already_gone": 1})
        listing = rows[0]
        known = await self.database.fetch(_SOURCES, {"key": task.listing_key, "most": MOST_SOURCES + 1})
        sources = known[:MOST_SOURCES]
        home = Home(listing["title"], listing["address"], listing["phone"])
        gone: list[Gone] = []
        undecided: Judgement | None = None
        asked_at: datetime | None = None
        for source in sources:
            judged, moment = await self._ask(source, home, fetch)
            asked_at = moment or asked_at
            if judged.says == "live" and moment is not None:
                return Done(updates=[_verified(task, listing, moment)], gone=gone, cost=0, facts={"live": 1})
            if judged.says == "gone":
                gone.append(_gone_source(source, judged))
            else:
                undecided = judged
        all_gone = undecided is None and bool(gone)
        if all_gone and len(known) == len(sources):
            return Done(gone=[*gone, _gone_listing(task, gone)], cost=0, facts={"gone": 1})
        reason = undecided.reason if undecided else "no_source"
        if asked_at is None:  # no answer at all: the engine notes the failure, `on_end` the next cycle
            raise Permanent(f"The pages of {task.listing_key} cannot be asked: {reason}.", reason="unverified")
        next_look = asked_at if all_gone else asked_at + NEXT_CYCLE
        again = _changed(task, verification_status="pending", verify_at=next_look)
        return Done(updates=[again], gone=gone, cost=0, facts={"undecided": 1})

    async def _ask(self, source: Row, home: Home, fetch: Fetch) -> tuple[Judgement, datetime | None]:
        """The judgement of one page, and when it answered; None: it did not."""
        request = Request(source["url"], timeout=self.timeout, max_bytes=MOST_BYTES, render="auto")
        try:
            response = await fetch(request)
        except (Transient, Permanent, Disallowed) as error:
            return Judgement("nothing", error.reason or "failed", {}), None
        return judge(response, source["source_id"], home, self.phrases), response.at


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
