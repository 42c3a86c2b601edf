"""Routes for proxies: add, list, check, switch on or off, remove. A user name or password is never returned."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import BaseModel, ConfigDict, Field, SecretStr
from starlette.requests import Request
from starlette.responses import Response

from forager.api.examples import PROXY, PROXY_CHECK
from forager.app.application import App
from forager.core.errors import FieldError, Rejected
from forager.core.proxies import Proxy
from forager.sdk.http.envelope import Envelope, answer
from forager.sdk.http.routes import JsonRoute, Router, example, failures

ProxyId = Annotated[int, Path(ge=1, le=2**63 - 1, description="Its number.", examples=[7])]
Region = Annotated[
    str, Field(max_length=2, description="Two-letter country code; an empty text removes it.", examples=["US"])
]


class NewProxy(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"address": "http://user:password@proxy.example:8080", "region": "US"},
                {"address": "socks5://proxy.example:1080"},
            ]
        },
    )

    address: SecretStr = Field(
        max_length=2048, description="URL with scheme http, https or socks5; may contain user and password."
    )
    region: Region | None = None


class ProxyChange(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"is_active": False}, {"region": "DE"}]})

    is_active: bool | None = Field(default=None, description="Switched on by the operator; a check never changes it.")
    region: Region | None = None


class ProxyReport(BaseModel):
    id: int
    protocol: Literal["http", "https", "socks5"]
    url: str = Field(description="Its host.")
    port: int
    username: None = Field(description="Never shown.")
    password: None = Field(description="Never shown.")
    authenticated: bool = Field(description="True if the proxy has a user name.")
    region: str | None
    source: Literal["operator", "settings"] = Field(description="Origin of the proxy.")
    is_active: bool = Field(description="True if the operator has switched it on.")
    healthy: bool = Field(description="False from a failed connection until a check passes.")
    disabled: bool = Field(description="Failed more than 10 times in a row, and has not passed a check since.")
    failure_count: int = Field(description="Failures in a row.")
    success_count: int
    failures: int = Field(description="Total failures.")
    bytes: int
    avg_response_time_ms: float | None
    last_used_at: datetime | None
    last_success_at: datetime | None
    last_failure_at: datetime | None
    last_check_at: datetime | None
    created_at: datetime
    updated_at: datetime


class CheckReport(BaseModel):
    id: int
    passed: bool
    latency_ms: int
    region: str | None = Field(description="Region, if the check URL reported it.")
    reason: str | None = Field(description="Why the check failed.")


class RemovedProxy(BaseModel):
    removed: int


def proxies_router(app: App) -> Router:
    router = Router(prefix="/api/v1/proxies", tags=["proxies"], route_class=JsonRoute)
    _add_looking(router, app)
    _add_changing(router, app)
    return router


def _add_looking(router: Router, app: App) -> None:
    @router.get(
        "",
        summary="List proxies",
        response_model=Envelope[list[ProxyReport]],
        responses={200: example([PROXY]), **failures()},
    )
    async def list_proxies(request: Request) -> Response:
        """Includes each proxy's counters."""
        return answer(request, [_report(proxy) for proxy in await app.proxies.list()])

    @router.get("/{proxy}", summary="Show a proxy", **_ONE)
    async def show_proxy(request: Request, proxy: ProxyId) -> Response:
        return answer(request, _report(await app.proxies.get(proxy)))

    @router.post(
        "/{proxy}/check",
        summary="Check a proxy now",
        response_model=Envelope[CheckReport],
        responses={200: example(PROXY_CHECK), **failures(404)},
    )
    async def check_proxy(request: Request, proxy: ProxyId) -> Response:
        """Makes one real connection. A proxy that passes is healthy again; one that is switched off stays off."""
        checked = await app.proxies.check(proxy)
        told = {
            "passed": checked.passed,
            "latency_ms": checked.latency_ms,
            "region": checked.region,
            "reason": checked.reason,
        }
        return answer(request, {"id": proxy, **told})


def _add_changing(router: Router, app: App) -> None:
    @router.post(
        "",
        status_code=201,
        summary="Add a proxy",
        response_model=Envelope[ProxyReport],
        responses={201: example(PROXY), **failures(409, body=True)},
    )
    async def add_proxy(request: Request, body: NewProxy) -> Response:
        """The user name and password are encrypted at once and never returned."""
        added = await app.proxies.add(body.address.get_secret_value(), region=body.region)
        return answer(request, _report(added), status=201)

    @router.patch("/{proxy}", summary="Switch a proxy on or off, or name its region", **_ONE)
    async def change_proxy(request: Request, proxy: ProxyId, body: ProxyChange) -> Response:
        if body.is_active is None and body.region is None:
            raise Rejected("Nothing is to be changed.", fields=[FieldError("is_active", "give is_active or region")])
        return answer(request, _report(await app.proxies.set(proxy, is_active=body.is_active, region=body.region)))

    @router.delete(
        "/{proxy}",
        summary="Remove a proxy",
        response_model=Envelope[RemovedProxy],
        responses={200: example({"removed": PROXY["id"]}), **failures(404)},
    )
    async def remove_proxy(request: Request, proxy: ProxyId) -> Response:
        """A proxy that is listed in the settings is added again at the next start."""
        await app.proxies.remove(proxy)
        return answer(request, {"removed": proxy})


def _report(proxy: Proxy) -> dict[str, Any]:
    """Copy field by field, so that a new field of the row (such as a password) is never returned by accident."""
    return {
        "id": proxy.id,
        "protocol": proxy.protocol,
        "url": proxy.host,
        "port": proxy.port,
        "username": None,
        "password": None,
        "authenticated": proxy.authenticated,
        "region": proxy.region,
        "source": proxy.source,
        "is_active": proxy.is_active,
        "healthy": proxy.healthy,
        "disabled": proxy.disabled,
        "failure_count": proxy.failure_count,
        "success_count": proxy.success_count,
        "failures": proxy.failures,
        "bytes": proxy.bytes,
        "avg_response_time_ms": proxy.avg_response_time_ms,
        "last_used_at": _moment(proxy.last_used_at),
        "last_success_at": _moment(proxy.last_success_at),
        "last_failure_at": _moment(proxy.last_failure_at),
        "last_check_at": _moment(proxy.last_check_at),
        "created_at": _moment(proxy.created_at),
        "updated_at": _moment(proxy.updated_at),
    }


def _moment(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


_ONE: dict[str, Any] = {
    "response_model": Envelope[ProxyReport],
    "responses": {200: example(PROXY), **failures(404, body=True)},
}
