"""`forager jobs …`: list, show, follow, pause, resume, cancel and retry jobs. Tables are in `job_tables.py`."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from forager.sdk.cli.client import JobNotDone
from forager.sdk.cli.invocation import NO_WORKER, JobId, Json, Reached, full_job, with_api
from forager.sdk.cli.row_files import Format, write_pages

app = typer.Typer(help="List, follow, pause, resume, cancel and retry jobs.", no_args_is_help=True)

LOG_LINES = 50


async def ended_jobs(
    database: Any, state: str | None, pipeline: str | None, limit: int, *, every: bool
) -> list[dict[str, Any]] | None:
    """Return the newest jobs as the API does, if all of them have ended; else None, because only the application can
    report why an open job waits, and which counters a crash has left incomplete."""
    from forager.app.features import FEATURES, all_features
    from forager.core.recheck import STANDING_JOBS
    from forager.ledger.reports.jobs import JobFilter, list_jobs

    if len(all_features()) != len(FEATURES) or (pipeline and pipeline not in {each.name for each in FEATURES}):
        return None  # a feature of another package may have hidden jobs
    hidden = () if every or pipeline else tuple(each.name for each in FEATURES if each.internal)
    asked = JobFilter(state, pipeline, hidden=hidden, standing=() if every else (STANDING_JOBS,))
    found = (await list_jobs(database, asked, cursor=None, limit=limit)).items
    return None if any(job.finished_at is None for job in found) else [job.model_dump(mode="json") for job in found]


@app.command("list")
def list_jobs(
    context: typer.Context,
    state: Annotated[str | None, typer.Option(help="Only jobs in this state, such as running or failed.")] = None,
    pipeline: Annotated[str | None, typer.Option(help="Only jobs of this pipeline.")] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Include jobs that Forager creates itself, such as webhooks.")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=1000, help="Maximum number of jobs, newest first.")
    ] = 20,
    as_json: Json = False,
) -> None:
    """List jobs, newest first.

    Example: forager jobs list --state running
    """
    from forager.cli import job_tables
    from forager.sdk.cli import render

    asked = {"state": state, "pipeline": pipeline, "internal": every or None, "limit": limit}

    async def quick(settings: Any, database: Any) -> Any:
        return None if database is None else await ended_jobs(database, state, pipeline, limit, every=every)

    jobs = with_api(context, lambda at: at.api.get("/jobs", **asked), quick=quick)
    if as_json:
        render.show_json(jobs)
    elif jobs:
        render.out().print(job_tables.listed(jobs))
    elif state or pipeline:
        chosen = " ".join(filter(None, (state, pipeline)))
        render.notes().print(f"No {chosen} jobs. See all of them: forager jobs list", markup=False)
    else:
        render.notes().print("No jobs. Create one: forager places run --keyword bars --state AZ")


@app.command()
def show(context: typer.Context, job: JobId, as_json: Json = False) -> None:
    """Show one job: its parameters, counters and costs, and why it waits, if it does.

    Example: forager jobs show <job>
    """
    from forager.cli import job_tables
    from forager.sdk.cli import render

    report = with_api(context, _of_job(job, lambda at, whole: at.api.get(f"/jobs/{whole}")))
    render.show_json(report) if as_json else render.out().print(job_tables.shown(report))


@app.command()
def tasks(
    context: typer.Context,
    job: JobId,
    state: Annotated[str | None, typer.Option(help="Only tasks in this state, such as queued or failed.")] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=1000, help="Maximum number of tasks, by kind and key.")
    ] = 50,
    as_json: Json = False,
) -> None:
    """List the tasks of a job: state, attempts, and the last error.

    Example: forager jobs tasks <job> --state failed
    """
    from forager.cli import job_tables
    from forager.sdk.cli import render

    async def ask(at: Reached, whole: str) -> Any:
        return await at.api.get(f"/jobs/{whole}/tasks", state=state, limit=limit)

    listed = with_api(context, _of_job(job, ask))
    if as_json:
        render.show_json(listed)
    elif listed:
        render.out().print(job_tables.task_table(listed))
    else:
        render.notes().print(f"This job has no {state + ' ' if state else ''}tasks.", markup=False)


@app.command()
def logs(
    context: typer.Context,
    job: JobId,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=1000, help="Maximum number of entries; the newest are shown.")
    ] = LOG_LINES,
    as_json: Json = False,
) -> None:
    """Show what happened to a job and its tasks, oldest first: created, paused, retried, each end and its error.

    Covers all tasks of a job with up to 1,000 of them, and the failed tasks of a longer one.

    Example: forager jobs logs <job>
    """
    from forager.cli import job_tables
    from forager.sdk.cli import render

    entries = with_api(context, _of_job(job, lambda at, whole: job_tables.job_log_entries(at.api, whole, limit)))
    render.show_json(entries) if as_json else render.out().print(job_tables.job_log_table(entries))


@app.command()
def watch(context: typer.Context, job: JobId, as_json: Json = False) -> None:
    """Follow a job until it has ended. Exit code 1 if it failed or is paused.

    Example: forager jobs watch <job>
    """
    from forager.cli.feature_commands import words_of
    from forager.sdk.cli import progress
    from forager.sdk.cli.run_job import ended, follow

    async def ask(at: Reached, whole: str) -> Mapping[str, Any]:
        report = await at.api.get(f"/jobs/{whole}")
        if at.is_alone and not progress.has_stopped(report):
            raise JobNotDone(f"Job {whole} is not progressing. {NO_WORKER}")
        return await follow(at.api, whole, words=words_of(report["pipeline"]), quiet=as_json)

    followed = with_api(context, _of_job(job, ask))
    ended(followed, words_of(followed["pipeline"]), as_json=as_json)


@app.command()
def pause(context: typer.Context, job: JobId, as_json: Json = False) -> None:
    """Start no more of its tasks until it is resumed. In-flight tasks finish.

    Example: forager jobs pause <job>
    """
    _act(context, job, "pause", "Paused. Resume it: forager jobs resume {id}", as_json=as_json)


@app.command()
def resume(context: typer.Context, job: JobId, as_json: Json = False) -> None:
    """Resume a paused job.

    Example: forager jobs resume <job>
    """
    _act(context, job, "resume", "Resumed.{remark}", as_json=as_json)


@app.command()
def cancel(context: typer.Context, job: JobId, as_json: Json = False) -> None:
    """Cancel a job: its queued tasks do not run. In-flight tasks finish, and records stay.

    Example: forager jobs cancel <job>
    """
    _act(context, job, "cancel", "Cancelled. Its records stay.", as_json=as_json)


@app.command()
def retry(context: typer.Context, job: JobId, as_json: Json = False) -> None:
    """Requeue its failed tasks and those skipped because of them.

    Example: forager jobs retry <job>
    """
    from forager.sdk.cli import render

    answered, remark = with_api(context, _of_job(job, _posted("retry")))
    if as_json:
        render.show_json(answered)
        return
    again = f"{render.some(answered['requeued'], 'task')} queued again.{remark}"
    message = again if answered["requeued"] else "Nothing to retry: this job has no failed tasks."
    render.out().print(message, markup=False, soft_wrap=True)


@app.command()
def rejected(
    context: typer.Context,
    job: JobId,
    form: Annotated[Format, typer.Option("--format", "-f", help="JSON lines or CSV.")] = Format.JSONL,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", dir_okay=False, help="Output file (default: standard output).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the rows of a job that failed validation, each with its problem.

    With --output and --json the number of rows is printed as JSON.

    Example: forager jobs rejected <job> -o rejected.csv
    """
    from forager.sdk.cli import render

    rows = with_api(
        context, _of_job(job, lambda at, whole: write_pages(at.api.pages(f"/jobs/{whole}/rejected"), form, output))
    )
    if output is None:
        return
    if as_json:
        render.show_json({"job": job, "rows": rows, "output": str(output)})
    else:
        render.notes().print(f"{render.some(rows, 'row')} in {output}", markup=False, soft_wrap=True)


def _act(context: typer.Context, job: str, verb: str, message: str, *, as_json: bool) -> None:
    from forager.sdk.cli import render
    from forager.sdk.cli.invocation import short_job

    answered, remark = with_api(context, _of_job(job, _posted(verb)))
    if as_json:
        render.show_json(answered)
    else:
        render.out().print(message.format(id=short_job(job), remark=remark), markup=False, soft_wrap=True)


def _posted(verb: str) -> Callable[[Reached, str], Awaitable[tuple[Any, str]]]:
    async def ask(at: Reached, whole: str) -> tuple[Any, str]:
        return await at.api.post(f"/jobs/{whole}/{verb}"), f" {NO_WORKER}" if at.is_alone else ""

    return ask


def _of_job(job: str, ask: Callable[[Reached, str], Awaitable[Any]]) -> Callable[[Reached], Awaitable[Any]]:
    """Call `ask(at, id)` with the full id of the job that the user named by a prefix."""

    async def work(at: Reached) -> Any:
        return await ask(at, await full_job(at.api, job))

    return work
