"""The order of I/O for one page, and what each kind of answer leads to. What a page contains is its parser's.

Nothing is retried, waited for or counted here: the engine acts on the outcome.
"""

from dataclasses import dataclass, field, replace

from forager.core.errors import ParseFailed, Permanent, unknown_names_are_final
from forager.core.hosts import host_of
from forager.core.http import Fetch, Request, Response
from forager.core.outcome import MAX_CHILDREN, Done, Outcome
from forager.core.reading import offload_of
from forager.core.states import ErrorType
from forager.core.storage import read_or_fetch
from forager.core.task import Plan
from forager.extract.products.findings import ProductFindings
from forager.extract.products.parser import Parser, Parsers
from forager.extract.text.urls import canonical_url
from forager.pipelines.products.health import ParserAlert, counted
from forager.pipelines.products.page_outcome import (
    GONE,
    NOT_FOUND,
    Seen,
    gone_of,
    offer_of,
    page_of,
    product_of,
    read_by,
    refuse_unless_page,
    refused_of,
    seen_again,
    soft_gone,
)
from forager.pipelines.products.parser_trial import counted_trial, in_share, tried
from forager.pipelines.products.records import CrawledPage
from forager.pipelines.products.sitemap import discover_sitemaps, plan_for, read_sitemap
from forager.pipelines.products.tasks import Alert, Crawl, Parse, Sitemap
from forager.pipelines.products.wrappers import NoWrappers, WrapperSource, reader_with

MOST_BYTES = 10 * 1024 * 1024
"""A longer page is refused."""


@dataclass(frozen=True, slots=True)
class Crawler:
    """Fetches and reads pages. Its methods are the steps."""

    parsers: Parsers
    timeout: float = 30.0
    shadow: float = 1.0
    """The share of pages on which a candidate parser runs as well."""
    wrappers: WrapperSource = field(default_factory=NoWrappers)

    async def crawl(self, task: Crawl, fetch: Fetch) -> Outcome:
        """Fetch a page and store it; parse it from there; settle page, product and links together.

        A page whose parser breaks is not fetched again: its parse becomes a task of its own, on the stored page.
        """
        with unknown_names_are_final():
            response = await fetch(self._request(task))
        if response.status == 304:
            seen_page = page_of(task, response, "unchanged")
            return Done(records=(seen_page, *seen_again(task)), cost=1, facts=response.facts())
        if response.status in GONE:
            page = page_of(task, response, "gone")
            gone = gone_of(task, NOT_FOUND, status=response.status)
            return Done(records=(page,), gone=(gone,), cost=1, facts=response.facts())
        refuse_unless_page(response)
        url = _address(task, response)
        parser, wrappers = self.parsers.for_url(url), await self.wrappers.of(host_of(url))
        try:
            seen = await read_by(
                offload_of(fetch), response.body, url, parser, links=task.depth is not None, wrappers=wrappers
            )
        except Exception:  # noqa: BLE001 - a parser is a plug-in: whatever it raises, the page is safe
            return await self._with_shadow(
                _parse_later(task, response, reader_with(parser, wrappers)), task, response, url, None, fetch
            )
        if wrappers and task.product_url is None and not seen.findings.is_product:
            # A page that was submitted again: if it showed a product before, its layout may have changed.
            task = task.model_copy(update={"product_url": await self.wrappers.product_of(task.key())})
        return await self._with_shadow(_outcome(task, response, seen), task, response, url, seen, fetch)

    async def parse(self, task: Parse, fetch: Fetch) -> Outcome:
        """Parse a stored page. One that was lost is fetched again."""
        response = await read_or_fetch(fetch, task.html, self._request(Crawl(url=task.url)))
        refuse_unless_page(response)
        url = _address(task, response)
        parser, wrappers = self.parsers.for_url(url), await self.wrappers.of(host_of(url), fresh=True)
        try:
            seen = await read_by(offload_of(fetch), response.body, url, parser, wrappers=wrappers)
        except ParseFailed as error:
            evidence, facts = response.evidence(), response.facts()
            raise ParseFailed(error.message, reason=error.reason, evidence=evidence, facts=facts).at(
                response.subject()
            ) from error
        except Exception as error:
            raise Permanent(
                f"The parser {parser.name} (version {parser.version}) broke on {response.subject()}: {error}",
                evidence=response.evidence(),
                error_type=ErrorType.PARSE,
            ) from error
        outcome = "missing" if seen.missing else "product" if seen.findings.is_product else "other"
        page = CrawledPage(url_hash=task.key(), url=task.url, domain=task.lane(), html=response.blob, outcome=outcome)
        if outcome != "product":
            return Done(updates=(page,), rejected=refused_of(seen), cost=0)
        product = product_of(seen, response, task.key())
        known = page.model_copy(update={"product_url": product.url, "offer": offer_of(product)})
        return Done(records=(product,), updates=(known,), rejected=refused_of(seen), cost=0)

    async def _with_shadow(
        self, done: Done, task: Crawl, response: Response, url: str, seen: Seen | None, fetch: Fetch
    ) -> Done:
        """Run the candidate parser in parallel with the one in force, and count how the two compare. Its findings are
        not stored. `seen` is None if the parser in force raised an error."""
        candidate = self.parsers.candidate_for(url)
        if candidate is None or (seen is not None and seen.missing) or not in_share(task.key(), self.shadow):
            return done
        current = None if seen is None else seen.findings
        counts = await tried(offload_of(fetch), response.body, url, candidate, current)
        effect = counted_trial(candidate, self.parsers.for_url(url), task.lane(), response.at, counts)
        return replace(done, effects=(*done.effects, effect))

    async def alert(self, task: Alert, _: Fetch) -> Outcome:
        """Write an alert as a record."""
        told = task.model_dump(include=ParserAlert.model_fields.keys() - {"alert_key"})
        return Done(records=(ParserAlert(alert_key=task.alert_key, **told),), cost=0)

    async def sitemap(self, task: Sitemap, fetch: Fetch) -> Outcome:
        """Turn the addresses of a sitemap, or of those that a site's robots.txt names, into tasks."""
        with unknown_names_are_final():
            if task.discover:
                return await discover_sitemaps(task, fetch, timeout=self.timeout)
            return await read_sitemap(task, fetch, timeout=self.timeout)

    def _request(self, task: Crawl) -> Request:
        headers = {}
        if task.etag:
            headers["If-None-Match"] = task.etag
        if task.last_modified:
            headers["If-Modified-Since"] = task.last_modified
        return Request(
            task.url, headers=headers, timeout=self.timeout, max_bytes=MOST_BYTES, render=task.render, keep=True
        )


def _address(task: Crawl | Parse, response: Response) -> str:
    """Return the canonical URL of the page; usually the requested one, which is canonical already."""
    return task.url if response.url == task.url else canonical_url(response.url)


def _parse_later(task: Crawl, response: Response, parser: Parser) -> Done:
    page = page_of(task, response, "unparsed")
    plans = [] if response.blob is None else [Plan(Parse(url=task.url, html=response.blob), rank=task.priority)]
    health = counted(parser, task.lane(), response.at, ProductFindings())
    return Done(records=(page,), tasks=plans, cost=1, facts=response.facts(), effects=(health,))


def _outcome(task: Crawl, response: Response, seen: Seen) -> Done:
    facts = {**response.facts(), "products": int(seen.findings.is_product), "links": len(seen.links)}
    if seen.missing is not None:
        page = page_of(task, response, "missing", misses=task.misses + 1)
        return Done(records=(page,), gone=tuple(soft_gone(task, seen)), cost=1, facts=facts)
    rejected = refused_of(seen)
    if not seen.findings.is_product:
        page = page_of(task, response, "other", misses=0)
        expected = task.product_url is not None or seen.offers_product
        counts = (counted(seen.parser, task.lane(), response.at, seen.findings),) if expected else ()
        plans = _followed(task, seen)
        told = {**facts, "products": 0}
        return Done(records=(page,), tasks=plans, rejected=rejected, cost=1, facts=told, effects=counts)
    product = product_of(seen, response, task.key())
    page = page_of(task, response, "product", misses=0, product_url=product.url, offer=offer_of(product))
    health = counted(seen.parser, task.lane(), response.at, seen.findings)
    told = {**facts, "products": 1}
    return Done(records=(page, product), rejected=rejected, cost=1, facts=told, effects=(health,))


def _followed(task: Crawl, seen: Seen) -> list[Plan]:
    """Return the links of a page that is not a product, one level deeper each; the next page of a list is not
    deeper."""
    depth = task.depth if task.depth is not None else -1
    deep = [(link.url, depth if link.is_next else depth - 1) for link in seen.links[:MAX_CHILDREN]]
    return [plan_for(task, Crawl, url=url, depth=left) for url, left in deep if left >= 0]
