"""The routes of parser health, of quarantines, and of another parse of stored pages."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.core.hosts import one_spelling
from forager.pipelines.products.api.examples import AUDIT, COMPARISON, HEALTH, QUARANTINE, REPARSE
from forager.pipelines.products.reports import health, reparse
from forager.pipelines.products.reports.domains import require_shop
from forager.pipelines.products.reports.health import AuditReport, ParserHealth, QuarantineReport
from forager.pipelines.products.reports.reparse import ParserComparison, ReparseReport
from forager.pipelines.products.settings import ProductsSettings
from forager.pipelines.products.wiring import parsers_of
from forager.sdk.http.envelope import Envelope, answer
from forager.sdk.http.routes import example, failures
from forager.sdk.service import Service

Name = Annotated[
    str, Query(description="As the list shows it: `domain/parser/version/field`.", min_length=1, max_length=500)
]


class HealthQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    domain: str | None = Field(default=None, description="Only of this shop.", examples=["shop.example"])
    days: int = Field(default=7, ge=1, le=366, description="The newest days.")


class QuarantineQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    state: Literal["open", "accepted", "rejected"] | None = Field(default=None, description="Only in this state.")


class ReparseBody(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"domain": "shop.example"}]})

    domain: str = Field(min_length=1, max_length=253, description="The shop whose stored pages are parsed again.")
    parser_version: int | None = Field(default=None, ge=0, description="Only products that this version has read.")
    url: str | None = Field(default=None, max_length=2_048, description="Only this page.")
    sample: int = Field(default=1_000, ge=1, le=20_000, description="Maximum pages that are compared, the newest ones.")
    apply: bool = Field(default=False, description="Write it: queue another parse of every stored page.")


class CompareBody(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"parser": "new", "sample": 500}]})

    parser: str = Field(
        default="new",
        min_length=1,
        max_length=100,
        description="The parser to try: `new` (the candidate), a name, or `name/version`.",
    )
    against: str = Field(
        default="current",
        min_length=1,
        max_length=100,
        description="The parser to compare it with: `current` (in force), a name, or `name/version`.",
    )
    domain: str | None = Field(default=None, min_length=1, max_length=253, description="Only pages of this shop.")
    sample: int = Field(default=500, ge=1, le=20_000, description="Maximum stored pages, the newest ones.")
    shadow: bool = Field(default=False, description="Report the shadow run in production instead of stored pages.")
    days: int = Field(default=7, ge=1, le=90, description="With `shadow`: the newest days.")


def add_health(router: APIRouter, service: Service) -> None:
    """Add the routes."""
    _add_quarantines(router, service)
    _add_audits(router, service)

    @router.get(
        "/admin/parser-health",
        summary="Show how well parsers read each shop",
        response_model=Envelope[list[ParserHealth]],
        responses={200: example([HEALTH]), **failures()},
    )
    async def show_parser_health(request: Request, asked: Annotated[HealthQuery, Query()]) -> Response:
        """Success and fill rate per domain, parser version, day and field; the newest day first."""
        await require_shop(service.database, asked.domain)
        domain = one_spelling(asked.domain) if asked.domain else None
        return answer(request, await health.health(service.database, domain=domain, days=asked.days))

    @router.post(
        "/products/reparse",
        summary="Parse stored pages again",
        response_model=Envelope[ReparseReport],
        responses={200: example(REPARSE), **failures(404, body=True)},
    )
    async def reparse_pages(request: Request, body: ReparseBody) -> Response:
        """Without `apply`: what would change, by field, with examples. Fetches nothing either way."""
        version, url = body.parser_version, body.url
        if body.apply:
            return answer(request, await reparse.apply(service, body.domain, version=version, url=url))
        known = parsers_of(service.settings.of(ProductsSettings))
        compared = await reparse.compare(service, known, body.domain, version=version, url=url, sample=body.sample)
        return answer(request, compared)

    @router.post(
        "/products/parsers/compare",
        summary="Compare two parsers",
        response_model=Envelope[ParserComparison],
        responses={200: example(COMPARISON), **failures(404, body=True)},
    )
    async def compare_parsers(request: Request, body: CompareBody) -> Response:
        """Reads stored pages with both, or reports the shadow run of a candidate in production: agreement by field,
        whose evidence is stronger, and the winner by rule. Fetches and writes nothing."""
        known = parsers_of(service.settings.of(ProductsSettings))
        if body.shadow:
            told = await reparse.shadow_report(
                service, known, body.parser, body.against, domain=body.domain, days=body.days
            )
        else:
            told = await reparse.try_parser(
                service, known, body.parser, body.against, domain=body.domain, sample=body.sample
            )
        return answer(request, told)


def _add_audits(router: APIRouter, service: Service) -> None:
    @router.get(
        "/admin/audits",
        summary="List audits of the catalogue",
        response_model=Envelope[list[AuditReport]],
        responses={200: example([AUDIT]), **failures()},
    )
    async def list_audits(request: Request) -> Response:
        """One per week, the newest first; at most 100."""
        return answer(request, await health.audits(service))

    @router.post(
        "/admin/audits",
        summary="Audit the catalogue now",
        response_model=Envelope[AuditReport],
        responses={200: example(AUDIT), **failures()},
    )
    async def run_audit(request: Request) -> Response:
        """Checks references, required fields, fill rates and stale pages; the report replaces this week's."""
        return answer(request, await health.audit(service))


def _add_quarantines(router: APIRouter, service: Service) -> None:
    @router.get(
        "/admin/quarantines",
        summary="List fields whose new values are held back",
        response_model=Envelope[list[QuarantineReport]],
        responses={200: example([QUARANTINE]), **failures()},
    )
    async def list_quarantines(request: Request, asked: Annotated[QuarantineQuery, Query()]) -> Response:
        return answer(request, await health.quarantines(service.database, state=asked.state))

    @router.post("/admin/quarantines/accept", summary="Let the new values in", **_QUARANTINE)
    async def accept_quarantine(request: Request, name: Name) -> Response:
        """The stored pages of the shop are parsed again, so that the held values are written."""
        decided = await health.decide(service, name, "accepted")
        await reparse.apply(service, decided.domain, version=decided.parser_version)
        return answer(request, decided)

    @router.post("/admin/quarantines/reject", summary="Keep the new values out", **_QUARANTINE)
    async def reject_quarantine(request: Request, name: Name) -> Response:
        """The values that were held back are dropped. The last good ones stay until another parser version reads the
        pages."""
        return answer(request, await health.decide(service, name, "rejected"))


_QUARANTINE: dict[str, Any] = {
    "response_model": Envelope[QuarantineReport],
    "responses": {200: example(QUARANTINE), **failures(404, 409)},
}
