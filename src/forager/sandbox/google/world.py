"""The accounts, locations and reviews of one Google user, as a pure function of a seed and the tenant's name.

Nothing is stored: a row is recomputed whenever it is asked for. What calls change (edits, deletions, replies) lies
over it in `changes.py`.
"""

from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from hashlib import shake_128
from struct import Struct
from typing import Any, NamedTuple

from forager.sandbox.draw import chance, draw
from forager.sandbox.geography import area_of
from forager.sandbox.google import words
from forager.sandbox.google.config import Tenant

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
        """The number of the account with this id; None if the tenant has no such account."""
        number = int(account_id) - self._bases[0] if account_id.isdigit() else -1
        return number if 0 <= number < self.accounts else None

    def location_id(self, number: int) -> str:
        return str(self._bases[1] + number * 7)

    def location_number(self, location_id: str) -> int | None:
        """The number of the location with this id; None if the tenant has no such location."""
        number, rest = divmod(int(location_id) - self._bases[1], 7) if location_id.isdigit() else (-1, 0)
        return number if 0 <= number < self.tenant.locations and not rest else None

    def locations_of(self, account: int) -> list[int]:
        """The numbers of the account's locations in the order of listing; for the personal one with shared ones."""
        if account >= self.tenant.accounts:
            return []
        own = list(range(account, self.tenant.locations, self.tenant.accounts))
        if account == 0 and self.tenant.shared_every:
            own += [n for n in range(self.tenant.locations) if n % self.tenant.accounts and self._shared(n)]
        return own

    def lists(self, account: int, location: int) -> bool:
        """Whether this account has this location."""
        if account < self.tenant.accounts and location % self.tenant.accounts == account:
            return True
        return account == 0 and self._shared(location)

    def account(self, number: int) -> dict[str, Any]:
        whole = {
            "name": f"accounts/{self.account_id(number)}",
            "accountName": f"{words.name_of(chance(self.seed, self.name, 'account', number))} {number}",
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
        """All fields of a location. Service-area businesses have no address; `latlng` only where a user set it."""
        drawn = draw(self.seed, self.name, "location", number, size=8)
        zip_code = f"{int.from_bytes(drawn[:2], 'big') % 90_000 + 10_000:05}"
        area = area_of(zip_code)
        key = urlsafe_b64encode(drawn).decode().rstrip("=")
        whole: dict[str, Any] = {
            "name": f"locations/{self.location_id(number)}",
            "languageCode": "en",
            "title": f"{words.name_of(drawn[2] / 256)} {area.city} {number}",
            "phoneNumbers": {"primaryPhone": f"({area.phone_area}) 555-{drawn[3] * 39:04}"},
            "categories": {"primaryCategory": words.category_of(drawn[4])},
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
                "addressLines": [f"{drawn[7] * 7 + 1} {words.street_of(drawn[0])}"],
            }
        if drawn[7] % 5:
            whole["websiteUri"] = f"https://{key.lower().replace('_', 'x')}.example/"
        if drawn[7] % 11 == 0:
            whole["latlng"] = {"latitude": area.latitude, "longitude": area.longitude}
        return whole

    def review_count(self, location: int) -> int:
        """How many reviews the location has, before anything was added or deleted."""
        drawn = draw(self.seed, self.name, "reviews", location, size=8)
        share, size = int.from_bytes(drawn[:4], "big") / 2**32, int.from_bytes(drawn[4:], "big")
        band = self.tenant.reviews[-1]
        for band in self.tenant.reviews:
            if share < band.share:
                break
            share -= band.share
        return band.fewest + size % (band.most - band.fewest + 1)

    def facts(self, location: int, numbers: list[int]) -> list[Facts]:
        """The draws of these reviews; a block of fifty costs one hash."""
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
        """When the review was last updated: the later, the lower its number."""
        return EPOCH - timedelta(minutes=number * 700 + facts.age % 700 + location % 60, milliseconds=facts.age % 1000)

    def missed(self, location: int, number: int, share: float) -> bool:
        """Whether pages after the first leave this review out."""
        return share > 0 and chance(self.seed, self.name, "missed", location, number) < share

    def expected(self, first_page: int = 50, missing_share: float = 0.0) -> Iterator[ReviewName]:
        """Every review that a full read of an unchanged world shows, under each account that lists its location.

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
