"""The methods of the three APIs, once a call may be made: lists with their pages, single rows, replies."""

from collections.abc import Callable
from typing import Any, NamedTuple

import orjson

from forager.sandbox.draw import chance
from forager.sandbox.google import errors
from forager.sandbox.google.changes import Changes
from forager.sandbox.google.config import GoogleConfig
from forager.sandbox.google.masks import masked, read_mask
from forager.sandbox.google.reviews import ReviewShelf, timestamp
from forager.sandbox.google.routes import Asked
from forager.sandbox.google.tokens import PagePlace, page_token
from forager.sandbox.google.world import EPOCH, GoogleWorld
from forager.sandbox.upstream import Reply
from forager.sandbox.world_time import WorldTime

MAX_REPLY = 4096
_ORDERS = {
    "locations.list": frozenset(("", "title", "title desc", "store_code", "store_code desc")),
    "reviews.list": frozenset(("", "rating", "rating desc", "updateTime desc")),
}
_PAGES = {"accounts.list": (20, 20), "locations.list": (10, 100), "reviews.list": (0, 50)}


class Given(NamedTuple):
    """A reply and the names of the rows in it."""

    reply: Reply
    names: tuple[str, ...] = ()


class Methods:
    """Answers for one tenant at a time. Keeps rendered pages of reviews that did not change."""

    def __init__(self, config: GoogleConfig, changes: Changes, time: WorldTime) -> None:
        self._config = config
        self._changes = changes
        self._time = time
        self._rendered: dict[tuple[str, ...], Given] = {}

    def carry_out(self, world: GoogleWorld, asked: Asked, place: PagePlace, body: bytes) -> Given:
        """The answer to a call that passed authentication and quota."""
        if asked.account and world.account_number(asked.account) is None:
            # Both are seen in practice: an account that exists elsewhere is forbidden, a nonsense id is not found.
            return Given(errors.denied() if asked.account.isdigit() else errors.not_found())
        if asked.query.get("orderBy", "") not in _ORDERS.get(asked.operation, ("",)):
            return Given(errors.invalid("order_by", "Invalid order by clause"))
        return _METHODS[asked.operation](self, world, asked, place, body)

    def accounts(self, world: GoogleWorld, asked: Asked, place: PagePlace, _body: bytes) -> Given:
        size = self._size(asked)
        if size is None:
            return Given(errors.invalid("page_size", "Page size out of range"))
        rows = [world.account(number) for number in range(world.accounts)]
        wanted = asked.query.get("filter", "")
        if wanted:
            name, _, value = wanted.partition("=")
            if name.strip() != "type":
                return Given(errors.invalid("filter", "Invalid filter"))
            rows = [row for row in rows if row["type"] == value.strip().strip('"')]
        return _listed("accounts", asked, place, rows[place.offset : place.offset + size], size, len(rows))

    def account(self, world: GoogleWorld, asked: Asked, _place: PagePlace, _body: bytes) -> Given:
        return _given(world.account(world.account_number(asked.account) or 0))

    def locations(self, world: GoogleWorld, asked: Asked, place: PagePlace, _body: bytes) -> Given:
        size, mask = self._size(asked), read_mask(asked.query.get("readMask", ""))
        if mask is None:
            return Given(errors.invalid("read_mask", "Invalid field mask provided"))
        if size is None:
            return Given(errors.invalid("page_size", "Page size out of range"))
        numbers = world.locations_of(world.account_number(asked.account) or 0)
        order_by = asked.query.get("orderBy", "")
        if order_by:
            field = "title" if order_by.startswith("title") else "storeCode"
            numbers.sort(key=lambda n: world.location(n).get(field, ""), reverse=order_by.endswith("desc"))
        wanted = asked.query.get("filter", "")
        if wanted:
            name, _, value = wanted.partition("=")
            if name.strip() != "title":
                return Given(errors.invalid("filter", "Invalid filter"))
            numbers = [n for n in numbers if world.location(n)["title"] == value.strip().strip('"')]
        first = self._first_row(world, asked, place)
        rows = [masked(world.location(number), mask) for number in numbers[first : first + size]]
        place = PagePlace(place.page, first)
        return _listed("locations", asked, place, rows, size, len(numbers), totalSize=len(numbers))

    def location(self, world: GoogleWorld, asked: Asked, _place: PagePlace, _body: bytes) -> Given:
        mask, number = read_mask(asked.query.get("readMask", "")), world.location_number(asked.location)
        if mask is None:
            return Given(errors.invalid("read_mask", "Invalid field mask provided"))
        return Given(errors.not_found()) if number is None else _given(masked(world.location(number), mask))

    def reviews(self, world: GoogleWorld, asked: Asked, place: PagePlace, _body: bytes) -> Given:
        size = self._size(asked)
        location = self._location(world, asked)
        if isinstance(location, Reply):
            return Given(location)
        if size is None:
            return Given(errors.invalid("page_size", "Page size out of range"))
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

    def review(self, world: GoogleWorld, asked: Asked, _place: PagePlace, _body: bytes) -> Given:
        review = self._find(world, asked)
        if isinstance(review, Reply):
            return Given(review)
        shelf, number, _ = review
        return _given(shelf.show(asked.account, number, extra_fields=self._config.extra_fields))

    def reply(self, world: GoogleWorld, asked: Asked, _place: PagePlace, body: bytes) -> Given:
        review, comment = self._find(world, asked), _comment(body)
        if isinstance(review, Reply):
            return Given(review)
        if not comment or len(comment.encode()) > MAX_REPLY:
            return Given(errors.invalid("review_reply.comment", "Invalid comment"))
        now = max(self._time.now(), EPOCH)
        self._changes.of(world.name, review[2]).replies[review[1]] = comment, now
        return _given({"comment": comment, "updateTime": timestamp(now, 3)})

    def unreply(self, world: GoogleWorld, asked: Asked, _place: PagePlace, _body: bytes) -> Given:
        review = self._find(world, asked)
        if isinstance(review, Reply):
            return Given(review)
        self._changes.of(world.name, review[2]).replies[review[1]] = None
        return _given({})

    def _page_of_reviews(
        self, world: GoogleWorld, shelf: ReviewShelf, location: int, asked: Asked, place: PagePlace, size: int
    ) -> Given:
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

    def _location(self, world: GoogleWorld, asked: Asked) -> int | Reply:
        location = world.location_number(asked.location)
        account = world.account_number(asked.account) or 0
        if location is None or not world.lists(account, location) or world.gone(location):
            return errors.not_found()
        return errors.denied() if world.denied(location) else location

    def _find(self, world: GoogleWorld, asked: Asked) -> tuple[ReviewShelf, int, int] | Reply:
        location = self._location(world, asked)
        if isinstance(location, Reply):
            return location
        shelf = ReviewShelf(world, location, self._changes.get(world.name, location))
        number = shelf.number_of(asked.review)
        return errors.not_found() if number is None else (shelf, number, location)

    def _size(self, asked: Asked) -> int | None:
        """The page length that holds; None if the one that was sent is refused."""
        default, most = _PAGES[asked.operation]
        sent = asked.query.get("pageSize", "")
        if not sent.isdigit():
            return None if sent else default or self._config.review_page
        if int(sent) > most and self._config.oversized_page == "refuse":
            return None
        return min(int(sent), most) or default or self._config.review_page

    def _first_row(self, world: GoogleWorld, asked: Asked, place: PagePlace) -> int:
        """Where the page begins; some later pages begin one row early and repeat it."""
        share = self._config.repeat_share
        if place.offset < 2 or not share:
            return place.offset
        repeated = chance(self._config.seed, world.name, "repeat", asked.listing, place.offset) < share
        return place.offset - repeated


def _listed(
    kind: str, asked: Asked, place: PagePlace, rows: list[Any], size: int, total: int, **totals: float
) -> Given:
    """A page of a list. Without rows there is no key for them, and without further rows no token."""
    whole: dict[str, Any] = {kind: rows} if rows else {}
    whole.update({name: value for name, value in totals.items() if value})
    following = place.offset + size
    if following < total:
        whole["nextPageToken"] = page_token(PagePlace(place.page + 1, following), asked.listing)
    return Given(Reply(200, orjson.dumps(whole)), tuple(row.get("name", "") for row in rows))


def _given(row: dict[str, Any]) -> Given:
    return Given(Reply(200, orjson.dumps(row)), (row["name"],) if "name" in row else ())


def _comment(body: bytes) -> str:
    try:
        sent = orjson.loads(body)
    except ValueError:
        return ""
    comment = sent.get("comment") if isinstance(sent, dict) else None
    return comment if isinstance(comment, str) else ""


_Method = Callable[[Methods, GoogleWorld, Asked, PagePlace, bytes], Given]
_METHODS: dict[str, _Method] = {
    "accounts.list": Methods.accounts,
    "accounts.get": Methods.account,
    "locations.list": Methods.locations,
    "locations.get": Methods.location,
    "reviews.list": Methods.reviews,
    "reviews.get": Methods.review,
    "reviews.reply": Methods.reply,
    "reviews.unreply": Methods.unreply,
}
