"""`forager demo`: a demonstration of ten seconds, without a key and without a network."""

from typing import Annotated

import typer

from forager.cli.feature_commands import with_demo
from forager.cli.host import quiet_log
from forager.core.errors import Rejected
from forager.kit.cli.demo import Demo, OwnDemo
from forager.kit.cli.invocation import Json, invocation


def demo(
    context: typer.Context,
    pipeline: Annotated[
        str | None, typer.Argument(metavar="PIPELINE", help="Pipeline to demonstrate (default: places).")
    ] = None,
    crash: Annotated[
        bool, typer.Option("--crash", help="Kill the worker in the middle, let it resume, and audit the result.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a real job against a simulated upstream: no key, no network, nothing to pay.

    Works in a data folder of its own (<home>/demo/PIPELINE), fresh each time; your own data is not touched.
    """
    from forager.cli import demo_setup

    name, chosen = _chosen(pipeline)
    given = invocation(context)
    quiet_log(debug=given.debug)
    home = demo_setup.fresh_folder(given.settings().home / "demo" / (f"{name}-crash" if crash else name))
    if isinstance(chosen, OwnDemo):
        if crash:
            raise Rejected(f"The demo of {name} has no crash. Try `forager demo --crash`.")
        chosen.run(home, as_json)
        return
    with demo_setup.upstream_process(chosen, home) as ready:
        if crash:
            from forager.cli.demo_crash import run_crash_demo

            run_crash_demo(chosen, home, ready(), as_json=as_json)
        else:
            from forager.cli.demo_run import run_demo

            run_demo(chosen, home, ready(), as_json=as_json)


def _chosen(pipeline: str | None) -> tuple[str, Demo | OwnDemo]:
    """Return the name of a demo, and the demo."""
    features = with_demo()
    for feature in features:
        if feature.demo is not None and pipeline in (None, feature.name):
            demo: Demo | OwnDemo = feature.demo.load()
            return feature.name, demo
    names = ", ".join(feature.name for feature in features)
    raise Rejected(f"There is no demo of {pipeline!r}. Choose one of: {names}.")
