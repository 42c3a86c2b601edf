"""Creating a job and seeing it through: by a running Forager, or by the engine in this very process."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from forager.cli import progress, render
from forager.cli.exit_codes import ExitCode
from forager.cli.jobs import ended
from forager.cli.places import plan_figures
from forager.cli.stopping import StopRequest, stop_on_signals
from forager.core.errors import Rejected

if TYPE_CHECKING:
    from forager.app import App
    from forager.cli.client import Api
    from forager.cli.connect import Reached
    from forager.cli.progress import Job, View
    from forager.settings import Settings

LOOK_EVERY = 0.1


async def run_job(
    at: "Reached",
    settings: "Settings",
    job: Mapping[str, Any],
    *,
    idempotency_key: str | None,
    watch: bool,
    as_json: bool,
) -> None:
    if at.app is not None and not job.get("dry_run"):
        check_upstream(settings)
    answered = await at.api.create("/places/jobs", job, idempotency_key=idempotency_key)
    created, job_id = answered.data, answered.data["job_id"]
    if answered.is_repeated and not as_json:
        said = f"Job {job_id} was created before with this idempotency key; no other is made."
        render.notes().print(said, markup=False, soft_wrap=True)
    if job.get("dry_run"):
        _show_plan(created, as_json=as_json)
        return
    if not as_json:
        render.notes().print(f"Job {job_id}: {render.count(created['total_queries'])} queries", markup=False)
    view = progress.choose_view(render.notes(), quiet=as_json)
    if at.app is not None:
        ended(await work_on(at.api, at.app, job_id, view), as_json=as_json)
    elif watch:
        ended(await progress.follow(at.api, job_id, view), as_json=as_json)
    elif as_json:
        render.show_json(created)
    else:
        render.out().print(f"Handed to the running Forager. Follow it: forager jobs watch {job_id}", markup=False)


async def work_on(api: "Api", app: "App", job_id: str, view: "View") -> "Job":
    """Run the engine here until this job has ended. Ctrl-C drains: nothing is lost, nothing is paid twice."""
    with stop_on_signals() as stop:
        following = asyncio.create_task(progress.follow(api, job_id, view))
        hurry = asyncio.create_task(_give_back_when_hurried(app, stop))
        stopped = asyncio.create_task(stop.wait())
        try:
            async with app.engine(schedules=False) as engine:
                await asyncio.wait([following, stopped, engine], return_when=asyncio.FIRST_COMPLETED)
                if engine.done():
                    engine.result()
                await _until_told(app, stopped)
        finally:
            for task in (hurry, stopped):
                task.cancel()
        if following.done():
            return following.result()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        _say_how_to_go_on(await api.get(f"/jobs/{job_id}"))
        raise typer.Exit(ExitCode.INTERRUPTED)


def check_upstream(settings: "Settings") -> None:
    """Before anything is stored: without a key every query would be refused."""
    if settings.serper_api_key is None:
        raise Rejected(
            "SERPER_API_KEY is not set, so Serper would refuse every query. Set it (environment or .env),"
            " or try without a key: `forager demo`, or `forager sandbox` for an upstream of your own."
        )


def _show_plan(created: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        render.show_json(created)
        return
    render.out().print(render.facts([("job", created["job_id"]), *plan_figures(created["plan"])]))


async def _until_told(app: "App", stopped: "asyncio.Task[None]") -> None:
    """Whoever wants to be told of the job's end is, or the message waits on disk for its next try."""
    while not stopped.done() and not await app.has_told():  # noqa: ASYNC110 - the ledger has no such event
        await asyncio.sleep(LOOK_EVERY)


async def _give_back_when_hurried(app: "App", stop: StopRequest) -> None:
    await stop.wait_for_hurry()
    await app.worker.drain(0)


def _say_how_to_go_on(job: "Job") -> None:
    render.notes().print(
        f"Interrupted: {progress.done(job):,} of {job['total']:,} queries are done, nothing is lost. Go on with:"
        " forager worker --until-idle",
        markup=False,
        soft_wrap=True,
    )
