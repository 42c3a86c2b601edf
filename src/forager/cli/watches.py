"""`forager watches …`: rules that turn due records into tasks: recrawls, verifications."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forager.kit.cli.invocation import Json
from forager.kit.cli.running import with_api

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer(help="Rules that turn due records into tasks: list, pause, resume.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="WATCH", help="The watch's name, as `forager watches list` shows it.")]


@app.command("list")
def list_watches(context: typer.Context, as_json: Json = False) -> None:
    """List the watches: records due, lateness of the oldest, and last error."""
    from forager.kit.cli import render

    watches = with_api(context, lambda at: at.api.get("/watches"))
    if as_json:
        render.show_json(watches)
        return
    if not watches:
        render.notes().print("No pipeline declares a watch.")
        return
    render.out().print(table_of(watches))


def table_of(watches: Sequence[Mapping[str, Any]]) -> "Table":
    """One row per watch, as `list` prints them."""
    from forager.kit.cli import render

    figures = ("due", "late", "dispatched")
    rows = render.table("watch", "state", *figures, "next due", "error", right=figures, fold=("watch", "error"))
    for each in watches:
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
def pause(context: typer.Context, watch: Name, as_json: Json = False) -> None:
    """Create no tasks from due records until the watch is resumed; they wait."""
    _act(context, watch, "pause", f"Paused {watch}.", as_json=as_json)


@app.command()
def resume(context: typer.Context, watch: Name, as_json: Json = False) -> None:
    """Go on creating tasks, also from records that came due meanwhile."""
    _act(context, watch, "resume", f"Resumed {watch}.", as_json=as_json)


def _due(count: int) -> str:
    from forager.kit.cli import render

    return f"{render.count(count)}+" if count >= COUNTED_TO else render.count(count)


def _state(watch: Mapping[str, Any]) -> Any:
    from rich.text import Text

    return Text(watch["state"], style="yellow" if watch["state"] == "paused" else "green")


def _act(context: typer.Context, watch: str, verb: str, message: str, *, as_json: bool) -> None:
    from forager.kit.cli import render
    from forager.kit.cli.client import part

    status = with_api(context, lambda at: at.api.post(f"/watches/{part(watch)}/{verb}"))
    render.show_json(status) if as_json else render.out().print(message, markup=False)


COUNTED_TO = 10_000
"""The API counts due records up to this number."""
