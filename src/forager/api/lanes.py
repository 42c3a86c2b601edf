"""Lanes: what rates and limits belong to, and who runs them now."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from forager.api.asking import PageQuery
from forager.api.envelope import Page, page
from forager.api.examples import LANE
from forager.api.openapi import example, failures
from forager.app import App
from forager.ledger.reports import LaneReport


def lanes_router(app: App) -> APIRouter:
    router = APIRouter(prefix="/api/v1/lanes", tags=["lanes"])

    @router.get(
        "",
        summary="List lanes",
        response_model=Page[LaneReport],
        responses={200: example([LANE], next_cursor=None), **failures()},
    )
    async def list_lanes(request: Request, asked: Annotated[PageQuery, Query()]) -> Response:
        """By name. A lane appears with the first job that uses it."""
        found = await app.reports.lanes(cursor=asked.cursor, limit=asked.limit)
        return page(request, found.items, found.next_cursor)

    return router
