"""`forager watch …`: watch any page, and see what changed."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from forager.core.errors import Conflict, Rejected
from forager.pipelines.watches.cli_words import words
from forager.sdk.cli import render
from forager.sdk.cli.client import part
from forager.sdk.cli.invocation import Json, Reached, with_api
from forager.sdk.cli.run_job import see_through

commands = typer.Typer(help="Watch any page for changes.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="Name of the watch.")]
FLAGS = {"page_schema": "schema", "url": "urls"}


class Ignorable(StrEnum):
    dates = "dates"
    counters = "counters"
    nothing = "nothing"


@commands.command()
def add(
    context: typer.Context,
    urls: Annotated[list[str] | None, typer.Argument(help="Pages to watch.")] = None,
    file: Annotated[Path | None, typer.Option(help="Watch the pages of this file, one URL on a line.")] = None,
    select: Annotated[str | None, typer.Option(help="Watch the elements that this CSS selector finds.")] = None,
    schema: Annotated[str | None, typer.Option(help="Watch fields: name or JSON file of a schema.")] = None,
    text: Annotated[bool, typer.Option("--text", help="Watch the main text of the page (the default).")] = False,
    every: Annotated[str, typer.Option(help="Time between two checks, as 1h (default 1h, at least 1m).")] = "1h",
    when: Annotated[str | None, typer.Option(help="Notify only when this becomes true, as 'price < 50'.")] = None,
    notify: Annotated[list[str] | None, typer.Option(help="Channel for alerts; see `forager channels`.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the watch (default: by its URL).")] = None,
    ignore: Annotated[
        list[Ignorable] | None, typer.Option(help="Differences to ignore in a text (default dates, counters).")
    ] = None,
    browser: Annotated[bool, typer.Option("--browser", help="Load the page with a browser.")] = False,
    screenshots: Annotated[
        bool, typer.Option("--screenshots", help="Keep a picture before and after a change (with a browser).")
    ] = False,
    as_json: Json = False,
) -> None:
    """Watch pages: check each now and every hour, and notify a channel when it changes.

    Example: forager watch add https://shop.example/product/1 --every 6h --name table
    """
    pages = [*(urls or []), *_lines(file)]
    if not pages:
        raise Rejected("Give at least one URL, or a file with --file.")
    if name is not None and len(pages) > 1:
        raise Rejected("--name is for one page; several are named by their URLs.")
    if text and (select or schema):
        raise Rejected("Give one of --text, --select and --schema.")
    given = {
        "select": select,
        "schema": _schema(schema),
        "every": every,
        "when": when,
        "notify": notify,
        "name": name,
        "ignore": None if ignore is None else [each.value for each in ignore if each is not Ignorable.nothing],
        "render": "browser" if browser or screenshots else None,
        "screenshots": screenshots or None,
    }
    body = {key: value for key, value in given.items() if value is not None}

    known: list[str] = []

    async def work(at: Reached) -> list[Any]:
        made = []
        for url in pages:
            try:
                made.append(await at.api.post("/watches", {**body, "url": url}))
            except Conflict:
                if len(pages) == 1:
                    raise
                known.append(url)  # the same file again, with a few more pages, or after a command that was interrupted
        return made

    added = with_api(context, work, fields=FLAGS, store="created")
    if as_json:
        render.show_json(added)
        return
    for each in added:
        render.notes().print(f"Watch {each['name']} added.", markup=False)
    if known:
        render.notes().print(f"{render.some(len(known), 'page')} watched already, and left as they are.", markup=False)
    render.notes().print("`forager up` checks them; one now: forager watch check NAME", markup=False)


@commands.command("list")
def list_watches(
    context: typer.Context,
    limit: Annotated[
        int, typer.Option("--limit", "-n", help="Watches to print (default 100).", min=1, max=1_000)
    ] = 100,
    as_json: Json = False,
) -> None:
    """List watches with what each saw last.

    Example: forager watch list
    """
    rows = with_api(context, lambda at: at.api.get("/watches", limit=limit))
    if as_json:
        render.show_json(rows)
        return
    shown = render.table("name", "state", "every", "checks", "changes", "last change", "checked", right=("checks",))
    for row in rows:
        shown.add_row(
            render.plain(row["name"]),
            row["state"],
            render.duration(row["every"]),
            render.count(row["checks"]),
            render.count(row["changes"]),
            render.plain(row["error"] or row["summary"] or ""),
            render.relative(row["checked_at"]) if row["checked_at"] else "",
        )
    render.out().print(shown)


@commands.command()
def show(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Show a watch with its observations, newest first.

    Example: forager watch show table
    """

    async def work(at: Reached) -> tuple[Any, Any]:
        found = await at.api.get(f"/watches/{part(name)}")
        return found, await at.api.get(f"/watches/{part(name)}/observations", limit=20)

    found, seen = with_api(context, work)
    if as_json:
        render.show_json({**found, "observations": seen})
        return
    hidden = {"text", "schema"}
    pairs = [(key, str(value)) for key, value in found.items() if value not in (None, [], {}) and key not in hidden]
    render.out().print(render.facts(pairs))
    for each in seen:
        line = each["summary"] or ("first observation" if each["op"] == "new" else each["op"])
        render.out().print(f"  {each['at']}  {line}", markup=False)


@commands.command()
def check(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Check a page now, and print what changed.

    Example: forager watch check table
    """

    async def work(at: Reached) -> Any:
        before = await at.api.get(f"/watches/{part(name)}")
        made = await at.api.post(f"/watches/{part(name)}/check", {})
        await see_through(at, made["job_id"], words=words, quiet=True)
        after = await at.api.get(f"/watches/{part(name)}")
        return {**after, "differs": after["changes"] > before["changes"]}

    found = with_api(context, work)
    if as_json:
        render.show_json(found)
        return
    told = found["error"] or (found["summary"] if found["differs"] else "No change.")
    render.out().print(told or "First observation.", markup=False)


@commands.command()
def pause(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Check a page no more until it is resumed.

    Example: forager watch pause table
    """
    done = with_api(context, lambda at: at.api.post(f"/watches/{part(name)}/pause", {}))
    render.show_json(done) if as_json else render.notes().print(f"Watch {name} is paused.", markup=False)


@commands.command()
def resume(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Check a page again, now and then as before.

    Example: forager watch resume table
    """
    done = with_api(context, lambda at: at.api.post(f"/watches/{part(name)}/resume", {}))
    render.show_json(done) if as_json else render.notes().print(f"Watch {name} goes on.", markup=False)


@commands.command()
def remove(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Remove a watch and its rule.

    Example: forager watch remove table
    """
    done = with_api(context, lambda at: at.api.delete(f"/watches/{part(name)}"))
    render.show_json(done) if as_json else render.notes().print(f"Watch {name} removed.", markup=False)


def _lines(file: Path | None) -> list[str]:
    if file is None:
        return []
    try:
        return [line.strip() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise Rejected(f"--file {file} cannot be read: {error}.") from error


def _schema(text: str | None) -> Any:
    if text is None or not text.endswith(".json"):
        return text
    import orjson

    try:
        return orjson.loads(Path(text).read_bytes())
    except (OSError, ValueError) as error:
        raise Rejected(f"--schema {text} cannot be read as JSON: {error}.") from error
