"""Around every command: settings, a quiet log, an event loop, and the API of the store."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from forager.cli.invocation import invocation

if TYPE_CHECKING:
    from forager.cli.connect import Reached

T = TypeVar("T")


def with_api(context: typer.Context, work: "Callable[[Reached], Awaitable[T]]") -> T:
    """Do `work` on the API of this store: of the Forager that runs, or of one opened for this command."""
    from forager.cli.connect import reach

    settings = invocation(context).settings()

    async def inside() -> T:
        async with reach(settings, debug=invocation(context).debug) as reached:
            return await work(reached)

    return run_loop(inside())


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    import uvloop

    return uvloop.run(main)
