"""`forager blobs …`: pages stored in the data folder, and the removal of those that nothing refers to."""

from typing import Annotated

import typer

from forager.kit.cli.invocation import Json, invocation
from forager.kit.cli.running import with_api

app = typer.Typer(help="Stored pages: show how many there are, remove unused ones.", no_args_is_help=True)


@app.command()
def stat(context: typer.Context, as_json: Json = False) -> None:
    """Show how many pages are stored and how much disk space they use."""
    from forager.kit.cli import render

    stored = with_api(context, lambda at: at.api.get("/blobs"))
    if as_json:
        render.show_json(stored)
        return
    figures = [
        ("pages", render.count(stored["pages"])),
        *([] if stored["size"] is None else [("received", _megabytes(stored["size"]))]),
        ("on the disk", f"{_megabytes(stored['stored'])} in {render.some(stored['segments'], 'file')}"),
        ("unused", f"{_megabytes(stored['unused'])} (forager blobs gc returns most of it)"),
    ]
    render.out().print(render.facts(figures))


@app.command()
def gc(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed; remove nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Remove stored pages that no record and no open task refers to."""
    from forager.kit.cli import render

    done = with_api(context, lambda at: at.api.post("/blobs/gc", {"dry_run": dry_run}))
    if as_json:
        render.show_json(done)
        return
    word = "would be removed" if dry_run else "removed"
    kept = f"{render.count(done['kept'])} kept"
    message = f"{render.some(done['pages'], 'page')} {word}, {kept}; {_megabytes(done['freed'])} returned to the disk."
    render.out().print(message, markup=False, soft_wrap=True)


@app.command()
def adopt(context: typer.Context, as_json: Json = False) -> None:
    """Make this data folder, or FORAGER_BLOBS, the one where the ledger's pages are stored.

    If the store that was used before is lost or given up: its pages are fetched again when a task needs them.
    """
    from forager.app import open_app
    from forager.app.page_store import adopt_blobs
    from forager.cli.host import quiet_log
    from forager.core.errors import Rejected
    from forager.kit.cli import render
    from forager.kit.cli.running import run_loop
    from forager.wiring import blob_folder

    settings = invocation(context).settings()
    quiet_log(debug=invocation(context).debug)
    if settings.database_url is None and settings.blobs is None:
        raise Rejected("The embedded store always uses the pages beside it; there is nothing to adopt.")

    async def adopted() -> str:
        async with open_app(settings, may_create=False) as opened:
            return await adopt_blobs(settings, opened.database)

    made = run_loop(adopted())
    where = str(settings.blobs or blob_folder(settings))
    if as_json:
        render.show_json({"folder": where, "id": made})
    else:
        render.out().print(f"The ledger's pages are now stored in {where}.", markup=False, soft_wrap=True)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
