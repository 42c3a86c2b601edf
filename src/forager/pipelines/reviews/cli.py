"""`forager reviews …`: fetch the reviews that an access token can read."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from forager.core.errors import Rejected
from forager.kit.cli import render
from forager.kit.cli.errors import JobNotDone
from forager.kit.cli.ids import JobId, full_job
from forager.kit.cli.invocation import Json, Reached
from forager.kit.cli.json_text import json_text
from forager.kit.cli.run_job import run_job, see_through
from forager.kit.cli.running import with_api
from forager.pipelines.reviews.cli_tree import read_events, watch_tree
from forager.pipelines.reviews.cli_words import words

commands = typer.Typer(help="Google Business Profile reviews.", no_args_is_help=True)

TokenFile = Annotated[
    Path, typer.Option("--token-file", "-t", help="File that holds the OAuth access token; - reads standard input.")
]


@commands.command()
def run(
    context: typer.Context,
    token_file: TokenFile,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Follow a job that a running Forager works on until it has ended.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Fetch accounts, locations and reviews of a token.

    The token is read from a file, never from the command line, where other users of the machine could see it.
    """
    token = _read_token(token_file)

    async def work(at: Reached) -> None:
        body = {"access_token": token}
        await run_job(at, "/review-fetch", body, words=words, total=None, watch=watch, as_json=as_json)

    with_api(context, work, fields={"access_token": "token_file"}, store="created")


@commands.command()
def show(context: typer.Context, job: JobId, as_json: Json = False) -> None:
    """Show how a reviews job stands: accounts, locations, reviews and failures so far."""

    async def work(at: Reached) -> Any:
        return await at.api.get(f"/review-fetch/{await full_job(at.api, job)}")

    seen = with_api(context, work)
    if as_json:
        render.show_json(seen)
        return
    counted = [(name, render.count(seen[name])) for name in ("accounts", "locations", "reviews", "failures")]
    pages = f"{render.count(seen['pages_done'])} of {render.count(seen['pages'])} known so far"
    render.out().print(render.facts([("state", render.state(seen["status"])), *counted, ("pages", pages)]))


@commands.command()
def retry(context: typer.Context, job: JobId, token_file: TokenFile, as_json: Json = False) -> None:
    """Fetch the failed pages of a job again, with a new token."""
    token = _read_token(token_file)

    async def work(at: Reached) -> Any:
        answered = await at.api.post(f"/review-fetch/{await full_job(at.api, job)}/retry", {"access_token": token})
        if at.engine is not None and answered["requeued"]:
            await see_through(at, answered["job_id"], words=words, quiet=as_json)
        return answered

    answered = with_api(context, work, fields={"access_token": "token_file"})
    if as_json:
        render.show_json(answered)
        return
    again = f"{render.some(answered['requeued'], 'page')} queued again."
    render.out().print(again if answered["requeued"] else "Nothing to retry: this job has no failed pages.")


@commands.command()
def stream(context: typer.Context, job: JobId, as_json: Json = False) -> None:
    """Show what a job finds, nested, while it runs.

    With --json, or if the output is not a terminal, every account, location and review is one line of JSON. The exit
    code is 1 if pages could not be fetched.
    """

    async def work(at: Reached) -> tuple[bool, Any]:
        wait, whole = not at.is_alone, await full_job(at.api, job)
        if not as_json and render.out().is_terminal:
            ended = await watch_tree(at.api, whole, wait=wait)
        else:
            ended = await read_events(at.api, whole, _print_line, sys.stdout.flush, wait=wait)
        return ended, await at.api.get(f"/review-fetch/{whole}")

    ended, seen = with_api(context, work)
    if not ended:
        raise JobNotDone(f"Job {job} is not progressing, because Forager is not running. Start it: forager up")
    if seen["failures"]:
        raise JobNotDone(
            f"{render.some(seen['failures'], 'page')} of job {seen['job_id']} could not be fetched."
            f" See why: forager dead list --job {seen['job_id']}."
            f" Fetch them with a new token: forager reviews retry {seen['job_id']} --token-file FILE"
        )


def _print_line(event: Mapping[str, Any]) -> None:
    sys.stdout.write(json_text(event, sys.stdout) + "\n")


def _read_token(file: Path) -> str:
    try:
        return (sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")).strip()
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise Rejected(f"--token-file: {file} cannot be read: {why}") from error
