"""`forager scrape URL`, `forager scrape batch FILE`: pages on demand, from the command line."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from forager.core.errors import FieldError, Rejected
from forager.kit.cli import render
from forager.kit.cli.activity import activity
from forager.kit.cli.errors import JobNotDone
from forager.kit.cli.invocation import Json, Reached
from forager.kit.cli.row_files import Format, write_pages
from forager.kit.cli.running import with_api
from forager.pipelines.scrape import cli_page, cli_show
from forager.pipelines.scrape.cli_batch import many_pages
from forager.pipelines.scrape.cli_file import target_file

FORMATS = ("markdown", "html", "text", "screenshot", "links")
ANY_PAGE = "page"
"""The target type of `forager scrape URL`, which is also the name of its command."""
HELP = ("-h", "--help")


class PageByDefault(TyperGroup):
    """A word that is not a command is a URL: `forager scrape URL` is `forager scrape page URL`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in HELP:
            args = [ANY_PAGE, *args]
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the commands, then the help of `scrape page`: these are the options of `scrape URL`."""
        super().format_help(ctx, formatter)
        page = self.commands[ANY_PAGE]
        with page.make_context(ANY_PAGE, [], parent=ctx, resilient_parsing=True) as below:
            page.format_help(below, formatter)


commands = typer.Typer(
    help="Read pages: give a URL and its page type, get its fields. `scrape URL` is `scrape page URL`.",
    no_args_is_help=True,
    cls=PageByDefault,
)

As = Annotated[
    str,
    typer.Option(
        "--as",
        help="Page type: page (any page), job_posting, company_website, product, listing …; or one format of any page: "
        "markdown, html, text, screenshot, links.",
    ),
]
Workspace = Annotated[str, typer.Option("--workspace", help="Workspace whose logins are used where a page needs one.")]
Browser = Annotated[bool, typer.Option("--browser", help="Render the page in a browser.")]
Http = Annotated[bool, typer.Option("--http", help="Use plain HTTP only.")]
Sure = Annotated[
    float | None,
    typer.Option("--min-confidence", min=0, max=1, help="Drop values that are less sure than this (0 to 1)."),
]
Auto = Annotated[bool, typer.Option("--auto", help="Use a browser only if the page needs one (default).")]


@commands.command(ANY_PAGE)
def page(
    context: typer.Context,
    target_url: Annotated[str, typer.Argument(metavar="URL", help="The page.")],
    target_type: As = ANY_PAGE,
    requested_fields: Annotated[
        list[str] | None, typer.Option("--fields", "-f", help="Only these fields, separated by commas (repeatable).")
    ] = None,
    workspace_id: Workspace = "default",
    browser: Browser = False,
    http: Http = False,
    auto: Auto = False,
    min_confidence: Sure = None,
    extractor: Annotated[
        Path | None,
        typer.Option("--extractor", dir_okay=False, help="Python file with an extractor of your own for this page."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", dir_okay=False, help="Write to this file instead of printing.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Read one page and print what was found. Exit code 1 if the page could not be fetched.

    `page` may be left out: `forager scrape URL` is the same command. Without --as, any page is read: its title,
    language, main text as Markdown, links, metadata and structured data.
    """
    form = target_type if target_type in FORMATS else None
    target: dict[str, Any] = {
        "target_type": cli_page.type_of(extractor) if extractor else ANY_PAGE if form else target_type,
        "target_url": target_url,
        "workspace_id": workspace_id,
        "render": _render(browser=browser, http=http, auto=auto),
        **({"formats": [form]} if form else {}),
        **({} if min_confidence is None else {"min_confidence": min_confidence}),
    }
    if names := [name.strip() for text in requested_fields or () for name in text.split(",") if name.strip()]:
        target["requested_fields"] = names

    async def work(at: Reached) -> cli_page.Asked:
        if extractor and at.engine is None:
            raise cli_page.runs_elsewhere()
        try:
            return await cli_page.one_page(at, target, quiet=as_json)
        except Rejected as wrong:
            wrong.fields = tuple(map(_with_formats, wrong.fields))
            raise

    overrides = {"extractor_files": (str(extractor),)} if extractor else None
    asked = with_api(context, work, overrides, store="created")
    if not asked.is_read:
        if as_json:
            render.show_json(asked.shown)
        raise JobNotDone(f"{target_url} {asked.problem}")
    if as_json or (output and not form):
        cli_page.show_all(asked, output)
    elif form:
        cli_page.show_format(form, asked.task["result"][form], output)
    else:
        render.out().print(render.facts(cli_show.figures(asked.task["result"])))


@commands.command()
def batch(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="JSON lines or CSV, one page per line."),
    ],
    target_type: Annotated[str, typer.Option("--as", help="Page type of lines that name none.")] = ANY_PAGE,
    workspace_id: Workspace = "default",
    browser: Browser = False,
    http: Http = False,
    auto: Auto = False,
    min_confidence: Sure = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", dir_okay=False, help="Write to this file: CSV if it ends so, else JSON lines."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Read the pages that a file names, and print what was found. Exit code 1 if some could not be fetched.

    Each line is an object, or a row under a header, with target_url and what else the API takes: target_type,
    requested_fields, workspace_id, render, min_confidence. A line can also be just a URL. The file becomes one job of
    any size, whose id is printed first. The same command, run again before that job has ended, continues it.
    """
    otherwise: dict[str, Any] = {
        "target_type": target_type,
        "workspace_id": workspace_id,
        "render": _render(browser=browser, http=http, auto=auto),
        **({} if min_confidence is None else {"min_confidence": min_confidence}),
    }
    if target_type in FORMATS:
        otherwise.update(target_type=ANY_PAGE, formats=[target_type])
    tally = cli_show.Tally()

    with target_file(file, otherwise) as pages_file:
        with activity(quiet=as_json) as show:
            checked = pages_file.check(show)

        async def work(at: Reached) -> None:
            pages = tally.counted(many_pages(at, pages_file, checked, quiet=as_json))
            if output is not None:
                await write_pages(cli_show.one_by_one(pages), Format.of(output), output)
            else:
                await (cli_show.show_json_list if as_json else cli_show.show_table)(pages)

        with_api(context, work, store="created")
    count = render.some(tally.pages, "page")
    if output is not None:
        render.notes().print(f"{count} in {output}", markup=False, soft_wrap=True)
        if as_json:
            render.show_json({"pages": tally.pages, "output": str(output)})
    if tally.failed:
        where = "above" if output is None else f"in {output}"
        raise JobNotDone(f"{tally.failed:,} of {count} could not be fetched; see why {where}.")


def _render(*, browser: bool, http: bool, auto: bool) -> str:
    chosen = [name for name, given in (("browser", browser), ("http", http), ("auto", auto)) if given]
    if len(chosen) > 1:
        raise typer.BadParameter(f"Give one of --{' and --'.join(chosen)}.")
    return chosen[0] if chosen else "auto"


def _with_formats(wrong: FieldError) -> FieldError:
    """Add the formats, which only the command line takes as a type of page, to an error about an unknown type."""
    if wrong.field != "target_type":
        return wrong
    return FieldError(wrong.field, f"{wrong.message}; or a format of any page: {', '.join(FORMATS)}")
