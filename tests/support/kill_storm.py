"""All five pipelines with sinks, in worker processes that are killed, and upstreams that live as long as the test.

A job is submitted by several lives under one idempotency key, as a client does that got no answer. One page of some
scrape jobs is poison: the step that reads it kills its process.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from forager.app.application import App
from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.core.errors import Conflict
from forager.core.http import Fetch
from forager.core.outcome import Outcome
from forager.core.secret import Secret
from forager.core.sink import SinkRow
from forager.core.task import Task
from forager.pipelines.reviews.wiring import submit_token
from forager.sandbox import (
    FULL_DENSITY,
    ApifyConfig,
    ApifySandbox,
    Band,
    GoogleConfig,
    GoogleSandbox,
    SandboxSite,
    SerperConfig,
    SerperSandbox,
    ShopConfig,
    ShopSandbox,
    Tenant,
    WebhookReceiver,
)
from tests.support.forked import start_forked
from tests.support.webhooks import SECRET

KINDS = frozenset({"place", "product", "review", "listing"})
"""Changes of these kinds go to the receiver `hook`."""
POISON = "poison"
CITIES = (("Boston", "MA"), ("Austin", "TX"), ("Denver", "CO"), ("Miami", "FL"), ("Seattle", "WA"))
ZIPS = ("85001", "85002", "85003", "85004")
PAGES_A_JOB = 4
LEASE = 3.0
"""Long enough that a busy machine does not end the leases of the living, which would look like more deaths."""


@dataclass(frozen=True)
class StormJob:
    number: int
    pipeline: str
    params: dict[str, Any]
    token: str = ""

    @property
    def key(self) -> str:
        return f"storm-{self.number}"


@dataclass(frozen=True)
class Options:
    settings: dict[str, Any]
    hook: str
    """The address of the receiver that gets every change of `KINDS`."""
    jobs: tuple[StormJob, ...] = ()
    until_done: bool = False
    """Return when every job has ended and every sink has everything, instead of working until killed."""


class Upstreams:
    """The simulated upstreams of all pipelines, and two receivers of webhooks."""

    def __init__(self) -> None:
        self.serper = SerperSandbox(SerperConfig(density=FULL_DENSITY, rate_limit=None, latency_ms=20))
        self.shop = ShopSandbox(ShopConfig(pages=4_000, categories=4, latency_ms=20, images=0, change_days=(0.0, 0.0)))
        self.apify = ApifySandbox(
            ApifyConfig(queue_seconds=0.0, run_seconds=0.05, settle_seconds=0.0, rate_per_second=None, homes=6)
        )
        tenant = Tenant(accounts=1, locations=2, reviews=(Band(1.0, 3, 6),))
        self.google = GoogleSandbox(GoogleConfig(quota_per_minute=None, default=tenant, latency_ms=20))
        self.site = SandboxSite()
        self.hook = WebhookReceiver([SECRET])
        self.ends = WebhookReceiver([SECRET])

    @classmethod
    @asynccontextmanager
    async def running(cls) -> AsyncIterator["Upstreams"]:
        up = cls()
        async with AsyncExitStack() as stack:
            for each in (up.serper, up.shop, up.apify, up.google, up.site, up.hook, up.ends):
                await stack.enter_async_context(each)
            yield up

    @property
    def requests(self) -> int:
        """Requests of all pipelines and deliveries until now."""
        logs = (self.serper.log, self.shop.log, self.apify.log, self.google.log)
        return sum(each.total for each in logs) + len(self.site.log) + len(self.hook.log) + len(self.ends.log)

    def settings(self, home: Path, database_url: str | None) -> dict[str, Any]:
        home.mkdir(exist_ok=True)
        shop, site = f"127.0.0.1:{self.shop.port}", self.site.endpoint
        listings = urlsplit(self.apify.site_url).netloc
        rule = "    tokens_per_interval: 1000\n    interval_seconds: 1\n    max_concurrent_requests: 8\n"
        rules = home / "policies.yaml"
        rules.write_text(
            "domains:\n"
            + "".join(
                f'  "{each}":\n{rule}    min_delay_ms: 0\n    max_delay_ms: 0\n' for each in (shop, site, listings)
            )
        )
        google = (self.google.accounts_url, self.google.locations_url, self.google.reviews_url)
        urls = (self.serper.url, self.apify.url, *google, self.hook.url(""), self.ends.url(""))
        return {
            "home": home,
            "database_url": database_url,
            "lease_seconds": LEASE if database_url else 30.0,
            "egress_allow": (*(urlsplit(url).netloc for url in urls), shop, site, listings),
            "domain_policies_path": rules,
            "serper_api_key": SecretStr("sandbox-key"),
            "serper_base_url": self.serper.url,
            "apify_token": "sandbox-acme",
            "apify_base_url": self.apify.url,
            "apify_poll_seconds": 0.1,
            "apify_cost_delay_seconds": 0.0,
            "google_accounts_url": google[0],
            "google_locations_url": google[1],
            "google_reviews_url": google[2],
            "google_requests_per_second": 1_000.0,
            "webhook_secret": SecretStr(SECRET),
            "default_webhook_url": SecretStr(self.ends.url("/ends")),
            "files_folder": home / "files",
        }

    def job(self, number: int, *, poison: bool) -> StormJob:
        """The job of this number: each pipeline in turn. `poison`: a page of a scrape kills its process."""
        pages = range(number * PAGES_A_JOB + 1, (number + 1) * PAGES_A_JOB + 1)
        city, state = CITIES[number // 5 % len(CITIES)]
        since = f"2026-03-{1 + number // 5 % 28:02d}T06:{number // 140:02d}:00Z"
        market = {"market_id": f"m{number}", "city": city, "state": state, "since": since, "max_listings": 10}
        paths = [f"/jobs/jsonld/{n}" for n in pages]
        if poison:
            paths.append(f"/jobs/jsonld/{number}?{POISON}=1")
        common = {"target_type": "job_posting", "workspace_id": "acme", "render": "http"}
        match number % 5:
            case 0:
                return StormJob(number, "places", {"keyword": f"bars {number}", "zips": list(ZIPS), "pages": 2})
            case 1:
                return StormJob(
                    number, "products", {"urls": [self.shop.product_url(n) for n in pages], "recrawl": False}
                )
            case 2:
                return StormJob(number, "listings", {"action": "scrape", "scrape": market})
            case 3:
                targets = [{**common, "target_url": self.site.url(path)} for path in paths]
                return StormJob(number, "scrape", {"targets": targets})
            case _:
                return StormJob(number, "reviews", {}, token=f"{self.google.config.prefix}user-{number}")


async def _work(options: Options) -> None:
    async with open_app(new_settings(**options.settings)) as app:
        _arm(app)
        for name, row in (
            ("hook", SinkRow("hook", "webhook", KINDS, options={"url": options.hook})),
            ("lake", SinkRow("lake", "files", options={"every_seconds": 1})),
        ):
            if app.roster.row(name) is None:
                with contextlib.suppress(Conflict):
                    await app.roster.add(row)
        for job in options.jobs:
            if job.token:
                await submit_token(app, Secret(job.token), key=job.key)
            else:
                await app.submit(job.pipeline, job.params, key=job.key)
        async with app.engine(schedules=False) as working:
            while not (options.until_done and await _is_done(app)):
                if working.done():
                    working.result()
                await asyncio.sleep(0.1)


async def _is_done(app: App) -> bool:
    if await app.ledger.has_work():
        return False
    for name in ("hook", "lake", "webhook"):
        at = await app.sinks.position(name)
        if at.cursor < at.last:
            return False
    return not await app.ledger.has_work()


def _arm(app: App) -> None:
    """Let the step of a scrape kill its process after it has read a poisonous page."""
    steps = app.worker._steps
    for kind, step in list(steps._steps.items()):
        if kind.startswith("scrape"):
            steps._steps[kind] = replace(step, run=_deadly(step.run))


def _deadly(run: Any) -> Any:
    async def step(task: Task, fetch: Fetch) -> Outcome:
        outcome: Outcome = await run(task, fetch)
        if POISON in str(task):
            os.kill(os.getpid(), signal.SIGKILL)
        return outcome

    return step


def start(options: Options) -> ForkServerProcess:
    return start_forked(_work, options)
