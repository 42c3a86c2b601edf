"""One run of the command line: the global options, the options that commands share, and access to the application.

The kit does not import the application. `Invocation` holds a `Host`, which reads the settings and connects to the API.
"""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import typer

from forager.kit.cli.client import Api


class LocalEngine(Protocol):
    """The engine on the store that this process has opened."""

    def running(self) -> AbstractAsyncContextManager["asyncio.Task[None]"]:
        """Run the engine while the block runs, without schedules. At its end, in-flight tasks finish."""
        ...

    async def give_back(self) -> None:
        """Return in-flight tasks to the queue at once."""
        ...

    async def has_notified(self) -> bool:
        """Deliver the webhooks of jobs that have ended. Returns whether each was tried at least once."""
        ...


StoreUse = Literal["existing", "created", "optional"]
"""What a command does where there is no store: `existing` fails and names the folder, because the store may be
elsewhere; `created` creates it; `optional` answers as for an empty store, and leaves no trace."""


@dataclass(frozen=True, slots=True)
class Reached:
    """The API of the store that a command works on."""

    api: Api
    engine: LocalEngine | None = None
    """Set if this process has opened the store itself; None if a running Forager answers."""
    is_alone: bool = False
    """Whether no other process can be working on the store now."""


class Host(Protocol):
    """The interface of the application that the kit uses."""

    def settings(self, overrides: Mapping[str, object]) -> Any:
        """Return the settings with these values on top. Raises `Rejected` if one is not valid."""
        ...

    def reach(
        self, settings: Any, *, debug: bool, store: StoreUse = "existing"
    ) -> AbstractAsyncContextManager[Reached]:
        """Connect to the API of a running Forager, or open the store in this process."""
        ...


@dataclass
class Invocation:
    """One run of the command. The parser fills it in; the command and the error report read it."""

    host: Host
    arguments: tuple[str, ...] = ()
    home: Path | None = None
    debug: bool = False
    as_json: bool = False
    flags: Mapping[str, str] = field(default_factory=dict)
    """The command's options by the API field that each sets, so that an error can name the option."""

    def settings(self, overrides: Mapping[str, object] | None = None) -> Any:
        """Return the settings of this run: overrides and `--home` come before environment and files."""
        return self.host.settings({"home": self.home, **(overrides or {})})


def invocation(context: typer.Context) -> Invocation:
    """Return the invocation that this context belongs to."""
    current: Invocation = context.find_root().obj
    return current


def _remember_json(context: typer.Context, value: bool) -> bool:
    """Remember `--json` in the invocation, because a later error must be printed as JSON, too."""
    if value and isinstance(context.find_root().obj, Invocation):
        context.find_root().obj.as_json = True
    return value


Json = Annotated[bool, typer.Option("--json", help="Print the data as JSON, for programs.", callback=_remember_json)]
