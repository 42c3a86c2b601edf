"""The tools that an agent can call. Each answers within a number of tokens, and spends only within the budget."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal
from urllib.parse import urlsplit

from forager.client.connection import part
from forager.client.errors import ApiConflict, ApiError, ApiForbidden, ApiInvalid, ApiUnauthorized, PageFailed
from forager.client.forager import AsyncForager
from forager.client.groups import PageResult
from forager.core.clock import read_seconds
from forager.core.hosts import host_of
from forager.mcp import text
from forager.mcp.budget import OverBudget, SessionBudget

TOKENS = 4_000
MOST_CRAWLED = 200
ABOUT = 600
"""Bytes of an answer besides its rows."""
AROUND = 160
"""Bytes around the text of a page: the two marks, and the names and numbers of its part."""
PIPELINES = ("places", "products", "scrape", "sites")
Pipeline = Literal["places", "products", "scrape", "sites"]

REFUSED = (ApiConflict, ApiForbidden, ApiInvalid, ApiUnauthorized)
"""Answers after which a job certainly does not exist."""


class ToolProblem(Exception):
    """A tool cannot handle the request. The message is for the agent."""


class AgentTools:
    """The tools of one session."""

    def __init__(self, forager: AsyncForager, budget: SessionBudget) -> None:
        self._forager = forager
        self._budget = budget

    def all(self) -> list[Callable[..., Any]]:
        """Return every tool. Its name, description and parameters are those of the function."""
        return [
            self.read_page,
            self.read_result,
            self.crawl_site,
            self.map_site,
            self.read_site_page,
            self.search_web,
            self.search_places,
            self.search_products,
            self.search_listings,
            self.search_reviews,
            self.get_record,
            self.list_changes,
            self.estimate_job,
            self.start_job,
            self.job_status,
            self.cancel_job,
            self.show_budget,
        ]

    # ── pages ──

    async def read_page(
        self,
        url: str,
        target_type: str = "page",
        start: int = 0,
        max_tokens: int = TOKENS,
        max_age: str | int | None = None,
        actions: list[dict[str, Any]] | None = None,
        schema: str | dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Fetch a web page and return its main text as Markdown. Costs 1 page of the budget.

        target_type: `page` (any page), or job_posting, company_website, product, listing, linkedin_profile, which
        return the fields of such a page. schema: the name of a stored schema, or a schema, instead: its fields, without
        described ones, which cost money (start_job reads them).
        max_age: answer from a stored page that is at most this old (10m, 6h, 7d, or seconds), without a request;
        `stored` is then true. actions: what a browser does first, such as [{"do": "type", "selector": "#q", "text":
        "oak"}, {"do": "press", "key": "Enter"}, {"do": "wait_for", "selector": ".results"}]; also click, select,
        scroll, wait.
        If next_start is set, call read_result with the task_id to read on; it is free.
        """
        most, age = text.room(max_tokens), _age(max_age)
        spend = await self._budget.reserve("read_page", url, settled=True, pages=1)
        formats = ["markdown"] if target_type == "page" and schema is None else None
        try:
            read = await self._forager.scrape(
                url,
                target_type,
                formats=formats,
                max_age=age,
                actions=actions,
                page_schema=schema,
                max_usd=None if schema is None else "0",
            )
        except REFUSED:
            await self._budget.settle(spend)  # nothing was requested
            raise
        return _page(read, start, most)

    async def read_result(self, task_id: str, start: int = 0, max_tokens: int = TOKENS) -> dict[str, Any]:
        """Read on in a page that was fetched before, from character `start`. Free."""
        got = await self._forager.request("GET", f"/scrape/{part(task_id)}")
        task = got.data
        if task["status"] != "completed":
            raise ToolProblem(f"The page is {task['status']}: {task['error'] or 'it has no result yet'}.")
        read = PageResult(
            task["target_url"], task["target_type"], task["result"] or {}, task["task_id"], task["job_id"]
        )
        return _page(read, start, text.room(max_tokens))

    async def crawl_site(
        self, url: str, max_pages: int = 10, depth: int = 2, max_tokens: int = TOKENS
    ) -> dict[str, Any]:
        """Read pages of one site: the given one, and those that it links to on the same host, breadth first.

        Costs one page of the budget for each (at most max_pages). Returns url, title, task_id and the beginning of
        each; call read_result with a task_id for the whole text, free.
        """
        most = text.room(max_tokens)
        if not 1 <= max_pages <= MOST_CRAWLED or not 0 <= depth <= 5:
            raise ToolProblem(f"max_pages should be 1 to {MOST_CRAWLED}, and depth 0 to 5.")
        spend = await self._budget.reserve("crawl_site", url, pages=max_pages)
        found: list[dict[str, Any]] = []
        try:
            await self._crawl(url, max_pages, depth, found)
        finally:
            await self._budget.settle(spend, pages=len(found))
        each = max(80, (most - ABOUT) // max(1, len(found)) - 300)
        shown = [{**page, "beginning": page["beginning"][:each]} if "beginning" in page else page for page in found]
        kept = text.fitting(shown, most - ABOUT, dict)
        return {
            "pages_read": len(found),
            "failed": sum("problem" in page for page in found),
            "shown": len(kept),
            "untrusted": text.UNTRUSTED,
            "pages": kept,
            "left_out": [page["url"] for page in found[len(kept) :]][:20],
        }

    async def map_site(
        self,
        url: str,
        max_pages: int = 10,
        include: list[str] | None = None,
        cursor: str | None = None,
        max_tokens: int = TOKENS,
    ) -> dict[str, Any]:
        """List the addresses of a site that robots.txt, sitemaps and the links of its first pages name.

        Costs one page of the budget for each sitemap and page that is requested (at most max_pages). include: paths,
        such as ["/docs/*"]. With the next_cursor of an earlier answer: the next addresses, free.
        """
        most = text.room(max_tokens)
        if cursor is None:
            if not 1 <= max_pages <= MOST_CRAWLED:
                raise ToolProblem(f"max_pages should be 1 to {MOST_CRAWLED}.")
            await self._map(url, max_pages, include or [])
        site = host_of(url)
        rows, following = await self._listed(f"/sites/{part(site)}/map", {"limit": 500}, cursor)
        kept = text.fitting(rows, most - ABOUT, lambda row: text.clean(row["url"]))
        return {"site": site, "untrusted": text.UNTRUSTED, "urls": kept, "next_cursor": following(len(kept))}

    async def read_site_page(self, url: str, start: int = 0, max_tokens: int = TOKENS) -> dict[str, Any]:
        """Read a page that a sites job has stored, by its address, from character `start`. Free."""
        most = text.room(max_tokens)
        page = (await self._forager.request("GET", "/sites/page", query={"url": url})).data
        about = {name: page[name] for name in ("url", "title", "language", "changed_at", "gone_at")}
        about = {"untrusted": text.UNTRUSTED, **text.short(about)}
        if page["form"] == "fields":
            fields = text.cleaned(page["fields"])
            return {**about, "fields": fields if text.size(fields) < most - ABOUT else text.short(fields)}
        piece = text.part_of(page["content"] or "", start, most - text.size(about) - AROUND)
        return {**about, "content": text.marked(piece.text), "start": start, "next_start": piece.next_start}

    async def _map(self, url: str, max_pages: int, include: Sequence[str]) -> None:
        """Map a site, and pay for what was requested."""
        spend = await self._budget.reserve("map_site", url, pages=max_pages)
        params = {"url": url, "mode": "map", "limit": max_pages, "include": list(include)}
        try:
            job = await self._forager.jobs.create("sites", params)
        except REFUSED:
            await self._budget.settle(spend)
            raise
        ended = await self._forager.jobs.wait(job["id"])
        await self._budget.settle(spend, job=job["id"], pages=min(max_pages, ended["spent"]))
        if ended["failed"] and not ended["completed"]:
            raise ToolProblem(f"{url} could not be read. job_status of {job['id']} has the reason.")

    async def search_web(
        self, query: str, read: int = 0, max_age: str | int | None = None, max_tokens: int = TOKENS
    ) -> dict[str, Any]:
        """Search the web: title, url and snippet of ten results. Costs a credit, and a page for each result to read.

        read: also return the main text of this number of the first results (up to 10), each cut to its share of
        max_tokens. max_age: read stored pages up to this age (10m, 6h, 7d) instead of requesting them.
        """
        most = text.room(max_tokens)
        if not 0 <= read <= 10:
            raise ToolProblem("read should be 0 to 10.")
        options: dict[str, Any] = {
            "read": read,
            "max_age": _age(max_age),
            "max_credits": 1,
        }
        plan = await self._forager.web.plan(query, **options)
        usd = Decimal(str(plan["worst_usd"]))
        cost: dict[str, Any] = {"credits": plan["worst_credits"], "usd": str(usd)}
        spend = await self._budget.reserve("search_web", query, **cost | ({"pages": read} if read else {}))
        try:
            found = await self._forager.web.search(query, **options)
        except REFUSED:
            await self._budget.settle(spend)
            raise
        credits_ = found["credits"]
        asked = sum(each["page"] is not None for each in found["results"])
        spent = usd * credits_ / plan["worst_credits"] if plan["worst_credits"] else usd
        await self._budget.settle(
            spend, job=found["job_id"], credits=credits_, usd=str(spent.quantize(Decimal("0.000001"))), pages=asked
        )
        share = max(200, (most - ABOUT) // max(1, asked) - 400)
        rows = [_hit(each, share) for each in found["results"]]
        return {"untrusted": text.UNTRUSTED, "credits": credits_, "results": text.fitting(rows, most - ABOUT, dict)}

    async def _crawl(self, url: str, max_pages: int, depth: int, found: list[dict[str, Any]]) -> None:
        host, seen, layer = urlsplit(url).netloc, {_bare(url)}, [url]
        for level in range(depth + 1):
            layer = layer[: max_pages - len(found)]
            following: list[str] = []
            reading = self._forager.scrape_many(layer, formats=["markdown", "links"])
            for address in layer:  # the results come in the order of the addresses
                read = await anext(reading)
                found.append(_crawled(read, address))
                links = [] if isinstance(read, PageFailed) else read.fields.get("links") or []
                for link in links:
                    if urlsplit(link["url"]).netloc == host and _bare(link["url"]) not in seen:
                        seen.add(_bare(link["url"]))
                        following.append(_bare(link["url"]))
            layer = following
            if not layer or len(found) >= max_pages or level == depth:
                return

    # ── what is stored ──

    async def search_places(
        self,
        keyword: str | None = None,
        state: str | None = None,
        zip_code: str | None = None,
        category: str | None = None,
        min_rating: float | None = None,
        title: str | None = None,
        cursor: str | None = None,
        max_tokens: int = TOKENS,
    ) -> dict[str, Any]:
        """Search the stored businesses. Free; start a places job first if there are none for a keyword and area."""
        query = {
            "keyword": keyword,
            "state": state,
            "zip": zip_code,
            "category": category,
            "min_rating": min_rating,
            "title": title,
        }
        return await self._list("/places", query, cursor, max_tokens)

    async def search_products(
        self,
        words: str | None = None,
        domain: str | None = None,
        brand: str | None = None,
        min_price: float | None = None,
        max_price: float | None = None,
        availability: str | None = None,
        cursor: str | None = None,
        max_tokens: int = TOKENS,
    ) -> dict[str, Any]:
        """Search the stored products by words, or list them by filters. Free."""
        query = {
            "domain": domain,
            "brand": brand,
            "min_price": min_price,
            "max_price": max_price,
            "availability": availability,
        }
        if words is None:
            return await self._list("/products", query, cursor, max_tokens)
        most = text.room(max_tokens)
        got = await self._forager.request("GET", "/products/search", query={"q": words, "limit": 50, **query})
        return _rows([hit["product"] for hit in got.data["hits"]], most)

    async def search_listings(
        self,
        market: str | None = None,
        city: str | None = None,
        max_rent: int | None = None,
        beds: float | None = None,
        cursor: str | None = None,
        max_tokens: int = TOKENS,
    ) -> dict[str, Any]:
        """Search the stored apartment listings. Free."""
        query = {"market": market, "city": city, "max_rent": max_rent, "beds": beds}
        return await self._list("/listings", query, cursor, max_tokens)

    async def search_reviews(
        self, job: str | None = None, cursor: str | None = None, max_tokens: int = TOKENS
    ) -> dict[str, Any]:
        """List the stored Google Business Profile reviews, of all jobs or of one. Free."""
        return await self._list("/records/review", {"job": job}, cursor, max_tokens)

    async def get_record(self, kind: str, key: str, max_tokens: int = TOKENS) -> dict[str, Any]:
        """Return one record whole, with its last changes. kind: place, product, listing, review, scrape_result …"""
        most = text.room(max_tokens)
        record = text.cleaned(await self._forager.records.get(kind, key))
        if text.size(record) > most - ABOUT:
            record = text.short(record)
        answer = {"untrusted": text.UNTRUSTED, "record": record, "changes": []}
        left = most - text.size(answer)
        history = [row async for row in self._forager.records.history(kind, key)][:20]
        answer["changes"] = text.fitting(history, left) if left > ABOUT else []
        return answer

    async def list_changes(
        self, since: str = "1d", kinds: str | None = None, after: int | None = None, max_tokens: int = TOKENS
    ) -> dict[str, Any]:
        """List what was new, changed or gone: since a time (1h, 7d, or 2026-03-14T12:00:00Z), or after a number.

        kinds: such as `product,place`. Call again with after=next_after for more, or later for news. Free.
        """
        most = text.room(max_tokens)
        number = await self._forager.changes.number_at(_moment(since)) if after is None else after
        got = await self._forager.request("GET", "/changes", query={"after": number, "kinds": kinds, "limit": 200})
        rows = [{name: row[name] for name in ("id", "kind", "key", "op", "at", "body")} for row in got.data]
        kept = text.fitting(rows, most - ABOUT)
        upto = kept[-1]["id"] if len(kept) < len(rows) else got.meta["next_after"]
        more = max(0, int(got.meta["last"]) - int(upto))
        return {"untrusted": text.UNTRUSTED, "changes": kept, "next_after": upto, "numbers_after_that": more}

    async def _list(self, path: str, query: Mapping[str, Any], cursor: str | None, max_tokens: int) -> dict[str, Any]:
        most = text.room(max_tokens)
        rows, following = await self._listed(path, query, cursor)
        answer = _rows(rows, most)
        return {**answer, "next_cursor": following(len(answer["rows"]))}

    async def _listed(
        self, path: str, query: Mapping[str, Any], cursor: str | None
    ) -> tuple[list[Mapping[str, Any]], Callable[[int], str | None]]:
        """Return one page of a list, and a function from the number of rows that fit to the next cursor. Our cursor is
        the API's, and the number of rows of its page that were shown."""
        skip_text, _, of_api = (cursor or "0:").partition(":")
        if not skip_text.isdigit():
            raise ToolProblem("cursor: give the next_cursor of an earlier answer.")
        got = await self._forager.request("GET", path, query={"limit": 100, **query, "cursor": of_api or None})
        skip, further = int(skip_text), got.meta.get("next_cursor")

        def following(shown: int) -> str | None:
            if skip + shown < len(got.data):
                return f"{skip + shown}:{of_api}"
            return f"0:{further}" if further else None

        return got.data[skip:], following

    # ── jobs ──

    async def estimate_job(self, pipeline: Pipeline, params: dict[str, Any]) -> dict[str, Any]:
        """Estimate the maximum cost of a job, and check it against the budget. Spends nothing.

        places: {keyword, state or zips, pages}. products: {urls, follow, max_pages}. scrape: {targets: [{target_url,
        target_type, workspace_id}]}. sites: {url, limit, include, exclude, depth}, whose pages list_changes lists with
        kinds=site_page, and read_site_page reads.
        """
        cost, plan, params = await self._cost(pipeline, params)
        left = await self._budget.left()
        covered = all(Decimal(str(cost[name])) <= Decimal(str(left[name])) for name in cost)
        return {"worst_cost": cost, "budget_left": left, "covered": covered, "plan": plan, "params": text.short(params)}

    async def start_job(self, pipeline: Pipeline, params: dict[str, Any]) -> dict[str, Any]:
        """Start a job and return its id at once. Its worst case is reserved from the budget; estimate_job shows it."""
        cost, _, params = await self._cost(pipeline, params)
        spend = await self._budget.reserve("start_job", f"{pipeline} {text.json_text(params)}", **cost)
        try:
            job = await self._forager.jobs.create(pipeline, params)
        except REFUSED:
            # Only a refusal proves that there is no job. After a lost answer it may run, so its worst case stays spent.
            await self._budget.settle(spend)
            raise
        await self._budget.pays_for(spend, job["id"])
        await self._forager.work()
        return {"job": job["id"], "state": job["state"], "tasks": job["total"], "reserved": cost}

    async def job_status(self, job: str) -> dict[str, Any]:
        """Return a job's state, progress and cost, and why it waits, if it does."""
        report = await self._forager.jobs.get(job)
        names = "id pipeline state reason total queued running completed failed skipped spent records discoveries"
        waiting = report.get("waiting")
        return {
            **{name: report.get(name) for name in names.split()},
            "waits_because": waiting["message"] if waiting else None,
            "finished_at": report["finished_at"],
        }

    async def cancel_job(self, job: str) -> dict[str, Any]:
        """Cancel a job of this session. What is finished stays."""
        if job not in {each["job"] for each in await self._budget.spends()}:
            raise ToolProblem("This session has not started that job, so it cannot cancel it.")
        await self._forager.jobs.cancel(job)
        return await self.job_status(job)

    async def show_budget(self, max_tokens: int = TOKENS) -> dict[str, Any]:
        """Show the rest of this session's budget, and its last spends by item."""
        most = text.room(max_tokens)
        left = await self._budget.left()
        spends = [{**each, "about": str(each["about"])[:120]} for each in await self._budget.spends()]
        answer = {"session": self._budget.name, "left": left, "spent_on": []}
        return {**answer, "spent_on": text.fitting(spends, most - text.size(answer))}

    async def _cost(
        self, pipeline: str, params: Mapping[str, Any]
    ) -> tuple[dict[str, Any], Mapping[str, Any] | None, dict[str, Any]]:
        """Return the worst case of a job, its plan, and its parameters, limited where they had no limit."""
        if pipeline not in PIPELINES:
            raise ToolProblem(f"pipeline: choose from {', '.join(PIPELINES)}.")
        params = dict(params)
        if pipeline == "places":
            plan = await self._forager.jobs.estimate(pipeline, params)
            return {"credits": plan["worst_credits"], "usd": str(plan["worst_usd"])}, plan, params
        if pipeline == "scrape":
            plan = await self._forager.jobs.estimate(pipeline, params)
            cost: dict[str, Any] = {"pages": plan["pages"]}
            if not plan["described_pages"]:
                return cost, None, params
            # The reserved amount is its budget, so that retries cannot cost more.
            return {**cost, "usd": str(plan["worst_usd"])}, plan, {**params, "max_usd": str(plan["worst_usd"])}
        if pipeline == "sites":
            plan = await self._forager.jobs.estimate(pipeline, params)
            return {"pages": plan["at_most"]}, plan, {**params, "limit": plan["at_most"]}
        if params.get("max_pages") is None:
            if params.get("follow") or params.get("sitemap"):
                raise ToolProblem("params.max_pages: a crawl that follows links or a sitemap needs one.")
            params["max_pages"] = len(params.get("urls") or ()) + len(params.get("pages") or ())
        return {"pages": params["max_pages"]}, None, {"recrawl": False, **params}


def _page(read: PageResult, start: int, most: int) -> dict[str, Any]:
    about: dict[str, Any] = {
        "url": read.url,
        "page_url": read.page_url,
        "task_id": read.task_id,
        "untrusted": text.UNTRUSTED,
    }
    if read.stored:
        about |= {"stored": True, "fetched_at": read.fetched_at}
    about = text.short(about)
    if read.target_type != "page" or "markdown" not in read.fields:
        fields = text.cleaned(read.fields)
        return {**about, "fields": fields if text.size(fields) < most - ABOUT else text.short(fields)}
    piece = text.part_of(read.markdown or "", start, most - text.size(about) - AROUND)
    return {
        **about,
        "content": text.marked(piece.text),
        "start": start,
        "next_start": piece.next_start,
        "total_chars": piece.total,
    }


def _hit(hit: Mapping[str, Any], share: int) -> dict[str, Any]:
    """Return one result of a web search, its page cut to a share of the answer."""
    row = {name: hit[name] for name in ("position", "title", "url", "snippet")}
    row = {name: text.clean(value)[:500] if isinstance(value, str) else value for name, value in row.items()}
    page = hit["page"]
    if page is None:
        return row
    if page["markdown"] is None:
        return {**row, "problem": text.clean(page["error"] or page["status"])[:200], "reason": page["reason"]}
    return {**row, "content": text.marked(text.part_of(page["markdown"], 0, share).text)}


def _crawled(read: PageResult | PageFailed, url: str) -> dict[str, Any]:
    if isinstance(read, PageFailed):
        return {"url": url, "problem": text.clean(read.message)[:200], "reason": read.reason}
    words = text.clean(read.markdown or "")
    title = re.search(r"^#\s*(.+)$", words, re.MULTILINE)
    return {
        "url": read.url,
        "task_id": read.task_id,
        "title": (title[1] if title else words[:80].split("\n")[0])[:120],
        "chars": len(words),
        "beginning": words,
    }


def _rows(rows: list[Mapping[str, Any]], most: int) -> dict[str, Any]:
    kept = text.fitting(rows, most - ABOUT)
    return {
        "untrusted": text.UNTRUSTED,
        "shown": len(kept),
        "summary": f"{len(kept)} of {len(rows)} rows of this page fit. Long values are cut; get_record has them whole.",
        "rows": kept,
        "next_cursor": None,
    }


def _age(given: str | int | None) -> int | None:
    """Return an age in seconds, given as such or with its unit."""
    return round(read_seconds(given)) if isinstance(given, str) else given


def _bare(url: str) -> str:
    return url.partition("#")[0]


def _moment(since: str) -> datetime:
    """Read a moment: how long ago (`1d`), or when (RFC 3339)."""
    if re.fullmatch(r"\d+\s*[smhdw]", since.strip()):
        return datetime.now(UTC) - timedelta(seconds=read_seconds(since))
    try:
        moment = datetime.fromisoformat(since.strip())
    except ValueError:
        raise ToolProblem(f"since: {since!r} should be 1h, 7d, or a time such as 2026-03-14T12:00:00Z.") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def problem_of(error: Exception) -> str | None:
    """Return the text of an error for the agent; None for a defect."""
    if isinstance(error, PageFailed):
        return f"The page could not be read ({error.reason}): {text.clean(error.message)}"
    if isinstance(error, ApiError | ToolProblem | OverBudget | ValueError):
        return text.clean(str(error))
    return None
