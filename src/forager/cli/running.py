"""Around every command: settings, a quiet log, an event loop, and the API of the store."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from forager.cli.invocation import invocation

if TYPE_CHECKING:
    from forager.cli.connect import Reached

T = TypeVar("T")

NOBODY_WORKS = "Nobody works here now: start `forager up`, or run `forager worker --until-idle`."


def with_api(context: typer.Context, work: "Callable[[Reached], Awaitable[T]]") -> T:
    """Do `work` on the API of this store: of the Forager that runs, or of one opened for this command."""
    from forager.cli.connect import reach

    settings = invocation(context).settings()

    async def inside() -> T:
        async with reach(settings, debug=invocation(context).debug) as reached:
            return await work(reached)

    return run_loop(inside())


def post(context: typer.Context, path: str) -> tuple[Any, str]:
    """What the API answered, and what to add for a person if nothing comes of it by itself."""

    async def work(at: "Reached") -> tuple[Any, str]:
        return await at.api.post(path), f" {NOBODY_WORKS}" if at.is_alone else ""

    return with_api(context, work)


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    import uvloop

    return uvloop.run(main)
