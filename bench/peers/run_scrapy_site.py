"""`run_scrapy_site.py URL LIMIT`: a site crawled by links through Scrapy, items in memory. Prints one JSON line.

As its documentation advises for fast crawls of one site: a CrawlSpider with a LinkExtractor for the site's host, in the
order of breadth first, 64 requests at once, no cookies, no log. It keeps title, HTML and links of each page.
"""

# mypy: ignore-errors
# (what it imports is installed in an environment of its own, not here)

import json
import resource
import sys
import time
from urllib.parse import urlsplit

from scrapy.crawler import CrawlerProcess
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

URL, LIMIT = sys.argv[1], int(sys.argv[2])
ITEMS = []


class Site(CrawlSpider):
    name = "site"
    start_urls = (URL,)
    rules = (Rule(LinkExtractor(allow_domains=[urlsplit(URL).netloc]), callback="keep", follow=True),)

    def keep(self, response):
        yield {
            "url": response.url,
            "title": response.css("title::text").get(),
            "language": response.css("html::attr(lang)").get(),
            "links": response.css("a::attr(href)").getall(),
            "html": response.text,
        }


class Collect:
    def process_item(self, item):
        ITEMS.append(item)
        return item


process = CrawlerProcess(
    {
        "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
        "CONCURRENT_REQUESTS": 64,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 64,
        "DOWNLOAD_DELAY": 0,
        "DEPTH_PRIORITY": 1,
        "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
        "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
        "CLOSESPIDER_PAGECOUNT": LIMIT,
        "ROBOTSTXT_OBEY": False,
        "COOKIES_ENABLED": False,
        "RETRY_ENABLED": False,
        "TELNETCONSOLE_ENABLED": False,
        "LOG_ENABLED": False,
        "ITEM_PIPELINES": {Collect: 1},
    }
)
began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
process.crawl(Site)
process.start()
seconds = time.perf_counter() - began
used = resource.getrusage(resource.RUSAGE_SELF)
cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
print(json.dumps({"seconds": seconds, "cpu": cpu, "items": len(ITEMS)}), flush=True)
