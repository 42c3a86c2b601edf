"""`forager dead …`: the tasks that failed for good, why, and what to do with them."""

from typing import Annotated
from uuid import UUID

import typer

from forager.kit.cli.invocation import Json
from forager.kit.cli.running import post, with_api

app = typer.Typer(help="Tasks that failed for good: look at them, retry or discard them.", no_args_is_help=True)

TaskId = Annotated[UUID, typer.Argument(metavar="TASK", help="Its id, as `forager dead list` shows it.")]


@app.command("list")
def list_dead(
    context: typer.Context,
    job: Annotated[UUID | None, typer.Option(help="Only those of this job.")] = None,
    pipeline: Annotated[str | None, typer.Option(help="Only those of this pipeline.")] = None,
    reason: Annotated[str | None, typer.Option(help="Only this reason, such as timed_out.")] = None,
    error_type: Annotated[str | None, typer.Option(help="Only this type, such as network or parse.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, newest first.")] = 20,
    as_json: Json = False,
) -> None:
    """List dead letters, newest first."""
    from forager.kit.cli import render

    asked = {"job": job, "pipeline": pipeline, "reason": reason, "error_type": error_type, "limit": limit}
    letters = with_api(context, lambda at: at.api.get("/dead", **asked))
    if as_json:
        render.show_json(letters)
        return
    if not letters:
        render.notes().print("No dead letters.")
        return
    console = render.out()
    for letter in letters:
        tries = render.some(letter["attempts"], "try", "tries")
        word = letter["reason"] or letter["error_type"]
        console.print("  ".join(filter(None, (letter["id"], letter["key"], tries, word))), markup=False)
        console.print(render.indented(letter["error"]))


@app.command()
def show(context: typer.Context, task: TaskId, as_json: Json = False) -> None:
    """Show one dead letter: its input, its error, and what the upstream answered."""
    from forager.kit.cli import render

    letter = with_api(context, lambda at: at.api.get(f"/dead/{task}"))
    if as_json:
        render.show_json(letter)
        return
    evidence = letter["evidence"]
    told = ", ".join(f"{name} {value}" for name, value in letter["facts"].items())
    figures = [
        ("task", str(letter["id"])),
        ("job", str(letter["job"])),
        ("key", render.plain(letter["key"])),
        ("lane", render.plain(letter["lane"])),
        ("attempts", str(letter["attempts"])),
        ("credits", str(letter["cost"])),
        ("error", render.plain(letter["error"])),
        ("reason", letter["reason"]),
        ("error type", letter["error_type"]),
        ("facts", render.plain(told) if told else None),
        ("ended", render.moment(letter["ended_at"])),
        ("input", render.plain(letter["body"])),
        ("answer", f"{evidence['content_type']}, {render.count(evidence['size'])} bytes" if evidence else "not kept"),
    ]
    render.out().print(render.facts(figures))
    if evidence:
        render.out().print(render.plain(evidence["text"][:2000]), soft_wrap=True)


@app.command()
def retry(context: typer.Context, task: TaskId, as_json: Json = False) -> None:
    """Run one failed task again, and those that were skipped because of it."""
    from forager.kit.cli import render

    found, but = post(context, f"/dead/{task}/retry")
    if as_json:
        render.show_json(found)
    else:
        render.out().print(f"{render.some(found['requeued'], 'task')} queued again.{but}", markup=False, soft_wrap=True)


@app.command()
def discard(context: typer.Context, task: TaskId, as_json: Json = False) -> None:
    """Hide one dead letter from the list. The counters of its job stay as they are."""
    from forager.kit.cli import render

    found = with_api(context, lambda at: at.api.post(f"/dead/{task}/discard"))
    render.show_json(found) if as_json else render.out().print("Discarded.")
