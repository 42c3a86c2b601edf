"""Routes for agents: the door of MCP (`/mcp`), what agents have spent, and `/llms.txt`."""

import asyncio
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Annotated, Any

from fastapi import FastAPI, Path
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from forager.api.auth import SERVICE, ServiceKey
from forager.app.application import App
from forager.ledger.tables.agents import AgentAmounts, AgentSession, AgentSpend, AgentSpends
from forager.sdk.http.envelope import Envelope, answer, refusal
from forager.sdk.http.routes import JsonRoute, Router, example, failures

SessionName = Annotated[
    str, Path(min_length=1, max_length=100, description="Name of the session.", examples=["research"])
]
SpendId = Annotated[int, Path(ge=1, le=2**62, description="Number of the spend.")]
SPEND = {
    "id": 7,
    "tool": "read_page",
    "about": "https://example.com/",
    "job": None,
    "pages": 1,
    "credits": 0,
    "usd": "0",
    "settled": True,
    "at": "2026-03-14T12:00:00Z",
}
SESSION = {
    "session": "research",
    "spends": 3,
    "pages": 3,
    "credits": 0,
    "usd": "0",
    "first_at": "2026-03-14T12:00:00Z",
    "last_at": "2026-03-14T12:05:00Z",
}


class NewSpend(BaseModel):
    """A spend, and the budget of its session."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "tool": "read_page",
                    "about": "https://example.com/",
                    "amounts": {"pages": 1},
                    "budget": {"pages": 100},
                }
            ]
        },
    )

    tool: str = Field(min_length=1, max_length=100)
    about: str = Field(default="", max_length=2_048, description="Purpose, such as a URL.")
    amounts: AgentAmounts = Field(description="The worst case of what is spent.")
    budget: AgentAmounts = Field(description="Total budget of the session.")
    job: str | None = Field(default=None, max_length=36)
    settled: bool = Field(default=False, description="True if the amounts are final.")


class SettledSpend(BaseModel):
    """The outcome of a spend: final amounts, or the job that it pays for."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"amounts": {"pages": 1}}]})

    amounts: AgentAmounts | None = Field(default=None, description="Final amounts; they settle the spend.")
    job: str | None = Field(default=None, max_length=36, description="The job that it pays for.")


def agents_router(app: App) -> Router:
    router = Router(prefix="/api/v1/agent-sessions", tags=["agents"], route_class=JsonRoute)
    spends = AgentSpends(app.database, app.ledger.now)

    @router.get(
        "",
        summary="List the sessions of agents",
        response_model=Envelope[list[AgentSession]],
        responses={200: example([SESSION]), **failures()},
    )
    async def list_agent_sessions(request: Request) -> Response:
        """Each with what it has spent, the last used first."""
        return answer(request, await spends.sessions())

    @router.get(
        "/{session}",
        summary="Show what a session has spent",
        response_model=Envelope[AgentSession],
        responses={200: example(SESSION), **failures()},
    )
    async def show_agent_session(request: Request, session: SessionName) -> Response:
        """Zeros if there is no spend under this name."""
        return answer(request, await spends.session(session))

    @router.get(
        "/{session}/spends",
        summary="List the spends of a session",
        response_model=Envelope[list[AgentSpend]],
        responses={200: example([SPEND]), **failures()},
    )
    async def list_agent_spends(request: Request, session: SessionName) -> Response:
        """The newest 500, newest first."""
        return answer(request, await spends.spends(session))

    @router.post(
        "/{session}/spends",
        status_code=201,
        summary="Record a spend of a session",
        response_model=Envelope[AgentSpend],
        responses={201: example(SPEND), **failures(409, body=True)},
    )
    async def add_agent_spend(request: Request, session: SessionName, body: NewSpend) -> Response:
        """409 if the session's spends would exceed its budget: then nothing is recorded."""
        made = await spends.add(
            session, body.tool, body.about, body.amounts, body.budget, job=body.job, settled=body.settled
        )
        return answer(request, made, status=201)

    @router.patch(
        "/{session}/spends/{spend}",
        summary="Settle a spend",
        response_model=Envelope[AgentSpend],
        responses={200: example(SPEND), **failures(404, body=True)},
    )
    async def settle_agent_spend(
        request: Request, session: SessionName, spend: SpendId, body: SettledSpend
    ) -> Response:
        """Replaces the worst case by what was really spent, or notes the job."""
        if body.amounts is None:
            return answer(request, await spends.name_job(session, spend, body.job or ""))
        return answer(request, await spends.settle(session, spend, body.amounts, job=body.job))

    return router


# `/mcp`: the MCP server in this process, built with its first request. The SDK is an extra.


class AgentDoor:
    """Serves MCP at `/mcp`. The tools of an agent act with the key that the agent has sent, never with another: what
    its role does not allow is refused by the API itself. There is one server per key, made with its first request."""

    def __init__(self, app: App, api: FastAPI, key: ServiceKey, closing: asyncio.Event) -> None:
        self._app = app
        self._api = api
        self._key = key
        self._closing = closing
        self._inner: dict[str, ASGIApp] = {}
        """Servers by the id of their key."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller, key = scope["state"]["caller"], self._key.sent(scope)
        if key is None:
            message = "Agents send their key in the header X-Service-Key, or as a bearer token."
            await refusal(scope, 401, "unauthorized", message)(scope, receive, send)
            return
        if caller.id not in self._inner:
            try:
                self._inner[caller.id] = self._built(None if caller.id == SERVICE.id else key)
            except ModuleNotFoundError as error:
                if (error.name or "").partition(".")[0] != "mcp":
                    raise
                message = "Agents need the extra mcp: pip install 'forager-data[mcp]', then restart Forager."
                await refusal(scope, 501, "not_installed", message)(scope, receive, send)
                return
        await self._inner[caller.id](scope, receive, send)

    def _built(self, key: str | None) -> ASGIApp:
        """Build the server of a named key; None for the service key, which may be replaced while this process runs."""
        from forager.client.connect import LocalTransport
        from forager.client.forager import AsyncForager
        from forager.mcp.server import budget_from, mounted
        from forager.sdk.cli.client import KEY_HEADER, ApiAnswer

        transport = LocalTransport(self._api)

        async def send(method: str, target: str, headers: Mapping[str, str], body: bytes) -> ApiAnswer:
            return await transport(method, target, {**headers, KEY_HEADER: key or self._key.current}, body)

        chosen = self._app.settings
        budget = budget_from(
            chosen.agent_max_pages, chosen.agent_max_credits, chosen.agent_max_usd, chosen.agent_max_minutes
        )
        return mounted(AsyncForager(send=send), budget, self._closing)


# `/llms.txt` and `/llms-full.txt`: what Forager is and how to use it, as text for a model.


def skill() -> str:
    """Return the text of SKILL.md, which an agent can load."""
    return files("forager.mcp").joinpath("SKILL.md").read_text("utf-8")


def llms_router(api: FastAPI) -> Router:
    router = Router()

    @router.get("/llms.txt", include_in_schema=False)
    async def show_llms(request: Request) -> Response:
        return PlainTextResponse(_overview(str(request.base_url).rstrip("/")))

    @router.get("/llms-full.txt", include_in_schema=False)
    async def show_llms_full(request: Request) -> Response:
        parts = [
            _overview(str(request.base_url).rstrip("/")),
            skill().split("---\n", 2)[2],
            await asyncio.to_thread(lambda: "\n".join(_operations(api))),
        ]
        return PlainTextResponse("\n\n".join(parts))

    return router


def _overview(base: str) -> str:
    return f"""# Forager

> Collects web data reliably: pages on demand, and records of businesses, products, apartments and reviews that are kept
> current. Every job is priced before it starts and keeps to a budget.

Every route needs the service key in the header `X-Service-Key`. Every JSON answer is `{{success, data, error, meta}}`;
lists are paged by `meta.next_cursor`.

## Use it

- [MCP]({base}/mcp): tools for agents, streamable HTTP; the key as `Authorization: Bearer`
- [OpenAPI]({base}/openapi.json): every operation with its parameters and examples
- [Reference]({base}/docs): the same for people
- [Everything in one text]({base}/llms-full.txt): how to use the tools, and all operations
"""


def _operations(api: FastAPI) -> Iterator[str]:
    """Yield a line for each operation of the API."""
    yield "## Operations\n"
    document: Mapping[str, Any] = api.openapi()
    for path, methods in document["paths"].items():
        for method, each in methods.items():
            given = [p["name"] for p in each.get("parameters", ()) if p["in"] == "query"]
            query = f"?{','.join(given)}" if given else ""
            yield f"- `{method.upper()} {path}{query}`: {each.get('summary', each['operationId'])}"
