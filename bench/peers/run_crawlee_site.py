"""`run_crawlee_site.py URL LIMIT`: a site crawled by links through Crawlee (Parsel), in memory. Prints one JSON line.

As its documentation shows for a crawl of one site: `enqueue_links` for the site's host, 64 requests at once, no
retries, no log. Queue and items are kept in memory, its fastest way, which survives no crash. It keeps title, language,
links and HTML of each page.
"""

# mypy: ignore-errors
# (what it imports is installed in an environment of its own, not here)

import asyncio
import json
import os
import resource
import sys
import tempfile
import time
from datetime import timedelta

os.environ["CRAWLEE_STORAGE_DIR"] = tempfile.mkdtemp(prefix="crawlee-")
os.environ["CRAWLEE_LOG_LEVEL"] = "ERROR"

from crawlee import ConcurrencySettings
from crawlee.crawlers import ParselCrawler
from crawlee.storage_clients import MemoryStorageClient

URL, LIMIT = sys.argv[1], int(sys.argv[2])


async def main() -> None:
    crawler = ParselCrawler(
        concurrency_settings=ConcurrencySettings(min_concurrency=64, max_concurrency=64, desired_concurrency=64),
        max_request_retries=0,
        max_requests_per_crawl=LIMIT,
        request_handler_timeout=timedelta(seconds=60),
        configure_logging=False,
        storage_client=MemoryStorageClient(),
        respect_robots_txt_file=False,
    )
    items = []

    @crawler.router.default_handler
    async def handle(context) -> None:
        selector = context.selector
        items.append(
            {
                "url": context.request.loaded_url,
                "title": selector.css("title::text").get(),
                "language": selector.css("html::attr(lang)").get(),
                "links": selector.css("a::attr(href)").getall(),
                "html": (await context.http_response.read()).decode("utf-8", "replace"),
            }
        )
        await context.enqueue_links(strategy="same-hostname")

    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    await crawler.run([URL])
    seconds = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"seconds": seconds, "cpu": cpu, "items": len(items)}), flush=True)


asyncio.run(main())
