"""The accounts, locations and reviews of one Google user, as a pure function of a seed and the tenant's name.

Nothing is stored: a row is recomputed whenever it is read. Edits, deletions and replies by calls are kept apart from it
(`Changes`).
"""

from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from hashlib import shake_128
from struct import Struct
from typing import Any, NamedTuple

from forager.sandbox.google.config import Tenant
from forager.sandbox.world import area_of, chance, draw

# Invented names, categories and sentences of the Google world. Pure.


_FIRST = ("Quarry", "Harbor", "Maple", "Foundry", "Juniper", "Lantern", "Summit", "Orchard", "Mill", "Crescent")
_SECOND = ("Lofts", "Apartments", "Dental", "Coffee", "Hardware", "Fitness", "Gardens", "Bakery", "Clinic", "Suites")
_STREETS = ("Tanner St", "N Main St", "Oak Ave", "Mill Rd", "Elm St", "Depot Ln", "Lake Dr", "Orchard Way")
_CATEGORIES = (
    ("apartment_building", "Apartment building"),
    ("dentist", "Dentist"),
    ("coffee_shop", "Coffee shop"),
    ("hardware_store", "Hardware store"),
    ("gym", "Gym"),
    ("bakery", "Bakery"),
)
_COMMENTS = (
    "Friendly staff and quick answers.",
    "The elevator was out for a week.",
    "Clean, quiet, and close to the station. We would come back.",
    "Waited forty minutes although we had an appointment.",
    "Great value — five stars from the whole family! 😀",
    "It is fine.\n\nParking is hard after six, though.",
    'They said "next week" three times.',
)
_ORIGINALS = (("Very good, thank you.", "Muy bueno, gracias."), ("Too loud at night.", "Nachts zu laut."))
_REPLIES = (
    "Thank you for your visit!",
    "We are sorry, and it is fixed now.",
    "Please call us: we want to put it right.",
)
_INITIALS = "ABCDEFGHIJKLMNOPRSTVW"


def name_of(drawn: float) -> str:
    number = int(drawn * len(_FIRST) * len(_SECOND))
    return f"{_FIRST[number % len(_FIRST)]} {_SECOND[number // len(_FIRST)]}"


def street_of(drawn: int) -> str:
    return _STREETS[drawn % len(_STREETS)]


def category_of(drawn: int) -> dict[str, str]:
    code, shown = _CATEGORIES[drawn % len(_CATEGORIES)]
    return {"name": f"categories/gcid:{code}", "displayName": shown}


def reviewer_of(drawn: int) -> str:
    """Return an invented display name: two initials and a number, so that it is not a real person's."""
    return f"{_INITIALS[drawn % 21]}. {_INITIALS[drawn // 21 % 21]}. {drawn}"


def comment_of(drawn: int, location: int, number: int) -> str | None:
    """Return the text of a review; None for a rating without one. Foreign texts come with Google's translation."""
    if drawn % 7 == 0:
        return None
    if drawn % 13 == 1:
        translated, original = _ORIGINALS[drawn // 13 % len(_ORIGINALS)]
        return f"(Translated by Google) {translated}\n\n(Original)\n{original}"
    return f"{_COMMENTS[drawn // 7 % len(_COMMENTS)]} ({location}/{number})"


def reply_of(drawn: int) -> str:
    return _REPLIES[drawn // 3 % len(_REPLIES)]


EPOCH = datetime(2026, 6, 1, tzinfo=UTC)
"""No review of a fresh world was updated later than this."""
STARS = ("ONE", "TWO", "THREE", "FOUR", "FIVE")
_BLOCK = 50
_FACTS = Struct(">12sIIHHHHHH")


class Facts(NamedTuple):
    """The draws of one review."""

    key: bytes
    age: int
    edit: int
    stars: int
    reviewer: int
    comment: int
    reply: int
    fraction: int
    extra: int


class ReviewName(NamedTuple):
    account: str
    location: str
    review: str


@dataclass(frozen=True)
class GoogleWorld:
    """Accounts are numbered from 0 (the personal one), locations from 0, a location's reviews from 0 (the newest)."""

    seed: int
    name: str
    tenant: Tenant

    @cached_property
    def _bases(self) -> tuple[int, int]:
        drawn = draw(self.seed, "google", self.name, size=16)
        account = 10**20 + int.from_bytes(drawn[:8], "big") % 10**19 * 10
        return account, 10**18 + int.from_bytes(drawn[8:], "big") % 10**17 * 10

    @property
    def accounts(self) -> int:
        return self.tenant.accounts + self.tenant.empty_accounts

    def account_id(self, number: int) -> str:
        return str(self._bases[0] + number)

    def account_number(self, account_id: str) -> int | None:
        """Return the number of the account with this id; None if the tenant has no such account."""
        number = int(account_id) - self._bases[0] if account_id.isdigit() else -1
        return number if 0 <= number < self.accounts else None

    def location_id(self, number: int) -> str:
        return str(self._bases[1] + number * 7)

    def location_number(self, location_id: str) -> int | None:
        """Return the number of the location with this id; None if the tenant has no such location."""
        number, rest = divmod(int(location_id) - self._bases[1], 7) if location_id.isdigit() else (-1, 0)
        return number if 0 <= number < self.tenant.locations and not rest else None

    def locations_of(self, account: int) -> list[int]:
        """Return the numbers of the account's locations in the order of listing; for the personal one with shared
        ones."""
        if account >= self.tenant.accounts:
            return []
        own = list(range(account, self.tenant.locations, self.tenant.accounts))
        if account == 0 and self.tenant.shared_every:
            own += [n for n in range(self.tenant.locations) if n % self.tenant.accounts and self._shared(n)]
        return own

    def lists(self, account: int, location: int) -> bool:
        """Return whether this account has this location."""
        if account < self.tenant.accounts and location % self.tenant.accounts == account:
            return True
        return account == 0 and self._shared(location)

    def account(self, number: int) -> dict[str, Any]:
        whole = {
            "name": f"accounts/{self.account_id(number)}",
            "accountName": f"{name_of(chance(self.seed, self.name, 'account', number))} {number}",
            "type": "LOCATION_GROUP",
            "role": "PRIMARY_OWNER" if number % 3 else "MANAGER",
            "verificationState": "UNVERIFIED",
            "vettedState": "NOT_VETTED",
            "permissionLevel": "OWNER_LEVEL",
        }
        if number == 0:
            whole["type"], whole["role"] = "PERSONAL", "PRIMARY_OWNER"
            del whole["permissionLevel"]
        return whole

    def location(self, number: int) -> dict[str, Any]:
        """Return all fields of a location. Service-area businesses have no address; `latlng` only where a user set
        it."""
        drawn = draw(self.seed, self.name, "location", number, size=8)
        zip_code = f"{int.from_bytes(drawn[:2], 'big') % 90_000 + 10_000:05}"
        area = area_of(zip_code)
        key = urlsafe_b64encode(drawn).decode().rstrip("=")
        whole: dict[str, Any] = {
            "name": f"locations/{self.location_id(number)}",
            "languageCode": "en",
            "title": f"{name_of(drawn[2] / 256)} {area.city} {number}",
            "phoneNumbers": {"primaryPhone": f"({area.phone_area}) 555-{drawn[3] * 39:04}"},
            "categories": {"primaryCategory": category_of(drawn[4])},
            "openInfo": {"status": "CLOSED_TEMPORARILY" if drawn[5] < 6 else "OPEN", "canReopen": True},
            "metadata": {
                "placeId": f"ChIJ{key}",
                "mapsUri": f"https://maps.google.com/maps?cid={int.from_bytes(drawn, 'big')}",
                "newReviewUri": f"https://search.google.com/local/writereview?placeid=ChIJ{key}",
                "canDelete": True,
            },
        }
        if drawn[6] % 4:
            whole["storeCode"] = f"S{number:05}"
        if drawn[6] % 8:
            whole["storefrontAddress"] = {
                "regionCode": "US",
                "languageCode": "en",
                "postalCode": zip_code,
                "administrativeArea": area.state,
                "locality": area.city,
                "addressLines": [f"{drawn[7] * 7 + 1} {street_of(drawn[0])}"],
            }
        if drawn[7] % 5:
            whole["websiteUri"] = f"https://{key.lower().replace('_', 'x')}.example/"
        if drawn[7] % 11 == 0:
            whole["latlng"] = {"latitude": area.latitude, "longitude": area.longitude}
        return whole

    def review_count(self, location: int) -> int:
        """Return how many reviews the location has, before anything was added or deleted."""
        drawn = draw(self.seed, self.name, "reviews", location, size=8)
        share, size = int.from_bytes(drawn[:4], "big") / 2**32, int.from_bytes(drawn[4:], "big")
        band = self.tenant.reviews[-1]
        for band in self.tenant.reviews:
            if share < band.share:
                break
            share -= band.share
        return band.fewest + size % (band.most - band.fewest + 1)

    def facts(self, location: int, numbers: list[int]) -> list[Facts]:
        """Return the draws of these reviews; a block of fifty costs one hash."""
        blocks: dict[int, bytes] = {}
        known: list[Facts] = []
        for number in numbers:
            block, index = divmod(number, _BLOCK)
            if block not in blocks:
                text = f"{self.seed}\x1f{self.name}\x1freviews\x1f{location}\x1f{block}"
                blocks[block] = shake_128(text.encode()).digest(_BLOCK * _FACTS.size)
            known.append(Facts(*_FACTS.unpack_from(blocks[block], index * _FACTS.size)))
        return known

    def updated(self, location: int, number: int, facts: Facts) -> datetime:
        """Return when the review was last updated: the later, the lower its number."""
        return EPOCH - timedelta(minutes=number * 700 + facts.age % 700 + location % 60, milliseconds=facts.age % 1000)

    def missed(self, location: int, number: int, share: float) -> bool:
        """Return whether pages after the first leave this review out."""
        return share > 0 and chance(self.seed, self.name, "missed", location, number) < share

    def expected(self, first_page: int = 50, missing_share: float = 0.0) -> Iterator[ReviewName]:
        """Yield every review that a full read of an unchanged world shows, under each account that lists its location.

        Locations that answer 403 or 404 show none.
        """
        for account in range(self.tenant.accounts):
            for location in self.locations_of(account):
                if self.denied(location) or self.gone(location):
                    continue
                names = self.account_id(account), self.location_id(location)
                numbers = list(range(self.review_count(location)))
                for number, facts in zip(numbers, self.facts(location, numbers), strict=True):
                    if number < first_page or not self.missed(location, number, missing_share):
                        yield ReviewName(*names, review_id(facts))

    def denied(self, location: int) -> bool:
        return _nth(location, self.tenant.denied_every)

    def gone(self, location: int) -> bool:
        return _nth(location, self.tenant.gone_every)

    def _shared(self, location: int) -> bool:
        return _nth(location, self.tenant.shared_every)


def review_id(facts: Facts) -> str:
    return "AbFvOq" + urlsafe_b64encode(facts.key).decode()


def _nth(number: int, every: int) -> bool:
    return bool(every) and number % every == every - 1


# Changes of reviews while they are read: edits, deletions, new ones, replies, as a layer over the seeded world.
#
# Memory is needed only for locations that changed.


@dataclass(slots=True)
class LocationChanges:
    """The changes of one location. Numbers of added reviews are negative."""

    moved: list[int] = field(default_factory=list)
    """Added and edited reviews, the latest last: in the order of `updateTime` they come first, in reverse."""
    times: dict[int, datetime] = field(default_factory=dict)
    edits: dict[int, int] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)
    added: int = 0
    replies: dict[int, tuple[str, datetime] | None] = field(default_factory=dict)

    def order(self, count: int) -> list[int]:
        """Return the numbers of all living reviews, the last updated first."""
        top = set(self.moved)
        rest = [number for number in range(count) if number not in self.deleted and number not in top]
        return [*reversed(self.moved), *rest]

    def add(self, now: datetime) -> int:
        self.added += 1
        self.times[-self.added] = now
        self.moved.append(-self.added)
        return -self.added

    def edit(self, number: int, now: datetime) -> None:
        """Change a review's text and stars; it moves to the top."""
        if number in self.moved:
            self.moved.remove(number)
        self.moved.append(number)
        self.times[number] = now
        self.edits[number] = self.edits.get(number, 0) + 1

    def delete(self, number: int) -> None:
        self.deleted.add(number)
        if number in self.moved:
            self.moved.remove(number)


@dataclass
class Changes:
    """The changes of all locations, by tenant and location."""

    _of: dict[tuple[str, int], LocationChanges] = field(default_factory=dict)

    def get(self, tenant: str, location: int) -> LocationChanges | None:
        """The changes of a location; None if it is as it was made."""
        return self._of.get((tenant, location))

    def of(self, tenant: str, location: int) -> LocationChanges:
        """The changes of a location that is about to change."""
        return self._of.setdefault((tenant, location), LocationChanges())
