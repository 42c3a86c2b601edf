"""The methods of the three APIs, once a call may be made: lists with their pages, single rows, replies."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import orjson

from forager.sandbox.google import errors
from forager.sandbox.google import world as google_world
from forager.sandbox.google.config import GoogleConfig, PagePlace, page_token
from forager.sandbox.google.world import EPOCH, STARS, Changes, Facts, GoogleWorld, LocationChanges, review_id
from forager.sandbox.jumping_clock import WorldTime
from forager.sandbox.upstream import Reply
from forager.sandbox.world import chance

# Field masks: which parts of a location are returned. Pure.


_FIELDS = frozenset(
    (
        "name", "languageCode", "storeCode", "title", "phoneNumbers", "categories", "storefrontAddress", "websiteUri",
        "regularHours", "specialHours", "serviceArea", "labels", "adWordsLocationExtensions", "latlng", "openInfo",
        "metadata", "profile", "relationshipData", "moreHours", "serviceItems",
    )
)  # fmt: skip


def read_mask(text: str) -> list[tuple[str, ...]] | None:
    """Split a mask such as `name,openInfo.status` into paths; None if a path names no field of a location."""
    paths = [tuple(_camel(part) for part in path.strip().split(".")) for path in text.split(",")]
    return paths if all(path[0] in _FIELDS for path in paths) else None


def masked(whole: dict[str, Any], paths: list[tuple[str, ...]]) -> dict[str, Any]:
    """Return the parts of an object that the mask names; absent parts stay absent."""
    kept: dict[str, Any] = {}
    for path in paths:
        source, target = whole, kept
        for part in path[:-1]:
            inner = source.get(part)
            if not isinstance(inner, dict):
                break
            source, target = inner, target.setdefault(part, {})
        else:
            if path[-1] in source:
                target[path[-1]] = source[path[-1]]
    return {name: value for name, value in kept.items() if value != {}}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


# Reviews as the API shows them, from the seeded world and its changes. Pure.


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
        """Return review numbers in the requested order; the default is the last updated first."""
        if not order_by.startswith("rating"):
            return self.order
        return sorted(self.order, key=self._stars, reverse=order_by.endswith("desc"))

    def average(self) -> float:
        """Return the mean of all living reviews, unrounded."""
        return sum(self._stars(number) + 1 for number in self.order) / len(self.order)

    def number_of(self, review: str) -> int | None:
        return next((number for number, facts in self._facts.items() if review_id(facts) == review), None)

    def show(self, account_id: str, number: int, *, extra_fields: bool = False) -> dict[str, Any]:
        """Return one review. Empty values are left out, as everywhere in this API."""
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
        comment = google_world.comment_of(facts.comment, self._location, number)
        return f"{comment or 'Now with words.'} (edited {edits})" if edits else comment

    def _reply(self, number: int, facts: Facts, updated: datetime) -> tuple[str, datetime] | None:
        if number in self._changes.replies:
            return self._changes.replies[number]
        if facts.reply % 3:
            return None
        return google_world.reply_of(facts.reply), updated + timedelta(minutes=facts.reply % 300)


def timestamp(moment: datetime, digits: int) -> str:
    """RFC 3339 in UTC with 0, 3, 6 or 9 digits of fraction, as the drawn number decides."""
    text = f"{moment:%Y-%m-%dT%H:%M:%S}"
    fraction = f"{moment.microsecond:06}"
    return text + ("", f".{fraction[:3]}", f".{fraction}", f".{fraction}000")[digits % 4] + "Z"


def _reviewer(facts: Facts) -> dict[str, Any]:
    if facts.reviewer % 20 == 0:
        return {"displayName": "A Google User", "isAnonymous": True}
    shown: dict[str, Any] = {"displayName": google_world.reviewer_of(facts.reviewer)}
    if facts.reviewer % 5:
        shown["profilePhotoUrl"] = f"https://photos.example/a/{facts.reviewer:05}"
    return shown


_STARS_OF = (0, 0, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4)


# Finds the API and the method of a path. Pure.


class GoogleCall(NamedTuple):
    """One call, understood. Ids that the method does not have are empty."""

    operation: str
    account: str = ""
    location: str = ""
    review: str = ""
    query: dict[str, str] = {}  # noqa: RUF012 - never changed

    @property
    def subject(self) -> str:
        """The resource as Google names it: `accounts/1/locations/2`."""
        named = (("accounts", self.account), ("locations", self.location), ("reviews", self.review))
        return "/".join(f"{kind}/{key}" for kind, key in named if key)

    @property
    def listing(self) -> str:
        """Return what is listed and how: a page token is good for this alone."""
        return "|".join((self.operation, self.subject, self.query.get("orderBy", ""), self.query.get("filter", "")))


def read_route(host: str, method: str, path: str, query: str) -> GoogleCall | None:
    """Return the method that is called; None if this API has none at this path."""
    for at, verb, pattern, operation in _ROUTES:
        if at == host and verb == method:
            match = pattern.fullmatch(path)
            if match is not None:
                sent = dict(parse_qsl(query, keep_blank_values=True))
                return GoogleCall(operation, **match.groupdict(), query=sent)
    return None


_ACCOUNT = r"/accounts/(?P<account>[^/]+)"
_REVIEWS = rf"/v4{_ACCOUNT}/locations/(?P<location>[^/]+)/reviews"
_REVIEW = rf"{_REVIEWS}/(?P<review>[^/]+)"
_ROUTES = tuple(
    (host, verb, re.compile(pattern), operation)
    for host, verb, pattern, operation in (
        ("accounts", "GET", r"/v1/accounts", "accounts.list"),
        ("accounts", "GET", rf"/v1{_ACCOUNT}", "accounts.get"),
        ("locations", "GET", rf"/v1{_ACCOUNT}/locations", "locations.list"),
        ("locations", "GET", r"/v1/locations/(?P<location>[^/]+)", "locations.get"),
        ("reviews", "GET", _REVIEWS, "reviews.list"),
        ("reviews", "GET", _REVIEW, "reviews.get"),
        ("reviews", "PUT", rf"{_REVIEW}/reply", "reviews.reply"),
        ("reviews", "DELETE", rf"{_REVIEW}/reply", "reviews.unreply"),
    )
)


MAX_REPLY = 4096
_ORDERS = {
    "locations.list": frozenset(("", "title", "title desc", "store_code", "store_code desc")),
    "reviews.list": frozenset(("", "rating", "rating desc", "updateTime desc")),
}
_PAGES = {"accounts.list": (20, 20), "locations.list": (10, 100), "reviews.list": (0, 50)}


class GoogleReply(NamedTuple):
    """A reply and the names of the rows in it."""

    reply: Reply
    names: tuple[str, ...] = ()


class GoogleMethods:
    """Answers for one tenant at a time. Keeps rendered pages of reviews that did not change."""

    def __init__(self, config: GoogleConfig, changes: Changes, time: WorldTime) -> None:
        self._config = config
        self._changes = changes
        self._time = time
        self._rendered: dict[tuple[str, ...], GoogleReply] = {}

    def carry_out(self, world: GoogleWorld, asked: GoogleCall, place: PagePlace, body: bytes) -> GoogleReply:
        """Return the answer to a call that passed authentication and quota."""
        if asked.account and world.account_number(asked.account) is None:
            # Both are seen in practice: an account that exists elsewhere is forbidden, a nonsense id is not found.
            return GoogleReply(errors.denied() if asked.account.isdigit() else errors.not_found())
        if asked.query.get("orderBy", "") not in _ORDERS.get(asked.operation, ("",)):
            return GoogleReply(errors.invalid("order_by", "Invalid order by clause"))
        return _METHODS[asked.operation](self, world, asked, place, body)

    def accounts(self, world: GoogleWorld, asked: GoogleCall, place: PagePlace, _body: bytes) -> GoogleReply:
        size = self._size(asked)
        if size is None:
            return GoogleReply(errors.invalid("page_size", "Page size out of range"))
        rows = [world.account(number) for number in range(world.accounts)]
        wanted = asked.query.get("filter", "")
        if wanted:
            name, _, value = wanted.partition("=")
            if name.strip() != "type":
                return GoogleReply(errors.invalid("filter", "Invalid filter"))
            rows = [row for row in rows if row["type"] == value.strip().strip('"')]
        return _listed("accounts", asked, place, rows[place.offset : place.offset + size], size, len(rows))

    def account(self, world: GoogleWorld, asked: GoogleCall, _place: PagePlace, _body: bytes) -> GoogleReply:
        return _given(world.account(world.account_number(asked.account) or 0))

    def locations(self, world: GoogleWorld, asked: GoogleCall, place: PagePlace, _body: bytes) -> GoogleReply:
        size, mask = self._size(asked), read_mask(asked.query.get("readMask", ""))
        if mask is None:
            return GoogleReply(errors.invalid("read_mask", "Invalid field mask provided"))
        if size is None:
            return GoogleReply(errors.invalid("page_size", "Page size out of range"))
        numbers = world.locations_of(world.account_number(asked.account) or 0)
        order_by = asked.query.get("orderBy", "")
        if order_by:
            field = "title" if order_by.startswith("title") else "storeCode"
            numbers.sort(key=lambda n: world.location(n).get(field, ""), reverse=order_by.endswith("desc"))
        wanted = asked.query.get("filter", "")
        if wanted:
            name, _, value = wanted.partition("=")
            if name.strip() != "title":
                return GoogleReply(errors.invalid("filter", "Invalid filter"))
            numbers = [n for n in numbers if world.location(n)["title"] == value.strip().strip('"')]
        first = self._first_row(world, asked, place)
        rows = [masked(world.location(number), mask) for number in numbers[first : first + size]]
        place = PagePlace(place.page, first)
        return _listed("locations", asked, place, rows, size, len(numbers), totalSize=len(numbers))

    def location(self, world: GoogleWorld, asked: GoogleCall, _place: PagePlace, _body: bytes) -> GoogleReply:
        mask, number = read_mask(asked.query.get("readMask", "")), world.location_number(asked.location)
        if mask is None:
            return GoogleReply(errors.invalid("read_mask", "Invalid field mask provided"))
        return GoogleReply(errors.not_found()) if number is None else _given(masked(world.location(number), mask))

    def reviews(self, world: GoogleWorld, asked: GoogleCall, place: PagePlace, _body: bytes) -> GoogleReply:
        size = self._size(asked)
        location = self._location(world, asked)
        if isinstance(location, Reply):
            return GoogleReply(location)
        if size is None:
            return GoogleReply(errors.invalid("page_size", "Page size out of range"))
        changes = self._changes.get(world.name, location)
        key = (world.name, asked.listing, str(size), str(place))
        if changes is None and key in self._rendered:
            return self._rendered[key]
        shelf = ReviewShelf(world, location, changes)
        given = self._page_of_reviews(world, shelf, location, asked, place, size)
        if changes is None and self._config.cache_limit:
            if len(self._rendered) >= self._config.cache_limit:
                del self._rendered[next(iter(self._rendered))]
            self._rendered[key] = given
        return given

    def review(self, world: GoogleWorld, asked: GoogleCall, _place: PagePlace, _body: bytes) -> GoogleReply:
        review = self._find(world, asked)
        if isinstance(review, Reply):
            return GoogleReply(review)
        shelf, number, _ = review
        return _given(shelf.show(asked.account, number, extra_fields=self._config.extra_fields))

    def reply(self, world: GoogleWorld, asked: GoogleCall, _place: PagePlace, body: bytes) -> GoogleReply:
        review, comment = self._find(world, asked), _comment(body)
        if isinstance(review, Reply):
            return GoogleReply(review)
        if not comment or len(comment.encode()) > MAX_REPLY:
            return GoogleReply(errors.invalid("review_reply.comment", "Invalid comment"))
        now = max(self._time.now(), EPOCH)
        self._changes.of(world.name, review[2]).replies[review[1]] = comment, now
        return _given({"comment": comment, "updateTime": timestamp(now, 3)})

    def unreply(self, world: GoogleWorld, asked: GoogleCall, _place: PagePlace, _body: bytes) -> GoogleReply:
        review = self._find(world, asked)
        if isinstance(review, Reply):
            return GoogleReply(review)
        self._changes.of(world.name, review[2]).replies[review[1]] = None
        return _given({})

    def _page_of_reviews(
        self, world: GoogleWorld, shelf: ReviewShelf, location: int, asked: GoogleCall, place: PagePlace, size: int
    ) -> GoogleReply:
        order = shelf.sorted_by(asked.query.get("orderBy", ""))
        first = self._first_row(world, asked, place)
        numbers = order[first : first + size]
        if first:
            numbers = [n for n in numbers if n < 0 or not world.missed(location, n, self._config.missing_share)]
        rows = [shelf.show(asked.account, number, extra_fields=self._config.extra_fields) for number in numbers]
        if not order:
            return _given({})
        totals = {"averageRating": shelf.average(), "totalReviewCount": len(order)}
        return _listed("reviews", asked, PagePlace(place.page, first), rows, size, len(order), **totals)

    def _location(self, world: GoogleWorld, asked: GoogleCall) -> int | Reply:
        location = world.location_number(asked.location)
        account = world.account_number(asked.account) or 0
        if location is None or not world.lists(account, location) or world.gone(location):
            return errors.not_found()
        return errors.denied() if world.denied(location) else location

    def _find(self, world: GoogleWorld, asked: GoogleCall) -> tuple[ReviewShelf, int, int] | Reply:
        location = self._location(world, asked)
        if isinstance(location, Reply):
            return location
        shelf = ReviewShelf(world, location, self._changes.get(world.name, location))
        number = shelf.number_of(asked.review)
        return errors.not_found() if number is None else (shelf, number, location)

    def _size(self, asked: GoogleCall) -> int | None:
        """Return the page length that holds; None if the one that was sent is refused."""
        default, most = _PAGES[asked.operation]
        sent = asked.query.get("pageSize", "")
        if not sent.isdigit():
            return None if sent else default or self._config.review_page
        if int(sent) > most and self._config.oversized_page == "refuse":
            return None
        return min(int(sent), most) or default or self._config.review_page

    def _first_row(self, world: GoogleWorld, asked: GoogleCall, place: PagePlace) -> int:
        """Return where the page begins; some later pages begin one row early and repeat it."""
        share = self._config.repeat_share
        if place.offset < 2 or not share:
            return place.offset
        repeated = chance(self._config.seed, world.name, "repeat", asked.listing, place.offset) < share
        return place.offset - repeated


def _listed(
    kind: str, asked: GoogleCall, place: PagePlace, rows: list[Any], size: int, total: int, **totals: float
) -> GoogleReply:
    """Return a page of a list. Without rows there is no key for them, and without further rows no token."""
    whole: dict[str, Any] = {kind: rows} if rows else {}
    whole.update({name: value for name, value in totals.items() if value})
    following = place.offset + size
    if following < total:
        whole["nextPageToken"] = page_token(PagePlace(place.page + 1, following), asked.listing)
    return GoogleReply(Reply(200, orjson.dumps(whole)), tuple(row.get("name", "") for row in rows))


def _given(row: dict[str, Any]) -> GoogleReply:
    return GoogleReply(Reply(200, orjson.dumps(row)), (row["name"],) if "name" in row else ())


def _comment(body: bytes) -> str:
    try:
        sent = orjson.loads(body)
    except ValueError:
        return ""
    comment = sent.get("comment") if isinstance(sent, dict) else None
    return comment if isinstance(comment, str) else ""


_Method = Callable[[GoogleMethods, GoogleWorld, GoogleCall, PagePlace, bytes], GoogleReply]
_METHODS: dict[str, _Method] = {
    "accounts.list": GoogleMethods.accounts,
    "accounts.get": GoogleMethods.account,
    "locations.list": GoogleMethods.locations,
    "locations.get": GoogleMethods.location,
    "reviews.list": GoogleMethods.reviews,
    "reviews.get": GoogleMethods.review,
    "reviews.reply": GoogleMethods.reply,
    "reviews.unreply": GoogleMethods.unreply,
}
