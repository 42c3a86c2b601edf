"""`run_scrapy.py URLS shop|real [JOBDIR]`: the pages of a file through Scrapy, items in memory. Prints one JSON line.

`shop`: the fields of a shop whose markup is known; `real`: those of any shop, with extruct and price-parser.

As its documentation advises for broad and fast crawls: the asyncio reactor, 64 requests at once, no cookies, no
retries, no log. With JOBDIR its queue and its set of seen requests are on disk, so that a crawl can be resumed.
"""

# mypy: ignore-errors
# (what it imports is installed in an environment of its own, not here)

import json
import resource
import sys
import time
from pathlib import Path

import scrapy
from real_fields import fields_of
from scrapy.crawler import CrawlerProcess

URLS = Path(sys.argv[1]).read_text().split()
ITEMS = []


class Shop(scrapy.Spider):
    name = "shop"

    async def start(self):
        for url in URLS:
            yield scrapy.Request(url)

    def parse(self, response):
        if sys.argv[2] == "real":
            if (item := fields_of(response.text, response.url)) is not None:
                yield item
            return
        for text in response.css('script[type="application/ld+json"]::text').getall():
            data = json.loads(text)
            for thing in data if isinstance(data, list) else [data]:
                if thing.get("@type") == "Product":
                    offer = thing.get("offers") or {}
                    rating = thing.get("aggregateRating") or {}
                    yield {
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


class Collect:
    def process_item(self, item):
        ITEMS.append(item)
        return item


settings = {
    "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
    "CONCURRENT_REQUESTS": 64,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 64,
    "DOWNLOAD_DELAY": 0,
    "ROBOTSTXT_OBEY": False,
    "COOKIES_ENABLED": False,
    "RETRY_ENABLED": False,
    "REDIRECT_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
    "LOG_ENABLED": False,
    "ITEM_PIPELINES": {Collect: 1},
}
if len(sys.argv) > 3:
    settings["JOBDIR"] = sys.argv[3]
process = CrawlerProcess(settings)
began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
process.crawl(Shop)
process.start()
seconds = time.perf_counter() - began
used = resource.getrusage(resource.RUSAGE_SELF)
cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
print(json.dumps({"seconds": seconds, "cpu": cpu, "items": len(ITEMS)}), flush=True)
