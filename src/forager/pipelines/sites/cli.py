"""`forager site …`: map, plan, crawl, show, list and export sites."""

from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from forager.core.clock import seconds_with_unit
from forager.core.errors import NotFound, Rejected
from forager.pipelines.sites.cli_words import words
from forager.sdk.cli import render
from forager.sdk.cli.client import part
from forager.sdk.cli.invocation import Json, Reached, with_api
from forager.sdk.cli.markdown import Links, MaxTokens, NoImages, markdown_options
from forager.sdk.cli.run_job import run_job, see_through
from forager.sdk.table_files import moved_to

commands = typer.Typer(help="Map, crawl and export any site.", no_args_is_help=True)
CRAWLS = "/sites/crawls"


class PageForm(StrEnum):
    markdown = "markdown"
    text = "text"
    html = "html"
    fields = "fields"


Url = Annotated[str, typer.Argument(help="First URL, such as https://docs.example/.")]
Include = Annotated[list[str] | None, typer.Option("--include", help="Visit only these paths, as '/docs/*'.")]
Exclude = Annotated[list[str] | None, typer.Option("--exclude", help="Do not visit these paths, as '/tag/*'.")]
Subdomains = Annotated[bool, typer.Option("--subdomains", help="Visit the other hosts of the domain as well.")]
Watch = Annotated[
    bool, typer.Option("--watch", "-w", help="Follow a job that a running Forager works on until it has ended.")
]
FLAGS = {"form": "as_", "frequency": "every", "max_bytes": "max_mb", "max_minutes": "minutes", "fields": "schema"}


@commands.command("map")
def map_site(
    context: typer.Context,
    url: Url,
    include: Include = None,
    exclude: Exclude = None,
    subdomains: Subdomains = False,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", help="Read the links of at most this number of pages (default 30).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print all addresses of a site that robots.txt, sitemaps and links name; fetch no more than that.

    Example: forager site map https://docs.example/ --include '/guide/*'
    """
    job = _given(url=url, mode="map", include=include, exclude=exclude, subdomains=subdomains or None, limit=limit)

    async def work(at: Reached) -> None:
        made = await at.api.post(CRAWLS, job)
        ended = await see_through(at, made["job_id"], words=words, quiet=as_json)
        site, found = made["site"], 0
        async for rows in at.api.pages(f"/sites/{part(site)}/map"):
            for row in rows:
                found += 1
                render.write(render_line(row) if as_json else f"{row['url']}\n")
        if not as_json:
            render.notes().print(f"{render.some(found, 'address', 'addresses')} of {site}.", markup=False)
        if ended["failed"] and not found:
            raise NotFound(f"{url} could not be read. See why: forager dead list --job {ended['id']}")

    with_api(context, work, store="created")


def render_line(row: Mapping[str, Any]) -> str:
    """Return a row as one line of JSON."""
    import orjson

    return orjson.dumps(row).decode() + "\n"


@commands.command()
def crawl(
    context: typer.Context,
    url: Url,
    depth: Annotated[int | None, typer.Option(help="Depth in links, 0 to 100 (default 20).")] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", help="Fetch at most this number of pages (default 1000).")
    ] = None,
    include: Include = None,
    exclude: Exclude = None,
    subdomains: Subdomains = False,
    as_: Annotated[PageForm | None, typer.Option("--as", help="Content to store (default markdown).")] = None,
    links: Links = None,
    no_images: NoImages = False,
    max_tokens: MaxTokens = None,
    schema: Annotated[str | None, typer.Option(help="Name or JSON file of the schema, with --as fields.")] = None,
    every: Annotated[str | None, typer.Option(help="Visit pages again after about 6h, 1d … (default: never).")] = None,
    max_mb: Annotated[float | None, typer.Option("--max-mb", help="Begin no page after this number of MB.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Begin no page after this number of minutes.")] = None,
    no_sitemap: Annotated[bool, typer.Option("--no-sitemap", help="Follow links only; read no sitemap.")] = False,
    keep_traps: Annotated[
        bool, typer.Option("--keep-traps", help="Follow near-duplicates and endless patterns as well.")
    ] = False,
    auto: Annotated[bool, typer.Option("--auto", help="Use a browser for pages that need one.")] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show pages and time at the pace in force; fetch nothing.")
    ] = False,
    watch: Watch = False,
    as_json: Json = False,
) -> None:
    """Crawl a site and keep its pages as records; the same command later fetches only what has changed.

    An interrupted crawl continues with the next `forager up` or `forager worker`. Links are followed within the site,
    politely and within robots.txt; near-duplicates and endless spaces are left out.

    Example: forager site crawl https://docs.example/ --limit 500 --include '/guide/*'
    """
    job = _given(
        url=url,
        depth=depth,
        limit=limit,
        include=include,
        exclude=exclude,
        subdomains=subdomains or None,
        form=as_.value if as_ else None,
        fields=_schema(schema),
        frequency=_seconds(every),
        max_bytes=None if max_mb is None else round(max_mb * 1_000_000),
        max_minutes=minutes,
        sitemap=False if no_sitemap else None,
        traps=False if keep_traps else None,
        render="auto" if auto else None,
        **markdown_options(links, no_images=no_images, max_tokens=max_tokens),
    )

    async def work(at: Reached) -> None:
        if plan:
            show_plan(await at.api.post("/sites/plan", job), as_json=as_json)
            return
        await run_job(at, CRAWLS, job, words=words, total=None, watch=watch, as_json=as_json)

    with_api(context, work, fields=FLAGS, store="optional" if plan else "created")


@commands.command("list")
def list_crawls(context: typer.Context, as_json: Json = False) -> None:
    """List crawls and maps, newest first.

    Example: forager site list
    """
    rows = with_api(context, lambda at: at.api.get("/sites"))
    if as_json:
        render.show_json(rows)
        return
    shown = render.table("site", "mode", "pages", "duplicates", "trapped", "state", "started", right=("pages",))
    for row in rows:
        shown.add_row(
            render.plain(row["site"]),
            row["mode"],
            render.count(row["pages"]),
            render.count(row["duplicates"]),
            render.count(row["trapped"]),
            render.state(row["state"]),
            render.relative(row["started_at"]),
        )
    render.out().print(shown)


@commands.command()
def show(
    context: typer.Context,
    site: Annotated[str, typer.Argument(help="A site, as docs.example, or the URL of a page.")],
    as_json: Json = False,
) -> None:
    """Show a site with its crawls, or print the content of one page.

    Example: forager site show docs.example
    """
    if "://" in site:
        page = with_api(context, lambda at: at.api.get("/sites/page", url=site))
        if as_json:
            render.show_json(page)
        else:
            render.write((page["content"] or "") + "\n")
        return
    found = with_api(context, lambda at: at.api.get(f"/sites/{part(site)}"))
    if as_json:
        render.show_json(found)
        return
    facts = [(name, render.count(found[name])) for name in ("pages", "addresses", "duplicates", "gone")]
    render.out().print(render.facts([("site", found["site"]), *facts, ("crawls", str(len(found["crawls"])))]))


@commands.command()
def export(
    context: typer.Context,
    site: Annotated[str, typer.Argument(help="A site that was crawled, as docs.example.")],
    folder: Annotated[Path | None, typer.Option(help="Write a file for each page into this folder.")] = None,
    one_file: Annotated[
        Path | None, typer.Option("--one-file", help="Write all pages into this file, with a table of contents.")
    ] = None,
    warc: Annotated[
        Path | None, typer.Option("--warc", help="Write the HTML of all pages into this WARC file (crawled --as html).")
    ] = None,
    duplicates: Annotated[bool, typer.Option("--duplicates", help="Write near-duplicates as well.")] = False,
    as_json: Json = False,
) -> None:
    """Write the pages of a site as files: a folder of Markdown with front matter, one file for a model, or WARC.

    Example: forager site export docs.example --folder docs
    """
    if len([path for path in (folder, one_file, warc) if path is not None]) != 1:
        raise Rejected("Give one of --folder, --one-file and --warc.")

    async def work(at: Reached) -> int:
        await at.api.get(f"/sites/{part(site)}")
        if folder is not None:
            return await _write_folder(at, site, folder, duplicates=duplicates)
        if warc is not None:
            return await _write_warc(at, site, warc, duplicates=duplicates)
        assert one_file is not None  # noqa: S101 - checked above
        return await _write_one(at, site, one_file, duplicates=duplicates)

    written = with_api(context, work)
    if as_json:
        render.show_json({"pages": written, "path": str(folder or one_file or warc)})
        return
    render.notes().print(f"{render.some(written, 'page')} written to {folder or one_file or warc}.", markup=False)


async def _pages(at: Reached, site: str, *, content: bool, duplicates: bool) -> AsyncIterator[Any]:
    query = {"content": str(content).lower(), "duplicates": str(duplicates).lower(), "limit": 50 if content else 500}
    async for rows in at.api.pages(f"/sites/{part(site)}/pages", **query):
        for row in rows:
            if row["gone_at"] is None:
                yield row


async def _write_folder(at: Reached, site: str, folder: Path, *, duplicates: bool) -> int:
    from forager.pipelines.sites.export import file_name, file_text

    written = 0
    try:
        async for page in _pages(at, site, content=True, duplicates=duplicates):
            path = folder / file_name(page["url"], page["form"] or "markdown")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file_text(page), encoding="utf-8")
            written += 1
    except OSError as error:
        raise Rejected(f"--folder {folder} cannot be written: {error.strerror}.") from error
    return written


async def _write_one(at: Reached, site: str, path: Path, *, duplicates: bool) -> int:
    from forager.pipelines.sites.export import chapter, contents

    listed = [page async for page in _pages(at, site, content=False, duplicates=duplicates)]
    known = {page["url"] for page in listed}
    written = 0
    try:
        with path.open("w", encoding="utf-8") as file:
            file.writelines(contents(listed, site))
            async for page in _pages(at, site, content=True, duplicates=duplicates):
                if page["url"] in known:
                    written += 1
                    file.write(chapter(written, page))
    except OSError as error:
        raise Rejected(f"--one-file {path} cannot be written: {error.strerror}.") from error
    return written


async def _write_warc(at: Reached, site: str, path: Path, *, duplicates: bool) -> int:
    """Write pages whose HTML is stored. The file appears under its name when it is complete."""
    from forager.sdk.warc import CapturedPage, WarcWriter

    target = moved_to(path)
    written, partial = 0, path if target is None else target.with_name(f"{target.name}.part")
    try:
        with partial.open("wb") as file:
            writer = WarcWriter(file, path.name)
            async for page in _pages(at, site, content=True, duplicates=duplicates):
                if page["form"] == "html" and page["content"]:
                    writer.add(
                        CapturedPage(
                            url=page["url"],
                            fetched_at=datetime.fromisoformat(page["last_seen_at"]),
                            status=page["status"] or 200,
                            content_type="text/html; charset=utf-8",
                            body=page["content"].encode("utf-8", "replace"),
                            about={"title": page["title"] or "", "site": site},
                        )
                    )
                    written += 1
        if not written:
            if target is not None:
                partial.unlink()
            raise Rejected(f"No HTML of {site} is stored. Crawl the site with it: forager site crawl URL --as html")
        if target is not None:
            partial.replace(target)
    except OSError as error:
        raise Rejected(f"--warc {path} cannot be written: {error.strerror}.") from error
    return written


def show_plan(planned: Any, *, as_json: bool) -> None:
    """Print what a crawl would fetch."""
    if as_json:
        render.show_json(planned)
        return
    known = "unknown; `forager site map` finds out" if planned["known"] is None else render.count(planned["known"])
    time = render.duration(planned["seconds"]) if planned["seconds"] is not None else None
    facts = [
        ("site", planned["site"]),
        ("known addresses", known),
        ("at most", render.some(planned["at_most"], "page")),
        ("seconds per page", f"{planned['seconds_per_page']:g}"),
        ("time for known", time),
        ("time at most", render.duration(planned["at_most_seconds"])),
        ("robots.txt", "obeyed" if planned["robots"] else "not obeyed"),
        ("unblocking service", f"at most {render.money(via)}" if (via := float(planned["via_usd"])) else None),
    ]
    render.out().print(render.facts(facts))
    render.notes().print("Nothing was fetched.", markup=False)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _seconds(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return round(seconds_with_unit(text))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--every") from None


def _schema(text: str | None) -> Any:
    """Return the name of a schema, or the schema in a JSON file."""
    if text is None or not text.endswith(".json"):
        return text
    import orjson

    try:
        return orjson.loads(Path(text).read_bytes())
    except OSError as error:
        raise Rejected(f"--schema {text} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise Rejected(f"--schema {text} is not valid JSON: {error}.") from error
