"""The steps of a crawl: its beginning, a sitemap, a page. They read the crawl's row and stored pages, and write only by
their outcome.

The findings of each crawl are kept in memory (`Frontier`). It decides which addresses are worth a task; the ledger
decides which tasks exist, and a crash loses nothing but what was learnt.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from forager.core.database import Row
from forager.core.errors import Permanent, unknown_names_are_final
from forager.core.http import Fetch, Request, Response
from forager.core.outcome import MAX_CHILDREN, Done, Drop, Gone, Outcome
from forager.core.reading import parse
from forager.core.record import CLEAR
from forager.core.states import ErrorType
from forager.core.storage import read_or_fetch
from forager.core.table import Effect
from forager.core.task import Plan
from forager.extract.sitemaps import LARGEST, from_robots
from forager.extract.text.urls import url_hash
from forager.pipelines.sites.addresses import Scope, one_address
from forager.pipelines.sites.answers import (
    BYTES,
    GONE,
    MINUTES,
    NOT_A_PAGE,
    NOT_FOUND,
    OUTSIDE,
    TRAP,
    is_page,
    refuse_unless_answered,
)
from forager.pipelines.sites.frontier import Frontier
from forager.pipelines.sites.job import SiteJob
from forager.pipelines.sites.pipeline import TIMEOUT
from forager.pipelines.sites.reading import SitePageRead, read_page, read_sitemap
from forager.pipelines.sites.records import SiteAddress, SiteCrawl, SitePage
from forager.pipelines.sites.tasks import ReadSitemap, StartCrawl, VisitPage, page_plan
from forager.sdk.queries import loads, one_row
from forager.sdk.service import Service

MOST_BYTES = 10 * 1024 * 1024
MOST_ROBOTS = 2 * 1024 * 1024
DEEPEST_INDEX = 3
MOST_CRAWLS = 16
"""Crawls whose memory is kept in this process."""
FRESH = 2.0
"""Seconds for which the counters of a crawl are used without reading them again."""
_STORED = (
    "SELECT p.etag, p.last_modified, p.confirmed, p.links, p.duplicate_of, p.form, c.options FROM site_pages p"
    " LEFT JOIN site_crawls c ON c.crawl = p.crawl WHERE p.url_hash = :key AND p.gone_at IS NULL"
)
_PRINTS = (
    "SELECT id, url, text_print FROM site_pages WHERE site = :site AND id > :start AND crawl = :crawl"
    " AND duplicate_of IS NULL ORDER BY id LIMIT 5000"
)


@dataclass(slots=True)
class Running:
    """A crawl in this process: its parameters, its findings and its counters."""

    crawl: str
    job: SiteJob
    scope: Scope
    year: int
    known_before: bool
    """True if pages of the site were stored before: then each is requested conditionally."""
    frontier: Frontier = field(default_factory=Frontier)
    refused: dict[str, str] = field(default_factory=dict)
    bytes: int = 0
    started_at: datetime | None = None
    read_at: float = 0.0

    def spent(self, now: datetime) -> str | None:
        """Return the budget that is used up; None if there is room."""
        if self.job.max_bytes is not None and self.bytes >= self.job.max_bytes:
            return BYTES
        if self.job.max_minutes is not None and self.started_at is not None:
            return MINUTES if now - self.started_at >= timedelta(minutes=self.job.max_minutes) else None
        return None

    def admitted(self, links: Iterable[str], by: str) -> tuple[list[str], int]:
        """Return the addresses that this page is the first to show and that may be visited, and how many were left out
        as traps."""
        wanted, trapped = [], 0
        for url in links:
            if self.frontier.is_known(url, by) or url in self.refused:
                continue
            why = self.scope.refusal(url, self.year)
            if why == TRAP and not self.job.traps:
                why = None
            if why is None and self.job.traps and self.frontier.is_trap(url):
                why = TRAP
            if why is None:
                wanted.append(url)
                continue
            trapped += why == TRAP
            if len(self.refused) > 500_000:
                self.refused.clear()
            self.refused[url] = why
        return self.frontier.hand_over(wanted, by), trapped

    def plans(self, urls: Sequence[str], depth: int) -> list[Plan]:
        """Return the visits of these addresses, in the order that what is known of their patterns suggests."""
        penalty = self.frontier.penalty if self.job.traps else lambda _: 0
        return [page_plan(self.crawl, url, depth, penalty(url)) for url in urls[:MAX_CHILDREN]]


class SiteSteps:
    """The functions of the steps, and the memory of the crawls that this process works on."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._running: OrderedDict[str, Running] = OrderedDict()

    async def start(self, task: StartCrawl, fetch: Fetch) -> Outcome:
        """Create the crawl's row, read robots.txt for sitemaps, and plan the first page and the sitemaps."""
        job = SiteJob.model_validate({**task.options, "crawl": task.crawl})
        row = Effect(
            SiteCrawl,
            {"crawl": task.crawl},
            set={"site": job.site, "url": job.url, "mode": job.mode, "options": task.options},
            insert=True,
        )
        plans = [page_plan(task.crawl, job.url, 0)]
        facts: dict[str, int] = {}
        if job.sitemap and (job.depth or job.mode == "map"):
            found, facts = await self._sitemaps(task, job, fetch)
            plans += found
        return Done(tasks=plans, cost=0, effects=(row,), facts=facts)

    async def _sitemaps(self, task: StartCrawl, job: SiteJob, fetch: Fetch) -> tuple[list[Plan], dict[str, int]]:
        parts = urlsplit(job.url)
        root = f"{parts.scheme}://{parts.netloc}"
        with unknown_names_are_final():
            response = await fetch(Request(f"{root}/robots.txt", timeout=TIMEOUT, max_bytes=MOST_ROBOTS))
        named = await parse(fetch, from_robots, response.body) if response.status == 200 else []
        whole = Scope(job.site, subdomains=True)
        urls = [url for each in named if (url := one_address(each)) and whole.refusal(url, 9_999) in (None, NOT_A_PAGE)]
        plans = [
            Plan(ReadSitemap(crawl=task.crawl, url=url, level=1, guessed=not urls))
            for url in dict.fromkeys(urls or [f"{root}/sitemap.xml"])
        ]
        return plans, response.facts()

    async def sitemap(self, task: ReadSitemap, fetch: Fetch) -> Outcome:
        """Hand over the next part of a sitemap. The rest is a task of its own, on the stored file."""
        running = await self._of(task.crawl)
        request = Request(task.url, timeout=TIMEOUT, max_bytes=LARGEST)
        with unknown_names_are_final():
            response = await read_or_fetch(fetch, task.stored, request)
        if response.status in GONE or (task.guessed and response.status >= 400):
            return Done(cost=0, facts=response.facts())
        refuse_unless_answered(response)
        room = min(MAX_CHILDREN - 1, running.job.most if running.job.mode == "crawl" else MAX_CHILDREN)
        index, found, rest = await parse(fetch, read_sitemap, response.body, task.start, room)
        if index and task.level >= DEEPEST_INDEX:
            message = f"{response.subject()}: sitemap indexes nest too deep."
            raise Permanent(message, facts=response.facts(), error_type=ErrorType.PARSE)
        plans: list[Plan] = []
        addresses: Sequence[SiteAddress] = ()
        if index:
            whole = Scope(running.job.site, subdomains=True)
            plans = [
                Plan(ReadSitemap(crawl=task.crawl, url=url, level=task.level + 1))
                for url in found
                if whole.refusal(url, 9_999) in (None, NOT_A_PAGE)
            ]
        else:
            urls, _ = running.admitted(found, task.key())
            if running.job.mode == "map":
                addresses = _addresses(urls, running.job.site, "sitemap")
            else:
                plans = running.plans(urls, 1)
        if rest is not None:
            more = task.model_copy(update={"start": rest, "stored": response.blob})
            plans.append(Plan(more, rank=500))
        effects = [Effect(SiteCrawl, {"crawl": task.crawl}, add={"addresses": len(addresses)})] if addresses else []
        return Done(
            records=addresses, tasks=plans, effects=effects, cost=0, facts={**response.facts(), "links": len(found)}
        )

    async def visit(self, task: VisitPage, fetch: Fetch) -> Outcome:
        """Fetch a page, read it, and settle page, links and counters together."""
        running = await self._of(task.crawl)
        if not task.again:
            if budget := running.spent(self._service.clock.now()):
                return Drop(budget, f"The crawl's budget of {budget} is used up.")
            if task.depth and running.job.traps and running.frontier.is_trap(task.url):
                return Drop(TRAP, "Pages of this pattern have brought nothing new.")
        stored = await self._stored(task, running)
        with unknown_names_are_final():
            response = await fetch(_request(task, stored, running.job))
        if response.status == 304:
            return _unchanged(task, running, response, stored)
        is_first = task.depth == 0 and not task.again
        if response.status in GONE and is_first and not running.known_before:
            message = f"{response.subject()} is not there ({response.status}). Correct the address."
            raise Permanent(message, cost=1, facts=response.facts(), reason=NOT_FOUND, error_type=ErrorType.HTTP)
        if response.status in GONE:
            page = SitePage(url_hash=task.key(), url=task.url, site=running.job.site)
            gone = Gone(page, NOT_FOUND, {"status": response.status})
            return Done(gone=(gone,), effects=_counted(task, response, {}), cost=1, facts=response.facts())
        refuse_unless_answered(response)
        running.bytes += len(response.body)
        url = task.url if response.url == task.url else one_address(response.url)
        if url is None or (url != task.url and running.scope.refusal(url, running.year) in (OUTSIDE, "excluded")):
            if is_first:
                message = f"{task.url} redirects to {url or 'an unusable address'}, which is not part of the crawl."
                message += " Crawl that address instead, or widen the crawl (--subdomains, --include)."
                raise Permanent(message, cost=1, facts=response.facts(), reason=OUTSIDE, error_type=ErrorType.HTTP)
            return Drop(OUTSIDE, "It redirects to a page that is not part of the crawl.")
        if not is_page(response):
            if is_first:
                message = f"{response.subject()} is a file, not a web page. To read it: forager scrape URL"
                raise Permanent(message, cost=1, facts=response.facts(), reason=NOT_A_PAGE, error_type=ErrorType.PARSE)
            return Drop(NOT_A_PAGE, "It is not a web page.")
        if url != task.url and not task.again and not running.frontier.hand_over([url], task.url):
            # Another page has led there already: it has a task of its own.
            running.frontier.redirected(task.url, url)
            return Done(effects=_counted(task, response, {"duplicates": 1}), cost=1, facts=response.facts())
        read = await self._read(fetch, response, url, running)
        return await self._settled(task, running, response, url, read)

    async def _read(self, fetch: Fetch, response: Response, url: str, running: Running) -> SitePageRead:
        form = running.job.form if running.job.mode == "crawl" and running.job.form != "fields" else None
        kind, schema = response.header("content-type"), running.job.schema_of_pages
        return await parse(fetch, read_page, response.body, kind, url, form, schema, running.job.markdown)

    async def _settled(
        self, task: VisitPage, running: Running, response: Response, url: str, read: SitePageRead
    ) -> Outcome:
        frontier, job = running.frontier, running.job
        original = frontier.near.find(read.text_print) if job.traps else None
        if read.canonical is not None and running.scope.refusal(read.canonical, running.year) is None and job.traps:
            original = read.canonical
        original = None if original == url or task.depth == 0 else original
        follows = original is None and task.depth < job.depth and not task.again
        wanted = read.links if follows else () if original is None else (read.canonical,) if read.canonical else ()
        new, trapped = running.admitted(wanted, url) if not task.again else ([], 0)
        frontier.note(url, read.text_print, new, original)
        counts = {"duplicates": int(original is not None), "trapped": trapped}
        facts = {**response.facts(), "links": len(read.links)}
        plans = running.plans(new, task.depth + 1)
        if job.mode == "map":
            found = _addresses([url, *new], job.site, "link")
            counts["addresses"] = len(found)
            deeper = [] if task.depth >= min(job.depth, 1) else plans
            return Done(records=found, tasks=deeper, effects=_counted(task, response, counts), cost=1, facts=facts)
        page = _page(task, running, response, url, read, original)
        return Done(records=(page,), tasks=plans, effects=_counted(task, response, counts), cost=1, facts=facts)

    async def _stored(self, task: VisitPage, running: Running) -> Row | None:
        """Return the stored validators of the page, with which the site can answer 304 (not modified)."""
        if task.again or not running.known_before or running.job.mode == "map":
            return None
        rows = await self._service.database.fetch(_STORED, {"key": task.key()})
        return rows[0] if rows else None

    async def _of(self, crawl: str) -> Running:
        """Return a crawl in its present state. Raises `Permanent` if its row is missing."""
        running, now = self._running.get(crawl), self._service.clock.monotonic()
        if running is not None and now - running.read_at < FRESH:
            return running
        row = await one_row(self._service.database, SiteCrawl, crawl=crawl)
        if row is None:
            raise Permanent(f"The crawl {crawl} is not stored any more. Start another one.")
        if running is None:
            running = self._running.get(crawl) or await self._opened(row)
        running.bytes = max(running.bytes, row.bytes)
        running.started_at, running.read_at = row.started_at, now
        return running

    async def _opened(self, row: SiteCrawl) -> Running:
        """Return the memory of a crawl that this process has not worked on yet, with the texts of its stored pages."""
        job = SiteJob.model_validate({**row.options, "crawl": row.crawl})
        db = self._service.database
        found = await db.fetch("SELECT 1 AS one FROM site_pages WHERE site = :site LIMIT 1", {"site": job.site})
        year = self._service.clock.now().year
        running = Running(row.crawl, job, job.scope(), year, known_before=bool(found))
        start = 0
        while found and (rows := await db.fetch(_PRINTS, {"site": job.site, "start": start, "crawl": row.crawl})):
            for each in rows:
                running.frontier.near.add(int(each["text_print"] or "0", 16), each["url"])
            start = rows[-1]["id"]
        known = self._running.setdefault(row.crawl, running)
        while len(self._running) > MOST_CRAWLS:
            self._running.popitem(last=False)
        return known


def _request(task: VisitPage, stored: Row | None, job: SiteJob) -> Request:
    etag = task.etag or (stored["etag"] if stored else None)
    modified = task.last_modified or (stored["last_modified"] if stored else None)
    # A page that was read in another way is fetched whole: "not modified" would leave it as it is.
    fits = stored is None or _was_read_alike(stored, job)
    headers = {
        **({"If-None-Match": etag} if etag and fits else {}),
        **({"If-Modified-Since": modified} if modified and fits else {}),
    }
    return Request(task.url, headers=headers, timeout=TIMEOUT, max_bytes=MOST_BYTES, render=job.render)


def _was_read_alike(stored: Row, job: SiteJob) -> bool:
    """Return whether a stored page has what this crawl would read: the same form, schema and options of Markdown."""
    if stored["form"] not in (job.form, None):
        return False
    options = loads(stored["options"]) or {}  # none: the crawl that read it was removed
    wanted = job.model_dump(mode="json")
    return all(options.get(name, wanted[name]) == wanted[name] for name in ("fields", "markdown"))


def _unchanged(task: VisitPage, running: Running, response: Response, stored: Row | None) -> Done:
    """The page was seen and has not changed: its stored links are followed."""
    confirmed = task.confirmed or (stored["confirmed"] if stored else None) or 0
    page = SitePage(
        url_hash=task.key(),
        url=task.url,
        site=running.job.site,
        depth=task.depth,
        crawl=task.crawl,
        frequency=running.job.frequency,
        visited_at=response.at,
        confirmed=confirmed + 1,
        failed_at=CLEAR,
    )
    links: list[str] = loads(stored["links"]) or [] if stored and not stored["duplicate_of"] else []
    follows = task.depth < running.job.depth and not task.again
    new, trapped = running.admitted(links, task.url) if follows else ([], 0)
    plans = running.plans(new, task.depth + 1)
    counts = {"unchanged": 1, "trapped": trapped}
    return Done(records=(page,), tasks=plans, effects=_counted(task, response, counts), cost=1, facts=response.facts())


def _page(
    task: VisitPage, running: Running, response: Response, url: str, read: SitePageRead, original: str | None
) -> SitePage:
    job = running.job
    inside = [link for link in read.links if running.scope.covers(link)]
    return SitePage(
        url_hash=url_hash(url),
        url=url,
        site=job.site,
        title=read.title,
        content=CLEAR if read.content is None else read.content,  # the form of an earlier crawl is not kept
        fields=CLEAR if read.fields is None else read.fields,
        sources=CLEAR if read.sources is None else read.sources,
        form=job.form,
        language=read.language,
        page_kind=read.kind,
        content_hash=read.content_hash,
        duplicate_of=original or CLEAR,
        links=inside,
        links_out=len(read.links),
        status=response.status,
        depth=task.depth,
        bytes=len(response.body),
        text_print=f"{read.text_print:016x}",
        crawl=task.crawl,
        frequency=job.frequency,
        visited_at=response.at,
        etag=response.header("etag") or CLEAR,
        last_modified=response.header("last-modified") or CLEAR,
        confirmed=0,
        failed_at=CLEAR,
    )


def _counted(task: VisitPage, response: Response, counts: dict[str, int]) -> list[Effect]:
    added = {"pages": 1, "bytes": len(response.body), **{name: number for name, number in counts.items() if number}}
    return [Effect(SiteCrawl, {"crawl": task.crawl}, add=added)]


def _addresses(urls: Iterable[str], site: str, source: str) -> list[SiteAddress]:
    return [SiteAddress(url_hash=url_hash(url), url=url, site=site, source=source) for url in urls]
