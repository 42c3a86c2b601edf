"""Reviews as the API shows them, from the seeded world and its changes. Pure."""

from datetime import datetime, timedelta
from typing import Any

from forager.sandbox.google import words
from forager.sandbox.google.changes import LocationChanges
from forager.sandbox.google.world import STARS, Facts, GoogleWorld, review_id

_UNCHANGED = LocationChanges()


class ReviewShelf:
    """The reviews of one location at this moment."""

    def __init__(self, world: GoogleWorld, location: int, changes: LocationChanges | None) -> None:
        self._world = world
        self._location = location
        self._changes = changes or _UNCHANGED
        self.order = self._changes.order(world.review_count(location))
        self._facts = dict(zip(self.order, world.facts(location, self.order), strict=True))

    def sorted_by(self, order_by: str) -> list[int]:
        """Review numbers in the order asked for; the default is the last updated first."""
        if not order_by.startswith("rating"):
            return self.order
        return sorted(self.order, key=self._stars, reverse=order_by.endswith("desc"))

    def average(self) -> float:
        """The mean of all living reviews, unrounded."""
        return sum(self._stars(number) + 1 for number in self.order) / len(self.order)

    def number_of(self, review: str) -> int | None:
        return next((number for number, facts in self._facts.items() if review_id(facts) == review), None)

    def show(self, account_id: str, number: int, *, extra_fields: bool = False) -> dict[str, Any]:
        """One review. Empty values are left out, as everywhere in this API."""
        facts = self._facts[number]
        key = review_id(facts)
        location_id = self._world.location_id(self._location)
        updated = self._changes.times.get(number) or self._world.updated(self._location, number, facts)
        created = updated - timedelta(minutes=facts.edit % 90_000) if facts.edit % 4 == 0 else updated
        whole: dict[str, Any] = {
            "name": f"accounts/{account_id}/locations/{location_id}/reviews/{key}",
            "reviewId": key,
            "reviewer": _reviewer(facts),
            "starRating": STARS[self._stars(number)],
        }
        comment = self._comment(number, facts)
        if comment is not None:
            whole["comment"] = comment
        whole["createTime"] = timestamp(created, facts.fraction)
        whole["updateTime"] = timestamp(updated, facts.fraction // 4)
        reply = self._reply(number, facts, updated)
        if reply is not None:
            whole["reviewReply"] = {"comment": reply[0], "updateTime": timestamp(reply[1], facts.fraction // 16)}
        if extra_fields:
            whole["reviewReplyState"] = "APPROVED" if reply else "REVIEW_REPLY_STATE_UNSPECIFIED"
            if facts.extra % 3 == 0:
                whole["reviewMediaItems"] = [{"mediaUrl": f"https://photos.example/m/{key}"}]
        return whole

    def _stars(self, number: int) -> int:
        drawn = self._facts[number].stars % 16
        return (_STARS_OF[drawn] + self._changes.edits.get(number, 0)) % 5

    def _comment(self, number: int, facts: Facts) -> str | None:
        edits = self._changes.edits.get(number, 0)
        comment = words.comment_of(facts.comment, self._location, number)
        return f"{comment or 'Now with words.'} (edited {edits})" if edits else comment

    def _reply(self, number: int, facts: Facts, updated: datetime) -> tuple[str, datetime] | None:
        if number in self._changes.replies:
            return self._changes.replies[number]
        if facts.reply % 3:
            return None
        return words.reply_of(facts.reply), updated + timedelta(minutes=facts.reply % 300)


def timestamp(moment: datetime, digits: int) -> str:
    """RFC 3339 in UTC with 0, 3, 6 or 9 digits of fraction, as the drawn number decides."""
    text = f"{moment:%Y-%m-%dT%H:%M:%S}"
    fraction = f"{moment.microsecond:06}"
    return text + ("", f".{fraction[:3]}", f".{fraction}", f".{fraction}000")[digits % 4] + "Z"


def _reviewer(facts: Facts) -> dict[str, Any]:
    if facts.reviewer % 20 == 0:
        return {"displayName": "A Google User", "isAnonymous": True}
    shown: dict[str, Any] = {"displayName": words.reviewer_of(facts.reviewer)}
    if facts.reviewer % 5:
        shown["profilePhotoUrl"] = f"https://photos.example/a/{facts.reviewer:05}"
    return shown


_STARS_OF = (0, 0, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4)
