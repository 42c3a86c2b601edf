"""`forager scrape URL`, `forager scrape batch FILE`: pages on demand, from the command line."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from forager.kit.cli import render
from forager.kit.cli.errors import JobNotDone
from forager.kit.cli.invocation import Json, Reached
from forager.kit.cli.row_files import Format, write_pages
from forager.kit.cli.running import with_api
from forager.pipelines.scrape import cli_run

PAGE = "page"
HELP = ("-h", "--help")


class PageByDefault(TyperGroup):
    """What is no command is a URL: `forager scrape URL` is `forager scrape page URL`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in HELP:
            args = [PAGE, *args]
        return super().parse_args(ctx, args)


commands = typer.Typer(
    help="Read pages: a URL and what kind of page it is, and its fields come back. `scrape URL` is `scrape page URL`.",
    no_args_is_help=True,
    cls=PageByDefault,
)

As = Annotated[str, typer.Option("--as", help="Page type: job_posting, company_website, linkedin_profile …")]
Workspace = Annotated[str, typer.Option("--workspace", help="Workspace whose logins are used where a page needs one.")]
Browser = Annotated[bool, typer.Option("--browser", help="Render the page in a browser.")]
Http = Annotated[bool, typer.Option("--http", help="Use plain HTTP only.")]
Auto = Annotated[bool, typer.Option("--auto", help="Use a browser only if the page needs one (default).")]


@commands.command(PAGE)
def page(
    context: typer.Context,
    target_url: Annotated[str, typer.Argument(metavar="URL", help="The page.")],
    target_type: As,
    requested_fields: Annotated[
        list[str] | None, typer.Option("--fields", "-f", help="Only these fields, separated by commas; repeat it.")
    ] = None,
    workspace_id: Workspace = "default",
    browser: Browser = False,
    http: Http = False,
    auto: Auto = False,
    as_json: Json = False,
) -> None:
    """Read one page and print what was found. Exit code 1 if the page could not be fetched.

    `page` may be left out: `forager scrape URL` is the same command.
    """
    target: dict[str, Any] = {
        "target_type": target_type,
        "target_url": target_url,
        "workspace_id": workspace_id,
        "render": _render(browser=browser, http=http, auto=auto),
    }
    if names := [name.strip() for text in requested_fields or () for name in text.split(",") if name.strip()]:
        target["requested_fields"] = names

    async def work(at: Reached) -> cli_run.Asked:
        return await cli_run.one_page(at, target, quiet=as_json)

    asked = with_api(context, work)
    if as_json:
        render.show_json({**asked.task, "provenance": asked.provenance})
    elif asked.task["status"] == "completed":
        render.out().print(render.facts(cli_run.figures(asked.task["result"])))
    if asked.task["status"] != "completed":
        raise JobNotDone(f"{target_url} could not be fetched: {asked.task['error'] or asked.task['status']}")


@commands.command()
def batch(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="JSON lines or CSV, one page per line."),
    ],
    target_type: Annotated[str | None, typer.Option("--as", help="Page type of lines that name none.")] = None,
    workspace_id: Workspace = "default",
    browser: Browser = False,
    http: Http = False,
    auto: Auto = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", dir_okay=False, help="Write to this file: CSV if it ends so, else JSON lines."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Read the pages that a file names, and print what was found. Exit code 1 if some could not be fetched.

    Each line is an object, or a row under a header, with target_url and what else the API takes: target_type,
    requested_fields, workspace_id, render. A line can also be just a URL. The file becomes one job (of up to 10,000
    pages; a longer file, several), whose id is printed first.
    """
    said = {
        "target_type": target_type,
        "workspace_id": workspace_id,
        "render": _render(browser=browser, http=http, auto=auto),
    }
    lines = cli_run.read_targets(file, {name: value for name, value in said.items() if value is not None})

    pages: list[dict[str, Any]] = []

    async def work(at: Reached) -> None:
        read = cli_run.many_pages(at, lines, quiet=as_json)
        if output is None:
            pages.extend([page async for page in read])
        else:
            await write_pages(cli_run.noted(read, pages), Format.of(output), output)

    with_api(context, work)
    if output is not None:
        render.notes().print(f"{render.some(len(pages), 'page')} in {output}", markup=False, soft_wrap=True)
    elif not as_json:
        render.out().print(cli_run.listed(pages))
    if as_json:
        render.show_json(pages if output is None else {"pages": len(pages), "output": str(output)})
    if failed := sum(each["status"] != "completed" for each in pages):
        where = "above" if output is None else f"in {output}"
        raise JobNotDone(f"{failed:,} of {render.some(len(pages), 'page')} could not be fetched; see why {where}.")


def _render(*, browser: bool, http: bool, auto: bool) -> str:
    chosen = [name for name, given in (("browser", browser), ("http", http), ("auto", auto)) if given]
    if len(chosen) > 1:
        raise typer.BadParameter(f"Give one of --{' and --'.join(chosen)}.")
    return chosen[0] if chosen else "auto"
