"""The commands that every pipeline has for its main kind of record: list, search, show, history, changes, export.

A pipeline's own command of the same name comes first. These read `/records/{kind}`, which every kind has.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.main import get_command

from forager.cli import changes as change_table
from forager.cli.export import ExportFormat, filters_of, known_kind, list_path
from forager.cli.export import export as export_kind
from forager.core.errors import NotFound, Rejected
from forager.sdk.cli.client import part
from forager.sdk.cli.invocation import Json, OfJob, full_job, with_api

NEWEST = 20
"""Jobs that are searched for a record of job scope."""
SHOWN = 6
"""Columns of a list."""
KEY_WIDTH = 40
"""Characters of a key on one line."""
LEAST_WIDTH = 8
"""Characters of a value below which its column is left out."""
QUIET = frozenset({"version", "first_seen_at", "changed_at", "times_seen", "job", "evidence", "unseen"})
NAMED_FIRST = (
    "title",
    "product_name",
    "name",
    "text",
    "rating",
    "price",
    "rent_min",
    "rent_max",
    "city",
    "address",
    "phone",
)
"""Fields that people look for, shown before the others."""
Key = Annotated[str, typer.Argument(metavar="KEY", help="Key of the record, as the list shows it.")]


def record_commands(pipeline: str, kind: str) -> Mapping[str, Any]:
    """Return the commands of a pipeline for its kind of record, by name."""
    app = typer.Typer()

    @app.command("list")
    def list_records(
        context: typer.Context,
        job: OfJob = None,
        limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="Maximum number of records.")] = 20,
        as_json: Json = False,
    ) -> None:
        from forager.sdk.cli import render

        async def ask(at: Any) -> Any:
            chosen = None if job is None else await full_job(at.api, job)
            found = await at.api.get(f"/records/{part(kind)}", job=chosen, limit=limit)
            return found, await known_kind(at, kind)

        found, known = with_api(context, ask)
        if as_json:
            render.show_json(found)
        elif found:
            render.out().print(_rows_of(found, known["key"]))
        else:
            render.notes().print(f"No records of the kind {kind}.", markup=False)

    @app.command("search")
    def search_records(
        context: typer.Context,
        words: Annotated[
            str, typer.Argument(metavar="[WORDS]", help="Words that a record must contain, in upper or lower case.")
        ] = "",
        where: Annotated[
            list[str] | None,
            typer.Option("--where", metavar="NAME=VALUE", help="Only records with this value (repeatable)."),
        ] = None,
        job: OfJob = None,
        limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="Maximum number of records.")] = 20,
        as_json: Json = False,
    ) -> None:
        from forager.sdk.cli import render

        given = filters_of(where or [])

        async def ask(at: Any) -> Any:
            chosen = None if job is None else await full_job(at.api, job)
            known = await known_kind(at, kind)
            path = f"/records/{part(kind)}" if words or not given else list_path(known, given)
            found: list[Any] = []
            async for page in at.api.pages(path, **given, search=words or None, job=chosen):
                found += page
                if len(found) >= limit:
                    break
            return found[:limit], known

        found, known = with_api(context, ask, fields={"search": "words"})
        if as_json:
            render.show_json(found)
        elif found:
            render.out().print(_rows_of(found, known["key"]))
        else:
            render.notes().print(f"No record of the kind {kind} matches.", markup=False)

    @app.command("show")
    def show_record(context: typer.Context, key: Key, job: OfJob = None, as_json: Json = False) -> None:
        from forager.sdk.cli import render

        found = with_api(context, lambda at: _one(at.api, pipeline, kind, key, job))
        pairs = ((name.replace("_", " "), render.plain(value)) for name, value in found.items() if value is not None)
        render.show_json(found) if as_json else render.out().print(render.facts(pairs))

    @app.command("history")
    def show_history(context: typer.Context, key: Key, as_json: Json = False) -> None:
        from forager.sdk.cli import render

        async def ask(at: Any) -> Any:
            try:
                return await at.api.get(f"/records/{part(kind)}/{part(key)}/history")
            except Rejected as wrong:
                if not _needs_job(wrong):
                    raise
                return []

        found = with_api(context, ask)
        if as_json:
            render.show_json(found)
            return
        if not found:
            render.notes().print(f"A record of the kind {kind} never changes: it has no history.", markup=False)
            return
        rows = render.table("version", "when (UTC)", "change")
        for each in found:
            rows.add_row(str(each["version"]), render.moment(each["at"]), render.plain(each["op"]))
        render.out().print(rows)

    @app.command("changes")
    def show_changes(
        context: typer.Context,
        since: Annotated[
            str, typer.Option(metavar="TIME", help="An age (90m, 1d, 2w) or a time (2026-03-14T12:00:00Z).")
        ] = "1d",
        field: Annotated[str | None, typer.Option("--field", help="Only changes of this field, such as price.")] = None,
        limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="Maximum number of rows.")] = 100,
        as_json: Json = False,
    ) -> None:
        change_table.changes(context, since, kind, field, limit, as_json)

    @app.command("export")
    def export_records(
        context: typer.Context,
        form: Annotated[
            ExportFormat | None,
            typer.Option("--format", "-f", help="Format; without it, by the suffix of --output, else JSON lines."),
        ] = None,
        job: OfJob = None,
        output: Annotated[
            Path | None, typer.Option("--output", "-o", dir_okay=False, help="Output file (default: standard output).")
        ] = None,
        as_json: Json = False,
    ) -> None:
        export_kind(context, kind, form, job, None, None, output, as_json)

    helps = {
        "list": f"List records of the kind {kind}.",
        "search": f"List the records of the kind {kind} that contain words, or have a value.",
        "show": f"Show one record of the kind {kind}.",
        "history": f"Show the versions of a record of the kind {kind}, newest first.",
        "changes": f"Show what is new, changed or gone, as before → now; `forager changes --kind {kind}`.",
        "export": f"Write the records to a file; the same as `forager export {kind}`.",
    }
    commands: Mapping[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
    examples = {
        "list": "--limit 50",
        "search": "oak --limit 50",
        "show": f"<{kind}>",
        "history": f"<{kind}>",
        "changes": "--since 7d",
        "export": f"-o {pipeline}.csv",
    }
    for name, text in helps.items():
        commands[name].help = f"{text}\n\nExample: forager {pipeline} {name} {examples[name]}"
    return commands


async def _one(api: Any, pipeline: str, kind: str, key: str, job: str | None) -> Any:
    """Return a record. A record of job scope whose job is not given is searched for in the newest jobs."""
    path = f"/records/{part(kind)}/{part(key)}"
    if job is not None:
        return await api.get(path, job=await full_job(api, job))
    try:
        return await api.get(path)
    except Rejected as wrong:
        if not _needs_job(wrong):
            raise
    for each in await api.get("/jobs", pipeline=pipeline, limit=NEWEST):
        try:
            return await api.get(path, job=each["id"])
        except NotFound:
            continue
    raise NotFound(f"There is no {kind} {key!r} in the newest {NEWEST} jobs. Name its job: --job")


def _needs_job(wrong: Rejected) -> bool:
    return any(each.field == "job" for each in wrong.fields)


def _rows_of(found: Sequence[Mapping[str, Any]], key: str, width: int | None = None) -> Any:
    """Return a table. The key stands whole, to be copied; one above `KEY_WIDTH` wraps. The other values share the rest
    of the width, each on one line, and columns without room are left out."""
    from forager.sdk.cli import render

    names = _columns(found, key)
    longest = [max(len(name), *(len(str(each.get(name))) for each in found)) for name in names]
    own = min(KEY_WIDTH, longest[0])
    others = _shares(longest[1:], (width or render.out().width) - own - 2)
    rows = render.table(*(name.replace("_", " ") for name in names[: len(others) + 1]), fold=(key.replace("_", " "),))
    rows.columns[0].width = own
    for column, share in zip(rows.columns[1:], others, strict=True):
        column.no_wrap, column.width = True, share
    for each in found:
        rows.add_row(*(render.plain(each.get(name)) for name in names[: len(others) + 1]))
    return rows


def _shares(wanted: Sequence[int], room: int) -> list[int]:
    """Share a width among columns: each gets what it wants or as much as the widest other; the last ones are left out
    while that is too little to read."""
    for kept in range(len(wanted), 0, -1):
        left, shares = room - kept, [0] * kept
        for done, place in enumerate(sorted(range(kept), key=wanted.__getitem__)):
            shares[place] = min(wanted[place], left // (kept - done))
            left -= shares[place]
        if all(share >= min(want, LEAST_WIDTH) for share, want in zip(shares, wanted, strict=False)):
            return shares
    return []


def _columns(found: Sequence[Mapping[str, Any]], key: str) -> list[str]:
    """Return the key and the first columns that hold plain values in some record, those with a known name first."""
    first = [key, *(name for name in NAMED_FIRST if name in found[0])]
    names = list(dict.fromkeys([*first, *found[0]]))
    plain = [
        name
        for name in names
        if name == key or (name not in QUIET and any(isinstance(each.get(name), str | int | float) for each in found))
    ]
    return plain[:SHOWN]
