"""`forager demo`: all pipelines at once, or one of them, without a key and without a network."""

from typing import Annotated

import typer

from forager.app.features import all_features
from forager.cli.feature_commands import with_demo
from forager.core.errors import Rejected
from forager.sdk.cli.demo import Demo, OwnDemo
from forager.sdk.cli.invocation import Json, invocation


def demo(
    context: typer.Context,
    pipeline: Annotated[
        str | None, typer.Argument(metavar="PIPELINE", help="One pipeline (default: all of them at once).")
    ] = None,
    crash: Annotated[
        bool, typer.Option("--crash", help="Kill the worker in the middle, let it resume, and audit the result.")
    ] = False,
    stay: Annotated[
        bool, typer.Option("--stay", help="Keep running with new work until Ctrl-C, so that the dashboard moves.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run real jobs against simulated upstreams: no key, no network, nothing to pay.

    Without a name, all pipelines run at once, and the worker is killed in the middle. Ends with a summary, a report and
    commands to try. With a name, only that pipeline runs. With --crash alone, it is places. Works in a data folder of
    its own (<home>/demo/all or <home>/demo/PIPELINE), fresh each time; your own data is not touched.

    Example: forager demo --stay
    """
    from forager.cli import demo_run
    from forager.logging import quiet_logs

    given = invocation(context)
    quiet_logs(debug=given.debug)
    if pipeline is None and not crash:
        from forager.cli.demo_all import run_all

        parts = [feature.showcase.load() for feature in all_features() if feature.showcase is not None]
        run_all(parts, demo_run.fresh_folder(given.settings().home / "demo" / "all"), as_json=as_json, stay=stay)
        return
    if stay:
        raise Rejected("--stay keeps all pipelines running. Leave out the name and --crash: `forager demo --stay`.")
    name, chosen = _chosen(pipeline)
    home = demo_run.fresh_folder(given.settings().home / "demo" / (f"{name}-crash" if crash else name))
    if isinstance(chosen, OwnDemo):
        if crash:
            raise Rejected(f"The demo of {name} has no crash. Try `forager demo --crash`.")
        chosen.run(home, as_json)
        return
    with demo_run.upstream_process(chosen, home) as ready:
        if crash:
            from forager.cli.demo_run import run_crash_demo

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
