"""`forager crawl …`: one page, a list of pages, a sitemap, or a site whose links are followed."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import orjson
import typer

from forager.core.clock import seconds_with_unit
from forager.core.errors import FieldError, NotFound, Rejected
from forager.pipelines.products.cli import words
from forager.pipelines.products.cli.health import own_candidates, unused_candidates
from forager.pipelines.products.records import DAY
from forager.sdk.cli import render
from forager.sdk.cli.client import JobNotDone
from forager.sdk.cli.invocation import Json, Reached, with_api
from forager.sdk.cli.render import Show, activity
from forager.sdk.cli.run_job import check_done, follow_created, run_job, see_through
from forager.sdk.cli.send_list import (
    ListPart,
    ListSender,
    Paths,
    at_line,
    by_line,
    changed_meanwhile,
    rereadable,
    with_last,
)

# The URLs of a file, one per line. A long list is read line by line and sent in parts, so that it needs no more memory
# than a short one.


PATHS = Paths("/admin/crawl-jobs/in-parts", "/admin/crawl-jobs/{job}/urls", "urls", "total")
PLAN = "/jobs/plan"
FEW = 1_000
"""URLs up to this number are sent in one request, and listed with the job."""
MOST_URLS = 2_000
"""URLs of one part. The API takes more, but a part of 10,000 needs 60 MB more memory and is not received faster."""
MOST_BYTES = 1_800_000
"""Bytes of one part: a request to the API has at most two megabytes."""
MOST_TOLD = 20
MOST_COUNTED = 10_000
"""Pages of a job up to which those without a product are counted after the crawl."""
MOST_NAMED = 5


class UrlLine(NamedTuple):
    number: int
    url: str


class CheckedUrls(NamedTuple):
    """A file whose lines are all valid."""

    pages: int
    digest: str
    """Equal for equal URLs in equal order."""


@dataclass(frozen=True, slots=True)
class UrlFile:
    """A file with one URL per line; blank lines and lines that begin with # are left out."""

    path: Path
    name: str
    url: str | None = None
    """The URL of the command line: the first of the list, as its line 0."""

    def lines(self) -> Iterator[UrlLine]:
        """Yield the URLs in their order. Raises `Rejected` if the file cannot be read."""
        if self.url is not None:
            yield UrlLine(0, self.url)
        try:
            with self.path.open(encoding="utf-8-sig") as file:
                for number, line in enumerate(file, 1):
                    url = line.strip()
                    if url and not url.startswith("#"):
                        yield UrlLine(number, url)
        except UnicodeError as error:
            raise Rejected(f"{self.name} cannot be read: it is not UTF-8 text.") from error
        except OSError as error:
            raise Rejected(f"{self.name} cannot be read: {error.strerror}.") from error

    def few(self) -> list[str] | None:
        """Return all URLs if one request can hold them, else None."""
        urls = [line.url for line in islice(self.lines(), FEW + 1)]
        return urls if len(urls) <= FEW and sum(map(len, urls)) < MOST_BYTES // 2 else None

    def check(self, show: Show) -> CheckedUrls:
        """Look through the whole file. Raises `Rejected` with the first lines that are wrong."""
        from forager.extract.text.urls import canonical_url

        wrong: list[FieldError] = []
        pages, digest = 0, hashlib.sha256()
        for line in self.lines():
            pages += 1
            digest.update(f"{line.url}\n".encode())
            if pages % FEW == 0:
                show(f"Checking {self.name}: {words.tasks(pages)}")
            try:
                canonical_url(line.url)
            except ValueError as error:
                wrong.append(FieldError(at_line(line.number) if line.number else "url", str(error)))
                if len(wrong) >= MOST_TOLD:
                    break
        if wrong:
            raise Rejected("The list is not valid; nothing was requested.", fields=wrong)
        return CheckedUrls(pages, digest.hexdigest())

    def parts(self, checked: CheckedUrls) -> Iterator[ListPart]:
        """Yield the file in parts that fit into a request. Raises `Rejected`, before the last part, if it has changed
        since it was checked."""
        digest = hashlib.sha256()
        for part, is_last in with_last(_parts_of(self.lines())):
            for line in part:
                digest.update(f"{line.url}\n".encode())
            if is_last and digest.hexdigest() != checked.digest:
                raise changed_meanwhile(self.name)
            yield ListPart([line.url for line in part], [line.number for line in part], is_last)


@contextmanager
def url_file(path: Path, url: str | None = None) -> Iterator[UrlFile]:
    """Yield the file, with this URL ahead of its own; a pipe is copied first."""
    with rereadable(path) as file:
        yield UrlFile(file, path.name, url)


async def crawl_list(at: Reached, file: UrlFile, options: Mapping[str, Any], *, watch: bool, as_json: bool) -> None:
    """Send a long list as one job, and follow it as any other."""
    with activity(quiet=as_json) as show:
        checked = file.check(show)
        about = {**options, "source": file.name[:200]}
        key = hashlib.sha256(orjson.dumps([about, checked.digest], option=orjson.OPT_SORT_KEYS)).hexdigest()
        sender = ListSender(
            api=at.api,
            paths=PATHS,
            parts=lambda: file.parts(checked),
            about=about,
            key=f"crawl-list-{key}",
            name=file.name,
            size=checked.pages,
            words=words,
            show=show,
            quiet=as_json,
        )
        job = await sender.send()
    created = {"job_id": job, "status": "queued", "total": sender.received}
    await follow_created(at, created, words=words, total="total", watch=watch, as_json=as_json)


async def plan_list(at: Reached, file: UrlFile, options: Mapping[str, Any], *, as_json: bool) -> dict[str, Any]:
    """Return the plan of a long list: the sum of the plans of its parts. A page in several parts is counted in each.
    Raises `Rejected`, naming the lines, for a file that `crawl_list` would refuse."""
    with activity(quiet=as_json) as show:
        checked = file.check(show)
    most, shops = options.get("max_pages"), dict[str, dict[str, Any]]()
    more = False
    for part in file.parts(checked):
        params = {**options, "urls": part.entries}
        params.pop("max_pages", None)
        try:
            planned = await at.api.post(PLAN, {"pipeline": "products", "params": params})
        except Rejected as wrong:
            raise by_line(wrong, part, "urls") from None
        more = more or planned["more"]
        for shop in planned["shops"]:
            known = shops.setdefault(shop["domain"], {**shop, "pages": 0})
            known["pages"] += shop["pages"]
    for shop in shops.values():
        shop["pages"] = shop["pages"] if most is None else min(shop["pages"], most)
        shop["seconds"] = round(shop["pages"] * shop["seconds_per_page"], 1)
    total = sum(shop["pages"] for shop in shops.values())
    return {
        "pages": total if most is None else min(total, most),
        "more": more,
        "at_most": most,
        "seconds": max((shop["seconds"] for shop in shops.values()), default=0.0),
        "shops": [shops[domain] for domain in sorted(shops)],
    }


def _parts_of(lines: Iterator[UrlLine]) -> Iterator[list[UrlLine]]:
    part: list[UrlLine] = []
    size = 0
    for line in lines:
        more = len(orjson.dumps(line.url)) + 1
        if part and (len(part) == MOST_URLS or size + more > MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(line)
        size += more
    if part:
        yield part


# The option `--recrawl`, and how often a shop is crawled.


def seconds(text: str) -> int:
    """Return `6h` as seconds. Raises `BadParameter` for a time without a unit, and for anything else."""
    try:
        return round(seconds_with_unit(text))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--recrawl") from None


def every(frequency: int | None) -> str:
    """Format a crawl frequency in seconds, such as `every 6 h`; None is the default, a day."""
    return f"every {render.duration(frequency or DAY)}"


command = typer.Typer(help="Crawl a shop's pages; the same command tomorrow crawls again.")
JOBS = "/admin/crawl-jobs"
PICTURES = "pictures"
"""The recheck that downloads pictures while `forager up` runs."""


@command.command()
def crawl(
    context: typer.Context,
    url: Annotated[str | None, typer.Argument(help="A page, a site, or with --sitemap a sitemap or a site.")] = None,
    sitemap: Annotated[bool, typer.Option("--sitemap", help="Crawl every page that the sitemap of URL lists.")] = False,
    file: Annotated[
        Path | None, typer.Option("--file", exists=True, dir_okay=False, help="A file with one URL per line.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Follow category and pagination links of the site.")] = False,
    depth: Annotated[int | None, typer.Option(help="Maximum depth of links, with --follow (default 5).")] = None,
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

    Example: forager products run https://shop.example/ --sitemap --max-pages 100
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
    own = own_candidates(context)
    with url_file(file, page) if file else nullcontext() as pages:
        few = pages.few() if pages else [page] if page else []
        if few is None and pages and not sitemap:

            async def long(at: Reached) -> None:
                await _note_candidates(at, own)
                await _long_list(pages, options, at, plan=plan, watch=watch, as_json=as_json)

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
            await _note_candidates(at, own)
            before = await _open_quarantines(at)
            try:
                if is_one_page and (at.engine is not None or watch):
                    await _one_page(at, job, urls[0], quiet=as_json)
                else:
                    known = None if sitemap or follow else "total"  # the others come from what is read
                    done = await run_job(at, JOBS, job, words=words, total=known, watch=watch, as_json=as_json)
                    if done is not None and not as_json:
                        await show_pages_without_product(at, done)
            finally:
                if at.engine is not None and not as_json:
                    await _show_what_is_left(at, before)

    with_api(context, work, fields=named, store="optional" if plan else "created")


async def show_pages_without_product(at: Reached, job: Mapping[str, Any]) -> None:
    """Print how many pages of the job showed no product, and the first of them: lists of products, or pages that the
    parser cannot read."""
    if job["total"] > MOST_COUNTED:
        return
    without: list[str] = []
    async for tasks in at.api.pages(f"/jobs/{job['id']}/tasks"):
        without += [each["url"] or each["key"] for each in tasks if each["facts"].get("products") == 0]
    if without:
        some = ", ".join(without[:MOST_NAMED]) + (" …" if len(without) > MOST_NAMED else "")
        render.notes().print(
            f"{render.some(len(without), 'page')} showed no product: {some}", markup=False, soft_wrap=True
        )


async def _note_candidates(at: Reached, own: str) -> None:
    if (message := await unused_candidates(at, own)) is not None:
        render.notes().print(message, markup=False, soft_wrap=True)


async def _open_quarantines(at: Reached) -> set[str]:
    rows = [] if at.engine is None else await at.api.get("/admin/quarantines", state="open")
    return {f"{row['domain']}/{row['parser']}/{row['parser_version']}/{row['field']}" for row in rows}


async def _show_what_is_left(at: Reached, before: set[str]) -> None:
    """Print which fields this crawl has quarantined, and how many products wait for their pictures."""
    if new := sorted(await _open_quarantines(at) - before):
        render.notes().print(
            f"The parser finds much less than expected: {', '.join(new)}. New values are held back;"
            " see `forager products quarantine list`.",
            markup=False,
            soft_wrap=True,
        )
    rechecks = {each["name"]: each for each in await at.api.get("/rechecks")}
    waiting = rechecks.get(PICTURES, {}).get("due", 0)
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
    """Return `40 pages known; a sitemap or links may add more`, as far as the plan has a number."""
    most = "" if planned["at_most"] is None else f", at most {render.count(planned['at_most'])} (--max-pages)"
    if planned["pages"] is None:
        return f"The number of pages is unknown until the sitemap is read{most}"
    more = f" known; a sitemap or links may add more{most}" if planned["more"] else ""
    return f"{render.some(planned['pages'], 'page')}{more}"


async def _one_page(at: Reached, job: dict[str, Any], url: str, *, quiet: bool) -> None:
    """Crawl one page and print its product. If another job has the page already, follow that one."""
    made = await at.api.post(JOBS, job)
    ended, page = await _followed(at, made["job_id"], quiet=quiet)
    if page and page["job_id"] != ended["id"]:
        if page["pages"] > 1:
            raise _page_of(page)
        ended, page = await _followed(at, page["job_id"], quiet=quiet)
    if ended["state"] == "paused":
        check_done(ended, words)
    if page is None or page["outcome"] is None:
        why = (page["error"] if page else None) or f"its job is {ended['state']}"
        raise JobNotDone(f"{url} was not crawled: {str(why).removeprefix(f'{url}: ')}")
    if page["outcome"] == "gone":
        raise NotFound(f"{url}: the shop has no such page ({page['http_status']}).")
    if page["product"] is None:
        raise NotFound(f"{url} was fetched, but shows no product that can be read. Try --auto or --browser.")
    render.show_json(page["product"])


async def _followed(at: Reached, job: str, *, quiet: bool) -> tuple[Any, Any]:
    """Follow a job of one page until it has stopped. Returns the job, and its page if it has ended."""
    ended = await see_through(at, job, words=words, quiet=quiet, single=True)
    return ended, (await at.api.get(f"{JOBS}/{job}"))["page"]


def _page_of(page: dict[str, Any]) -> JobNotDone:
    """Return the error for a page that a job of several pages has already, with what to do next."""
    name, state = page["job_id"], page["job_state"]
    command = f"Resume it: forager jobs resume {name}" if state == "paused" else f"Follow it: forager jobs watch {name}"
    return JobNotDone(f"{page['url']} is one of the pages of job {name}, which is {state}. {command}")
