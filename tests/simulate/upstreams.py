"""The simulated upstreams and receivers of all pipelines, reached without a socket. They outlive the processes.

They are those of `forager.sandbox`, with ports that nobody listens on: a request is handed to the upstream of its port.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from pydantic import SecretStr
from yarl import URL

from forager.sandbox import (
    FULL_DENSITY,
    ApifyConfig,
    ApifySandbox,
    Band,
    GoogleConfig,
    GoogleSandbox,
    LinkedConfig,
    LinkedSandbox,
    SandboxSite,
    SerperConfig,
    SerperSandbox,
    ShopConfig,
    ShopSandbox,
    Tenant,
    WebhookReceiver,
)
from forager.sandbox.wire import HTML, JSON, WireRequest
from tests.simulate.plan import HORIZON, PlannedJob
from tests.simulate.world import World

SECRET = "whsec_c2ltdWxhdGVkLXNlY3JldC1mb3ItdGVzdHM="
CITIES = (("Boston", "MA"), ("Austin", "TX"), ("Denver", "CO"), ("Miami", "FL"), ("Seattle", "WA"))
ZIPS = ("85001", "85002", "85003", "85004")
KINDS = frozenset({"place", "product", "review", "listing"})
"""Changes of these kinds go to the receiver `hook`."""
SERPER, SHOP, API, HOMES, SITE, HOOK, ENDS, LINKED, WATCHED, CHANNEL = range(9001, 9011)
GOOGLE = {"accounts": 9011, "locations": 9012, "reviews": 9013, "token": 9014}


class WireConnection:
    """A connection as the upstream sees it: it sends one answer, or ends the connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.answer: asyncio.Future[tuple[int, dict[str, str], bytes]] = loop.create_future()
        self.is_open = True
        self.when_lost: Any = None

    def send(self, status: int, body: bytes, kind: bytes = JSON, more: bytes = b"") -> None:
        lines = (line.partition(":") for line in more.decode("latin-1").split("\r\n") if line)
        headers = {name: value.strip() for name, _, value in lines}
        self._give((status, {"Content-Type": kind.decode(), **headers}, body))

    def send_part(self, status: int, body: bytes, length: int) -> None:
        self._fail(aiohttp.ClientPayloadError("the answer broke off"))

    def send_long(self, status: int, parts: Iterator[bytes], length: int, written: Any, kind: bytes = JSON) -> None:
        body = b"".join(parts)
        written()
        self.send(status, body, kind)

    def cut(self) -> None:
        self._fail(aiohttp.ServerDisconnectedError())

    def leave(self) -> None:
        """The client closes the connection; the upstream notices before it answers."""
        self.is_open = False
        lost, self.when_lost = self.when_lost, None
        if lost is not None and not self.answer.done():
            lost()

    def _give(self, answer: tuple[int, dict[str, str], bytes]) -> None:
        self.when_lost = None
        if not self.answer.done():
            self.answer.set_result(answer)

    def _fail(self, error: Exception) -> None:
        self.when_lost = None
        if not self.answer.done():
            self.answer.set_exception(error)


class WatchedPages:
    """A page for each watch. Its price falls by one after every period of its watch, until the faults end."""

    FIRST = 100

    def __init__(self, world: World) -> None:
        self._world = world
        self._periods = {each.name: each.period for each in world.plan.watches}
        self.shown: dict[str, set[int]] = {}
        """Prices that each page has shown."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{WATCHED}"

    def price(self, name: str) -> int:
        """Return the price that a page shows now."""
        return self.FIRST - int(min(self._world.now, HORIZON) // self._periods[name])

    def _receive(self, request: WireRequest, connection: WireConnection) -> None:
        name = request.path.strip("/")
        if name not in self._periods:
            connection.send(404, b"<h1>404</h1>", HTML)
            return
        price = self.price(name)
        self.shown.setdefault(name, set()).add(price)
        body = f"<html><title>Table {name}</title><p class=price>$ {price}</p><p>{'Oak, two metres. ' * 40}</p></html>"
        connection.send(200, body.encode(), HTML)


class Channel:
    """The receiver of alerts. It keeps the title of each message."""

    def __init__(self) -> None:
        self.titles: list[str] = []

    @property
    def address(self) -> str:
        return f"json://127.0.0.1:{CHANNEL}/alerts"

    def take(self, body: bytes) -> None:
        self.titles.append(json.loads(body)["title"])


class Upstreams:
    def __init__(self, world: World) -> None:
        seed, now = world.plan.seed, world.wall
        pages = f"http://127.0.0.1:{SITE}"
        self.serper = SerperSandbox(
            SerperConfig(seed=seed, density=FULL_DENSITY, rate_limit=None, latency_ms=20, search_site=pages)
        )
        self.serper.url = f"http://127.0.0.1:{SERPER}"
        self.shop = ShopSandbox(
            ShopConfig(seed=seed, pages=4_000, categories=4, latency_ms=20, images=0, page_bytes=3_000),
            now=now,
            port=SHOP,
        )
        self.apify = ApifySandbox(
            ApifyConfig(
                seed=seed, queue_seconds=1.0, run_seconds=5.0, settle_seconds=0.0, rate_per_second=None, homes=4
            ),
            now=now,
            ports={"api": API, "site": HOMES},
        )
        tenant = Tenant(accounts=1, locations=2, reviews=(Band(1.0, 3, 6),))
        self.google = GoogleSandbox(
            GoogleConfig(seed=seed, quota_per_minute=None, default=tenant, latency_ms=20), now=now, ports=GOOGLE
        )
        self.site = SandboxSite(port=SITE)
        self.linked = LinkedSandbox(LinkedConfig(seed=seed, pages=12, section_size=6, words=40), now=now, port=LINKED)
        self.watched = WatchedPages(world)
        self.channel = Channel()
        self.hook = WebhookReceiver([SECRET], now, port=HOOK)
        self.ends = WebhookReceiver([SECRET], now, port=ENDS)
        self._receivers: dict[int, Any] = {
            SERPER: self.serper._receive,
            SITE: self.site._receive,
            WATCHED: self.watched._receive,
            HOOK: self.hook._receive,
            ENDS: self.ends._receive,
            **{
                host.port: host._receive
                for upstream in (self.shop, self.apify, self.google, self.linked)
                for host in upstream.hosts.values()
            },
        }

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Set the timers of answers on the loop of the present process: nobody waits for those of a dead one."""
        for each in (self.serper, self.shop, self.apify, self.google, self.site, self.linked):
            vars(each)["_loop"] = loop

    def receive(
        self, method: str, url: URL, headers: Mapping[str, str], body: bytes, connection: WireConnection
    ) -> None:
        receive = self._receivers.get(url.port or 0)
        if receive is None:
            raise aiohttp.ClientConnectorError(NOT_THERE, OSError(111, "Connection refused"))
        named = {name.lower().encode("latin-1"): value.encode("latin-1") for name, value in headers.items()}
        receive(WireRequest(method, url.raw_path, url.raw_query_string, named, body), connection)

    def settings(self, home: Path) -> dict[str, Any]:
        shop, site = f"127.0.0.1:{SHOP}", f"127.0.0.1:{SITE}"
        listings = urlsplit(self.apify.site_url).netloc
        polite = (shop, site, listings, f"127.0.0.1:{LINKED}", f"127.0.0.1:{WATCHED}")
        rules = home / "policies.yaml"
        rule = "    tokens_per_interval: 1000\n    interval_seconds: 1\n    max_concurrent_requests: 8\n"
        rules.write_text(
            "domains:\n"
            + "".join(
                f'  "{each}":\n{rule}    min_delay_ms: 0\n    max_delay_ms: 0\n' for each in (shop, site, listings)
            )
        )
        zips = home / "zips.csv"
        zips.write_text("zip,state,city\n" + "".join(f"{each},AZ,Phoenix\n" for each in ZIPS))
        google = (self.google.accounts_url, self.google.locations_url, self.google.reviews_url)
        urls = (self.serper.url, self.apify.url, *google, self.hook.url(""), self.ends.url(""))
        return {
            "home": home,
            "zip_table": zips,
            "egress_allow": (*(urlsplit(url).netloc for url in urls), *polite, f"127.0.0.1:{CHANNEL}"),
            "domain_policies_path": rules,
            "serper_api_key": SecretStr(self.serper.config.key),
            "serper_base_url": self.serper.url,
            "apify_token": "sandbox-acme",
            "apify_base_url": self.apify.url,
            "apify_poll_seconds": 2.0,
            "apify_cost_delay_seconds": 0.0,
            "google_accounts_url": google[0],
            "google_locations_url": google[1],
            "google_reviews_url": google[2],
            "google_requests_per_second": 1_000.0,
            "webhook_secret": SecretStr(SECRET),
            "default_webhook_url": SecretStr(self.ends.url("/ends")),
            "files_folder": home / "files",
        }

    def params(self, job: PlannedJob) -> tuple[dict[str, Any], str]:
        """Return the parameters of a job, and its token if it is one of reviews."""
        number = job.number
        pages = range(number * 8 + 1, number * 8 + 1 + 2 * job.size)
        city, state = CITIES[number % len(CITIES)]
        market = {
            "market_id": f"m{number}",
            "city": city,
            "state": state,
            "since": f"2026-03-01T06:{number:02d}:00Z",
            "max_listings": 2 * job.size,
        }
        match job.pipeline:
            case "places":
                return {"keyword": f"bars {number}", "zips": list(ZIPS[: job.size]), "pages": 2}, ""
            case "products":
                return {"urls": [self.shop.product_url(n) for n in pages], "recrawl": False}, ""
            case "listings":
                return {"action": "scrape", "scrape": market}, ""
            case "scrape":
                paths = [f"/jobs/jsonld/{n}" for n in pages]
                if job.poison:
                    paths.append(f"/jobs/jsonld/{number}?poison=1")
                common = {"target_type": "job_posting", "workspace_id": "acme", "render": "http"}
                return {"targets": [{**common, "target_url": self.site.url(path)} for path in paths]}, ""
            case "sites":
                mode = "map" if number % 3 == 2 else "crawl"
                return {
                    "url": self.linked.url("/"),
                    "limit": 5 * job.size,
                    "mode": mode,
                    "sitemap": number % 2 == 0,
                }, ""
            case "web":
                return {"query": f"oak tables {number}", "pages": min(job.size, 2), "read": job.size % 3}, ""
            case _:
                return {}, f"{self.google.config.prefix}user-{number}"


NOT_THERE: Any = type("Key", (), {"host": "", "port": 0, "is_ssl": False, "ssl": True})()
