"""Around every command: settings, an event loop, and the API of the store."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import typer

from forager.kit.cli.invocation import Reached, invocation

T = TypeVar("T")

NO_WORKER = "No worker is running: start `forager up`, or run `forager worker --until-idle`."


def with_api(context: typer.Context, work: Callable[[Reached], Awaitable[T]]) -> T:
    """Do `work` on the API of this store: of the Forager that runs, or of one opened for this command."""
    current = invocation(context)
    settings = current.settings()

    async def inside() -> T:
        async with current.host.reach(settings, debug=current.debug) as reached:
            return await work(reached)

    return run_loop(inside())


def post(context: typer.Context, path: str) -> tuple[Any, str]:
    """Post to the API. Returns its answer, and a remark to print if no worker would act on it."""

    async def work(at: Reached) -> tuple[Any, str]:
        return await at.api.post(path), f" {NO_WORKER}" if at.is_alone else ""

    return with_api(context, work)


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a fast event loop of its own."""
    import uvloop

    return uvloop.run(main)
