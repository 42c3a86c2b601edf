"""`forager restore`: rebuild jobs and queue from a mirror when the store is lost."""

from typing import Annotated

import typer

from forager.cli.host import quiet_log
from forager.kit.cli.invocation import Json, invocation


def restore(
    context: typer.Context,
    source: Annotated[str, typer.Option("--from", help="Where the mirror is: bigquery.")],
    as_json: Json = False,
) -> None:
    """Restore jobs, queries and the results of unfinished jobs into an empty store.

    What the mirror does not call finished runs again. If interrupted, run it again.
    """
    from dataclasses import asdict

    from forager.app import open_app
    from forager.app.restore import Restored
    from forager.app.restore import restore as restored
    from forager.kit.cli import render
    from forager.kit.cli.running import run_loop

    given = invocation(context)
    settings = given.settings()
    quiet_log(debug=given.debug)

    async def run() -> Restored:
        async with open_app(settings) as app:
            return await restored(app, source)

    done = run_loop(run())
    if as_json:
        render.show_json(asdict(done))
        return
    render.out().print(
        f"{render.some(done.jobs, 'job')} restored, {done.unfinished:,} of them unfinished; {done.queued:,} of"
        f" {render.some(done.tasks, 'task')} will run; {render.some(done.records, 'record')}.",
        markup=False,
    )
