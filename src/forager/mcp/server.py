"""The MCP server: tools and resources of `tools.py`, over stdio or mounted in the API at `/mcp`.

The official SDK (`mcp`) is an extra. This module imports it, so that it is imported only where a server is made.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceError, ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import CallToolResult, InputRequiredResult, ToolAnnotations
from starlette.types import ASGIApp, Receive, Scope, Send

from forager import __version__
from forager.client.errors import ApiError
from forager.client.forager import AsyncForager
from forager.mcp import text
from forager.mcp.budget import AgentBudget, SessionBudget
from forager.mcp.tools import AgentTools, problem_of

INSTRUCTIONS = f"""Forager fetches web pages and keeps records of businesses, products, apartments and reviews.
Searching what is stored is free. Fetching costs pages of this session's budget, places jobs cost credits and dollars:
call estimate_job before start_job, and show_budget to see what is left. {text.UNTRUSTED}
Answers are cut to max_tokens; next_start, next_cursor and next_after lead to the rest."""
SESSION_HEADER = "x-agent-session"
DEFAULT_SESSION = "agent"
MOST_SESSIONS = 1_000
WRITES = frozenset({"read_page", "crawl_site", "map_site", "search_web", "start_job", "cancel_job"})


class AgentSessions:
    """The tools of each session, by its name."""

    def __init__(self, forager: AsyncForager, budget: AgentBudget, name: str) -> None:
        self._forager = forager
        self._budget = budget
        self._name = name
        self._sessions: dict[str, AgentTools] = {}

    def of(self, context: Context[Any, Any]) -> AgentTools:
        """Return the tools of the session that a call belongs to: named by its header, or the server's own."""
        headers: Mapping[str, str] = context.headers or {}
        name = (headers.get(SESSION_HEADER) or self._name).strip()[:100] or self._name
        if name not in self._sessions:
            if len(self._sessions) >= MOST_SESSIONS:
                self._sessions.pop(next(iter(self._sessions)))
            self._sessions[name] = AgentTools(self._forager, SessionBudget(self._forager, name, self._budget))
        return self._sessions[name]


class _StrictServer(MCPServer[Any]):
    """A server that refuses arguments that a tool does not have. The SDK drops them, so that a limit under another name
    would be ignored while the call spends."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        tool = getattr(AgentTools, name, None)
        known = [each for each in inspect.signature(tool).parameters if each != "self"] if tool else []
        if tool and (unknown := [each for each in arguments if each not in known]):
            raise ToolError(f"{name} has no argument {', '.join(map(repr, unknown))}; it has {', '.join(known)}.")
        return await super().call_tool(name, arguments, context)


def build_server(
    forager: AsyncForager, budget: AgentBudget | None = None, *, name: str = DEFAULT_SESSION
) -> MCPServer[Any]:
    """Return a server over this client. `name` is the session of calls that name none."""
    server: MCPServer[Any] = _StrictServer("forager", title="Forager", version=__version__, instructions=INSTRUCTIONS)
    sessions = AgentSessions(forager, budget or AgentBudget(), name)
    sample = AgentTools(forager, SessionBudget(forager, name, budget or AgentBudget()))
    for tool in sample.all():
        read_only = tool.__name__ not in WRITES
        hints = ToolAnnotations(read_only_hint=read_only, destructive_hint=tool.__name__ == "cancel_job")
        about = inspect.cleandoc(tool.__doc__ or "")
        server.add_tool(_called(sessions, tool), description=about, annotations=hints, structured_output=False)
    _add_resources(server, forager)
    return server


def _called(sessions: AgentSessions, tool: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[str]]:
    """Return a function of the same parameters that calls the tool of the caller's session, and turns what can go
    wrong into a message for the agent."""

    async def call(ctx: Context[Any, Any], **given: Any) -> str:
        try:
            return text.json_text(await getattr(sessions.of(ctx), tool.__name__)(**given))
        except Exception as error:
            problem = problem_of(error)
            if problem is None:
                raise
            raise ToolError(problem) from error

    signature = inspect.signature(tool)
    own = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=Context)
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in signature.parameters.values()]
    call.__name__, call.__doc__ = tool.__name__, tool.__doc__
    call.__signature__ = signature.replace(parameters=[*parameters, own], return_annotation=str)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in [*parameters, own]} | {"return": str}
    return call


def _add_resources(server: MCPServer[Any], forager: AsyncForager) -> None:
    async def read(path: str) -> str:
        try:
            found = (await forager.request("GET", path)).data
        except ApiError as error:
            raise ResourceError(error.message) from error
        return text.json_text({"untrusted": text.UNTRUSTED, "data": text.cleaned(found)})

    @server.resource("forager://kinds", name="kinds", description="Kinds of records.", mime_type="application/json")
    async def kinds() -> str:
        return await read("/records")

    @server.resource("forager://jobs/{job}", name="job", description="A job.", mime_type="application/json")
    async def job(job: str) -> str:
        return await read(f"/jobs/{job}")

    @server.resource(
        "forager://records/{kind}/{key}", name="record", description="One record.", mime_type="application/json"
    )
    async def record(kind: str, key: str) -> str:
        return await read(f"/records/{kind}/{key}")


def mounted(forager: AsyncForager, budget: AgentBudget, closing: asyncio.Event) -> ASGIApp:
    """Return the application for `/mcp`. It starts with its first request, and ends when `closing` is set.

    Requests carry no state of the protocol, so that any process of several may answer. Authentication is the API's.
    """
    server = build_server(forager, budget)
    # The API's own key protects it: a foreign page cannot send the header, whatever name it resolved for us.
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    inner = server.streamable_http_app(
        streamable_http_path="/mcp", json_response=True, stateless_http=True, transport_security=security
    )
    running: list[asyncio.Task[None]] = []
    started = asyncio.Event()

    async def run() -> None:
        async with server.session_manager.run():
            started.set()
            await closing.wait()

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if not running:
            running.append(asyncio.create_task(run()))
        await started.wait()
        await inner(scope, receive, send)

    return application


def budget_from(pages: int, most_credits: int, usd: float, minutes: float) -> AgentBudget:
    return AgentBudget(pages=pages, credits=most_credits, usd=Decimal(str(usd)), minutes=minutes)
