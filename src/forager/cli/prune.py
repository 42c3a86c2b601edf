"""`forager prune`: remove old data now, instead of within the hour."""

from typing import Annotated, Any

import typer

from forager.kit.cli.invocation import Json, Reached
from forager.kit.cli.running import with_api

NAMES = ("jobs", "tasks", "messages", "rejected", "attempts", "changes", "records")


def prune(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    as_json: Json = False,
) -> None:
    """Remove finished jobs and other data older than the settings keep it (FORAGER_KEEP_…_DAYS)."""
    from forager.kit.cli import render

    pruned = with_api(context, lambda at: _pruned(at, dry_run=dry_run))
    if as_json:
        render.show_json(pruned)
        return
    gone = [(name, render.count(pruned[name])) for name in NAMES if pruned[name]]
    if not gone:
        render.notes().print("Nothing is old enough to be removed.")
        return
    render.out().print("Would go:" if dry_run else "Removed:")
    render.out().print(render.facts(gone))


async def _pruned(at: Reached, *, dry_run: bool) -> dict[str, Any]:
    """Call the API until nothing more is left, and add up the counts."""
    sums: dict[str, Any] = {**dict.fromkeys(NAMES, 0), "more": True}
    while sums["more"]:
        page = await at.api.post("/prune", {"dry_run": dry_run})
        sums = {**{name: sums[name] + page[name] for name in NAMES}, "more": page["more"]}
    return sums
