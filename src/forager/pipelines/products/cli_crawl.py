"""`forager crawl …`: one page, a list of pages, a sitemap, or a site whose links are followed."""

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from forager.core.errors import NotFound, Rejected
from forager.core.reasons import Reason
from forager.kit.cli import render
from forager.kit.cli.errors import JobNotDone
from forager.kit.cli.invocation import Json, Reached
from forager.kit.cli.job_report import check_done
from forager.kit.cli.run_job import run_job, see_through
from forager.kit.cli.running import with_api
from forager.pipelines.products.cli_list import PLAN, UrlFile, crawl_list, plan_list, url_file
from forager.pipelines.products.cli_recrawl import seconds
from forager.pipelines.products.cli_words import words

command = typer.Typer(help="Crawl a shop's pages; the same command tomorrow crawls again.")
JOBS = "/admin/crawl-jobs"
PICTURES = "pictures"
"""The watch that downloads pictures while `forager up` runs."""


@command.command()
def crawl(
    context: typer.Context,
    url: Annotated[str | None, typer.Argument(help="A page, a site, or with --sitemap a sitemap or a site.")] = None,
    sitemap: Annotated[bool, typer.Option("--sitemap", help="Crawl every page that the sitemap of URL lists.")] = False,
    file: Annotated[
        Path | None, typer.Option("--file", exists=True, dir_okay=False, help="A file with one URL per line.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Follow category and pagination links of the site.")] = False,
    depth: Annotated[int | None, typer.Option(help="How many links deep, with --follow (default 5).")] = None,
    max_pages: Annotated[int | None, typer.Option(help="Never fetch more pages than this.")] = None,
    auto: Annotated[bool, typer.Option("--auto", help="Use a browser for pages that need one.")] = False,
    browser: Annotated[bool, typer.Option("--browser", help="Use a browser for every page.")] = False,
    http: Annotated[bool, typer.Option("--http", help="Plain HTTP for every page (default).")] = False,
    priority: Annotated[int | None, typer.Option(help="1 (highest) to 10 (lowest), default 5.")] = None,
    scheduled_at: Annotated[
        str | None, typer.Option(help="Not before this time, such as 2026-03-14T12:00:00Z (default: now).")
    ] = None,
    max_retries: Annotated[
        int | None, typer.Option(help="Retries of a page that cannot be fetched, 0 to 10 (default 3).")
    ] = None,
    recrawl: Annotated[str | None, typer.Option(help="Crawl again every 30m, 6h, 2d … (default: 1d).")] = None,
    once: Annotated[bool, typer.Option("--once", help="Do not crawl these pages again by itself.")] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show pages and time at the pace in force; fetch nothing.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Follow a job that a running Forager works on until it has ended.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Crawl pages and print the product of a single one, each value with its source and confidence.

    Beside a running `forager up` the job is handed to it, and it recrawls the pages. Otherwise this command does the
    work itself and ends with the job; run it again to crawl again.
    """
    if sum((http, auto, browser)) > 1:
        raise Rejected("Choose one of --http, --auto and --browser.")
    options: dict[str, Any] = {
        "follow": follow or None,
        "depth": depth,
        "max_pages": max_pages,
        "render": "browser" if browser else "auto" if auto else None,
        "priority": priority,
        "scheduled_at": scheduled_at,
        "max_retries": max_retries,
        "frequency": None if recrawl is None else seconds(recrawl),
        "recrawl": False if once else None,
    }
    options = {name: value for name, value in options.items() if value is not None}
    named = {"urls": "file" if file else "url", "sitemap": "url", "frequency": "recrawl", "recrawl": "once"}
    page = None if sitemap else url
    with url_file(file, page) if file else nullcontext() as pages:
        few = pages.few() if pages else [page] if page else []
        if few is None and pages and not sitemap:
            long = partial(_long_list, pages, options, plan=plan, watch=watch, as_json=as_json)
            with_api(context, long, fields=named, store="optional" if plan else "created")
            return
        if pages:
            pages.check(lambda _: None)  # so that a wrong line of a short list is named like one of a long list
        urls = [line.url for line in pages.lines()] if pages and few is None else few or []
    if not urls and not (url and sitemap):
        raise Rejected("Nothing to crawl. Give a URL, or --file with one URL per line.")
    job = {**({"urls": urls} if urls else {}), **({"sitemap": url} if sitemap else {}), **options}
    is_one_page = len(urls) == 1 and not sitemap and not follow

    async def work(at: Reached) -> None:
        if plan:
            _show_plan(await at.api.post(PLAN, {"pipeline": "products", "params": job}), as_json=as_json)
        else:
            before = await _open_quarantines(at)
            try:
                if is_one_page and (at.engine is not None or watch):
                    await _one_page(at, job, urls[0], quiet=as_json)
                else:
                    await run_job(at, JOBS, job, words=words, watch=watch, as_json=as_json)
            finally:
                if at.engine is not None and not as_json:
                    await _show_what_is_left(at, before)

    with_api(context, work, fields=named, store="optional" if plan else "created")


async def _open_quarantines(at: Reached) -> set[str]:
    rows = [] if at.engine is None else await at.api.get("/admin/quarantines", state="open")
    return {f"{row['domain']}/{row['parser']}/{row['parser_version']}/{row['field']}" for row in rows}


async def _show_what_is_left(at: Reached, before: set[str]) -> None:
    """Print which fields this crawl has quarantined, and how many products wait for their pictures."""
    if new := sorted(await _open_quarantines(at) - before):
        render.notes().print(
            f"The parser finds much less than before: {', '.join(new)}. New values are held back;"
            " see `forager products quarantine list`.",
            markup=False,
            soft_wrap=True,
        )
    watches = {each["name"]: each for each in await at.api.get("/watches")}
    waiting = watches.get(PICTURES, {}).get("due", 0)
    if waiting:
        render.notes().print(
            f"Pictures of {render.some(waiting, 'product')} are not downloaded yet: `forager up` downloads them.",
            markup=False,
            soft_wrap=True,
        )


async def _long_list(
    pages: UrlFile, options: dict[str, Any], at: Reached, *, plan: bool, watch: bool, as_json: bool
) -> None:
    if plan:
        _show_plan(await plan_list(at, pages, options, as_json=as_json), as_json=as_json)
    else:
        before = await _open_quarantines(at)
        try:
            await crawl_list(at, pages, options, watch=watch, as_json=as_json)
        finally:
            if at.engine is not None and not as_json:
                await _show_what_is_left(at, before)


def _show_plan(planned: Any, *, as_json: bool) -> None:
    if as_json:
        render.show_json(planned)
        return
    rows = render.table("shop", "pages", "seconds per page", "time", right=("pages", "seconds per page", "time"))
    for shop in planned["shops"]:
        pages = "unknown" if shop["pages"] is None else render.count(shop["pages"])
        time = "unknown" if shop["seconds"] is None else f"{shop['seconds']:,.0f} s"
        rows.add_row(render.plain(shop["domain"]), pages, f"{shop['seconds_per_page']:g}", time)
    render.out().print(rows)
    render.notes().print(f"{_pages_of(planned)}. Nothing was fetched.", markup=False, soft_wrap=True)


def _pages_of(planned: Any) -> str:
    """`40 pages known so far; a sitemap or links may bring more`, as far as the plan has a number."""
    most = "" if planned["at_most"] is None else f", at most {render.count(planned['at_most'])} (--max-pages)"
    if planned["pages"] is None:
        return f"The number of pages is unknown until the sitemap is read{most}"
    more = f" known so far; a sitemap or links may bring more{most}" if planned["more"] else ""
    return f"{render.some(planned['pages'], 'page')}{more}"


async def _one_page(at: Reached, job: dict[str, Any], url: str, *, quiet: bool) -> None:
    made = await at.api.post(JOBS, job)
    ended = await see_through(at, made["job_id"], words=words, quiet=quiet, single=True)
    task = None if ended["completed"] else await _task_of(at, ended["id"])
    if task and task["reason"] == Reason.JOINED:  # another job has the page already, and this made it due
        first = await at.api.get(f"/tasks/{task['facts']['joined']}")
        other = await at.api.get(f"/jobs/{first['job']}")
        if other["total"] > 1:
            raise _page_of(other, url)
        ended = await see_through(at, other["id"], words=words, quiet=quiet, single=True)
        task = await _task_of(at, other["id"])
    if not ended["completed"]:
        if ended["state"] == "paused":
            check_done(ended, words)
        why = (task["error"] if task else None) or f"its job is {ended['state']}"
        raise JobNotDone(f"{url} was not crawled: {str(why).removeprefix(f'{url}: ')}")
    products = await at.api.get("/products", url=url, gone=True)
    if not products:
        raise await _no_product(at, url)
    render.show_json(products[0])


def _page_of(job: dict[str, Any], url: str) -> JobNotDone:
    """Return the error for a page that a job of several pages has already, with what to do next."""
    name, state = job["id"], job["state"]
    command = f"Resume it: forager jobs resume {name}" if state == "paused" else f"Follow it: forager jobs watch {name}"
    return JobNotDone(f"{url} is one of the pages of job {name}, which is {state}. {command}")


async def _no_product(at: Reached, url: str) -> NotFound:
    """Return the error for a page without a product: there is no such page, or none that can be read."""
    from forager.extract.canonical import canonical_url, url_hash

    page = await at.api.get(f"/records/page/{url_hash(canonical_url(url))}")
    if page["outcome"] == "gone":
        return NotFound(f"{url}: the shop has no such page ({page['http_status']}).")
    return NotFound(f"{url} was fetched, but shows no product that can be read. Try --auto or --browser.")


async def _task_of(at: Reached, job: str) -> Any:
    """Return the only task of a job, None if it has none."""
    return next(iter(await at.api.get(f"/jobs/{job}/tasks", limit=1)), None)
