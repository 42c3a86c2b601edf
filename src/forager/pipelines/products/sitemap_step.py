"""One sitemap: its addresses become crawl tasks, at most 5,000 in one settlement."""

import asyncio
from typing import Any
from urllib.parse import urlsplit

from forager.core.blobs import read_or_fetch
from forager.core.errors import Permanent
from forager.core.hosts import host_of
from forager.core.http import Fetch, Request
from forager.core.outcome import MAX_CHILDREN, Done, Outcome
from forager.core.reasons import ErrorType
from forager.core.task import Plan
from forager.extract.canonical import canonical_url
from forager.pipelines.products.answers import NOT_A_PAGE, facts_of, place_of, refuse_unless_answered
from forager.pipelines.products.sitemap import LARGEST, from_robots, is_index, locations
from forager.pipelines.products.tasks import Asked, Crawl, Sitemap

DEEPEST_INDEX = 3
MOST_ROBOTS = 2 * 1024 * 1024
BEHIND_PAGES = 11
"""Rank of a further sitemap in a job with `max_pages`: the lowest priority of a page is 10."""


async def read_sitemap(task: Sitemap, fetch: Fetch, *, timeout: float) -> Outcome:
    """Hand over the next part of a sitemap. The rest is a task of its own, on the stored file."""
    request = Request(task.url, timeout=timeout, max_bytes=LARGEST)
    response = await read_or_fetch(fetch, task.stored, request)
    refuse_unless_answered(response)
    index = is_index(response.body)
    if index and task.level >= DEEPEST_INDEX:
        message = f"{place_of(response)}: sitemap indexes nest too deep."
        raise Permanent(message, facts=facts_of(response), error_type=ErrorType.PARSE)
    plans = await asyncio.to_thread(_part, task, response.body, index=index, stored=response.blob)
    if not plans and not task.start:
        raise Permanent(
            f"{place_of(response)} has no address of this site in it.",
            evidence=response.evidence(),
            facts=facts_of(response),
            reason=NOT_A_PAGE,
            error_type=ErrorType.PARSE,
        )
    return Done(tasks=plans, cost=0, facts={**facts_of(response), "links": len(plans)})


async def discover_sitemaps(task: Sitemap, fetch: Fetch, *, timeout: float) -> Outcome:
    """The sitemaps that a site's robots.txt names, or else the one at its usual address."""
    root = _root(task.url)
    response = await fetch(Request(f"{root}/robots.txt", timeout=timeout, max_bytes=MOST_ROBOTS))
    named = from_robots(response.body.decode("utf-8", "replace")) if response.status == 200 else []
    urls = [url for each in named if (url := same_host(each, task.url))] or [f"{root}/sitemap.xml"]
    plans = [plan_for(task, Sitemap, url=url, level=1, most=task.most) for url in dict.fromkeys(urls)]
    return Done(tasks=plans, cost=0, facts=facts_of(response))


def plan_for(task: Asked, kind: type[Crawl] | type[Sitemap], **values: Any) -> Plan:
    """A page or sitemap that was found: it inherits what was asked for."""
    inherited = {name: getattr(task, name) for name in Asked.model_fields}
    rank = task.priority if kind is Crawl else 0 if values.get("most") is None else BEHIND_PAGES
    return Plan(kind(**{**inherited, **values}), rank=rank, retries=task.max_retries)


def same_host(link: str, url: str) -> str | None:
    """The canonical form of an address on the same host as `url`; None for any other."""
    try:
        canonical = canonical_url(link)
    except ValueError:
        return None
    return canonical if host_of(canonical) == host_of(url) else None


def _part(task: Sitemap, body: bytes, *, index: bool, stored: str | None) -> list[Plan]:
    plans: list[Plan] = []
    room = min(MAX_CHILDREN - 1, task.most or MAX_CHILDREN)
    for end, link in locations(body, task.start):
        url = same_host(link, task.url)
        if url is None:
            continue
        if index:
            plans.append(plan_for(task, Sitemap, url=url, level=task.level + 1, most=task.most))
        else:
            plans.append(plan_for(task, Crawl, url=url))
        if len(plans) == room:
            level, most = task.level, task.most
            return [*plans, plan_for(task, Sitemap, url=task.url, level=level, start=end, stored=stored, most=most)]
    return plans


def _root(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
