"""`forager demo`: see it work in ten seconds, without a key and without a network. Ends by itself."""

from typing import Annotated

import typer

from forager.cli.invocation import Json, invocation, quiet_log


def demo(
    context: typer.Context,
    crash: Annotated[
        bool, typer.Option("--crash", help="Kill the worker in the middle, let it resume, and audit what came of it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a real places job against a simulated Serper: no key, no network, nothing to pay.

    Works in a data folder of its own (<home>/demo), fresh each time; your own data is not touched.
    """
    from forager.cli import demo_setup

    given = invocation(context)
    quiet_log(debug=given.debug)
    home = demo_setup.fresh_folder(given.settings().home / "demo")
    with demo_setup.sandbox_process(home) as ready:
        if crash:
            from forager.cli.demo_crash import run_crash_demo

            run_crash_demo(home, ready(), as_json=as_json)
        else:
            from forager.cli.demo_run import run_demo

            run_demo(home, ready(), as_json=as_json)
