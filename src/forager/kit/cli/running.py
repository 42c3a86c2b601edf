"""The frame of every command: settings, an event loop, and the API of the store."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

import typer

from forager.kit.cli.invocation import Reached, invocation

T = TypeVar("T")

READING = frozenset("export facets health history kinds list logs refused rejected search show stat tasks why".split())
"""Commands of these names change nothing, so they do not create the tables of an empty PostgreSQL database either."""
NO_WORKER = "No worker is running: start `forager up`, or run `forager worker --until-idle`."


def with_api(
    context: typer.Context, work: Callable[[Reached], Awaitable[T]], overrides: Mapping[str, object] | None = None
) -> T:
    """Call `work` with the API of this store: that of a running Forager, or of one opened for this command.

    `overrides` are settings for this command. They do not reach a Forager that runs.
    """
    current = invocation(context)
    current.flags = flags_of(context)
    settings = current.settings(overrides)

    async def inside() -> T:
        reads = context.command.name in READING
        async with current.host.reach(settings, debug=current.debug, only_reads=reads) as reached:
            return await work(reached)

    return run_loop(inside())


def flags_of(context: typer.Context) -> dict[str, str]:
    """Map each parameter's name, which is the name of the API's field, to its option or argument."""
    return {
        str(each.name): str(each.metavar) if each.param_type_name == "argument" else max(each.opts, key=len)
        for each in context.command.params
        if each.name and (each.param_type_name == "option" or each.metavar)
    }


def post(context: typer.Context, path: str) -> tuple[Any, str]:
    """Post to the API. Returns the answer, and a remark to print if no worker is running that could act on it."""

    async def work(at: Reached) -> tuple[Any, str]:
        return await at.api.post(path), f" {NO_WORKER}" if at.is_alone else ""

    return with_api(context, work)


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a fast event loop of its own."""
    import uvloop

    return uvloop.run(main)
