"""`forager jobs …`: what there is, how it goes, and stopping, continuing or repeating it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from forager.cli.errors import JobNotDone
from forager.cli.invocation import Json
from forager.cli.running import NOBODY_WORKS, post, with_api

if TYPE_CHECKING:
    from rich.table import Table

    from forager.cli.connect import Reached

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
    from forager.cli import render

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
    from forager.cli import render

    found = with_api(context, lambda at: at.api.get(f"/jobs/{job}"))
    if as_json:
        render.show_json(found)
    else:
        show_job(found)


@app.command()
def watch(context: typer.Context, job: JobId, as_json: Json = False) -> None:
    """Follow a job until it has ended. Exit code 1 if it did not end well."""
    from forager.cli import progress, render

    async def work(at: "Reached") -> Mapping[str, Any]:
        view = progress.choose_view(render.notes(), quiet=as_json)
        if at.is_alone and not progress.has_stopped(await at.api.get(f"/jobs/{job}")):
            raise JobNotDone(f"There is nothing to watch of job {job}. {NOBODY_WORKS}")
        return await progress.follow(at.api, str(job), view)

    ended(with_api(context, work), as_json=as_json)


@app.command()
def pause(context: typer.Context, job: JobId, as_json: Json = False) -> None:
    """Start no more of its tasks until it is resumed. What is in flight ends."""
    _act(context, job, "pause", "Paused. Go on with: forager jobs resume {id}", as_json=as_json)


@app.command()
def resume(context: typer.Context, job: JobId, as_json: Json = False) -> None:
    """Go on with a paused job."""
    from forager.cli import render

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
    from forager.cli import render

    found, but = post(context, f"/jobs/{job}/retry")
    if as_json:
        render.show_json(found)
        return
    again = f"{render.some(found['requeued'], 'task')} queued again.{but}"
    said = again if found["requeued"] else "Nothing is queued again: this job has no failed tasks."
    render.out().print(said, markup=False, soft_wrap=True)


def ended(job: Mapping[str, Any], *, as_json: bool) -> None:
    """Show how a job ended; one that did not end well is an error, with what to do about it."""
    from forager.cli import render

    if as_json:
        render.show_json(job)
    else:
        show_result(job)
    if job["state"] in ("completed", "cancelled"):
        return
    if job["state"] == "paused":
        said = f"Job {job['id']} is paused" + (f": {job['reason']}" if job["reason"] else "")
        raise JobNotDone(f"{render.sentence(said)} Go on with: forager jobs resume {job['id']}")
    raise JobNotDone(
        f"{render.some(job['failed'], 'task')} of job {job['id']} failed. See why: forager dead list --job {job['id']}."
        f" Run them again: forager jobs retry {job['id']}"
    )


def show_result(job: Mapping[str, Any]) -> None:
    """What a finished job brought and cost, in a few lines."""
    from forager.cli import progress, render

    took = seconds_of(job)
    early = progress.saved(job)
    spent = spent_of(job)
    if early:
        spent += f", {render.count(early)} saved by early exit"
    figures = [
        ("job", str(job["id"])),
        ("state", render.state(job["state"])),
        ("ended by", _early_end(job)),
        *_brought(job, spent),
        ("skipped", render.count(job["skipped"]) if early is None and job["skipped"] else None),
        ("failed", render.count(job["failed"]) if job["failed"] else None),
        ("retries", render.count(job["retries"]) if job["retries"] else None),
        ("time", render.duration(took) if took is not None else None),
    ]
    render.out().print(render.facts(figures))


def _early_end(job: Mapping[str, Any]) -> str | None:
    from forager.cli import progress, render

    if not progress.is_out_of_budget(job):
        return None
    return f"its budget of {render.count(job['max_cost'])} credits: what was left is skipped"


def _brought(job: Mapping[str, Any], spent: str) -> list[tuple[str, Any]]:
    """In the words of its pipeline."""
    from forager.cli import render

    done = f"{render.count(job['completed'])} answered of {render.count(job['total'])}"
    if job["pipeline"] != "places":
        return [("tasks", done), ("records", render.count(job["records"]))]
    found = f"{render.count(job['records'])}, {render.count(job['discoveries'])} of them new"
    return [("queries", done), ("places", found), ("credits", spent)]


def show_job(job: Mapping[str, Any]) -> None:
    from forager.cli import render

    said = [f"{name} {value}" for name, value in job["params"].items() if value not in (None, False)]
    asked = render.brief(job["params"]) if "targets" in job["params"] else ", ".join(said)
    counters = [f"{render.count(job[name])} {name}" for name in _COUNTERS if job[name]]
    estimate = job["estimate"] or {}
    figures = [
        ("job", str(job["id"])),
        ("pipeline", job["pipeline"]),
        ("state", render.state(job["state"])),
        ("reason", render.plain(job["reason"]) if job["reason"] else None),
        ("asks for", render.plain(asked)),
        ("tasks", f"{render.count(job['total'])}: {', '.join(counters)}" if counters else render.count(job["total"])),
        ("retries", render.count(job["retries"])),
        ("records", f"{render.count(job['records'])}, {render.count(job['discoveries'])} new to the world"),
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
    from forager.cli import render
    from forager.cli.progress import done

    rows = render.table("job", "state", "asks for", "done", "credits", right=("done", "credits"))
    for column, width in zip(rows.columns, (36, 9, 9, 4, 7), strict=True):
        column.no_wrap, column.min_width = column.header != "state", width
    # The one column of any length must not push the others out: it gets what they leave.
    rows.columns[2].max_width = max(9, render.out().width - 66)
    for job in jobs:
        share = f"{100 * done(job) / job['total']:.0f}%" if job["total"] else "-"
        asks = render.plain(render.brief(job["params"]))
        rows.add_row(str(job["id"]), render.state(job["state"]), asks, share, render.count(job["spent"]))
    return rows


_COUNTERS = ("queued", "running", "completed", "failed", "skipped", "cancelled")


def spent_of(job: Mapping[str, Any]) -> str:
    """What was spent, and how much of it may not have been: an answer that is lost tells no price."""
    from forager.cli import render

    return f"{render.count(job['spent'])} spent" + _assumed(job)


def _spent(job: Mapping[str, Any]) -> str:
    from forager.cli import render

    text = f"{render.count(job['spent'])} credits"
    if job["max_cost"] is not None:
        text += f" of at most {render.count(job['max_cost'])}"
    return text + _assumed(job)


def _assumed(job: Mapping[str, Any]) -> str:
    from forager.cli import render

    return f" ({render.count(job['guessed'])} assumed: their answers were lost)" if job["guessed"] else ""


def seconds_of(job: Mapping[str, Any]) -> float | None:
    from forager.cli.render import when

    started, finished = when(job["started_at"]), when(job["finished_at"])
    return (finished - started).total_seconds() if started and finished else None


def _act(context: typer.Context, job: UUID, verb: str, said: str, *, as_json: bool) -> None:
    from forager.cli import render

    found = with_api(context, lambda at: at.api.post(f"/jobs/{job}/{verb}"))
    if as_json:
        render.show_json(found)
    else:
        render.out().print(said.format(id=job), markup=False, soft_wrap=True)
