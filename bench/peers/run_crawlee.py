"""`run_crawlee.py URLS shop|real default|memory FOLDER`: the pages of a file through Crawlee (Parsel). Prints one JSON
line. `shop`: the fields of a shop whose markup is known; `real`: those of any shop, with extruct and price-parser.

64 requests at once, as its documentation shows for a known target; items are pushed to its dataset. `default` keeps
queue and dataset in files, which survive a crash; `memory` keeps nothing.
"""

# mypy: ignore-errors
# (what it imports is installed in an environment of its own, not here)

import asyncio
import json
import os
import resource
import sys
import time
from datetime import timedelta
from pathlib import Path

os.environ["CRAWLEE_STORAGE_DIR"] = sys.argv[4]
os.environ["CRAWLEE_LOG_LEVEL"] = "ERROR"

from crawlee import ConcurrencySettings
from crawlee.crawlers import ParselCrawler
from crawlee.storage_clients import MemoryStorageClient
from real_fields import fields_of


async def main() -> None:
    urls = Path(sys.argv[1]).read_text().split()
    options = {"storage_client": MemoryStorageClient()} if sys.argv[3] == "memory" else {}
    crawler = ParselCrawler(
        concurrency_settings=ConcurrencySettings(min_concurrency=64, max_concurrency=64, desired_concurrency=64),
        max_request_retries=0,
        request_handler_timeout=timedelta(seconds=60),
        configure_logging=False,
        **options,
    )
    found = 0

    @crawler.router.default_handler
    async def handle(context) -> None:
        nonlocal found
        if sys.argv[2] == "real":
            html = (await context.http_response.read()).decode("utf-8", "replace")
            if (item := fields_of(html, context.request.url)) is not None:
                await context.push_data(item)
                found += 1
            return
        for text in context.selector.css('script[type="application/ld+json"]::text').getall():
            data = json.loads(text)
            for thing in data if isinstance(data, list) else [data]:
                if thing.get("@type") == "Product":
                    offer = thing.get("offers") or {}
                    rating = thing.get("aggregateRating") or {}
                    await context.push_data(
                        {
                            "name": thing.get("name"),
                            "description": thing.get("description"),
                            "brand": thing.get("brand"),
                            "sku": thing.get("sku"),
                            "images": thing.get("image"),
                            "price": offer.get("price"),
                            "currency": offer.get("priceCurrency"),
                            "availability": offer.get("availability"),
                            "rating": rating.get("ratingValue"),
                            "review_count": rating.get("reviewCount"),
                        }
                    )
                    found += 1

    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    await crawler.run(urls)
    seconds = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"seconds": seconds, "cpu": cpu, "items": found}), flush=True)


asyncio.run(main())
