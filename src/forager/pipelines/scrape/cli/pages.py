"""`forager scrape URL`, `forager scrape batch FILE`: pages on demand, from the command line."""

import os
import sys
from base64 import b64decode
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from typer.core import TyperGroup

from forager.core.errors import FieldError, Rejected
from forager.pipelines.scrape.cli.batch import many_pages, parts_of, target_file
from forager.pipelines.scrape.cli.depth import (
    ActionOption,
    Actions,
    Element,
    FullPage,
    Match,
    MaxAge,
    Session,
    depth_options,
    seconds_of,
)
from forager.pipelines.scrape.cli.job_words import words
from forager.pipelines.scrape.reasons import NOT_AN_ITEM, NOT_DESCRIBED
from forager.sdk.cli import render
from forager.sdk.cli.client import JobNotDone
from forager.sdk.cli.invocation import Json, Reached, with_api
from forager.sdk.cli.markdown import FrontMatter, Links, MaxTokens, NoImages, markdown_options
from forager.sdk.cli.render import activity, json_text
from forager.sdk.cli.row_files import Format, opened, write_pages
from forager.sdk.cli.run_job import see_through
from forager.sdk.tabular import json_lines

if TYPE_CHECKING:
    from rich.table import Table


# `forager scrape URL`: one page, with all of its fields or in one format.


FILES = {"screenshot": "PNG", "pdf": "PDF"}
"""Formats that are files, in base64."""


@dataclass(frozen=True, slots=True)
class RequestedPage:
    """A requested page: its task with its result, and the source of that."""

    task: Mapping[str, Any]
    meta: Mapping[str, Any]

    @property
    def is_read(self) -> bool:
        return bool(self.task["status"] == "completed")

    @property
    def problem(self) -> str:
        """Return the error, shown after the URL: the page could not be fetched, or has another type."""
        why = str(self.task["error"] or self.task["status"]).removeprefix(f"{self.task['target_url']}: ")
        if self.task.get("reason") in NOT_AN_ITEM:
            return f"is not a page of the type {self.task['target_type']}: it {why.partition(' ')[2]}"
        if self.task.get("reason") in NOT_DESCRIBED:
            return f"has no result: {why}"
        return f"could not be fetched: {why}"

    @property
    def shown(self) -> dict[str, Any]:
        """Return the page for programs. `provenance` is at the top level, and in `meta`."""
        names = ("page_url", "pages", "rendered", "fetched_at", "stored", "provenance")
        about = {name: self.meta.get(name) for name in names}
        return {**self.task, "provenance": self.meta.get("provenance"), "meta": about if self.is_read else {}}


async def one_page(at: Reached, target: Mapping[str, Any], *, quiet: bool) -> RequestedPage:
    made = await at.api.post("/scrape", target)
    await see_through(at, made["job_id"], words=words, quiet=quiet, single=True)
    seen = await at.api.ask("GET", f"/scrape/{made['task_id']}")
    return RequestedPage(seen.data, seen.meta)


def type_of(extractor: Path) -> str:
    """Return the target type of an extractor that a file holds. Raises `Rejected` unless there is exactly one."""
    from forager.pipelines.scrape.extractor import load_extractors

    try:
        names = [each.name for each in load_extractors([str(extractor)])]
    except Rejected as wrong:
        raise _not_usable(wrong.fields[0].message) from wrong
    if len(names) > 1:
        raise _not_usable(f"{extractor} has several extractors ({', '.join(names)}); keep one in it")
    return names[0]


def runs_elsewhere() -> Rejected:
    """Return the error for an extractor file that the running Forager has not loaded."""
    message = (
        "a Forager is running, and it loads extractors when it starts: stop it, or start it with "
        "FORAGER_EXTRACTOR_FILES and name the extractor's type with --as"
    )
    return _not_usable(message)


def _not_usable(message: str) -> Rejected:
    return Rejected(f"--extractor: {message}.", fields=[FieldError("extractor", message)])


def show_format(form: str, value: Any, output: Path | None) -> None:
    """Print one format of a page, and nothing else. Raises `Rejected` for a picture that would go to a terminal."""
    if value is None:
        raise Rejected(f"The page has no {form}.")
    if form in FILES and output is None and sys.stdout.isatty():
        kind = FILES[form]
        raise Rejected(f"This is a {kind} file. Name one with --output page.{kind.lower()}, or redirect the output.")
    with opened(output) as file:
        file.write(_bytes(form, value))
        file.flush()
    if output is not None:
        render.notes().print(f"{form} in {output}", markup=False, soft_wrap=True)


def show_all(asked: RequestedPage, output: Path | None) -> None:
    """Write the page as JSON, to a file or to standard output."""
    with opened(output) as file:
        file.write(orjson.dumps(asked.shown, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
        file.flush()


def _bytes(form: str, value: Any) -> bytes:
    if form in FILES:
        return b64decode(value)
    if form == "captured":
        return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    if form == "links":
        return "".join(f"{link['url']}\n" for link in value).encode()
    return f"{value}\n".encode()


# Display of results: the fields of one page, a table or a JSON list of many.


CUT = 60
MOST_SHOWN = 1_000
"""Rows of a table. The pages of a longer file are counted, and their first ones are shown."""


@dataclass(slots=True)
class Tally:
    """Counts pages while they pass."""

    pages: int = 0
    failed: int = 0

    async def counted(self, pages: AsyncIterator[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
        async for page in pages:
            self.pages += 1
            self.failed += page["status"] != "completed"
            yield page


async def one_by_one(pages: AsyncIterator[dict[str, Any]]) -> AsyncIterator[list[Any]]:
    """Yield lists of one page, as a file of rows takes them."""
    async for page in pages:
        yield [page]


async def show_table(pages: AsyncIterator[dict[str, Any]]) -> None:
    """Print the first pages as a table."""
    table = render.table("page", "state", "found", fold=("page", "found"))
    count = 0
    async for page in pages:
        count += 1
        if count <= MOST_SHOWN:
            _add(table, page)
    render.out().print(table)
    if count > MOST_SHOWN:
        text = f"… and {count - MOST_SHOWN:,} more. Write all of them to a file: forager export scrape_result -o FILE"
        render.notes().print(text, markup=False, soft_wrap=True)


async def show_json_list(pages: AsyncIterator[dict[str, Any]]) -> None:
    """Print a JSON list, page by page: all of them might not fit into memory."""
    before = "[\n"
    async for page in pages:
        render.write(before + json_text(page, sys.stdout, indent=True))
        before = ",\n"
    render.write("[]\n" if before == "[\n" else "\n]\n")


def figures(result: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Field by field; one that was not found is a dash."""
    for name, value in result.items():
        yield name, render.plain(_short(value))


def _add(table: "Table", page: Mapping[str, Any]) -> None:
    found = page["error"]
    if page["result"] is not None:
        found = ", ".join(f"{name}: {_short(v)}" for name, v in page["result"].items() if v is not None)
    table.add_row(render.plain(page["target_url"]), render.state(page["status"]), render.plain(found))


def _short(value: Any) -> str | None:
    if isinstance(value, list):
        value = ", ".join(map(_entry, value))
    if value is None or value == "":
        return None
    if isinstance(value, Mapping):
        value = value.get("raw") or ", ".join(str(part) for part in value.values() if part)
    text = " ".join(str(value).split())
    return text if len(text) <= CUT * 4 else f"{text[: CUT * 4]}…"


def _entry(value: Any) -> str:
    """Return one of several values: a link as its URL, structured data as JSON."""
    if not isinstance(value, Mapping):
        return str(value)
    return str(value["url"]) if {"url", "text"} == value.keys() else orjson.dumps(value).decode()


FORMATS = ("markdown", "html", "text", "screenshot", "links", "pdf", "captured")
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
        "markdown, html, text, screenshot, links, pdf, captured.",
    ),
]
Workspace = Annotated[str, typer.Option("--workspace", help="Workspace whose logins are used where a page needs one.")]
Browser = Annotated[bool, typer.Option("--browser", help="Render the page in a browser.")]
Http = Annotated[bool, typer.Option("--http", help="Use plain HTTP only.")]
Sure = Annotated[
    float | None,
    typer.Option("--min-confidence", min=0, max=1, help="Drop values that are less sure than this (0 to 1)."),
]
Schema = Annotated[
    str | None, typer.Option("--schema", help="Fields of your own: name of a stored schema, or a JSON file.")
]
MaxUsd = Annotated[
    float | None,
    typer.Option("--max-usd", min=0, help="Spend at most this on described fields, in USD (default: no limit)."),
]
WithPlan = Annotated[
    bool, typer.Option("--plan", help="Show what described fields would cost; fetch and spend nothing.")
]
OPTIONS = {"page_schema": "schema", "target_url": "urls", "screenshot.selector": "element", "capture.match": "match"}
"""Options by the field of the request that they become."""
Auto = Annotated[bool, typer.Option("--auto", help="Use a browser only if the page needs one (default).")]


@commands.command(ANY_PAGE)
def page(
    context: typer.Context,
    urls: Annotated[list[str], typer.Argument(metavar="URL...", help="The page, or several pages.")],
    target_type: As = ANY_PAGE,
    requested_fields: Annotated[
        list[str] | None, typer.Option("--fields", "-f", help="Only these fields, separated by commas (repeatable).")
    ] = None,
    workspace_id: Workspace = "default",
    browser: Browser = False,
    http: Http = False,
    auto: Auto = False,
    min_confidence: Sure = None,
    schema: Schema = None,
    max_usd: MaxUsd = None,
    plan: WithPlan = False,
    links: Links = None,
    no_images: NoImages = False,
    max_tokens: MaxTokens = None,
    front_matter: FrontMatter = False,
    max_age: MaxAge = None,
    action: ActionOption = None,
    actions: Actions = None,
    full_page: FullPage = False,
    element: Element = None,
    match: Match = None,
    session: Session = None,
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
    language, main text as Markdown, links, metadata and structured data. Several pages are one job, as a file of
    `scrape batch` is.

    Example: forager scrape https://shop.example/product/1 --as markdown
    """
    names = [name.strip() for text in requested_fields or () for name in text.split(",") if name.strip()]
    for each in urls:
        if "://" not in each and os.path.isfile(each):  # noqa: PTH113 - Path.is_file raises for a long text
            problem = f"{each} is a file, not a URL. Read the pages that it names: forager scrape batch {each}"
            raise Rejected(problem, fields=[FieldError("URL", problem)])
    if len(urls) > 1:
        if extractor:
            raise Rejected("--extractor is for one page. Install it in `FORAGER_EXTRACTOR_FILES` for several.")
        more = depth_options(
            max_age, action, actions, full_page=full_page, element=element, match=match, session=session
        )
        with _listed(urls, {**more, **({"requested_fields": names} if names else {})}) as file:
            batch(
                context,
                file,
                target_type=target_type,
                workspace_id=workspace_id,
                browser=browser,
                http=http,
                auto=auto,
                min_confidence=min_confidence,
                schema=schema,
                max_usd=max_usd,
                plan=plan,
                links=links,
                no_images=no_images,
                max_tokens=max_tokens,
                front_matter=front_matter,
                output=output,
                as_json=as_json,
            )
        return
    (target_url,) = urls
    form = target_type if target_type in FORMATS else None
    target: dict[str, Any] = {
        "target_type": type_of(extractor) if extractor else ANY_PAGE if form else target_type,
        "target_url": target_url,
        "workspace_id": workspace_id,
        "render": _render(browser=browser, http=http, auto=auto),
        **({"formats": [form]} if form else {}),
        **({} if min_confidence is None else {"min_confidence": min_confidence}),
        **({} if schema is None else {"page_schema": schema_of(schema)}),
        **({} if max_usd is None else {"max_usd": budget_of(max_usd)}),
        **markdown_options(links, no_images=no_images, max_tokens=max_tokens, front_matter=front_matter),
        **depth_options(max_age, action, actions, full_page=full_page, element=element, match=match, session=session),
    }
    if names:
        target["requested_fields"] = names

    if plan:
        show_plan(context, [[target]], max_usd, as_json=as_json)
        return

    async def work(at: Reached) -> RequestedPage:
        if extractor and at.engine is None:
            raise runs_elsewhere()
        try:
            return await one_page(at, target, quiet=as_json)
        except Rejected as wrong:
            wrong.fields = tuple(map(_with_formats, wrong.fields))
            raise

    overrides = {"extractor_files": (str(extractor),)} if extractor else None
    asked = with_api(context, work, overrides, fields=OPTIONS, store="created")
    if not asked.is_read:
        if as_json:
            render.show_json(asked.shown)
        raise JobNotDone(f"{target_url} {asked.problem}")
    if asked.meta.get("stored"):
        notes = f"stored page of {asked.meta['fetched_at']}; no request was sent"
        render.notes().print(notes, markup=False, soft_wrap=True)
    if as_json or (output and not form):
        show_all(asked, output)
    elif form:
        show_format(form, asked.task["result"][form], output)
    else:
        render.out().print(render.facts(figures(asked.task["result"])))


@contextmanager
def _listed(urls: Sequence[str], more: Mapping[str, Any]) -> Iterator[Path]:
    """Write pages to a temporary file, as `scrape batch` reads it, each with `more` of the request."""
    with NamedTemporaryFile(prefix="pages-", suffix=".jsonl") as file:
        file.write(json_lines([{"target_url": url, **more} for url in urls]))
        file.flush()
        yield Path(file.name)


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
    schema: Schema = None,
    max_usd: MaxUsd = None,
    plan: WithPlan = False,
    links: Links = None,
    no_images: NoImages = False,
    max_tokens: MaxTokens = None,
    front_matter: FrontMatter = False,
    max_age: MaxAge = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", dir_okay=False, help="Write to this file: CSV if it ends so, else JSON lines."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Read the pages that a file names, and print what was found. Exit code 1 if some could not be fetched.

    Each line is an object, or a row under a header, with target_url and what else the API takes: target_type,
    requested_fields, workspace_id, render, min_confidence. A line can also be just a URL, and a table can have a column
    url among others. The file becomes one job of
    any size, whose id is printed first. The same command, run again before that job has ended, continues it.

    Example: forager scrape run urls.csv -o pages.jsonl
    """
    otherwise: dict[str, Any] = {
        "target_type": target_type,
        "workspace_id": workspace_id,
        "render": _render(browser=browser, http=http, auto=auto),
        **({} if min_confidence is None else {"min_confidence": min_confidence}),
        **({} if schema is None else {"page_schema": schema_of(schema)}),
        **markdown_options(links, no_images=no_images, max_tokens=max_tokens, front_matter=front_matter),
        **({} if max_age is None else {"max_age": seconds_of(max_age)}),
    }
    if target_type in FORMATS:
        otherwise.update(target_type=ANY_PAGE, formats=[target_type])
    tally, budget = Tally(), None if max_usd is None else budget_of(max_usd)

    with target_file(file, otherwise) as pages_file:
        with activity(quiet=as_json) as show:
            checked = pages_file.check(show)
        if plan:
            parts = ([dict(line.target) for line in part] for part in parts_of(pages_file.lines()))
            show_plan(context, parts, max_usd, as_json=as_json)
            return

        async def work(at: Reached) -> None:
            pages = tally.counted(many_pages(at, pages_file, checked, max_usd=budget, quiet=as_json))
            if output is not None:
                await write_pages(one_by_one(pages), Format.of(output), output)
            else:
                await (show_json_list if as_json else show_table)(pages)

        with_api(context, work, store="created")
    count = render.some(tally.pages, "page")
    if output is not None:
        render.notes().print(f"{count} in {output}", markup=False, soft_wrap=True)
        if as_json:
            render.show_json({"pages": tally.pages, "output": str(output)})
    if tally.failed:
        where = "above" if output is None else f"in {output}"
        raise JobNotDone(f"{tally.failed:,} of {count} could not be fetched; see why {where}.")


commands.command("run")(batch)  # the verb that every pipeline has


def show_plan(
    context: typer.Context, parts: Iterable[list[dict[str, Any]]], max_usd: float | None, *, as_json: bool
) -> None:
    """Print the price of a job whose targets come in parts. A budget limits the sum, not each part."""

    async def work(at: Reached) -> dict[str, Any]:
        total: dict[str, Any] = {"pages": 0, "described_pages": 0, "model": None}
        total |= {"expected_usd": 0.0, "worst_usd": 0.0, "via_usd": 0.0}
        for part in parts:
            targets = [{name: value for name, value in each.items() if name != "max_usd"} for each in part]
            priced = await at.api.post("/jobs/plan", {"pipeline": "scrape", "params": {"targets": targets}})
            total["model"] = total["model"] or priced["model"]
            for name in ("pages", "described_pages"):
                total[name] += priced[name]
            for name in ("expected_usd", "worst_usd", "via_usd"):
                total[name] = round(total[name] + float(priced[name]), 6)
        if max_usd is not None:
            total |= {name: min(total[name], max_usd) for name in ("expected_usd", "worst_usd")}
        return {**total, "max_usd": max_usd}

    plan = with_api(context, work, fields={"page_schema": "schema"}, store="optional")
    if as_json:
        render.show_json(plan)
        return
    render.out().print(
        render.facts(
            [
                ("pages", render.count(plan["pages"])),
                ("described", render.count(plan["described_pages"])),
                ("model", render.plain(plan["model"]) if plan["model"] else None),
                ("expected", render.money(plan["expected_usd"])),
                ("at most", render.money(plan["worst_usd"])),
                ("unblocking service", render.money(plan["via_usd"]) if plan["via_usd"] else None),
            ]
        )
    )


def schema_of(text: str) -> Any:
    """Return the name of a schema, or the schema in a JSON file."""
    if not text.endswith(".json"):
        return text
    try:
        return orjson.loads(Path(text).read_bytes())
    except OSError as error:
        raise _unreadable(f"{text} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise _unreadable(f"{text} is not valid JSON: {error}") from error


def _unreadable(problem: str) -> Rejected:
    return Rejected(f"--schema {problem}.", fields=[FieldError("schema", problem)])


def budget_of(max_usd: float) -> str:
    """Return a budget as the API takes it, to the millionth of a dollar."""
    return f"{max_usd:.6f}"


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
