"""Creates a job and follows it to its end; the work is done by a running Forager or by an engine in this process."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import typer

from forager.sdk.cli import progress, render
from forager.sdk.cli.client import JobNotDone
from forager.sdk.cli.invocation import ExitCode, LocalEngine, Reached, StopRequest, stop_on_signals
from forager.sdk.cli.render import GENERAL, Words

if TYPE_CHECKING:
    from forager.sdk.cli.client import Api
    from forager.sdk.cli.progress import Job, ProgressView


# Reports how a job ended: a few lines and an exit code.


def ended(job: Mapping[str, Any], words: Words = GENERAL, *, as_json: bool) -> None:
    """Show how a job ended. Raises `JobNotDone`, with what to do next, if it is paused or some of its tasks failed."""
    if as_json:
        render.show_json(job)
    else:
        show_result(job, words)
    check_done(job, words)


_NO_BUDGET = "its budget does not pay for its first request"


def check_done(job: Mapping[str, Any], words: Words = GENERAL) -> None:
    """Raise `JobNotDone`, with what to do next, if a job is paused or some of its tasks failed."""
    if job["state"] in ("completed", "cancelled"):
        return
    if job["state"] == "paused":
        paused = f"Job {job['id']} is paused" + (f": {job['reason']}" if job["reason"] else "")
        raise JobNotDone(f"{render.sentence(paused)} Resume it: forager jobs resume {job['id']}")
    if not job["failed"]:
        why = _NO_BUDGET if job["reason"] == "budget" else job["reason"] or "see `forager jobs show`."
        raise JobNotDone(render.sentence(f"Job {job['id']} has completed nothing: {why}"))
    raise JobNotDone(
        f"{words.tasks(job['failed'])} of job {job['id']} failed. See why: forager dead list --job {job['id']}."
        f" Run them again: {words.retry.format(job=job['id'])}"
    )


def show_result(job: Mapping[str, Any], words: Words = GENERAL) -> None:
    """Print the results and the cost of a finished job."""
    took = seconds_of(job)
    figures = [
        ("job", str(job["id"])),
        ("state", render.state(job["state"])),
        ("ended by", _early_end(job, words)),
        *words.results(job),
        ("failed", render.count(job["failed"]) if job["failed"] else None),
        ("retries", render.count(job["retries"]) if job["retries"] else None),
        ("time", render.duration(took) if took is not None else None),
    ]
    render.out().print(render.facts(figures))


def seconds_of(job: Mapping[str, Any]) -> float | None:
    """Seconds from the job's start to its end; None while it runs."""
    started, finished = render.when(job["started_at"]), render.when(job["finished_at"])
    return (finished - started).total_seconds() if started and finished else None


def _early_end(job: Mapping[str, Any], words: Words) -> str | None:
    if not progress.is_out_of_budget(job):
        return None
    return f"its budget of {words.cost(job['max_cost'])}; the remaining tasks are skipped"


LOOK_EVERY = 0.1


async def run_job(
    at: Reached,
    path: str,
    body: Mapping[str, Any],
    *,
    words: Words = GENERAL,
    total: str | None = "total",
    idempotency_key: str | None = None,
    watch: bool = False,
    as_json: bool = False,
    show_plan: Callable[[Mapping[str, Any]], None] | None = None,
) -> "Job | None":
    """Create a job with a POST of `body` to `path` and follow it to its end. `/jobs` takes jobs of every pipeline.

    If this process has opened the store, it runs the engine itself. Otherwise the running Forager does the work, and
    the job is followed only with `watch`. `total` names the field of the answer that counts the job's tasks; None for a
    job whose tasks are not known in advance. A body with `dry_run` is priced and not run; `show_plan` prints the
    answer. Raises `JobNotDone` unless the job completes. Returns the job if it was followed.
    """
    answered = await at.api.create(path, body, idempotency_key=idempotency_key)
    created = answered.data
    job_id = created["job_id"] if "job_id" in created else created["id"]
    if answered.is_repeated and not as_json:
        remark = f"Job {job_id} was created before with this idempotency key; no second job was created."
        render.notes().print(remark, markup=False, soft_wrap=True)
    for warning in answered.meta.get("warnings") or ():
        render.notes().print(f"Warning: {warning}", markup=False, soft_wrap=True)
    if body.get("dry_run"):
        render.show_json(created) if as_json or show_plan is None else show_plan(created)
        return None
    return await follow_created(at, created, words=words, total=total, watch=watch, as_json=as_json)


async def follow_created(
    at: Reached, created: Mapping[str, Any], *, words: Words, total: str | None, watch: bool, as_json: bool
) -> "Job | None":
    """Follow a job that was just created to its end, as `run_job` does. `created` is the answer of the API."""
    job_id = created["job_id"] if "job_id" in created else created["id"]
    if not as_json:
        known = f": {words.tasks(created[total])}" if total is not None else ""
        render.notes().print(f"Job {job_id}{known}", markup=False)
    if at.engine is not None or watch:
        job = await see_through(at, job_id, words=words, quiet=as_json)
        ended(job, words, as_json=as_json)
        return job
    if as_json:
        render.show_json(created)
    else:
        follow_it = f"The running Forager works on it. Follow it: forager jobs watch {job_id}"
        render.out().print(follow_it, markup=False, soft_wrap=True)
    return None


async def see_through(
    at: Reached, job_id: str, *, words: Words = GENERAL, quiet: bool = False, single: bool = False
) -> "Job":
    """Follow a job until it has stopped; run the engine here if this process has opened the store.

    A job of one task (`single`) is shown by a spinner instead of a bar.
    """
    choose = progress.choose_spinner if single else progress.choose_view
    view = choose(render.notes(), quiet=quiet, words=words)
    if at.engine is None:
        return await _follow_until_stopped(at.api, job_id, view)
    return await work_on(at.api, at.engine, job_id, view, words)


async def follow(api: "Api", job_id: str, *, words: Words = GENERAL, quiet: bool = False) -> "Job":
    """Follow a job that another process works on until it has stopped. Ctrl-C leaves it running."""
    return await _follow_until_stopped(api, job_id, progress.choose_view(render.notes(), quiet=quiet, words=words))


async def _follow_until_stopped(api: "Api", job_id: str, view: "ProgressView") -> "Job":
    with stop_on_signals() as stop:
        following = asyncio.create_task(progress.follow(api, job_id, view))
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait([following, stopped], return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if following.done():
            return following.result()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    _note(
        f"Job {job_id} keeps running.",
        f"Follow it: forager jobs watch {job_id}",
        f"Cancel it: forager jobs cancel {job_id}",
    )
    raise typer.Exit(ExitCode.INTERRUPTED)


async def work_on(
    api: "Api",
    engine: LocalEngine,
    job_id: str,
    view: "ProgressView",
    words: Words = GENERAL,
    *,
    follow: "Callable[[Api, str], Awaitable[object]] | None" = None,
) -> "Job":
    """Run the engine here until this job has stopped. Ctrl-C drains, so that no result is lost or paid for twice.

    The job is shown by `view`, or by `follow`, which returns when the job has ended.
    """
    with stop_on_signals() as stop:
        following = asyncio.create_task(_shown(api, job_id, view, follow))
        hurry = asyncio.create_task(_give_back_when_hurried(engine, stop))
        stopped = asyncio.create_task(stop.wait())
        try:
            async with engine.running() as work:
                await asyncio.wait([following, stopped, work], return_when=asyncio.FIRST_COMPLETED)
                if work.done():
                    work.result()
                await _until_notified(engine, stopped)
        finally:
            for task in (hurry, stopped):
                task.cancel()
        if following.done():
            return following.result()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        _say_how_to_resume(await api.get(f"/jobs/{job_id}"), words)
        raise typer.Exit(ExitCode.INTERRUPTED)


async def _shown(
    api: "Api", job_id: str, view: "ProgressView", follow: "Callable[[Api, str], Awaitable[object]] | None"
) -> "Job":
    if follow is None:
        return await progress.follow(api, job_id, view)
    await follow(api, job_id)
    job: Job = await api.get(f"/jobs/{job_id}")
    return job


async def _until_notified(engine: LocalEngine, stopped: "asyncio.Task[None]") -> None:
    """Wait until the webhook of the job's end has been delivered, or is stored for its next try."""
    while not stopped.done() and not await engine.has_notified():  # noqa: ASYNC110 - the ledger has no such event
        await asyncio.sleep(LOOK_EVERY)


async def _give_back_when_hurried(engine: LocalEngine, stop: StopRequest) -> None:
    await stop.wait_for_hurry()
    await engine.give_back()


def _say_how_to_resume(job: "Job", words: Words) -> None:
    _note(
        f"Interrupted: {progress.done(job):,} of {words.tasks(job['total'])} done. Nothing is lost.",
        f"Resume job {job['id']}: forager worker --until-idle",
        f"Cancel it: forager jobs cancel {job['id']}",
    )


def _note(*lines: str) -> None:
    render.notes().print("\n".join(lines), markup=False, soft_wrap=True)
