"""`forager dead …`: list, show, retry and discard tasks that failed permanently."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forager.sdk.cli.invocation import NO_WORKER, Json, OfJob, Reached, TaskId, full_job, read_task, with_api
from forager.sdk.cli.render import activity

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer(help="Tasks that failed permanently: list, show, retry, discard.", no_args_is_help=True)

Pipeline = Annotated[str | None, typer.Option(help="Only tasks of this pipeline.")]
Reason = Annotated[str | None, typer.Option(help="Only this reason, such as timed_out.")]
ErrorType = Annotated[str | None, typer.Option(help="Only this type of error, such as network or parse.")]
EVIDENCE_SHOWN = 2_000
ATTEMPTS_SHOWN = 20
JOBS_NAMED = 10
GROUPED_BY = ("pipeline", "reason", "error_type")


@app.command("list")
def list_dead(
    context: typer.Context,
    job: OfJob = None,
    pipeline: Pipeline = None,
    reason: Reason = None,
    error_type: ErrorType = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=1000, help="Maximum number of tasks, newest first.")
    ] = 20,
    as_json: Json = False,
) -> None:
    """List dead letters by reason, with the total of each; within a reason newest first.

    Example: forager dead list --reason timed_out
    """
    from forager.sdk.cli import render

    async def ask(at: Reached) -> tuple[Any, Any]:
        chosen = await _filters(at, job, pipeline, reason, error_type)
        letters = await at.api.get("/dead", **chosen, limit=limit)
        return letters, [] if as_json else await at.api.get("/dead/reasons", **chosen)

    letters, reasons = with_api(context, ask)
    if as_json:
        render.show_json(letters)
    elif letters:
        _show_groups(letters, reasons)
    elif job or pipeline or reason or error_type:
        render.notes().print("No dead letters match. See all of them: forager dead list")
    else:
        render.notes().print("No dead letters.")


@app.command()
def show(context: typer.Context, task: TaskId, as_json: Json = False) -> None:
    """Show one dead letter: its input, its error, and the upstream's response.

    Example: forager dead show <task>
    """
    from forager.sdk.cli import render

    async def ask(at: Reached) -> tuple[Any, Any]:
        attempts = [] if as_json else await at.api.get(f"/tasks/{task}/attempts", limit=ATTEMPTS_SHOWN)
        return await at.api.get(f"/dead/{task}"), attempts

    letter, attempts = with_api(context, ask)
    if as_json:
        render.show_json(letter)
        return
    evidence = letter["evidence"]
    kept = f"{evidence['content_type']}, {render.some(evidence['size'], 'byte')}" if evidence else "not kept"
    figures = [
        ("task", str(letter["id"])),
        ("job", str(letter["job"])),
        ("pipeline", letter["pipeline"]),
        ("failed", f"{render.moment(letter['ended_at'])} UTC, after {render.some(letter['attempts'], 'attempt')}"),
        ("reason", _reason(letter)),
        ("error", render.plain(letter["error"])),
        ("lane", render.plain(letter["lane"])),
        ("key", render.plain(letter["key"])),
        *((f"input: {name}", render.plain(value)) for name, value in _input(letter["body"])),
        *((f"answer: {name}", render.plain(value)) for name, value in letter["facts"].items()),
        ("credits", render.count(letter["cost"]) if letter["cost"] else None),
        ("answer", kept),
    ]
    render.out().print(render.facts(figures))
    if len(attempts) > 1:
        render.out().print()
        render.out().print(_tried(attempts))
    if evidence:
        render.out().print()
        render.out().print(render.indented(evidence["text"][:EVIDENCE_SHOWN]))


@app.command()
def retry(
    context: typer.Context,
    tasks: Annotated[
        list[str] | None,
        typer.Argument(metavar="TASK", parser=read_task, help="Ids of tasks, as `forager dead list` shows them."),
    ] = None,
    job: OfJob = None,
    pipeline: Pipeline = None,
    reason: Reason = None,
    error_type: ErrorType = None,
    every: Annotated[bool, typer.Option("--all", help="Every dead letter.")] = False,
    as_json: Json = False,
) -> None:
    """Requeue failed tasks and those skipped because of them: some by id, or all that match a filter.

    Example: forager dead retry <task>
    """
    from forager.sdk.cli import render

    chosen = bool(job or pipeline or reason or error_type or every)
    if bool(tasks) == chosen:
        raise typer.BadParameter("Give ids of tasks, or a filter such as --reason timed_out, or --all")

    done: dict[str, Any] = {"requeued": 0, "letters": 0, "passed_over": []}

    async def ask(at: Reached) -> str:
        if not tasks:
            await _retry_matching(at, await _filters(at, job, pipeline, reason, error_type), done)
        for task in tasks or ():
            done["requeued"] += (await at.api.post(f"/dead/{task}/retry"))["requeued"]
            done["letters"] += 1
        return f" {NO_WORKER}" if at.is_alone else ""

    try:
        remark = with_api(context, ask)
    except BaseException:
        if done["letters"]:
            render.notes().print(f"{render.some(done['requeued'], 'task')} queued again before this error:")
        raise
    if as_json:
        render.show_json(done)
        return
    if done["letters"]:
        again = f"{render.some(done['requeued'], 'task')} queued again.{remark}"
        render.out().print(again, markup=False, soft_wrap=True)
    elif not done["passed_over"]:
        render.out().print("No dead letters match: nothing is queued again.")
    for each in done["passed_over"]:
        number = render.some(each["letters"], "dead letter")
        render.out().print(f"{number} passed over ({each['reason']}). {each['message']}", markup=False, soft_wrap=True)


@app.command()
def discard(context: typer.Context, task: TaskId, as_json: Json = False) -> None:
    """Hide one dead letter from the list. The counters of its job stay as they are.

    Example: forager dead discard <task>
    """
    from forager.sdk.cli import render

    answered = with_api(context, lambda at: at.api.post(f"/dead/{task}/discard"))
    render.show_json(answered) if as_json else render.out().print("Discarded.")


async def _retry_matching(at: Reached, chosen: dict[str, Any], done: dict[str, Any]) -> None:
    """Follow the pages of a bulk retry, and add up in `done` what they did."""
    body = {name: value for name, value in chosen.items() if value is not None}
    with activity() as show:
        while True:
            page = await at.api.post("/dead/retry", body)
            done["requeued"] += page["requeued"]
            done["letters"] += page["letters"]
            for each in page["passed_over"]:
                known = next((old for old in done["passed_over"] if old["reason"] == each["reason"]), None)
                if known is None:
                    done["passed_over"].append(each)
                else:
                    known["letters"] += each["letters"]
                    known["jobs"] = list(dict.fromkeys([*known["jobs"], *each["jobs"]]))[:JOBS_NAMED]
            if page["next_cursor"] is None:
                return
            body["cursor"] = page["next_cursor"]
            show(f"{done['letters']:,} dead letters queued again …")


async def _filters(
    at: Reached, job: str | None, pipeline: str | None, reason: str | None, error_type: str | None
) -> dict[str, Any]:
    whole = await full_job(at.api, job) if job else None
    return {"job": whole, "pipeline": pipeline, "reason": reason, "error_type": error_type}


def _tried(attempts: list[dict[str, Any]]) -> "Table":
    from forager.sdk.cli import render

    rows = render.table("attempt", "started (UTC)", "took", "how", "error", right=("attempt", "took"), fold=("error",))
    for each in attempts:
        rows.add_row(
            str(each["attempt"]),
            render.moment(each["started_at"])[5:],
            f"{each['duration_ms']:,} ms",
            each["reason"] or each["status"],
            render.plain(each["message"]),
        )
    return rows


def _show_groups(letters: list[dict[str, Any]], reasons: list[dict[str, Any]]) -> None:
    """Print the listed letters under their reasons, and the reasons that none of them has. Every line fits its width:
    what is long is wrapped, and an error that several letters share is printed once."""
    from forager.sdk.cli import render

    console = render.out()
    for each in reasons:
        own = [letter for letter in letters if all(letter[name] == each[name] for name in GROUPED_BY)]
        shown = "" if len(own) == each["letters"] else f", {render.count(len(own))} listed"
        head = f"{each['pipeline']}: {_reason(each)} ({render.some(each['letters'], 'dead letter')}{shown})"
        console.print(head, style="bold", markup=False)
        if own:
            errors = {letter["error"] for letter in own}
            console.print(_listed(own, with_error=len(errors) > 1))
            if len(errors) == 1:
                console.print(render.indented(errors.pop()))
        console.print()
    total = sum(each["letters"] for each in reasons)
    ways = render.some(len(reasons), "reason")
    console.print(f"{render.some(total, 'dead letter')}, {ways}. Retry: forager dead retry TASK, --reason or --all")


def _reason(letter: Mapping[str, Any]) -> str:
    return " / ".join(filter(None, (letter["reason"], letter["error_type"]))) or "no reason recorded"


def _listed(letters: list[dict[str, Any]], *, with_error: bool) -> "Table":
    from forager.sdk.cli import render
    from forager.sdk.cli.invocation import short_job, short_task

    columns = ("task", "failed (UTC)", "job", "what", *(("error",) if with_error else ()))
    rows = render.table(*columns, fold=("task", "what", "error"))
    for letter in letters:
        cells = [
            short_task(letter["id"]),
            render.moment(letter["ended_at"])[5:16],
            short_job(letter["job"]),
            render.plain(letter["url"] or letter["key"]),
        ]
        rows.add_row(*cells, *([render.plain(letter["error"])] if with_error else ()))
    return rows


def _input(body: Any) -> list[tuple[str, Any]]:
    """Return the task's input fields that are set."""
    if not isinstance(body, Mapping):
        return [("body", body)]
    return [(name, value) for name, value in body.items() if value not in (None, False, [], {}, "")]
