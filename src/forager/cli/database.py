"""`forager db …`: schema and key of the store. Needs the store for itself: a running Forager keeps these out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forager.cli.host import quiet_log
from forager.kit.cli.invocation import Invocation, Json, invocation

if TYPE_CHECKING:
    from forager.ledger.catalog import Catalog

app = typer.Typer(help="The store itself: its schema, up and down; its key; its size.", no_args_is_help=True)


@app.command()
def current(context: typer.Context, as_json: Json = False) -> None:
    """Show the revisions that the store stands at."""
    from forager.ledger.schema import migrate

    store, _ = _store(invocation(context))
    _show([] if isinstance(store, Path) and not store.exists() else migrate.current(store), as_json=as_json)


@app.command()
def upgrade(
    context: typer.Context,
    revision: Annotated[str, typer.Argument(help="Up to this one; the newest if left out.")] = "heads",
    as_json: Json = False,
) -> None:
    """Bring the schema up to date, or up to a revision."""
    from forager.ledger.schema import migrate

    store, catalog = _store(invocation(context))
    migrate.upgrade(store, catalog, revision)
    _show(migrate.current(store), as_json=as_json)


@app.command()
def downgrade(
    context: typer.Context,
    revision: Annotated[str, typer.Argument(help="Down to this one; `base` undoes everything.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask: what newer columns hold is lost.")] = False,
    as_json: Json = False,
) -> None:
    """Take the schema back to a revision. What newer tables and columns hold is lost."""
    from forager.ledger.schema import migrate

    if not yes and not typer.confirm("What newer tables and columns hold will be lost. Go on?", err=True):
        raise typer.Abort
    store, catalog = _store(invocation(context))
    migrate.downgrade(store, catalog, revision)
    _show(migrate.current(store), as_json=as_json)


@app.command()
def rotate_key(context: typer.Context, as_json: Json = False) -> None:
    """Seal every secret of the store with a new key, and drop the old one. If it is interrupted, run it again.

    With FORAGER_SECRET_KEY the keys are yours: put a new one first on every machine, run this, then take the old away.
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
        async with open_app(settings) as opened:
            return await opened.rotate_keys()

    done = run_loop(rotated())
    if as_json:
        render.show_json(asdict(done))
        return
    old = "The old key is gone." if done.dropped else "The keys are those of FORAGER_SECRET_KEY: take the old one away."
    said = f"{render.some(done.resealed, 'secret entry', 'secret entries')} sealed with the newest key."
    render.out().print(f"{said} {old}", markup=False, soft_wrap=True)


@app.command()
def compact(context: typer.Context, as_json: Json = False) -> None:
    """Rewrite the embedded store without its free space. Nothing else may have it open.

    A store of an earlier release needs this once: afterwards, retention returns space by itself.
    """
    from forager.core.errors import NotFound, Rejected
    from forager.kit.cli import render
    from forager.ledger.schema.migrate import alone
    from forager.ledger.sqlite.compact import compact as rewrite

    store, _ = _store(invocation(context))
    if not isinstance(store, Path):
        raise Rejected("PostgreSQL reuses free space by itself. `VACUUM FULL` returns it to the system.")
    if not store.exists():
        raise NotFound(f"There is no store at {store}.")
    with alone(store):
        before, after = rewrite(store)
    if as_json:
        render.show_json({"bytes_before": before, "bytes": after})
    else:
        render.out().print(f"{before / 1e6:,.1f} MB before, {after / 1e6:,.1f} MB now.", markup=False)


def _store(given: Invocation) -> "tuple[Path | str, Catalog]":
    from forager.ledger.catalog import Catalog
    from forager.wiring import build_pipelines

    settings = given.settings()
    quiet_log(debug=given.debug)
    return settings.database_url or settings.home / "ledger.db", Catalog(build_pipelines(settings))


def _show(revisions: list[str], *, as_json: bool) -> None:
    from forager.kit.cli import render

    if as_json:
        render.show_json({"revisions": revisions})
    else:
        render.out().print("\n".join(revisions) or "The store is empty.", markup=False)
