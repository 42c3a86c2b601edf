"""Routes for named sessions: list and remove. Cookies and storage are never returned; pages begin and use a session."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.app.application import App
from forager.core.http import SessionRef
from forager.ledger.tables.page_sessions import PageSession
from forager.sdk.http.envelope import Envelope, answer
from forager.sdk.http.routes import JsonRoute, Router, example, failures

SessionName = Annotated[str, Path(max_length=100, description="Its name.", examples=["shop"])]
Workspace = Annotated[
    str, Query(min_length=1, max_length=200, description="Workspace that it belongs to.", examples=["acme"])
]


class PageSessionReport(BaseModel):
    name: str
    workspace_id: str
    hosts: list[str] = Field(description="Hosts of which it has cookies or storage, up to 50.")
    cookies: int
    visits: int
    created_at: datetime | None
    used_at: datetime | None


class RemovedSession(BaseModel):
    removed: str


def page_sessions_router(app: App) -> Router:
    router = Router(prefix="/api/v1/sessions", tags=["sessions"], route_class=JsonRoute)

    @router.get(
        "",
        summary="List sessions",
        response_model=Envelope[list[PageSessionReport]],
        responses={200: example([_SESSION]), **failures()},
    )
    async def list_page_sessions(request: Request) -> Response:
        """Sorted by workspace and name. The first page that is requested in a session creates it."""
        return answer(request, [_report(each) for each in await app.page_sessions.all()])

    @router.delete(
        "/{name}",
        summary="Remove a session",
        response_model=Envelope[RemovedSession],
        responses={200: example({"removed": "shop"}), **failures(404)},
    )
    async def remove_page_session(request: Request, name: SessionName, workspace_id: Workspace = "default") -> Response:
        """Deletes its cookies and storage."""
        removed = await app.page_sessions.remove(SessionRef(workspace_id, name))
        return answer(request, {"removed": removed.name})

    return router


def _report(session: PageSession) -> PageSessionReport:
    return PageSessionReport(
        name=session.name,
        workspace_id=session.workspace,
        hosts=list(session.hosts),
        cookies=session.cookies,
        visits=session.visits,
        created_at=session.created_at,
        used_at=session.used_at,
    )


_SESSION: dict[str, Any] = {
    "name": "shop",
    "workspace_id": "default",
    "hosts": ["shop.example"],
    "cookies": 3,
    "visits": 12,
    "created_at": "2026-03-13T12:00:00Z",
    "used_at": "2026-03-14T12:00:00Z",
}
