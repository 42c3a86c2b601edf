"""One sitemap: its addresses become crawl tasks, at most 5,000 in one settlement."""

import asyncio
from typing import Any
from urllib.parse import urlsplit

from forager.core.errors import Permanent
from forager.core.hosts import host_of
from forager.core.http import Fetch, Request
from forager.core.outcome import MAX_CHILDREN, Done, Outcome
from forager.core.reading import parse
from forager.core.states import ErrorType
from forager.core.storage import read_or_fetch
from forager.core.task import Plan
from forager.extract.sitemaps import LARGEST, from_robots, is_index, locations
from forager.extract.text.urls import canonical_url
from forager.pipelines.products.page_outcome import NOT_A_PAGE, refuse_unless_answered
from forager.pipelines.products.tasks import Crawl, PageOptions, Sitemap

DEEPEST_INDEX = 3
MOST_ROBOTS = 2 * 1024 * 1024
BEHIND_PAGES = 11
"""Rank of a further sitemap in a job with `max_pages`: the lowest priority of a page is 10."""


async def read_sitemap(task: Sitemap, fetch: Fetch, *, timeout: float) -> Outcome:
    """Hand over the next part of a sitemap. The rest is a task of its own, on the stored file."""
    request = Request(task.url, timeout=timeout, max_bytes=LARGEST)
    response = await read_or_fetch(fetch, task.stored, request)
    refuse_unless_answered(response)
    room = min(MAX_CHILDREN - 1, task.most or MAX_CHILDREN)
    index, found, rest = await parse(fetch, read_addresses, response.body, task.url, task.start, room)
    if index and task.level >= DEEPEST_INDEX:
        message = f"{response.subject()}: sitemap indexes nest too deep."
        raise Permanent(message, facts=response.facts(), error_type=ErrorType.PARSE)
    plans = await asyncio.to_thread(_plans, task, found, index=index)
    if rest is not None:
        level, most = task.level, task.most
        plans.append(plan_for(task, Sitemap, url=task.url, level=level, start=rest, stored=response.blob, most=most))
    if not plans and not task.start:
        raise Permanent(
            f"{response.subject()} has no address of this site in it.",
            evidence=response.evidence(),
            facts=response.facts(),
            reason=NOT_A_PAGE,
            error_type=ErrorType.PARSE,
        )
    return Done(tasks=plans, cost=0, facts={**response.facts(), "links": len(plans)})


async def discover_sitemaps(task: Sitemap, fetch: Fetch, *, timeout: float) -> Outcome:
    """Return the sitemaps that a site's robots.txt names, or else the one at its usual address."""
    root = _root(task.url)
    response = await fetch(Request(f"{root}/robots.txt", timeout=timeout, max_bytes=MOST_ROBOTS))
    named = await parse(fetch, from_robots, response.body) if response.status == 200 else []
    urls = [url for each in named if (url := same_host(each, task.url))] or [f"{root}/sitemap.xml"]
    plans = [plan_for(task, Sitemap, url=url, level=1, most=task.most) for url in dict.fromkeys(urls)]
    return Done(tasks=plans, cost=0, facts=response.facts())


def plan_for(task: PageOptions, kind: type[Crawl] | type[Sitemap], **values: Any) -> Plan:
    """Return the plan for a page or sitemap that was found. It inherits the options of the submission."""
    inherited = {name: getattr(task, name) for name in PageOptions.model_fields}
    rank = task.priority if kind is Crawl else 0 if values.get("most") is None else BEHIND_PAGES
    return Plan(kind(**{**inherited, **values}), rank=rank, retries=task.max_retries)


def same_host(link: str, url: str) -> str | None:
    """Return the canonical form of an address on the same host as `url`; None for any other."""
    try:
        canonical = canonical_url(link)
    except ValueError:
        return None
    return canonical if host_of(canonical) == host_of(url) else None


def read_addresses(body: bytes, site: str, start: int, most: int) -> tuple[bool, list[str], int | None]:
    """Return whether a sitemap lists other sitemaps, its next addresses on the host of `site`, and where the rest
    begins; None at its end."""
    index = is_index(body)
    found: list[str] = []
    for end, link in locations(body, start):
        url = same_host(link, site)
        if url is not None:
            found.append(url)
        if len(found) == most:
            return index, found, end
    return index, found, None


def _plans(task: Sitemap, found: list[str], *, index: bool) -> list[Plan]:
    """Make the tasks, in a thread: thousands of them take longer than the event loop may stand still."""
    if index:
        return [plan_for(task, Sitemap, url=url, level=task.level + 1, most=task.most) for url in found]
    return [plan_for(task, Crawl, url=url) for url in found]


def _root(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
