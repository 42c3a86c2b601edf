"""Routes for named keys and for the log of what was done with them."""

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

from fastapi import Body, Path, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.api.auth import SERVICE
from forager.api.key_gate import KeyRing
from forager.core.ids import unknown_filter
from forager.ledger.tables.api_keys import Role, StoredKey
from forager.sdk.http.envelope import Envelope, ResultPage, answer, page
from forager.sdk.http.routes import JsonRoute, PageQuery, Router, example, failures

_KEY: dict[str, Any] = {
    "name": "grafana",
    "role": "viewer",
    "created_at": "2026-03-14T12:00:00Z",
    "created_by": "service key",
    "last_used_at": "2026-03-14T12:04:00Z",
}
_ACTION: dict[str, Any] = {
    "at": "2026-03-14T12:04:00.120Z",
    "key_name": "night shift",
    "method": "POST",
    "path": "/api/v1/jobs/0f1c9b52-6a7e-4d0e-8e63-0a2f3c5b7d11/pause",
    "status": 200,
    "request_id": "8b0c7d1e-3f6a-4c52-9a38-6a1f1f0d9c11",
}


class NewKey(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"name": "grafana", "role": "viewer"}]})

    name: str = Field(max_length=64, description="A name of its own: it stands in the log of actions.")
    role: Role = Field(description="admin: everything; operator: run and steer; viewer: read.")


class KeyReport(BaseModel):
    """A key. Its text is shown once, when it is made."""

    name: str
    role: Role
    created_at: datetime | None = Field(description="null for the service key, which is in a file or a setting.")
    created_by: str | None
    last_used_at: datetime | None = Field(description="To the minute.")


class MadeKey(KeyReport):
    key: str = Field(description="The key. Keep it: it cannot be shown again.")


class ActionReport(BaseModel):
    """One write, with what came of it."""

    at: datetime
    key_name: str
    method: str
    path: str
    status: int
    request_id: str = Field(description="The log has more under this id.")


class ActionQuery(PageQuery):
    key: str | None = Field(default=None, max_length=64, description="Only writes with the key of this name.")


def keys_router(keys: KeyRing) -> Router:
    router = Router(prefix="/api/v1", tags=["keys"], route_class=JsonRoute)

    @router.get(
        "/keys",
        summary="List keys",
        response_model=Envelope[list[KeyReport]],
        responses={200: example([_KEY]), **failures(403)},
    )
    async def list_keys(request: Request) -> Response:
        """The service key first, then named keys. None of them can be read."""
        first = KeyReport(name=SERVICE.name, role="admin", created_at=None, created_by=None, last_used_at=None)
        return answer(request, [first, *map(_report, await keys.table.list())])

    @router.post(
        "/keys",
        summary="Make a key",
        status_code=201,
        response_model=Envelope[MadeKey],
        responses={201: example({**_KEY, "last_used_at": None, "key": "forager_…"}), **failures(403, 409, body=True)},
    )
    async def create_key(request: Request, body: Annotated[NewKey, Body()]) -> Response:
        """The key is in this answer only: it is stored as a hash."""
        by = request.scope["state"]["caller"].name
        made, text = await keys.table.add(body.name, body.role, by=by)
        await keys.refresh(now=True)
        return answer(request, {**_report(made).model_dump(), "key": text}, status=201)

    @router.post(
        "/keys/{name}/rotate",
        summary="Replace a key's text",
        response_model=Envelope[MadeKey],
        responses={200: example({**_KEY, "last_used_at": None, "key": "forager_…"}), **failures(403, 404)},
    )
    async def rotate_key(request: Request, name: Annotated[str, Path(max_length=64)]) -> Response:
        """Name, role and log stay. The old text is refused from now on, and its sessions and streams end."""
        made, text = await keys.table.rotate(name)
        await keys.refresh(now=True)
        return answer(request, {**_report(made).model_dump(), "key": text})

    @router.delete(
        "/keys/{name}",
        summary="Revoke a key",
        response_model=Envelope[dict[str, bool]],
        responses={200: example({"revoked": True}), **failures(403, 404)},
    )
    async def revoke_key(request: Request, name: Annotated[str, Path(max_length=64)]) -> Response:
        """It is refused from now on, and its sessions and streams end. To replace the service key, replace its file or
        setting."""
        await keys.table.revoke(name)
        await keys.refresh(now=True)
        return answer(request, {"revoked": True})

    @router.get(
        "/actions",
        summary="List what was done",
        response_model=ResultPage[ActionReport],
        responses={200: example([_ACTION], next_cursor=None), **failures(403)},
    )
    async def list_actions(request: Request, asked: Annotated[ActionQuery, Query()]) -> Response:
        """Every write through the API, newest first, with the name of its key."""
        if asked.key is not None:
            await _require_key(keys, asked.key)
        found = await keys.table.actions(key=asked.key, cursor=asked.cursor, limit=asked.limit)
        return page(request, [asdict(each) for each in found.items], found.next_cursor)

    return router


async def _require_key(keys: KeyRing, name: str) -> None:
    """Raise `Rejected` for a name that no key has and no action was done with."""
    known = [SERVICE.name, *(key.name for key in await keys.table.list())]
    if name not in known and not (await keys.table.actions(key=name, cursor=None, limit=1)).items:
        raise unknown_filter("key", "key", name, known, "See `forager keys list`.")


def _report(key: StoredKey) -> KeyReport:
    return KeyReport(
        name=key.name,
        role=key.role,
        created_at=key.created_at,
        created_by=key.created_by,
        last_used_at=key.last_used_at,
    )
