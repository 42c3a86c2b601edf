"""`forager prune`: remove old data now, instead of within the hour."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from forager.sdk.cli.invocation import Invocation, Json, Reached, invocation, with_api

if TYPE_CHECKING:
    from forager.ledger.catalog import Catalog


NAMES = ("jobs", "tasks", "messages", "rejected", "attempts", "changes", "records")


def prune(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    as_json: Json = False,
) -> None:
    """Remove finished jobs and other data older than the settings keep it (FORAGER_KEEP_…_DAYS).

    Example: forager prune --dry-run
    """
    from forager.sdk.cli import render

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


# `forager archive`: move records that have been inactive for long to files, or find one that was moved.


def archive(
    context: typer.Context,
    kind: Annotated[str, typer.Option("--kind", help="Kind of records to move, such as product.")],
    inactive_for: Annotated[
        str | None,
        typer.Option("--inactive-for", help="Age since a record was last seen or changed: 180d, 26w."),
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="Move nothing; show where this record is.")] = None,
    form: Annotated[Literal["parquet", "jsonl"], typer.Option("--format", help="Format of the files.")] = "parquet",
    plan: Annotated[bool, typer.Option("--plan", help="Only show how many records would be moved.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: Json = False,
) -> None:
    """Move inactive records to files in FORAGER_ARCHIVE; their keys stay in the store.

    Example: forager archive --kind product --inactive-for 365d --plan
    """
    from forager.core.clock import seconds_with_unit
    from forager.core.errors import Rejected
    from forager.sdk.cli import render
    from forager.sdk.cli.client import part

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
    from forager.sdk.cli import render

    if as_json:
        render.show_json(found)
    else:
        render.out().print(render.facts([(name, str(found[name])) for name in ("place", "path", "version", "at")]))


# `forager blobs …`: pages stored in the data folder, and the removal of those that nothing refers to.


blobs_app = typer.Typer(help="Stored pages: show how many there are, remove unused ones.", no_args_is_help=True)


@blobs_app.command()
def stat(context: typer.Context, as_json: Json = False) -> None:
    """Show how many pages are stored and how much disk space they use.

    Example: forager blobs stat
    """
    from forager.sdk.cli import render

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


@blobs_app.command()
def gc(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed; remove nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Remove stored pages that no record and no open task refers to.

    Example: forager blobs gc --dry-run
    """
    from forager.sdk.cli import render

    done = with_api(context, lambda at: at.api.post("/blobs/gc", {"dry_run": dry_run}))
    if as_json:
        render.show_json(done)
        return
    word = "would be removed" if dry_run else "removed"
    kept = f"{render.count(done['kept'])} kept"
    message = f"{render.some(done['pages'], 'page')} {word}, {kept}; {_megabytes(done['freed'])} returned to the disk."
    render.out().print(message, markup=False, soft_wrap=True)


@blobs_app.command()
def adopt(context: typer.Context, as_json: Json = False) -> None:
    """Make this data folder, or FORAGER_BLOBS, the one where the ledger's pages are stored.

    If the store that was used before is lost or given up: its pages are fetched again when a task needs them.

    Example: forager blobs adopt
    """
    from forager.app.compose import open_app
    from forager.app.wiring import adopt_blobs, blob_folder
    from forager.core.errors import Rejected
    from forager.logging import quiet_logs
    from forager.sdk.cli import render
    from forager.sdk.cli.invocation import run_loop

    settings = invocation(context).settings()
    quiet_logs(debug=invocation(context).debug)
    if settings.database_url is None and settings.blobs is None:
        raise Rejected("The embedded store always uses the pages in its own folder; there is nothing to adopt.")

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


# `forager restore`: rebuild jobs and queue from a mirror when the store is lost.


def restore(
    context: typer.Context,
    source: Annotated[str, typer.Option("--from", help="Source of the mirror: bigquery.")],
    as_json: Json = False,
) -> None:
    """Restore jobs, queries and the results of unfinished jobs into an empty store.

    Jobs that are not finished in the mirror run again. If interrupted, run it again.

    Example: forager restore --from bigquery
    """
    from dataclasses import asdict

    from forager.app.compose import open_app
    from forager.app.restore import Restored
    from forager.app.restore import restore as restored
    from forager.logging import quiet_logs
    from forager.sdk.cli import render
    from forager.sdk.cli.invocation import run_loop

    given = invocation(context)
    settings = given.settings()
    quiet_logs(debug=given.debug)

    async def run() -> Restored:
        async with open_app(settings) as app:
            return await restored(app, source)

    done = run_loop(run())
    if as_json:
        render.show_json(asdict(done))
        return
    render.out().print(
        f"{render.some(done.jobs, 'job')} restored, {done.unfinished:,} of them unfinished; {done.queued:,} of"
        f" {render.some(done.tasks, 'task')} will run; {render.some(done.records, 'record')}.",
        markup=False,
    )


# `forager db …`: schema and key of the store. These commands need exclusive access, so they fail beside a running
# Forager.


database_app = typer.Typer(
    help="The store: upgrade or downgrade its schema, rotate its key, compact it.", no_args_is_help=True
)


@database_app.command()
def current(context: typer.Context, as_json: Json = False) -> None:
    """Show the schema revisions of the store.

    Example: forager db current
    """
    from forager.ledger.schema import migrate

    store, _ = _store(invocation(context))
    _show_database([] if isinstance(store, Path) and not store.exists() else migrate.current(store), as_json=as_json)


@database_app.command()
def upgrade(
    context: typer.Context,
    revision: Annotated[str, typer.Argument(help="Target revision (default: the newest).")] = "heads",
    as_json: Json = False,
) -> None:
    """Upgrade the schema to the newest revision, or to a given one.

    Example: forager db upgrade
    """
    from forager.ledger.schema import migrate

    store, catalog = _store(invocation(context))
    migrate.upgrade(store, catalog, revision)
    _show_database(migrate.current(store), as_json=as_json)


@database_app.command()
def downgrade(
    context: typer.Context,
    revision: Annotated[str, typer.Argument(help="Target revision; `base` removes everything.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: Json = False,
) -> None:
    """Downgrade the schema to a revision. Data in newer tables and columns is lost.

    Example: forager db downgrade <revision>
    """
    from forager.ledger.schema import migrate
    from forager.ledger.sqlite.lock import no_store

    if not yes and not typer.confirm("Data in newer tables and columns will be lost. Continue?", err=True):
        raise typer.Abort
    store, catalog = _store(invocation(context))
    if isinstance(store, Path) and not store.exists():
        raise no_store(store.parent)
    migrate.downgrade(store, catalog, revision)
    _show_database(migrate.current(store), as_json=as_json)


@database_app.command()
def rotate_key(context: typer.Context, as_json: Json = False) -> None:
    """Encrypt every secret in the store with a new key and delete the old key. If interrupted, run it again.

    If you set FORAGER_SECRET_KEY, put the new key first on every machine, run this, then remove the old key.

    Example: forager db rotate-key
    """
    from dataclasses import asdict

    from forager.app.compose import open_app
    from forager.logging import quiet_logs
    from forager.sdk.cli import render
    from forager.sdk.cli.invocation import run_loop
    from forager.secrets.sealing import Rotated

    given = invocation(context)
    settings = given.settings()
    quiet_logs(debug=given.debug)

    async def rotated() -> Rotated:
        async with open_app(settings, may_create=False) as opened:
            return await opened.rotate_keys()

    done = run_loop(rotated())
    if as_json:
        render.show_json(asdict(done))
        return
    old = "The old key is deleted." if done.dropped else "You can now remove the old key from FORAGER_SECRET_KEY."
    message = f"{render.some(done.resealed, 'secret entry', 'secret entries')} encrypted with the newest key."
    render.out().print(f"{message} {old}", markup=False, soft_wrap=True)


@database_app.command()
def compact(context: typer.Context, as_json: Json = False) -> None:
    """Rewrite the embedded store without its free space. No other process may have it open.

    A store of an earlier release needs this once: afterwards, retention returns space by itself.

    Example: forager db compact
    """
    from forager.core.errors import Rejected
    from forager.ledger.schema.migrate import alone
    from forager.ledger.sqlite.lock import no_store
    from forager.ledger.sqlite.upkeep import compact as rewrite
    from forager.sdk.cli import render

    store, _ = _store(invocation(context))
    if not isinstance(store, Path):
        raise Rejected("PostgreSQL reuses free space by itself. `VACUUM FULL` returns it to the system.")
    if not store.exists():
        raise no_store(store.parent)
    with alone(store):
        before, after = rewrite(store)
    if as_json:
        render.show_json({"bytes_before": before, "bytes": after})
    else:
        render.out().print(f"{before / 1e6:,.1f} MB before, {after / 1e6:,.1f} MB now.", markup=False)


def _store(given: Invocation) -> "tuple[Path | str, Catalog]":
    from forager.app.wiring import build_pipelines
    from forager.ledger.catalog import Catalog
    from forager.ledger.schema.connect import locate
    from forager.logging import quiet_logs

    settings = given.settings()
    quiet_logs(debug=given.debug)
    store = locate(settings.database_url, settings.database_schema) if settings.database_url else None
    return store or settings.home / "ledger.db", Catalog(build_pipelines(settings))


def _show_database(revisions: list[str], *, as_json: bool) -> None:
    from forager.sdk.cli import render

    if as_json:
        render.show_json({"revisions": revisions})
    else:
        render.out().print("\n".join(revisions) or "The store is empty.", markup=False)
