"""`forager proxies …`: proxies for requests to sites. A user name or password is never shown."""

import sys
from typing import Annotated, Any

import typer

from forager.sdk.cli.invocation import Json, with_api

app = typer.Typer(help="Proxies that requests to sites go through.", no_args_is_help=True)

Number = Annotated[int, typer.Argument(metavar="ID", help="The proxy's number.", min=1)]
OF_PROXY = {"proxy": "number"}
Region = Annotated[str | None, typer.Option(help="Two-letter country code, such as US; '' removes it.")]


@app.command("list")
def list_proxies(context: typer.Context, as_json: Json = False) -> None:
    """List the proxies with their health, counters and latency.

    Example: forager proxies list
    """
    from forager.sdk.cli import render

    proxies = with_api(context, lambda at: at.api.get("/proxies"))
    if as_json:
        render.show_json(proxies)
        return
    if not proxies:
        render.notes().print("No proxies: requests go out directly. Add one: forager proxies add -", soft_wrap=True)
        return
    columns = ("id", "proxy", "region", "state", "good", "failed", "mean", "last used (UTC)")
    rows = render.table(*columns, right=("id", "good", "failed", "mean"), fold=("proxy",))
    for each in proxies:
        mean = "-" if each["avg_response_time_ms"] is None else f"{each['avg_response_time_ms']:,.0f} ms"
        where = render.plain(f"{each['protocol']}://{each['url']}:{each['port']}")
        counts = (render.count(each["success_count"]), render.count(each["failures"]))
        used = render.moment(each["last_used_at"])
        rows.add_row(str(each["id"]), where, render.plain(each["region"]), condition(each), *counts, mean, used)
    render.out().print(rows)


@app.command()
def add(
    context: typer.Context,
    address: Annotated[
        str,
        typer.Argument(
            help="http://user:password@host:port, or https, socks5. With - it is read from standard input,"
            " which keeps a password out of the shell history and the process list."
        ),
    ],
    region: Region = None,
    as_json: Json = False,
) -> None:
    """Add a proxy. Its user name and password are encrypted and never shown.

    Example: forager proxies add http://user:password@proxy.example:8080 --region us
    """
    from forager.sdk.cli import render

    body = {"address": sys.stdin.readline().strip() if address == "-" else address}
    added = with_api(
        context, lambda at: at.api.post("/proxies", body | ({"region": region} if region else {})), store="created"
    )
    if as_json:
        render.show_json(added)
    else:
        message = f"Added as {added['id']}. Test it: forager proxies check {added['id']}"
        render.out().print(message, markup=False, soft_wrap=True)


@app.command()
def check(
    context: typer.Context,
    number: Annotated[
        int | None, typer.Argument(metavar="ID", help="The proxy's number (default: every proxy).", min=1)
    ] = None,
    as_json: Json = False,
) -> None:
    """Test one proxy, or all, by a connection. One that passes is healthy again; one switched off stays off.

    Example: forager proxies check 1
    """
    from forager.sdk.cli import render
    from forager.sdk.cli.client import ProblemFound

    async def checked(at: Any) -> list[dict[str, Any]]:
        numbers = [number] if number is not None else [each["id"] for each in await at.api.get("/proxies")]
        return [await at.api.post(f"/proxies/{each}/check") for each in numbers]

    checks = with_api(context, checked, fields=OF_PROXY)
    if as_json:
        render.show_json(checks)
    for each in [] if as_json else checks:
        result = f"passed in {each['latency_ms']} ms" if each["passed"] else f"failed: {each['reason']}"
        region = f" ({each['region']})" if each["region"] else ""
        render.out().print(f"{each['id']}: {result}{region}", markup=False, soft_wrap=True)
    if bad := [each for each in checks if not each["passed"]]:
        raise ProblemFound(f"{render.some(len(bad), 'proxy', 'proxies')} failed the check.")


@app.command("set")
def change(
    context: typer.Context,
    number: Number,
    active: Annotated[
        bool | None, typer.Option("--active/--inactive", help="Switch it on or off; checks never change this.")
    ] = None,
    region: Region = None,
    as_json: Json = False,
) -> None:
    """Switch a proxy on or off, or set its region.

    Example: forager proxies set 1 --region eu
    """
    from forager.sdk.cli import render

    body = {name: value for name, value in (("is_active", active), ("region", region)) if value is not None}

    async def changed(at: Any) -> Any:
        return (await at.api.ask("PATCH", f"/proxies/{number}", body=body)).data

    kept = with_api(context, changed, fields=OF_PROXY)
    if as_json:
        render.show_json(kept)
    else:
        render.out().print(f"Saved. It is {condition(kept)}.", markup=False)


@app.command()
def remove(context: typer.Context, number: Number, as_json: Json = False) -> None:
    """Remove a proxy. One that is listed in the settings is added again at the next start; switch it off instead.

    Example: forager proxies remove 1
    """
    from forager.sdk.cli import render

    removed = with_api(context, lambda at: at.api.delete(f"/proxies/{number}"), fields=OF_PROXY)
    render.show_json(removed) if as_json else render.out().print("Removed.")


def condition(proxy: dict[str, Any]) -> str:
    """Return a word for whether the proxy is used."""
    if not proxy["is_active"]:
        return "switched off"
    if proxy["disabled"]:
        return "disabled"
    return "healthy" if proxy["healthy"] else "unhealthy"
