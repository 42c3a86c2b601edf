"""`forager blobs …`: pages stored in the data folder, and the removal of those that nothing refers to."""

from typing import Annotated

import typer

from forager.kit.cli.invocation import Json
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
        ("received", _megabytes(stored["size"])),
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


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
