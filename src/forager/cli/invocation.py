"""What the flags before the command say, and the options that every command shares. Nothing here does work."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from forager.settings import Settings


@dataclass
class Invocation:
    """One run of the command. Filled in by the parser, read by the command and by the error report."""

    arguments: tuple[str, ...] = ()
    home: Path | None = None
    debug: bool = False
    as_json: bool = False

    def settings(self, overrides: Mapping[str, object] | None = None) -> "Settings":
        from forager.settings import load_settings  # pydantic is slow to import, and `--help` needs none of it

        return load_settings({"home": self.home, **(overrides or {})})


def invocation(context: typer.Context) -> Invocation:
    found: Invocation = context.find_root().obj
    return found


def quiet_log(*, debug: bool) -> None:
    """A command speaks for itself. What the rooms below log is for a process that runs on; here only with --debug."""
    from forager.logs import configure_logs

    configure_logs("DEBUG" if debug else "CRITICAL")


def _remember_json(context: typer.Context, value: bool) -> bool:
    """An error that comes later must be written as JSON, too."""
    if value and isinstance(context.find_root().obj, Invocation):
        context.find_root().obj.as_json = True
    return value


Json = Annotated[bool, typer.Option("--json", help="Print the data as JSON, for programs.", callback=_remember_json)]
