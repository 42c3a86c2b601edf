"""`forager archive`: move records that have been inactive for long to files, or find one that was moved."""

from typing import Annotated, Any, Literal

import typer

from forager.kit.cli.invocation import Json, Reached
from forager.kit.cli.running import with_api


def archive(
    context: typer.Context,
    kind: Annotated[str, typer.Option("--kind", help="Kind of records to move, such as product.")],
    inactive_for: Annotated[
        str | None,
        typer.Option("--inactive-for", help="How long a record was neither seen nor changed: 180d, 26w."),
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="Move nothing; show where this record is.")] = None,
    form: Annotated[Literal["parquet", "jsonl"], typer.Option("--format", help="Format of the files.")] = "parquet",
    plan: Annotated[bool, typer.Option("--plan", help="Only show how many records would be moved.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: Json = False,
) -> None:
    """Move inactive records to files in FORAGER_ARCHIVE; their keys stay in the store."""
    from forager.core.durations import seconds_with_unit
    from forager.core.errors import Rejected
    from forager.kit.cli import render
    from forager.kit.cli.client import part

    if key is not None:
        where = f"/archive/{part(kind)}/{part(key)}"
        _show(with_api(context, lambda at: at.api.get(where)), as_json=as_json)
        return
    if inactive_for is None:
        raise Rejected("--inactive-for is missing: how long a record was neither seen nor changed, such as 180d.")
    try:
        seconds = seconds_with_unit(inactive_for)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--inactive-for") from None
    body = {"kind": kind, "inactive_for": seconds, "format": form}
    planned = with_api(context, lambda at: at.api.post("/archive", {**body, "dry_run": True}))
    count = render.some(planned["records"], "record")
    if plan or not planned["records"]:
        if as_json:
            render.show_json(planned)
        else:
            render.out().print(f"{count} of kind {kind} would be moved to the archive.", markup=False, soft_wrap=True)
        return
    if not yes and not typer.confirm(
        f"{count} of kind {kind} will leave the store for the archive. Continue?", err=True
    ):
        raise typer.Abort
    moved = with_api(context, lambda at: _moved(at, body))
    if as_json:
        render.show_json(moved)
        return
    done = f"{render.some(moved['records'], 'record')} moved to {render.some(moved['files'], 'file')}."
    render.out().print(done, markup=False, soft_wrap=True)


async def _moved(at: Reached, body: dict[str, Any]) -> dict[str, Any]:
    """Call the API until nothing more is left, and add up the counts."""
    sums: dict[str, Any] = {"records": 0, "files": 0, "after": 0, "more": True}
    while sums["more"]:
        page = await at.api.post("/archive", {**body, "after": sums["after"]})
        sums = {**page, **{name: sums[name] + page[name] for name in ("records", "files")}}
    return sums


def _show(found: dict[str, Any], *, as_json: bool) -> None:
    from forager.kit.cli import render

    if as_json:
        render.show_json(found)
    else:
        render.out().print(render.facts([(name, str(found[name])) for name in ("place", "path", "version", "at")]))
