"""The routes of learnt wrappers: list, show, propose, adopt, reject."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.core.hosts import one_spelling
from forager.pipelines.products.api.examples import WRAPPER
from forager.pipelines.products.reports import wrappers
from forager.pipelines.products.reports.domains import require_shop
from forager.pipelines.products.reports.wrappers import WrapperReport
from forager.pipelines.products.settings import ProductsSettings
from forager.pipelines.products.wiring import parsers_of
from forager.sdk.http.envelope import Envelope, answer
from forager.sdk.http.routes import example, failures
from forager.sdk.service import Service

WrapperName = Annotated[str, Query(description="As the list shows it: `domain/version`.", min_length=1, max_length=300)]


class WrapperQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    domain: str | None = Field(default=None, description="Only of this shop.", examples=["shop.example"])
    state: Literal["proposed", "adopted", "retired", "rejected"] | None = Field(
        default=None, description="Only in this state."
    )


class ProposeBody(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"domain": "shop.example"}]})

    domain: str = Field(min_length=1, max_length=253, description="The shop whose stored pages are learnt from.")
    mode: Literal["teach", "heal"] | None = Field(
        default=None,
        description="`teach`: by markup; `heal`: by last good values, after a change of layout. Null: `heal` if values"
        " of the shop are held back, else `teach`.",
    )


_ONE: dict[str, Any] = {
    "response_model": Envelope[WrapperReport],
    "responses": {200: example(WRAPPER), **failures(404, 409)},
}


def add_wrappers(router: APIRouter, service: Service) -> None:
    """Add the routes."""

    @router.get(
        "/admin/wrappers",
        summary="List wrappers that shops' pages have taught",
        response_model=Envelope[list[WrapperReport]],
        responses={200: example([WRAPPER]), **failures()},
    )
    async def list_wrappers(request: Request, asked: Annotated[WrapperQuery, Query()]) -> Response:
        """Where the template of a shop shows each field, with the evidence for it; the newest version first."""
        await require_shop(service.database, asked.domain)
        domain = one_spelling(asked.domain) if asked.domain else None
        return answer(request, await wrappers.wrappers(service.database, domain=domain, state=asked.state))

    @router.post(
        "/admin/wrappers/propose",
        summary="Learn from a shop's stored pages now",
        response_model=Envelope[list[WrapperReport]],
        responses={200: example([{**WRAPPER, "state": "proposed"}]), **failures(404, body=True)},
    )
    async def propose_wrappers(request: Request, body: ProposeBody) -> Response:
        """Stores what is new as proposals, each with its score and a field diff over stored pages. Nothing is read by
        them until they are adopted. The list is empty if nothing new was learnt."""
        known = parsers_of(service.settings.of(ProductsSettings))
        return answer(request, await wrappers.propose(service, known, body.domain, body.mode))

    @router.post("/admin/wrappers/adopt", summary="Let a wrapper be used", **_ONE)
    async def adopt_wrapper(request: Request, name: WrapperName) -> Response:
        """The stored pages of the shop are read again. Paths of an older version for the same template are retired."""
        return answer(request, await wrappers.adopt(service, name))

    @router.post("/admin/wrappers/reject", summary="Keep a wrapper out", **_ONE)
    async def reject_wrapper(request: Request, name: WrapperName) -> Response:
        """The same paths are not proposed again. If it was in use, the stored pages are read again without it."""
        return answer(request, await wrappers.reject(service, name))
