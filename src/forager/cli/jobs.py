"""`forager jobs …`: what there is, how it goes, and stopping, continuing or repeating it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from forager.kit.cli.errors import JobNotDone
from forager.kit.cli.invocation import Json
from forager.kit.cli.running import NO_WORKER, post, with_api

if TYPE_CHECKING:
    from rich.table import Table

    from forager.kit.cli.invocation import Reached

app = typer.Typer(help="See, follow, pause, resume, cancel and retry jobs.", no_args_is_help=True)

JobId = Annotated[UUID, typer.Argument(metavar="JOB", help="Its id, as `forager jobs list` shows it.")]


@app.command("list")
def list_jobs(
    context: typer.Context,
    state: Annotated[str | None, typer.Option(help="Only jobs in this state, such as running or failed.")] = None,
    pipeline: Annotated[str | None, typer.Option(help="Only jobs of this pipeline.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, newest first.")] = 20,
    as_json: Json = False,
) -> None:
    """List jobs, newest first."""
    from forager.kit.cli import render

    jobs = with_api(context, lambda at: at.api.get("/jobs", state=state, pipeline=pipeline, limit=limit))
    if as_json:
        render.show_json(jobs)
        return
    if not jobs:
        render.notes().print("No jobs. Create one: forager places run --keyword bars --state AZ")
        return
    render.out().print(_listed(jobs))


@app.command()
def show(context: typer.Context, job: JobId, as_json: Json = False) -> None:
    """Show one job: its parameters, counters and costs."""
    from forager.kit.cli import render

    found = with_api(context, lambda at: at.api.get(f"/jobs/{job}"))
    if as_json:
        render.show_json(found)
    else:
        show_job(found)


@app.command()
def watch(context: typer.Context, job: JobId, as_json: Json = False) -> None:
    """Follow a job until it has ended. Exit code 1 if it failed or is paused."""
    from forager.cli.feature_commands import words_of
    from forager.kit.cli import progress, render
    from forager.kit.cli.job_report import ended

    async def work(at: "Reached") -> Mapping[str, Any]:
        found = await at.api.get(f"/jobs/{job}")
        if at.is_alone and not progress.has_stopped(found):
            raise JobNotDone(f"Job {job} does not move. {NO_WORKER}")
        view = progress.choose_view(render.notes(), quiet=as_json, words=words_of(found["pipeline"]))
        return await progress.follow(at.api, str(job), view)

    job_as_it_ended = with_api(context, work)
    ended(job_as_it_ended, words_of(job_as_it_ended["pipeline"]), as_json=as_json)


@app.command()
def pause(context: typer.Context, job: JobId, as_json: Json = False) -> None:
    """Start no more of its tasks until it is resumed. What is in flight ends."""
    _act(context, job, "pause", "Paused. Resume it: forager jobs resume {id}", as_json=as_json)


@app.command()
def resume(context: typer.Context, job: JobId, as_json: Json = False) -> None:
    """Go on with a paused job."""
    from forager.kit.cli import render

    found, but = post(context, f"/jobs/{job}/resume")
    if as_json:
        render.show_json(found)
    else:
        render.out().print(f"Resumed.{but}", markup=False, soft_wrap=True)


@app.command()
def cancel(context: typer.Context, job: JobId, as_json: Json = False) -> None:
    """End a job: what is queued will not run, what was found stays."""
    _act(context, job, "cancel", "Cancelled. What it found stays.", as_json=as_json)


@app.command()
def retry(context: typer.Context, job: JobId, as_json: Json = False) -> None:
    """Run its failed tasks again, and those that were skipped because of them."""
    from forager.kit.cli import render

    found, but = post(context, f"/jobs/{job}/retry")
    if as_json:
        render.show_json(found)
        return
    again = f"{render.some(found['requeued'], 'task')} queued again.{but}"
    said = again if found["requeued"] else "Nothing is queued again: this job has no failed tasks."
    render.out().print(said, markup=False, soft_wrap=True)


def show_job(job: Mapping[str, Any]) -> None:
    from forager.cli.feature_commands import words_of
    from forager.kit.cli import render

    counters = [f"{render.count(job[name])} {name}" for name in _COUNTERS if job[name]]
    estimate = job["estimate"] or {}
    figures = [
        ("job", str(job["id"])),
        ("pipeline", job["pipeline"]),
        ("state", render.state(job["state"])),
        ("reason", render.plain(job["reason"]) if job["reason"] else None),
        ("request", render.plain(words_of(job["pipeline"]).request(job["params"]))),
        ("tasks", f"{render.count(job['total'])}: {', '.join(counters)}" if counters else render.count(job["total"])),
        ("retries", render.count(job["retries"])),
        ("records", f"{render.count(job['records'])}, {render.count(job['discoveries'])} new"),
        ("spent", _spent(job)),
        (
            "estimate",
            f"{render.count(estimate['expected_credits'])} credits" if "expected_credits" in estimate else None,
        ),
        ("schedule", job["schedule"]),
        ("created", render.moment(job["created_at"])),
        ("started", render.moment(job["started_at"])),
        ("finished", render.moment(job["finished_at"])),
    ]
    render.out().print(render.facts(figures))


def _listed(jobs: Sequence[Mapping[str, Any]]) -> "Table":
    from forager.cli.feature_commands import words_of
    from forager.kit.cli import render
    from forager.kit.cli.progress import done

    rows = render.table("job", "state", "request", "done", "credits", right=("done", "credits"))
    for column, width in zip(rows.columns, (36, 9, 9, 4, 7), strict=True):
        column.no_wrap, column.min_width = column.header != "state", width
    # The one column of any length must not push the others out: it gets what they leave.
    rows.columns[2].max_width = max(9, render.out().width - 66)
    for job in jobs:
        share = f"{100 * done(job) / job['total']:.0f}%" if job["total"] else "-"
        asks = render.plain(words_of(job["pipeline"]).request(job["params"]))
        rows.add_row(str(job["id"]), render.state(job["state"]), asks, share, render.count(job["spent"]))
    return rows


_COUNTERS = ("queued", "running", "completed", "failed", "skipped", "cancelled")


def _spent(job: Mapping[str, Any]) -> str:
    from forager.kit.cli import render
    from forager.kit.cli.words import assumed

    text = f"{render.count(job['spent'])} credits"
    if job["max_cost"] is not None:
        text += f" of at most {render.count(job['max_cost'])}"
    return text + assumed(job)


def _act(context: typer.Context, job: UUID, verb: str, said: str, *, as_json: bool) -> None:
    from forager.kit.cli import render

    found = with_api(context, lambda at: at.api.post(f"/jobs/{job}/{verb}"))
    if as_json:
        render.show_json(found)
    else:
        render.out().print(said.format(id=job), markup=False, soft_wrap=True)
