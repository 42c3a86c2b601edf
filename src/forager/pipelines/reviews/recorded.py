"""Google's answers from a folder instead of the network: `accounts.json`, `locations.json` and `Reviews.json` (RV-11).

Each file holds Google's own objects, as a list or under the key `accounts`, `locations` or `reviews`. A location is in
the account that its `name` (`accounts/1/locations/2`) or its `accountId` names; a review is in a location likewise.
Pure: the files are read by the wiring.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from forager.core.errors import Rejected
from forager.core.http import Fetch
from forager.core.outcome import Done, Outcome
from forager.core.task import Plan, Task
from forager.pipelines.reviews.parse import PageRead, accounts_in, locations_in, reviews_in
from forager.pipelines.reviews.tasks import AccountsPage, LocationsPage, ReviewsPage

ACCOUNTS, LOCATIONS, REVIEWS = "accounts.json", "locations.json", "Reviews.json"
FILES = (ACCOUNTS, LOCATIONS, REVIEWS)
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RecordedGoogle:
    """Google's three APIs, answered from a folder. Its methods are the steps. Any access token is accepted."""

    listed: Sequence[Row] = ()
    of_account: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    of_location: Mapping[tuple[str, str], Sequence[Row]] = field(default_factory=dict)
    accounts_per_page: int = 20
    locations_per_page: int = 100
    reviews_per_page: int = 50
    timeout: float = 30.0

    async def accounts(self, task: AccountsPage, fetch: Fetch) -> Outcome:
        """List accounts; each becomes a task that lists its locations."""
        rows, following = _page(self.listed, task, self.accounts_per_page)
        page = accounts_in(rows)
        return _done(page, [*following, *(Plan(LocationsPage(account_id=each.account_id)) for each in page.records)])

    async def locations(self, task: LocationsPage, fetch: Fetch) -> Outcome:
        """List an account's locations; each becomes a task that lists its reviews."""
        account = task.account_id
        rows, following = _page(self.of_account.get(account, ()), task, self.locations_per_page)
        page = locations_in(rows, account)
        children = (Plan(ReviewsPage(account_id=account, location_id=each.location_id)) for each in page.records)
        return _done(page, [*following, *children])

    async def reviews(self, task: ReviewsPage, fetch: Fetch) -> Outcome:
        """List one page of a location's reviews."""
        account, location = task.account_id, task.location_id
        rows, following = _page(self.of_location.get((account, location), ()), task, self.reviews_per_page)
        return _done(reviews_in(rows, account, location), following)


def _page(
    rows: Sequence[Row], task: AccountsPage | LocationsPage | ReviewsPage, size: int
) -> tuple[Sequence[Row], list[Plan]]:
    end = task.page * size
    following: Task = task.next(str(end))
    return rows[end - size : end], [Plan(following)] if end < len(rows) else []


def _done(page: PageRead[Any], tasks: Sequence[Plan]) -> Done:
    return Done(records=page.records, tasks=tasks, cost=0, rejected=page.rejected)


def arranged(files: Mapping[str, Any]) -> RecordedGoogle:
    """Return the parsed files, arranged by account and location. Raises `Rejected` for what cannot be placed."""
    accounts = _rows(files, ACCOUNTS, "accounts")
    known = [_account_of(row, number) for number, row in enumerate(accounts)]
    of_account: dict[str, list[Row]] = {}
    homes: dict[str, list[str]] = {}
    for number, row in enumerate(_rows(files, LOCATIONS, "locations")):
        account = _part(row, "accounts", "accountId") or _only(known)
        location = _part(row, "locations", "locationId")
        if not account or not location:
            raise _unplaced(LOCATIONS, number, "accounts/<id>/locations/<id>")
        of_account.setdefault(account, []).append({**row, "name": f"locations/{location}"})
        homes.setdefault(location, []).append(account)
    of_location: dict[tuple[str, str], list[Row]] = {}
    for number, row in enumerate(_rows(files, REVIEWS, "reviews")):
        location = _part(row, "locations", "locationId") or _only(homes)
        account = _part(row, "accounts", "accountId") or _only(homes.get(location or "", ()))
        if not account or not location:
            raise _unplaced(REVIEWS, number, "accounts/<id>/locations/<id>/reviews/<id>")
        of_location.setdefault((account, location), []).append(row)
    return RecordedGoogle(
        [{**row, "name": f"accounts/{account}"} for account, row in zip(known, accounts, strict=True)],
        of_account,
        of_location,
    )


def _account_of(row: Row, number: int) -> str:
    account = _part(row, "accounts", "accountId")
    if not account:
        raise _unplaced(ACCOUNTS, number, "accounts/<id>")
    return account


def _rows(files: Mapping[str, Any], file: str, key: str) -> list[Row]:
    content = files[file]
    rows = content.get(key) if isinstance(content, dict) else content
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Rejected(f"{file} must hold a list of Google's objects, or {{{key!r}: [...]}}.")
    return rows


def _part(row: Row, collection: str, field_name: str) -> str | None:
    """Return the id after `collection/` in the row's name, or that of a field."""
    parts = str(row.get("name", "")).split("/")
    if collection in parts[:-1]:
        return parts[parts.index(collection) + 1] or None
    value = row.get(field_name)
    return str(value) if value not in (None, "") else None


def _only(names: Iterable[str]) -> str | None:
    """Return the one name, if there is one."""
    all_names = list(names)
    return all_names[0] if len(all_names) == 1 else None


def _unplaced(file: str, number: int, form: str) -> Rejected:
    return Rejected(f"{file}, row {number + 1}: its location is not known. Its name should be {form}.")
