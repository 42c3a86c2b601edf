"""The admin routes of data sources: what an upstream may be asked for, and what was used of that."""

from decimal import Decimal
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi import Path as InPath
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.core.errors import FieldError, Rejected
from forager.core.table import Effect
from forager.kit.http.envelope import Envelope, answer
from forager.kit.http.openapi import example, failures
from forager.kit.queries import change_row
from forager.kit.service import Service
from forager.pipelines.listings.api_examples import DATA_SOURCE
from forager.pipelines.listings.reports_limits import DataSourceReport, list_sources, one_source
from forager.pipelines.listings.tables import DataSource

SourceId = Annotated[str, InPath(min_length=1, max_length=64)]
Runs = Annotated[int, Field(ge=0, le=1_000_000, strict=True)]
Dollars = Annotated[Decimal, Field(ge=0, le=1_000_000, decimal_places=4)]


class LimitsBody(BaseModel):
    """The fields to change; a field that is left out stays as it is. Null takes a limit away."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"max_requests_per_day": 60, "max_usd_per_month": "40"}]}
    )

    is_enabled: bool | None = Field(None, description="False: no run is started.")
    max_requests_per_hour: Runs | None = Field(None, description="Runs that may be started in a UTC hour.")
    max_requests_per_day: Runs | None = Field(None, description="Runs that may be started in a UTC day.")
    max_usd_per_month: Dollars | None = Field(None, description="US dollars that runs of a UTC month may cost.")


def add_limits(router: APIRouter, service: Service, prefix: str, *, documented: bool) -> None:
    """Add the routes under this prefix. They exist under two; the document shows one of them."""

    @router.get(prefix, summary="List data sources", include_in_schema=documented, **_SOURCES)
    async def list_data_sources(request: Request) -> Response:
        """With their limits, and what was used of them in this hour, this day and this month (UTC)."""
        return answer(request, await list_sources(service.database, await service.ledger.now()))

    @router.get(f"{prefix}/{{source_id}}", summary="Show a data source", include_in_schema=documented, **_SOURCE)
    async def show_data_source(request: Request, source_id: SourceId) -> Response:
        return answer(request, await one_source(service.database, source_id, await service.ledger.now()))

    @router.put(f"{prefix}/{{source_id}}", summary="Limit a data source", include_in_schema=documented, **_SOURCE)
    async def limit_data_source(request: Request, source_id: SourceId, body: LimitsBody) -> Response:
        """Holds for the next run. A scrape that a limit refuses is skipped, and the next dispatch tries again."""
        changes = {name: getattr(body, name) for name in body.model_fields_set}
        if changes.get("is_enabled", True) is None:
            raise Rejected("is_enabled must not be null.", fields=[FieldError("is_enabled", "must not be null")])
        await one_source(service.database, source_id, await service.ledger.now())
        if changes:
            await change_row(service.database, Effect(DataSource, {"id": source_id}, set=changes))
        return answer(request, await one_source(service.database, source_id, await service.ledger.now()))


_SOURCES: dict[str, Any] = {
    "response_model": Envelope[list[DataSourceReport]],
    "responses": {200: example([DATA_SOURCE]), **failures()},
}
_SOURCE: dict[str, Any] = {
    "response_model": Envelope[DataSourceReport],
    "responses": {200: example(DATA_SOURCE), **failures(404, body=True)},
}
