"""`forager rechecks …`: rules that turn due records into tasks: recrawls, verifications."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forager.sdk.cli.invocation import Json, with_api

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer(help="Rules that turn due records into tasks: list, pause, resume.", no_args_is_help=True)

Name = Annotated[
    str, typer.Argument(metavar="RECHECK", help="The recheck's name, as `forager rechecks list` shows it.")
]


@app.command("list")
def list_rechecks(context: typer.Context, as_json: Json = False) -> None:
    """List the rechecks: records due, lateness of the oldest, and last error.

    Example: forager rechecks list
    """
    from forager.sdk.cli import render

    rechecks = with_api(context, lambda at: at.api.get("/rechecks"))
    if as_json:
        render.show_json(rechecks)
        return
    if not rechecks:
        render.notes().print("No pipeline declares a recheck.")
        return
    render.out().print(table_of(rechecks))


def table_of(rechecks: Sequence[Mapping[str, Any]]) -> "Table":
    """Return one row per recheck, as `list` prints them."""
    from forager.sdk.cli import render

    figures = ("due", "late", "dispatched")
    rows = render.table("recheck", "state", *figures, "next due", "error", right=figures, fold=("recheck", "error"))
    for each in rechecks:
        rows.add_row(
            render.plain(each["name"]),
            _state(each),
            _due(each["due"]),
            render.duration(each["late_seconds"]) if each["due"] else "",
            render.count(each["dispatched"]),
            render.moment(each["next_due"]) if each["next_due"] else "",
            render.plain(each["error"]) if each["error"] else "",
        )
    return rows


@app.command()
def pause(context: typer.Context, recheck: Name, as_json: Json = False) -> None:
    """Create no tasks from due records until the recheck is resumed; they wait.

    Example: forager rechecks pause recrawl
    """
    _act(context, recheck, "pause", f"Paused {recheck}.", as_json=as_json)


@app.command()
def resume(context: typer.Context, recheck: Name, as_json: Json = False) -> None:
    """Go on creating tasks, also from records that came due meanwhile.

    Example: forager rechecks resume recrawl
    """
    _act(context, recheck, "resume", f"Resumed {recheck}.", as_json=as_json)


def _due(count: int) -> str:
    from forager.sdk.cli import render

    return f"{render.count(count)}+" if count >= COUNTED_TO else render.count(count)


def _state(recheck: Mapping[str, Any]) -> Any:
    from rich.text import Text

    return Text(recheck["state"], style="yellow" if recheck["state"] == "paused" else "green")


def _act(context: typer.Context, recheck: str, verb: str, message: str, *, as_json: bool) -> None:
    from forager.sdk.cli import render
    from forager.sdk.cli.client import part

    status = with_api(context, lambda at: at.api.post(f"/rechecks/{part(recheck)}/{verb}"))
    render.show_json(status) if as_json else render.out().print(message, markup=False)


COUNTED_TO = 10_000
"""The API counts due records up to this number."""
