"""`forager keys …`: named keys with roles for the API and the dashboard."""

from enum import StrEnum
from typing import Annotated, Any
from urllib.parse import quote

import typer

from forager.sdk.cli.invocation import Json, with_api

app = typer.Typer(help="Named keys with roles, and what was done with them.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The key's name.")]


class RoleName(StrEnum):
    """The roles, the one with most rights first."""

    admin = "admin"
    operator = "operator"
    viewer = "viewer"


@app.command()
def add(
    context: typer.Context,
    name: Name,
    role: Annotated[
        RoleName, typer.Option(help="admin: everything; operator: run and steer; viewer: read.")
    ] = RoleName.viewer,
    as_json: Json = False,
) -> None:
    """Make a key and show it, once: it is stored as a hash.

    Example: forager keys add dashboard --role viewer
    """
    from forager.sdk.cli import render

    made = with_api(context, lambda at: at.api.post("/keys", {"name": name, "role": role.value}), store="created")
    if as_json:
        render.show_json(made)
        return
    render.notes().print(f"The key of {name} ({role.value}), shown once; send it as X-Service-Key:", markup=False)
    render.write(f"{made['key']}\n")


@app.command("list")
def list_keys(context: typer.Context, as_json: Json = False) -> None:
    """List keys with their role and last use.

    Example: forager keys list
    """
    from forager.sdk.cli import render

    keys = with_api(context, lambda at: at.api.get("/keys"))
    if as_json:
        render.show_json(keys)
        return
    rows = render.table("name", "role", "made by", "made (UTC)", "last used (UTC)", fold=("name",))
    for each in keys:
        by = render.plain(each["created_by"])
        times = (render.moment(each["created_at"]), render.moment(each["last_used_at"]))
        rows.add_row(render.plain(each["name"]), each["role"], by, *times)
    render.out().print(rows)


@app.command()
def rotate(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Replace the text of a key and show the new one, once. The old one is refused.

    Example: forager keys rotate dashboard
    """
    from forager.sdk.cli import render

    made = with_api(context, lambda at: at.api.post(f"/keys/{quote(name, safe='')}/rotate", {}))
    if as_json:
        render.show_json(made)
        return
    render.notes().print(f"The new key of {name} ({made['role']}), shown once:", markup=False)
    render.write(f"{made['key']}\n")


@app.command()
def revoke(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Refuse a key from now on. Its sessions and streams end.

    Example: forager keys revoke dashboard
    """
    from forager.sdk.cli import render

    async def revoked(at: Any) -> Any:
        return (await at.api.ask("DELETE", f"/keys/{quote(name, safe='')}")).data

    done = with_api(context, revoked)
    if as_json:
        render.show_json(done)
    else:
        render.out().print(f"The key {name} is revoked.", markup=False)


@app.command()
def actions(
    context: typer.Context,
    key: Annotated[str | None, typer.Option(help="Only writes with the key of this name.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="Maximum number.")] = 50,
    as_json: Json = False,
) -> None:
    """List every write through the API, newest first, with the name of its key.

    Example: forager keys actions --limit 20
    """
    from forager.sdk.cli import render

    query = f"limit={limit}" + (f"&key={quote(key)}" if key else "")
    done = with_api(context, lambda at: at.api.get(f"/actions?{query}"))
    if as_json:
        render.show_json(done)
        return
    rows = render.table("when (UTC)", "key", "what", "status", right=("status",), fold=("what",))
    for each in done:
        what = render.plain(f"{each['method']} {each['path']}")
        rows.add_row(render.moment(each["at"]), render.plain(each["key_name"]), what, str(each["status"]))
    render.out().print(rows)
