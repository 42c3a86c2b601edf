"""`forager mcp`: Forager's tools for an agent, over standard input and output."""

from typing import Annotated

import typer

from forager.core.errors import Rejected
from forager.sdk.cli.invocation import Json, invocation, run_loop

INSTALL = "pip install 'forager-data[mcp]'"


def mcp(
    context: typer.Context,
    session: Annotated[
        str, typer.Option(help="Session under which spends are recorded; an earlier one of this name continues.")
    ] = "agent",
    max_pages: Annotated[int, typer.Option(min=0, help="Pages that the session may fetch.")] = 100,
    max_credits: Annotated[int, typer.Option(min=0, help="Credits that it may spend.")] = 0,
    max_usd: Annotated[float, typer.Option(min=0, help="Dollars that it may spend.")] = 0.0,
    max_minutes: Annotated[float, typer.Option(min=0, help="Minutes during which it may spend.")] = 60.0,
    as_json: Json = False,
) -> None:
    """Serve Forager's tools to an agent (MCP) on standard input and output.

    The agent may read pages, search what is stored, and start jobs within the budget. Without --max-credits and
    --max-usd nothing that costs money is allowed. A running Forager does the work; otherwise this process does.

    With --json, an error is one line of JSON.

    Example: forager mcp --session research --max-pages 200
    """
    from pathlib import Path

    try:
        from forager.mcp.server import budget_from, build_server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "mcp":
            raise
        raise Rejected(f"This needs the extra mcp: {INSTALL}") from error
    from forager.client.forager import AsyncForager

    settings = invocation(context).settings()
    home = Path(settings.home) if settings.api_url is None else None

    async def serve() -> None:
        async with AsyncForager(home=home) as forager:
            budget = budget_from(max_pages, max_credits, max_usd, max_minutes)
            await build_server(forager, budget, name=session).run_stdio_async()

    run_loop(serve())
