"""`forager web "query" --read 5`: search the web, and read what was found."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from forager.core.clock import seconds_with_unit
from forager.core.errors import FieldError, Rejected
from forager.sdk.cli import render
from forager.sdk.cli.client import JobNotDone, part
from forager.sdk.cli.invocation import Json, Reached, with_api
from forager.sdk.cli.render import Figures, Job, Words, some
from forager.sdk.cli.run_job import check_done, see_through

commands = typer.Typer(help="Search the web, and read what was found.", no_args_is_help=True)


def _results(job: Job) -> Figures:
    return [("results", render.count(job["records"])), ("credits", render.count(job["spent"]))]


words = Words(
    task=("query", "queries"),
    request=lambda params: f"web search {params.get('query')}",
    results=_results,
    cost=lambda amount: some(amount, "credit"),
)


@commands.command()
def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="What to search for.")],
    read: Annotated[
        int | None, typer.Option("--read", min=0, max=10, help="Read this number of the first results (default 0).")
    ] = None,
    pages: Annotated[
        int | None, typer.Option("--pages", min=1, max=10, help="Pages of 10 results; each costs a query (default 1).")
    ] = None,
    country: Annotated[str | None, typer.Option("--country", help="Country of the search, such as de.")] = None,
    language: Annotated[str | None, typer.Option("--language", help="Language of the search, such as de.")] = None,
    max_age: Annotated[
        str | None, typer.Option("--max-age", metavar="TIME", help="Read stored pages up to this age: 10m, 6h, 7d.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", min=1, max=1_000_000, help="Cut each page at about this size.")
    ] = None,
    max_credits: Annotated[
        int | None, typer.Option("--max-credits", min=0, help="Spend at most this number of credits.")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Show what it would cost; spend nothing.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", dir_okay=False, help="Write the Markdown to this file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Search the web through Serper and list the results; with --read, print their pages as Markdown.

    Example: forager web "oak table care" --read 5
    """
    given = {
        "query": query,
        "read": read,
        "pages": pages,
        "country": country,
        "language": language,
        "max_age": None if max_age is None else _seconds(max_age),
        "max_tokens": max_tokens,
        "max_credits": max_credits,
    }
    body = {name: value for name, value in given.items() if value is not None}
    if output is not None:
        _check_writable(output)
    if plan:
        _show_plan(with_api(context, lambda at: at.api.post("/web/plan", body), store="optional"), as_json=as_json)
        return

    async def work(at: Reached) -> Any:
        made = await at.api.post("/web/searches", body)
        job = await see_through(at, made["job_id"], words=words, quiet=as_json, single=True)
        found = await at.api.get(f"/web/searches/{part(made['job_id'])}")
        if found["read_job"] is not None:
            await see_through(at, found["read_job"], quiet=as_json)
            found = await at.api.get(f"/web/searches/{part(made['job_id'])}")
        if not found["results"]:
            check_done(job, words)
        return found

    found = with_api(context, work, store="created")
    if as_json:
        render.show_json(found)
    elif read:
        _show_pages(found, output)
    else:
        _show_results(found)
    failed = [each for each in found["results"] if each["page"] and each["page"]["status"] != "completed"]
    if failed and len(failed) == sum(each["page"] is not None for each in found["results"]):
        raise JobNotDone(f"None of the results could be read: {failed[0]['page']['error']}")


def _check_writable(output: Path) -> None:
    """Raise `Rejected` before anything is spent if the file cannot be written."""
    try:
        with output.open("a"):
            pass
    except OSError as error:
        why = f"cannot be written: {error.strerror}"
        raise Rejected(f"--output: {why}.", fields=[FieldError("output", why)]) from None


def _seconds(max_age: str) -> int:
    try:
        return 0 if max_age.strip() == "0" else round(seconds_with_unit(max_age))
    except ValueError as error:
        raise Rejected(f"--max-age: {error}.", fields=[FieldError("max_age", str(error))]) from None


def _show_plan(plan: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        render.show_json(plan)
        return
    figures = [
        ("queries", render.count(plan["queries"])),
        ("pages read", render.count(plan["read"])),
        ("credits", render.count(plan["worst_credits"])),
        ("cost", render.money(float(plan["worst_usd"]))),
    ]
    render.out().print(render.facts(figures))


def _show_results(found: Mapping[str, Any]) -> None:
    table = render.table("", "title", "url", fold=("title", "url"))
    for each in found["results"]:
        table.add_row(str(each["position"]), render.plain(each["title"]), render.plain(each["url"]))
    render.out().print(table)
    render.notes().print(f"{some(found['credits'], 'credit')}.", markup=False)


def _show_pages(found: Mapping[str, Any], output: Path | None) -> None:
    parts = []
    for each in found["results"]:
        if (page := each["page"]) is None:
            continue
        text = page["markdown"] or f"(could not be read: {page['error'] or page['status']})"
        parts.append(f"<!-- {each['position']}. {each['url']} -->\n\n{text.strip()}\n")
    text = "\n".join(parts)
    if output is None:
        render.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Rejected(f"--output {output} cannot be written: {error.strerror}.") from error
    render.notes().print(f"{some(len(parts), 'page')} in {output}", markup=False, soft_wrap=True)
