"""`forager db …`: schema and key of the store. These commands need exclusive access, so they fail beside a running
Forager."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forager.cli.host import quiet_log
from forager.kit.cli.invocation import Invocation, Json, invocation

if TYPE_CHECKING:
    from forager.ledger.catalog import Catalog

app = typer.Typer(help="The store: upgrade or downgrade its schema, rotate its key, compact it.", no_args_is_help=True)


@app.command()
def current(context: typer.Context, as_json: Json = False) -> None:
    """Show the schema revisions of the store."""
    from forager.ledger.schema import migrate

    store, _ = _store(invocation(context))
    _show([] if isinstance(store, Path) and not store.exists() else migrate.current(store), as_json=as_json)


@app.command()
def upgrade(
    context: typer.Context,
    revision: Annotated[str, typer.Argument(help="Target revision (default: the newest).")] = "heads",
    as_json: Json = False,
) -> None:
    """Upgrade the schema to the newest revision, or to a given one."""
    from forager.ledger.schema import migrate

    store, catalog = _store(invocation(context))
    migrate.upgrade(store, catalog, revision)
    _show(migrate.current(store), as_json=as_json)


@app.command()
def downgrade(
    context: typer.Context,
    revision: Annotated[str, typer.Argument(help="Target revision; `base` removes everything.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: Json = False,
) -> None:
    """Downgrade the schema to a revision. Data in newer tables and columns is lost."""
    from forager.ledger.schema import migrate
    from forager.ledger.sqlite.lock import no_store

    if not yes and not typer.confirm("Data in newer tables and columns will be lost. Continue?", err=True):
        raise typer.Abort
    store, catalog = _store(invocation(context))
    if isinstance(store, Path) and not store.exists():
        raise no_store(store.parent)
    migrate.downgrade(store, catalog, revision)
    _show(migrate.current(store), as_json=as_json)


@app.command()
def rotate_key(context: typer.Context, as_json: Json = False) -> None:
    """Encrypt every secret in the store with a new key and delete the old key. If interrupted, run it again.

    If you set FORAGER_SECRET_KEY, put the new key first on every machine, run this, then remove the old key.
    """
    from dataclasses import asdict

    from forager.app import open_app
    from forager.kit.cli import render
    from forager.kit.cli.running import run_loop
    from forager.secrets.sealing import Rotated

    given = invocation(context)
    settings = given.settings()
    quiet_log(debug=given.debug)

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


@app.command()
def compact(context: typer.Context, as_json: Json = False) -> None:
    """Rewrite the embedded store without its free space. No other process may have it open.

    A store of an earlier release needs this once: afterwards, retention returns space by itself.
    """
    from forager.core.errors import Rejected
    from forager.kit.cli import render
    from forager.ledger.schema.migrate import alone
    from forager.ledger.sqlite.compact import compact as rewrite
    from forager.ledger.sqlite.lock import no_store

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
    from forager.ledger.catalog import Catalog
    from forager.ledger.schema.namespace import locate
    from forager.wiring import build_pipelines

    settings = given.settings()
    quiet_log(debug=given.debug)
    store = locate(settings.database_url, settings.database_schema) if settings.database_url else None
    return store or settings.home / "ledger.db", Catalog(build_pipelines(settings))


def _show(revisions: list[str], *, as_json: bool) -> None:
    from forager.kit.cli import render

    if as_json:
        render.show_json({"revisions": revisions})
    else:
        render.out().print("\n".join(revisions) or "The store is empty.", markup=False)
