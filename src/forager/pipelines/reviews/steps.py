"""The order of I/O for one page of each stage, and what each kind of answer leads to.

Nothing is retried, waited for or counted here: the engine acts on the outcome or the error.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import orjson

from forager.core.errors import Permanent, RateLimited, Transient
from forager.core.http import Fetch, Request, Response, SecretRef
from forager.core.outcome import Done, Outcome
from forager.core.states import ErrorType
from forager.core.task import Plan, Task
from forager.pipelines.reviews.parse import NOT_A_PAGE, PageRead, read_accounts, read_locations, read_reviews
from forager.pipelines.reviews.tasks import AccountsPage, LocationsPage, ReviewsPage

TOKEN = "access_token"  # noqa: S105 - its name
READ_MASK = "name,title,storeCode,languageCode,phoneNumbers,websiteUri,storefrontAddress,categories,openInfo,metadata"
LONGEST_MESSAGE = 500

HTTP_5XX, HTTP_4XX = "http_5xx", "http_4xx"
QUOTA_ZERO, SERVICE_DISABLED, CIRCULAR_PAGES = "quota_zero", "service_disabled", "circular_pages"
REFUSED = {401: "token_refused", 403: "forbidden", 404: "not_found"}
REASONS = frozenset({HTTP_5XX, HTTP_4XX, QUOTA_ZERO, SERVICE_DISABLED, CIRCULAR_PAGES, NOT_A_PAGE, *REFUSED.values()})
"""The reasons for which a page fails, besides the engine's own."""


@dataclass(frozen=True, slots=True)
class GoogleBusinessProfile:
    """Google's three APIs: base URLs, page sizes, time-out of one request. Its methods are the steps."""

    accounts_url: str = "https://mybusinessaccountmanagement.googleapis.com"
    locations_url: str = "https://mybusinessbusinessinformation.googleapis.com"
    reviews_url: str = "https://mybusiness.googleapis.com"
    accounts_per_page: int = 20
    locations_per_page: int = 100
    reviews_per_page: int = 50
    timeout: float = 30.0

    async def accounts(self, task: AccountsPage, fetch: Fetch) -> Outcome:
        """List accounts; each becomes a task that lists its locations."""
        url = _url(self.accounts_url, "/v1/accounts", pageSize=self.accounts_per_page, pageToken=task.page_token)
        response = await self._ask(url, fetch)
        page = read_accounts(response)
        children = [Plan(LocationsPage(account_id=each.account_id)) for each in page.records]
        return _done(page, children, _following(task, page, response), response)

    async def locations(self, task: LocationsPage, fetch: Fetch) -> Outcome:
        """List an account's locations; each becomes a task that lists its reviews."""
        path = f"/v1/accounts/{quote(task.account_id, safe='')}/locations"
        url = _url(
            self.locations_url, path, readMask=READ_MASK, pageSize=self.locations_per_page, pageToken=task.page_token
        )
        response = await self._ask(url, fetch)
        page = read_locations(response, task.account_id)
        children = [
            Plan(ReviewsPage(account_id=task.account_id, location_id=each.location_id)) for each in page.records
        ]
        return _done(page, children, _following(task, page, response), response)

    async def reviews(self, task: ReviewsPage, fetch: Fetch) -> Outcome:
        """List one page of a location's reviews."""
        account, location = quote(task.account_id, safe=""), quote(task.location_id, safe="")
        path = f"/v4/accounts/{account}/locations/{location}/reviews"
        url = _url(self.reviews_url, path, pageSize=self.reviews_per_page, pageToken=task.page_token)
        response = await self._ask(url, fetch)
        page = read_reviews(response, task.account_id, task.location_id)
        return _done(page, [], _following(task, page, response), response)

    async def _ask(self, url: str, fetch: Fetch) -> Response:
        auth = SecretRef(TOKEN, prefix="Bearer ", of_job=True)
        # An API does not redirect; the token must not follow one to another host.
        response = await fetch(Request(url, auth=auth, timeout=self.timeout, max_redirects=0))
        if response.status != 200:
            raise _refused(response)
        return response


def _url(base: str, path: str, **query: str | int | None) -> str:
    given = {name: value for name, value in query.items() if value is not None}
    return f"{base.rstrip('/')}{path}?{urlencode(given)}"


def _following(task: AccountsPage | LocationsPage | ReviewsPage, page: PageRead[Any], response: Response) -> list[Plan]:
    token = page.next_page_token
    if token is None:
        return []
    if token == task.page_token:  # following it would go round in circles
        raise Permanent(
            "Google named this very page as the next one.",
            evidence=response.evidence(),
            reason=CIRCULAR_PAGES,
            error_type=ErrorType.PARSE,
        )
    following: Task = task.next(token)
    return [Plan(following)]


def _done(page: PageRead[Any], children: list[Plan], following: list[Plan], response: Response) -> Done:
    return Done(
        records=page.records,
        tasks=[*following, *children],
        cost=0,
        facts=_facts(response, results_count=len(page.records)),
        rejected=page.rejected,
    )


def _refused(response: Response) -> Exception:
    """Return the error for any status but 200 (RV-6): transient, or permanent if only another token or Google can
    help."""
    status, error = response.status, _error(response)
    message = str(error.get("message") or "no message")[:LONGEST_MESSAGE]
    about = _details(error)
    facts = _facts(response)
    if status == 429 and str(about.get("quota_limit_value")) != "0":
        return RateLimited(
            f"Google limited the rate (429: {message}).", retry_after=response.retry_after(), facts=facts
        )
    if status >= 500:
        return Transient(
            f"Google failed ({status}: {message}).", facts=facts, reason=HTTP_5XX, error_type=ErrorType.HTTP
        )
    reason, sentence = _permanent(status, message, about)
    return Permanent(sentence, evidence=response.evidence(), facts=facts, reason=reason, error_type=ErrorType.HTTP)


def _permanent(status: int, message: str, about: Mapping[str, Any]) -> tuple[str, str]:
    """Return the reason, and the sentence that contains the remedy."""
    if status == 429:
        return QUOTA_ZERO, (
            f"Google has granted this project no quota for {about.get('service', 'this API')} (429: {message}). "
            "Request access to the Business Profile APIs, then retry the job with a new token."
        )
    if status == 403 and about.get("reason") == "SERVICE_DISABLED":
        where = about.get("activationUrl", "in the Google Cloud console")
        return SERVICE_DISABLED, (
            f"The API {about.get('service', '')} is not enabled for this Google Cloud project."
            f" Enable it ({where}) and retry the job with a new token."
        )
    remedy = " Get a new access token and retry the job with it." if status == 401 else ""
    return REFUSED.get(status, HTTP_4XX), f"Google refused the request ({status}: {message}).{remedy}"


def _error(response: Response) -> Mapping[str, Any]:
    try:
        body = orjson.loads(response.body)
    except ValueError:
        return {}
    error = body.get("error") if isinstance(body, dict) else None
    return error if isinstance(error, dict) else {}


def _details(error: Mapping[str, Any]) -> dict[str, Any]:
    """`reason` and the metadata of Google's ErrorInfo, in one mapping."""
    for each in error.get("details") or ():
        if isinstance(each, dict) and "reason" in each:
            metadata = each.get("metadata")
            return {"reason": each["reason"], **(metadata if isinstance(metadata, dict) else {})}
    return {}


def _facts(response: Response, **more: int) -> Mapping[str, int]:
    return {"api_status": response.status, "api_ms": response.elapsed_ms, **more}
