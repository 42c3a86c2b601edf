"""The frame of every command: settings, an event loop, and the API of the store."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

import typer

from forager.kit.cli.invocation import Reached, StoreUse, invocation

T = TypeVar("T")

NO_WORKER = "No worker is running: start `forager up`, or run `forager worker --until-idle`."


def with_api(
    context: typer.Context,
    work: Callable[[Reached], Awaitable[T]],
    overrides: Mapping[str, object] | None = None,
    *,
    fields: Mapping[str, str] | None = None,
    store: StoreUse = "existing",
) -> T:
    """Call `work` with the API of this store: that of a running Forager, or of one opened for this command.

    `store`: what to do if there is no store. `overrides` are settings for this command. They do not reach a Forager
    that runs. `fields` maps fields of the API to the parameters of this command that set them, where the two names
    differ, so that an error names the option.
    """
    current = invocation(context)
    current.flags = flags_of(context, fields or {})
    settings = current.settings(overrides)

    async def inside() -> T:
        async with current.host.reach(settings, debug=current.debug, store=store) as reached:
            return await work(reached)

    return run_loop(inside())


def flags_of(context: typer.Context, fields: Mapping[str, str]) -> dict[str, str]:
    """Map each field of the API to the option or argument that sets it: the parameter of its name, or of `fields`."""
    flags = {
        str(each.name): str(each.metavar or each.name).upper().strip("[].")
        if each.param_type_name == "argument"
        else max(each.opts, key=len)
        for each in context.command.params
    }
    return flags | {field: flags[parameter] for field, parameter in fields.items() if parameter in flags}


def post(context: typer.Context, path: str, *, fields: Mapping[str, str] | None = None) -> tuple[Any, str]:
    """Post to the API. Returns the answer, and a remark to print if no worker is running that could act on it."""

    async def work(at: Reached) -> tuple[Any, str]:
        return await at.api.post(path), f" {NO_WORKER}" if at.is_alone else ""

    return with_api(context, work, fields=fields)


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a fast event loop of its own."""
    import uvloop

    return uvloop.run(main)
