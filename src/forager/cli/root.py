"""The tree of commands: our own, one module each in this folder, and those of every feature."""

from pathlib import Path
from typing import Annotated

import typer

from forager import __version__
from forager.cli import (
    changes,
    dead,
    demo,
    doctor,
    export,
    init,
    jobs,
    keys,
    lanes,
    mcp,
    page_archives,
    page_sessions,
    pages,
    proxies,
    rechecks,
    regions,
    sandbox,
    schedules,
    serving,
    sinks,
    top,
    upkeep,
)
from forager.cli.feature_commands import RootGroup
from forager.sdk.cli.invocation import Invocation

app = typer.Typer(
    cls=RootGroup,
    help="Forager collects web data reliably: crash-safe, rate-limited, priced up front. Start with: forager demo",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"forager {__version__}")
        raise typer.Exit


@app.callback()
def before_every_command(
    context: typer.Context,
    home: Annotated[
        Path | None, typer.Option(help="Data folder instead of FORAGER_HOME (default: .forager).", show_default=False)
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show the log and the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    given = context.ensure_object(Invocation)
    given.home = home.absolute() if home else None
    given.debug = debug


app.command()(demo.demo)
app.command()(serving.up)
app.command()(serving.worker)
app.add_typer(jobs.app, name="jobs")
app.add_typer(dead.app, name="dead")
app.add_typer(schedules.app, name="schedules")
app.add_typer(rechecks.app, name="rechecks")
app.add_typer(lanes.app, name="lanes")
app.add_typer(regions.app, name="regions")
app.add_typer(proxies.app, name="proxies")
app.add_typer(page_sessions.app, name="sessions")
app.add_typer(keys.app, name="keys")
app.add_typer(sinks.app, name="sinks")
app.add_typer(pages.app, name="pages")
app.add_typer(upkeep.blobs_app, name="blobs")
app.command()(page_archives.replay)
app.command()(top.top)
app.command()(changes.changes)
app.command()(export.export)
app.command()(mcp.mcp)
app.command()(init.init)
app.command()(upkeep.prune)
app.command()(upkeep.archive)
app.command()(upkeep.restore)
app.command()(doctor.doctor)
app.add_typer(upkeep.database_app, name="db")
app.command()(sandbox.sandbox)
