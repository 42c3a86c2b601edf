"""Apify's API: the requests about a run, and the outcome of each kind of answer. Pure but for `fetch`.

Nothing is retried or waited for here. An error brings the delays of its kind (LI-10): 5 minutes after a 429, 60, 120
and 240 s after a failure of the server; the step's own table is that of the network.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from urllib.parse import quote, urlencode

import orjson

from forager.core.errors import Permanent, Retry, Transient
from forager.core.http import Fetch, Request, Response, SecretRef
from forager.core.states import ErrorType, Reason
from forager.pipelines.listings.tasks import ScrapedMarket

TOKEN: Final = "apify_token"  # noqa: S105 - its name
NETWORK: Final = Retry(delays=(30.0, 60.0, 120.0))
TOO_FAST: Final = Retry(delays=(300.0, 300.0, 300.0))
SERVER: Final = Retry(delays=(60.0, 120.0, 240.0))
REFUSED: Final = "apify_refused"
TERMINAL: Final = frozenset({"SUCCEEDED", "FAILED", "TIMED-OUT", "ABORTED"})
ITEMS_PER_PAGE: Final = 250
_LONGEST_MESSAGE: Final = 300
_NO_ROOM: Final = frozenset({"actor-memory-limit-exceeded", "concurrent-runs-limit-exceeded"})
"""Errors that pass when other runs of the account end, whatever their status is."""


@dataclass(frozen=True, slots=True)
class ApifyRun:
    """A run as Apify shows it."""

    id: str
    dataset_id: str
    store_id: str
    status: str
    started_at: datetime
    cost_usd: Decimal | None

    @property
    def has_ended(self) -> bool:
        return self.status in TERMINAL


@dataclass(frozen=True, slots=True)
class Apify:
    """The API and the actor. Methods send one request each."""

    url: str = "https://api.apify.com"
    actor: str = "epctex~apartments-scraper-api"
    max_usd: Decimal = Decimal(1)
    """The most that one run may cost."""
    timeout: float = 30.0
    first_poll: timedelta = timedelta(seconds=20)
    """Time from the start of a run to its first poll."""
    cost_is_final: timedelta = timedelta(seconds=15)
    """Time after the end of a run when its cost is final."""

    def input(self, scrape: ScrapedMarket) -> dict[str, Any]:
        page = scrape.list_page
        where: dict[str, Any] = {"search": scrape.search} if page is None else {"startUrls": [page]}
        return {**where, "maxItems": scrape.max_listings}

    async def start(self, fetch: Fetch, scrape: ScrapedMarket, seconds: int) -> tuple[ApifyRun, Response]:
        most = scrape.max_listings
        query = {"timeout": seconds, "maxItems": most, "maxTotalChargeUsd": f"{self.max_usd:f}"}
        url = self._url(f"/v2/acts/{quote(self.actor, safe='~')}/runs", **query)
        request = Request.post_json(url, self.input(scrape), auth=_AUTH, timeout=self.timeout, max_redirects=0)
        response = await self._sent(fetch, request)
        return run_of(_data(response), response), response

    async def runs_since(self, fetch: Fetch, moment: datetime) -> list[ApifyRun]:
        """Return the runs of the actor that were started at or after this moment, newest first."""
        since = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        path = f"/v2/acts/{quote(self.actor, safe='~')}/runs"
        response = await self._get(fetch, self._url(path, desc="true", limit=1000, startedAfter=since))
        items = _data(response).get("items")
        return [run_of(each, response) for each in items if isinstance(each, dict)] if isinstance(items, list) else []

    async def input_of(self, fetch: Fetch, run: ApifyRun) -> Any:
        """Return the input of a run; None if Apify does not have it any more."""
        url = self._url(f"/v2/key-value-stores/{quote(run.store_id, safe='')}/records/INPUT")
        response = await fetch(Request(url, auth=_AUTH, timeout=self.timeout, max_redirects=0))
        if response.status == 404:
            return None
        return _checked(response).json()

    async def run(self, fetch: Fetch, run_id: str) -> tuple[ApifyRun, Response]:
        response = await self._get(fetch, self._url(f"/v2/actor-runs/{quote(run_id, safe='')}"))
        return run_of(_data(response), response), response

    async def abort(self, fetch: Fetch, run_id: str) -> None:
        url = self._url(f"/v2/actor-runs/{quote(run_id, safe='')}/abort")
        await self._sent(fetch, Request(url, method="POST", auth=_AUTH, timeout=self.timeout, max_redirects=0))

    async def items(self, fetch: Fetch, dataset_id: str, offset: int) -> tuple[list[Any], int, Response]:
        """Return one page of a dataset, and the number of rows of all pages. A page can be shorter than its limit."""
        path = f"/v2/datasets/{quote(dataset_id, safe='')}/items"
        response = await self._get(fetch, self._url(path, offset=offset, limit=ITEMS_PER_PAGE, clean="true"))
        rows, total = response.json(), _header(response, "x-apify-pagination-total")
        if not isinstance(rows, list) or total is None or not total.isdigit():
            raise Permanent(
                "Apify's dataset is not a list with a total.", evidence=response.evidence(), error_type=ErrorType.PARSE
            )
        return rows, int(total), response

    async def _get(self, fetch: Fetch, url: str) -> Response:
        return await self._sent(fetch, Request(url, auth=_AUTH, timeout=self.timeout, max_redirects=0))

    async def _sent(self, fetch: Fetch, request: Request) -> Response:
        return _checked(await fetch(request))

    def _url(self, path: str, **query: object) -> str:
        return f"{self.url.rstrip('/')}{path}" + (f"?{urlencode(query)}" if query else "")


def run_of(data: Mapping[str, Any], response: Response) -> ApifyRun:
    """Read a run. Raises `Permanent`, with the answer, if it is not a run."""
    try:
        usage = data.get("usageTotalUsd")
        return ApifyRun(
            str(data["id"]),
            str(data["defaultDatasetId"]),
            str(data["defaultKeyValueStoreId"]),
            str(data["status"]),
            datetime.fromisoformat(data["startedAt"]),
            None if usage is None else Decimal(str(usage)),
        )
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise Permanent(
            f"Apify's response does not describe a run: {error!r}.",
            evidence=response.evidence(),
            error_type=ErrorType.PARSE,
        ) from error


def facts_of(response: Response, **more: int) -> dict[str, int]:
    return {"api_status": response.status, "api_ms": response.elapsed_ms, **more}


def _checked(response: Response) -> Response:
    status = response.status
    if status in (200, 201):
        return response
    kind, message = _error(response)
    facts = facts_of(response)
    if kind in _NO_ROOM:
        raise Transient(
            f"The Apify account has no room for another run ({status}: {message}).",
            error_type=ErrorType.HTTP, retry=SERVER, facts=facts,
        )  # fmt: skip
    if status == 429:
        raise Transient(
            f"Apify limited the rate (429: {message}).",
            reason=Reason.RATE_LIMITED, error_type=ErrorType.HTTP, retry=TOO_FAST, facts=facts,
        )  # fmt: skip
    if status >= 500:
        raise Transient(
            f"Apify failed ({status}: {message}).",
            reason=Reason.SERVER_ERROR,
            error_type=ErrorType.HTTP,
            retry=SERVER,
            facts=facts,
            maybe_done=True,
        )
    raise Permanent(
        f"Apify refused the request ({status}: {message}).{_remedy(status)}",
        reason=REFUSED, error_type=ErrorType.HTTP, evidence=response.evidence(), facts=facts,
    )  # fmt: skip


def _remedy(status: int) -> str:
    if status == 401:
        return " Check FORAGER_APIFY_TOKEN."
    if status in (402, 403):
        return " Check the plan, the credit and the rented actors of the Apify account."
    return ""


def _error(response: Response) -> tuple[str, str]:
    """Return the type and the message of Apify's error."""
    try:
        error = orjson.loads(response.body)["error"]
        return str(error["type"]), f"{error['type']}: {error['message']}"[:_LONGEST_MESSAGE]
    except (ValueError, KeyError, TypeError):
        return "", "no message"


def _data(response: Response) -> Mapping[str, Any]:
    body = response.json()
    data = body.get("data") if isinstance(body, dict) else None
    if not isinstance(data, dict):
        raise Permanent("Apify's answer has no data.", evidence=response.evidence(), error_type=ErrorType.PARSE)
    return data


def _header(response: Response, name: str) -> str | None:
    return next((value for key, value in response.headers.items() if key.lower() == name), None)


_AUTH = SecretRef(TOKEN, prefix="Bearer ")
