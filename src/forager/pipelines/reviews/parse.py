"""Google's JSON to records. Pure: tested on answers of the shapes that Google documents.

Rows of a folder may also have the names that the output has (`rating`, `text`, a `reviewer` that is a name).
Google leaves out every empty value: an account without locations answers `{}`, a review without a text has no
`comment`. A row that cannot be identified is rejected with its reason; the rest of its page is kept.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from forager.core.errors import Permanent
from forager.core.http import Response
from forager.core.outcome import Reject
from forager.core.record import Record
from forager.core.states import ErrorType
from forager.pipelines.reviews.records import Account, Location, Review

R = TypeVar("R", bound=Record)

NOT_A_PAGE = "not_a_page"
"""The reason of an answer that is JSON but not the requested page."""

STARS = {"ONE": 1, "TWO": 2, "THREE": 3, "FOUR": 4, "FIVE": 5}


@dataclass(frozen=True, slots=True)
class PageRead(Generic[R]):
    """One page: its records in Google's order, rows that cannot be identified, the token of the next page, if any."""

    records: Sequence[R] = ()
    rejected: Sequence[Reject] = ()
    next_page_token: str | None = None
    total: int | None = field(default=None)
    """Google's total count; pages after the first may have a lower one (a known fault upstream)."""


def read_accounts(response: Response) -> PageRead[Account]:
    return _page(response, "accounts", Account, _account)


def read_locations(response: Response, account_id: str) -> PageRead[Location]:
    return _page(response, "locations", Location, lambda raw: _location(raw, account_id), total="totalSize")


def read_reviews(response: Response, account_id: str, location_id: str) -> PageRead[Review]:
    return _page(
        response, "reviews", Review, lambda raw: _review(raw, account_id, location_id), total="totalReviewCount"
    )


def accounts_in(rows: Sequence[Any]) -> PageRead[Account]:
    """Return rows of Google's accounts as a page without a successor. The same holds for the two below."""
    return _read(rows, Account, _account)


def locations_in(rows: Sequence[Any], account_id: str) -> PageRead[Location]:
    return _read(rows, Location, lambda raw: _location(raw, account_id))


def reviews_in(rows: Sequence[Any], account_id: str, location_id: str) -> PageRead[Review]:
    return _read(rows, Review, lambda raw: _review(raw, account_id, location_id))


def _page(
    response: Response, name: str, kind: type[R], read: Callable[[Mapping[str, Any]], R], total: str | None = None
) -> PageRead[R]:
    body = response.json()
    rows = body.get(name, []) if isinstance(body, dict) else None
    if not isinstance(rows, list):
        where = response.url.partition("?")[0]
        raise Permanent(
            f"{where} answered with JSON that is not a page of {name}.",
            evidence=response.evidence(),
            reason=NOT_A_PAGE,
            error_type=ErrorType.PARSE,
        )
    page = _read(rows, kind, read)
    token, count = body.get("nextPageToken"), body.get(total) if total else None
    return replace(
        page,
        next_page_token=token if isinstance(token, str) and token else None,
        total=count if isinstance(count, int) else None,
    )


def _read(rows: Sequence[Any], kind: type[R], read: Callable[[Mapping[str, Any]], R]) -> PageRead[R]:
    records, rejected = [], []
    for raw in rows:
        try:
            records.append(read(raw if isinstance(raw, dict) else {}))
        except ValueError as error:
            rejected.append(Reject(kind, f"It cannot be identified: {error}.", raw))
    return PageRead(records, rejected)


def _account(raw: Mapping[str, Any]) -> Account:
    return Account(
        account_id=_last_part(raw, "name", "accounts"),
        account_name=_text(raw, "accountName"),
        type=_text(raw, "type"),
        role=_text(raw, "role"),
        raw=dict(raw),
    )


def _location(raw: Mapping[str, Any], account_id: str) -> Location:
    location_id = _last_part(raw, "name", "locations")
    return Location(
        location_key=f"{account_id}_{location_id}",
        account_id=account_id,
        location_id=location_id,
        title=_text(raw, "title"),
        raw=dict(raw),
    )


def _review(raw: Mapping[str, Any], account_id: str, location_id: str) -> Review:
    review_id = _text(raw, "reviewId") or _last_part(raw, "name", "reviews")
    reviewer, reply = raw.get("reviewer"), raw.get("reviewReply")
    return Review(
        review_key=f"{account_id}_{location_id}_{review_id}",
        account_id=account_id,
        location_id=location_id,
        reviewId=review_id,
        reviewer={"displayName": reviewer} if isinstance(reviewer, str) else _object(reviewer),
        rating=_rating(raw),
        text=_text(raw, "comment") or _text(raw, "text"),
        createTime=_text(raw, "createTime"),
        updateTime=_text(raw, "updateTime"),
        reply=_object(reply),
        raw=dict(raw),
    )


def _rating(raw: Mapping[str, Any]) -> int | None:
    """Return the stars, in Google's word; a recorded row may have the number instead."""
    number = raw.get("rating")
    return STARS.get(str(raw.get("starRating"))) or (number if number in STARS.values() else None)


def _object(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def _text(raw: Mapping[str, Any], name: str) -> str | None:
    value = raw.get(name)
    return value if isinstance(value, str) and value else None


def _last_part(raw: Mapping[str, Any], name: str, collection: str) -> str:
    """Return the id in a resource name: `locations/456` and `accounts/1/locations/456` both give `456`."""
    parts = str(raw.get(name, "")).split("/")
    if len(parts) < 2 or parts[-2] != collection or not parts[-1]:
        raise ValueError(f"its {name} is not {collection}/<id>")
    return parts[-1]
