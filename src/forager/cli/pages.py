"""`forager pages …`: stored pages and pictures, read back."""

import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from forager.core.errors import NotFound, Rejected
from forager.sdk.cli.client import part
from forager.sdk.cli.invocation import Json, Reached, with_api
from forager.sdk.cli.row_files import opened

app = typer.Typer(help="Stored pages and pictures: list, show and export them.", no_args_is_help=True)

Kind = Annotated[str, typer.Option("--kind", help="Kind of record: page or picture.")]
Domain = Annotated[str | None, typer.Option("--domain", help="Only of this site, such as shop.example.")]
OfJob = Annotated[str | None, typer.Option("--job", help="With --warc or --wacz: the recording of this job.")]
PATH = "/pages"
API = "/api/v1/pages/"
SHOWN_ID = 12
"""Characters of an id in a list; every command takes them for the whole id."""
SHORT_ID = re.compile("[0-9a-f]{4,35}")
"""The first characters of an id. 36 characters are the id of a task."""


class File(StrEnum):
    RAW = "raw"
    RENDERED = "rendered"
    SCREENSHOT = "screenshot"
    PDF = "pdf"


@app.command("list")
def list_pages(
    context: typer.Context,
    kind: Kind = "page",
    domain: Domain = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1_000, help="Maximum rows.")] = 50,
    as_json: Json = False,
) -> None:
    """List stored pages, or the pictures of products with `--kind picture`.

    Example: forager pages list --domain shop.example
    """
    from forager.sdk.cli import render

    async def work(at: Reached) -> list[Any]:
        found: list[Any] = []
        async for some in at.api.pages(PATH, kind=kind, domain=domain):
            found += some
            if len(found) >= limit:
                break
        return found[:limit]

    listed = with_api(context, work)
    if as_json:
        render.show_json(listed)
        return
    if not listed:
        render.notes().print("No page is stored.", soft_wrap=True)
        return
    rows = render.table("id", "url", fold=("url",))
    for each in listed:
        rows.add_row(each["id"][:SHOWN_ID], render.plain(each["url"] or "-"))
    render.out().print(rows)


@app.command()
def show(
    context: typer.Context,
    page: Annotated[
        str,
        typer.Argument(
            metavar="PAGE",
            help="Its id or the first characters of it, its URL, an html_path or image_path, or a task's id.",
        ),
    ],
    file: Annotated[
        File | None,
        typer.Option("--file", help="raw, rendered, screenshot or pdf (default: the first that is stored)."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", dir_okay=False, help="Output file (default: standard output).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a stored page as the site sent it or as a browser rendered it, or its screenshot.

    With --json: where it was fetched, when, and which files are stored of it.

    Example: forager pages show <page> -o page.html
    """
    from forager.sdk.cli import render

    async def work(at: Reached) -> tuple[Any, bytes]:
        detail = await _detail(at, page)
        if as_json and output is None:
            return detail, b""
        chosen = _chosen(detail, file)
        if output is None and chosen["content_type"].startswith("image/") and sys.stdout.isatty():
            raise Rejected("This is a picture. Name a file with --output, or redirect the output.")
        return detail, (await at.api.download(f"{PATH}/{detail['id']}/{chosen['name']}")).body

    detail, body = with_api(context, work, fields={"page_id": "page", "url": "page"})
    if as_json and output is None:
        render.show_json(detail)
        return
    with opened(output) as to:
        to.write(body)
        to.flush()
    if output is not None:
        if as_json:
            render.show_json({**detail, "output": str(output)})
        else:
            render.notes().print(f"{detail['url'] or detail['id']} in {output}", markup=False, soft_wrap=True)


@app.command()
def export(
    context: typer.Context,
    folder: Annotated[
        Path | None, typer.Argument(file_okay=False, help="Folder for the files; created if it is missing.")
    ] = None,
    kind: Kind = "page",
    domain: Domain = None,
    job: OfJob = None,
    warc: Annotated[
        Path | None, typer.Option("--warc", dir_okay=False, help="Write one WARC file (.warc.gz), and its index.")
    ] = None,
    wacz: Annotated[Path | None, typer.Option("--wacz", dir_okay=False, help="Write one WACZ package.")] = None,
    as_json: Json = False,
) -> None:
    """Write stored pages or pictures as ordinary files, or as one WARC file or WACZ package.

    A folder gets `index.jsonl`, one line for each file; run it again to add what is new. A WARC file gets its CDXJ
    index next to it, `NAME.cdxj`. With --job and a recorded job (FORAGER_RECORD), the file has every answer that the
    job got, those of APIs as well, and `forager replay` runs the job again from it.

    Example: forager pages export pages --domain shop.example
    """
    from forager.sdk.cli import render

    if sum(each is not None for each in (folder, warc, wacz)) != 1:
        raise typer.BadParameter("Name a folder, or one of --warc and --wacz.", param_hint="FOLDER")
    if job is not None and folder is not None:
        raise typer.BadParameter("It needs --warc or --wacz.", param_hint="--job")
    if folder is None:
        from forager.cli.page_archives import export_archive

        export_archive(context, warc, wacz, kind, domain, job, as_json=as_json)
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Rejected(f"{folder} cannot be created: {error.strerror or error}. Choose another folder.") from error
    done = with_api(context, lambda at: _export(at, folder, kind, domain))
    if as_json:
        render.show_json({**done, "output": str(folder)})
        return
    missing = f" {render.some(done['missing'], 'file')} no longer stored." if done["missing"] else ""
    message = f"{render.some(done['files'], 'file')} in {folder}, {done['new']} new.{missing}"
    render.notes().print(message, markup=False, soft_wrap=True)


async def _detail(at: Reached, page: str) -> Any:
    """Find a page by any of its names."""
    name = page.strip()
    if name.startswith(("http://", "https://")) and API not in name:
        found = await at.api.get(PATH, url=name)
        if not found:
            raise NotFound(f"No page is stored for {name}. See `forager pages list`.")
        name = found[0]["id"]
    name = name.partition(API)[2].partition("/")[0] if API in name else name
    if SHORT_ID.fullmatch(name):
        name = await _full_id(at, name)
    return await at.api.get(f"{PATH}/{part(name)}")


async def _full_id(at: Reached, short: str) -> str:
    """Return the id of the stored page or picture that begins with these characters. Raises `NotFound` if there is
    none, `Rejected` if there are several."""
    matching: set[str] = set()
    for kind in ("page", "picture"):
        async for some in at.api.pages(PATH, kind=kind):
            matching.update(each["id"] for each in some if each["id"].startswith(short))
    if not matching:
        raise NotFound(f"No stored page has an id that begins with {short!r}. See `forager pages list`.")
    if len(matching) > 1:
        raise Rejected(f"{len(matching)} ids of stored pages begin with {short!r}. Give more characters.")
    return matching.pop()


def _chosen(detail: Any, file: File | None) -> Any:
    files = detail["files"]
    chosen = next((each for each in files if file is None or each["name"] == file.value), None)
    if chosen is None:
        there = ", ".join(each["name"] for each in files)
        raise NotFound(f"There is no {file} file of {detail['id']}. There is: {there}.")
    return chosen


async def _export(at: Reached, folder: Path, kind: str, domain: str | None) -> dict[str, int]:
    import orjson

    done = {"files": 0, "new": 0, "missing": 0}
    with opened(folder / "index.jsonl") as index:
        async for some in at.api.pages(PATH, kind=kind, domain=domain):
            for each in some:
                try:
                    detail = await at.api.get(f"{PATH}/{each['id']}")
                except NotFound:
                    done["missing"] += 1
                    continue
                for file in detail["files"]:
                    target = folder / file["file_name"]
                    if not target.exists():
                        with opened(target) as to:
                            to.write((await at.api.download(f"{PATH}/{each['id']}/{file['name']}")).body)
                        done["new"] += 1
                    done["files"] += 1
                    known = {name: file[name] for name in ("file_name", "name", "content_type", "size")}
                    known |= {"url": each["url"] or detail["url"], "kind": each["kind"], "key": each["key"]}
                    index.write(orjson.dumps(known | {"fetched_at": detail["fetched_at"]}) + b"\n")
    return done
