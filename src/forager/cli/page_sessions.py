"""`forager sessions …`: named sessions, which keep the cookies and the storage of pages. Neither is ever shown."""

from typing import Annotated

import typer

from forager.sdk.cli.invocation import Json, with_api

app = typer.Typer(help="Named sessions: cookies and storage that pages keep from visit to visit.", no_args_is_help=True)


@app.command("list")
def list_sessions(context: typer.Context, as_json: Json = False) -> None:
    """List the sessions with the hosts that they have cookies or storage of.

    Example: forager sessions list
    """
    from forager.sdk.cli import render

    sessions = with_api(context, lambda at: at.api.get("/sessions"))
    if as_json:
        render.show_json(sessions)
        return
    if not sessions:
        render.notes().print("No sessions. One begins with: forager scrape URL --session NAME", soft_wrap=True)
        return
    columns = ("session", "workspace", "hosts", "cookies", "visits", "last used")
    rows = render.table(*columns, right=("cookies", "visits"), fold=("hosts",))
    for each in sessions:
        rows.add_row(
            render.plain(each["name"]),
            render.plain(each["workspace_id"]),
            render.plain(", ".join(each["hosts"])),
            render.count(each["cookies"]),
            render.count(each["visits"]),
            render.relative(each["used_at"]),
        )
    render.out().print(rows)


@app.command()
def remove(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the session.")],
    workspace_id: Annotated[str, typer.Option("--workspace", help="Workspace that it belongs to.")] = "default",
    as_json: Json = False,
) -> None:
    """Delete a session with its cookies and storage. The next visit of this name begins a new one.

    Example: forager sessions remove shop
    """
    from forager.sdk.cli import render
    from forager.sdk.cli.client import part

    removed = with_api(context, lambda at: at.api.delete(f"/sessions/{part(name)}?workspace_id={part(workspace_id)}"))
    render.show_json(removed) if as_json else render.notes().print(f"Session {name} removed.", markup=False)
