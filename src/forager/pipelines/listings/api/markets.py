"""The admin routes of markets: list, add, change, scrape, remove."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter
from fastapi import Path as InPath
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.core.errors import Conflict, FieldError, Rejected
from forager.core.table import Effect
from forager.extract.text.locations import state_code
from forager.pipelines.listings.api.examples import JOB_ID, MARKET, MARKET_DETAIL, SCRAPING
from forager.pipelines.listings.pipeline import NAME
from forager.pipelines.listings.records import MarketConfig
from forager.pipelines.listings.reports.markets import (
    MarketDetail,
    MarketReport,
    list_markets,
    market_detail,
    no_market,
    one_market,
    scrape_now,
)
from forager.pipelines.listings.scrape_schedule import (
    DISPATCH,
    ScrapingReport,
    scraping_report,
    start_scraping,
    stop_scraping,
)
from forager.pipelines.listings.settings import ListingsSettings
from forager.pipelines.listings.tasks import MAX_LISTINGS, TIERS, TierName, override_of
from forager.sdk.http.envelope import Envelope, answer
from forager.sdk.http.routes import example, failures
from forager.sdk.queries import change_row, insert_row, remove_row
from forager.sdk.service import Service

# Any id of a row. An id that was inserted by SQL may have characters that the API rejects.
MarketId = Annotated[str, InPath(min_length=1, max_length=64)]
Name = Annotated[str, Field(min_length=1, max_length=100)]
Most = Annotated[int, Field(ge=1, le=10_000, strict=True, description="Maximum properties of one scrape.")]
Hours = Annotated[int, Field(ge=1, le=24 * 366, strict=True, description="Hours between two scrapes.")]


def _state_of_the_usa(state: str) -> str:
    code = state_code(state.upper(), "US")
    if code is None or len(state) != 2:
        raise ValueError("must be the two letters of a state of the USA, such as MA")
    return code


State = Annotated[str, AfterValidator(_state_of_the_usa), Field(description="Two letters.", examples=["MA"])]


class MarketBody(BaseModel):
    """A new market."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"id": "worcester", "display_name": "Worcester", "city": "Worcester", "state": "MA"}]
        },
    )

    id: str = Field(min_length=1, max_length=64, pattern="^[a-z0-9][a-z0-9_-]*$", examples=["worcester"])
    display_name: Name | None = Field(None, description="Shown to people; the city if it is left out.")
    city: Name = Field(description="The city's name in the search of the source.", examples=["Worcester"])
    state: State
    tier: TierName = "standard"
    is_enabled: bool = True
    max_listings_per_scrape: Most = MAX_LISTINGS
    scrape_frequency_hours: Hours | None = Field(
        None, description="Hours between two scrapes; null: as the tier has it."
    )


class MarketChange(BaseModel):
    """The fields to change; a field that is left out stays as it is."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"tier": "hot"}, {"is_enabled": False}]})

    id: str | None = Field(None, max_length=64, description="The id in the path, if it is given: an id never changes.")
    display_name: Name | None = None
    city: Name | None = None
    state: State | None = None
    tier: TierName | None = None
    is_enabled: bool | None = None
    max_listings_per_scrape: Most | None = None
    scrape_frequency_hours: Hours | None = Field(None, description="Null takes an override back: as the tier has it.")


class ScrapeStarted(BaseModel):
    job_id: UUID


class MarketRemoved(BaseModel):
    removed: str


def add_markets(router: APIRouter, service: Service, prefix: str, *, documented: bool) -> None:
    """Add the routes under this prefix. They exist under two; the document shows one of them."""
    shown = documented

    @router.get(prefix, summary="List markets", include_in_schema=shown, **_MARKETS)
    async def list_all_markets(request: Request) -> Response:
        """Sorted by id. A market whose row has an invalid value, written by SQL, has a `problem` and is not scraped."""
        now = await service.ledger.now()
        return answer(request, await list_markets(service.database, now, started=await _started(service)))

    @router.post(prefix, status_code=201, summary="Add a market", include_in_schema=shown, **_CREATED)
    async def add_market(request: Request, body: MarketBody) -> Response:
        """The next dispatch scrapes it. An INSERT into `market_configs` does the same."""
        values = {
            **body.model_dump(),
            "display_name": body.display_name or body.city,
            "scrape_frequency_hours": override_of(body.scrape_frequency_hours, body.tier),
            "listings_rate": TIERS[body.tier].decay_rate,
        }
        row = MarketConfig(**values)
        if not await insert_row(service.database, row):
            raise Conflict(f"There is a market {body.id!r} already. Change that one, or choose another id.")
        return answer(request, await _detail(service, body.id), status=201)

    @router.get(f"{prefix}/{{market_id}}", summary="Show a market", include_in_schema=shown, **_MARKET)
    async def show_market(request: Request, market_id: MarketId) -> Response:
        """With its last scrapes, what it costs, and how far verification is behind."""
        return answer(request, await _detail(service, market_id))

    @router.put(f"{prefix}/{{market_id}}", summary="Change a market", include_in_schema=shown, **_MARKET)
    async def change_market(request: Request, market_id: MarketId, body: MarketChange) -> Response:
        """A new tier sets the frequency, unless that was overridden, and how fast the market's listings age."""
        await _change(service, market_id, body)
        return answer(request, await _detail(service, market_id))

    @router.delete(f"{prefix}/{{market_id}}", summary="Remove a market", include_in_schema=shown, **_REMOVED)
    async def remove_market(request: Request, market_id: MarketId) -> Response:
        """It is scraped no more. Its listings stay; they are verified as they age, until they are gone."""
        if not await remove_row(service.database, MarketConfig, id=market_id):
            raise await no_market(service.database, market_id)
        return answer(request, {"removed": market_id})

    @router.post(
        f"{prefix}/{{market_id}}/scrape",
        status_code=202,
        summary="Scrape a market now",
        include_in_schema=shown,
        **_STARTED,
    )
    async def scrape_market(request: Request, market_id: MarketId) -> Response:
        """Ignores the schedule, the circuit and `is_enabled`. Returns 409 while a scrape of this market is running."""
        market = await one_market(service.database, market_id)
        if service.settings.of(ListingsSettings).apify_token is None:
            problem = FieldError("apify_token", "is not set")
            raise Rejected("Scraping needs a token of Apify: set FORAGER_APIFY_TOKEN.", fields=[problem])
        job = await scrape_now(service, market, await service.ledger.now())
        return answer(request, {"job_id": job}, status=202)


def add_scraping(router: APIRouter, service: Service, prefix: str, *, documented: bool) -> None:
    """Add the routes that start and stop the scrapes of the schedule, under this prefix."""
    shown = documented

    @router.get(prefix, summary="Show whether markets are scraped", include_in_schema=shown, **_SCRAPING)
    async def show_scraping(request: Request) -> Response:
        """With an estimate of what the schedule costs in a month."""
        return answer(request, await scraping_report(service))

    @router.post(f"{prefix}/start", summary="Scrape markets by schedule", include_in_schema=shown, **_SCRAPING)
    async def start(request: Request) -> Response:
        """All enabled markets, from the next full hour on. It costs money: see `per_month`."""
        return answer(request, await start_scraping(service))

    @router.post(f"{prefix}/stop", summary="Stop scraping by schedule", include_in_schema=shown, **_SCRAPING)
    async def stop(request: Request) -> Response:
        """Scrapes that are planned and have not begun are cancelled; runs that have begun finish."""
        return answer(request, await stop_scraping(service))


async def _change(service: Service, market_id: str, body: MarketChange) -> None:
    changes: dict[str, Any] = {name: getattr(body, name) for name in body.model_fields_set}
    _check(market_id, changes)
    market = await one_market(service.database, market_id, corrected=changes)
    tier = body.tier or market.tier
    if "scrape_frequency_hours" in changes:
        changes["scrape_frequency_hours"] = override_of(body.scrape_frequency_hours, tier)
    elif not market.frequency_overridden:
        changes["scrape_frequency_hours"] = None
    await change_row(service.database, Effect(MarketConfig, {"id": market_id}, set=changes))
    if tier != market.tier:
        rate = TIERS[tier].decay_rate
        await service.submit(NAME, {"action": "retier", "retier": {"market_id": market_id, "rate": rate}})


def _check(market_id: str, changes: dict[str, Any]) -> None:
    """Refuse another id, and null where a market must have a value. Takes the id out of the changes."""
    if changes.pop("id", market_id) != market_id:
        raise Rejected(
            "The id of a market cannot be changed. Add a market with the new id and remove this one.",
            fields=[FieldError("id", "cannot be changed")],
        )
    empty = [name for name, value in changes.items() if value is None and name != "scrape_frequency_hours"]
    if empty:
        raise Rejected(f"{empty[0]} must not be null.", fields=[FieldError(empty[0], "must not be null")])


async def _detail(service: Service, market_id: str) -> MarketDetail:
    now = await service.ledger.now()
    return await market_detail(service.database, market_id, now, started=await _started(service))


async def _started(service: Service) -> bool:
    """Return whether the schedule scrapes markets by itself."""
    return any(each.name == DISPATCH and not each.paused for each in await service.schedules.all())


_SCRAPING: dict[str, Any] = {
    "response_model": Envelope[ScrapingReport],
    "responses": {200: example(SCRAPING), **failures(body=True)},
}
_MARKETS: dict[str, Any] = {
    "response_model": Envelope[list[MarketReport]],
    "responses": {200: example([MARKET]), **failures()},
}
_MARKET: dict[str, Any] = {
    "response_model": Envelope[MarketDetail],
    "responses": {200: example(MARKET_DETAIL), **failures(404, 409, body=True)},
}
_CREATED: dict[str, Any] = {
    "response_model": Envelope[MarketDetail],
    "responses": {201: example(MARKET_DETAIL, description="The market is kept."), **failures(409, body=True)},
}
_REMOVED: dict[str, Any] = {
    "response_model": Envelope[MarketRemoved],
    "responses": {200: example({"removed": "nyc"}), **failures(404)},
}
_STARTED: dict[str, Any] = {
    "response_model": Envelope[ScrapeStarted],
    "responses": {202: example({"job_id": JOB_ID}, description="The job is on disk."), **failures(404, 409)},
}
