"""A seeded Forager behind a port, in a thread, and browsers that look at its dashboard."""

import asyncio
import itertools
import json
import shutil
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, expect, sync_playwright
from pydantic import SecretStr

from forager.api.serve import running
from forager.sandbox import Fault, GoogleConfig, GoogleSandbox, Rule, Tenant
from forager.sandbox.apify import ApifyConfig, ApifySandbox
from forager.sandbox.linked import LinkedConfig, LinkedSandbox
from forager.sandbox.shop import ShopConfig, ShopSandbox
from forager.sandbox.site import SandboxSite
from tests.support.api import JOB, KEY, ONE_QUERY, Front, open_front
from tests.support.attempts import tried
from tests.support.scrape import QUICK
from tests.support.shop import no_pauses

T = TypeVar("T")
PATIENCE_MS = 30_000
BAD_ZIP = "85003"
SCRIPT = (Rule(Fault.MALFORMED, zip=BAD_ZIP, page=1, times=1),)
RUN = "window.__ran=1"
FREE = frozenset(
    (
        *("title", "address", "category", "website", "phone_number", "name", "product_name", "brand", "description"),
        *(
            "property_name",
            "city",
            "neighborhood",
            "comment",
            "reply",
            "reviewer_name",
            "location_name",
            "account_name",
        ),
        *("content", "reason", "message", "seller", "currency_text", "availability_text", "contact_name", "summary"),
    )
)
"""Fields that hold free text of a site."""
WATCH = """
window.__violations = [];
const told = (event) => window.__violations.push(`${event.violatedDirective} ${event.blockedURI}`);
document.addEventListener("securitypolicyviolation", told);
"""


def xss_strings() -> list[str]:
    """150 texts that would like to run: elements, attributes, links, templates, and ways out of each."""
    events = ("onerror", "onload", "onfocus", "onmouseover", "onclick", "ontoggle", "onanimationstart", "onbegin")
    tags = ("img src=x", "svg", "body", "input autofocus", "details open", "iframe src=about:blank", "video src=x")
    made = [f"<{tag} {event}={RUN}>" for tag, event in itertools.product(tags, events)]
    made += [f"<script>{RUN}</script>", f"</script><script>{RUN}</script>", f"<script src=data:text/javascript,{RUN}>"]
    made += [f"{scheme}:{RUN}" for scheme in ("javascript", "JaVaScRiPt", " javascript", "java\tscript", "vbscript")]
    made += [f"data:text/html,<script>{RUN}</script>", f"//evil.example/{RUN}", f"blob:{RUN}"]
    ways = ('"', "'", "`", "\\", "-->", "]]>", "</title>", "</textarea>", "</style>", "${", "{{", "\u0001", "\u2028")
    made += [f"{way}{text}" for way in ways for text in (f"<img src=x onerror={RUN}>", f" onfocus={RUN} autofocus x=")]
    made += [f"${{{RUN}}}", f"{{{{constructor.constructor('{RUN}')()}}}}", f"<a href=javascript:{RUN}>go</a>"]
    made += [f"<math><mtext><img src=x onerror={RUN}>", f"<template><script>{RUN}</script></template>"]
    made += [f"<base href=//evil.example/><p>{n}" for n in range(4)] + [f"<style>*{{x:expression({RUN})}}</style>"]
    made += [f"<object data=javascript:{RUN}>", f"<embed src=javascript:{RUN}>", f"<form action=javascript:{RUN}>"]
    made += [f"<img src=x onerror={RUN} id={n}>" for n in range(150)]
    return tried(list(dict.fromkeys(made))[:150])


@dataclass
class World:
    """A running Forager with jobs, records and a dead letter."""

    url: str
    front: Front
    loop: asyncio.AbstractEventLoop
    done_job: str = ""
    paused_job: str = ""
    dead_task: str = ""
    place: str = ""
    product: int = 0
    listing: int = 0
    reviews_job: str = ""
    scrape_task: str = ""
    site: str = ""
    shop: ShopSandbox | None = None
    upstreams: "Upstreams | None" = None
    troubles: list[str] = field(default_factory=list)

    def run(self, work: Coroutine[Any, Any, T], *, patience: float = 60) -> T:
        """Run something in the loop of the server, and wait for it."""
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self.loop)
        return future.result(patience)

    def pages(self) -> list[str]:
        """The address of every generic page, one object of each kind."""
        return [
            "/",
            "/jobs",
            "/jobs/new?pipeline=places",
            f"/jobs/{self.done_job}",
            f"/jobs/{self.paused_job}",
            f"/tasks/{self.dead_task}",
            "/dead",
            "/records",
            "/records/place",
            f"/records/place/{self.place}",
            "/changes",
            "/schedules",
            "/watches",
            "/lanes",
            "/lanes/serper",
            "/sinks",
            "/system",
            "/keys",
            "/docs",
            "/docs/create_job",
            "/a-page-of-nobody",
        ]

    def pipeline_pages(self) -> list[str]:
        """The address of every page of a pipeline."""
        return [
            "/places",
            "/places/coverage",
            "/places/plan",
            "/listings",
            f"/listings/{self.listing}",
            "/listings/markets",
            "/products",
            f"/products/{self.product}",
            "/products/changes",
            "/products/health",
            "/scrape",
            f"/scrape/{self.scrape_task}",
            f"/tasks/{self.scrape_task}",
            "/reviews",
            f"/reviews/{self.reviews_job}",
            "/sites",
            f"/sites/{self.site}?url=http://{self.site}/",
            *(f"/records/{kind}" for kind in ("listing", "product", "page", "review", "scrape_result", "site_page")),
        ]


async def seed(front: Front) -> dict[str, Any]:
    """Make a job that has ended with one dead letter, one that is paused, and a schedule."""
    client = front.client
    await front.app.series.add()
    done = await front.create(**JOB)
    await front.work()
    paused = await front.create(**ONE_QUERY)
    await client.post(f"/api/v1/jobs/{paused}/pause", json={"reason": "credits are being topped up"})
    schedule = {"pipeline": "places", "params": {**ONE_QUERY, "max_credits": 100}, "cron": "0 3 * * *"}
    await client.put("/api/v1/schedules/nightly", json=schedule)
    dead = (await front.data("/api/v1/dead"))[0]["id"]
    place = (await front.data("/api/v1/records/place", limit=1))[0]["place_uid"]
    await front.app.series.add()
    return {"done_job": done, "paused_job": paused, "dead_task": dead, "place": place}


async def hide(front: Front, texts: Sequence[str]) -> int:
    """Put the texts into every field of every kind that holds free text, and into the change log. Returns the number of
    values."""
    database, hidden = front.app.database, 0
    turn = itertools.cycle(texts)
    for record in {each.kind: each for pipeline in front.app.pipelines.values() for each in pipeline.records}.values():
        texts_of = {name for name, info in record.model_fields.items() if info.annotation in (str, str | None)}
        names = [name for name in record.model_fields if name in FREE & texts_of and name != record.key_field]
        rows = await database.fetch(f"SELECT * FROM {record.table} LIMIT 40")
        for row in rows:
            given = {name: next(turn) for name in names if name in row}
            if not given:
                continue
            changes = ", ".join(f"{name} = :{name}" for name in given)
            key = row[record.key_field]
            await database.write(
                f"UPDATE {record.table} SET {changes} WHERE {record.key_field} = :key", {**given, "key": key}
            )
            hidden += len(given)
            for change in await database.fetch("SELECT id, body FROM changes WHERE key = :key LIMIT 3", {"key": key}):
                if change["body"] is not None:
                    body = json.dumps({**json.loads(change["body"]), **given})
                    at = {"body": body, "id": change["id"]}
                    await database.write("UPDATE changes SET body = :body WHERE id = :id", at)
    return hidden


@asynccontextmanager
async def open_everything(home: Path, script: Sequence[Rule] = ()) -> AsyncIterator[tuple[Front, "Upstreams"]]:
    """One application on simulated upstreams of all pipelines."""
    async with (
        ShopSandbox(ShopConfig(pages=24, categories=3, change_days=(1.0, 1.0), price_share=0.5)) as shop,
        ApifySandbox(
            ApifyConfig(
                rate_per_second=None, queue_seconds=0.0, run_seconds=0.05, settle_seconds=0.0, homes=24, twin_share=0.2
            )
        ) as apify,
        GoogleSandbox(GoogleConfig(quota_per_minute=None, default=Tenant(locations=4))) as google,
        SandboxSite() as pages,
        LinkedSandbox(LinkedConfig(pages=12, section_size=6, traps=False)) as linked,
    ):
        shop_at, linked_at = f"127.0.0.1:{shop.port}", f"127.0.0.1:{linked.port}"
        apify_at, homes_at = urlsplit(apify.url).netloc, urlsplit(apify.site_url).netloc
        rules = home / "policies.yaml"
        # The pipeline of products has a pause of its own, which only a rule for the shop's name takes away.
        rules.write_text(QUICK + no_pauses(shop_at).removeprefix("domains:\n"))
        hosts = {
            "google_accounts_url": google.accounts_url,
            "google_locations_url": google.locations_url,
            "google_reviews_url": google.reviews_url,
        }
        allow = (
            shop_at,
            linked_at,
            apify_at,
            homes_at,
            pages.endpoint,
            *(urlsplit(url).netloc for url in hosts.values()),
        )
        settings = {
            **hosts,
            "apify_token": "sandbox-token",
            "markets_autostart": False,
            "apify_base_url": apify.url,
            "apify_poll_seconds": 0.1,
            "apify_cost_delay_seconds": 0.0,
            "product_retry_delay_seconds": 0.05,
            "webhook_secret": SecretStr("a secret of the test"),
        }
        async with open_front(home, script=script, allow=allow, policies=rules, settings=settings) as front:
            yield front, Upstreams(shop, apify, google, pages, linked_at)


@dataclass(frozen=True)
class Upstreams:
    shop: ShopSandbox
    apify: ApifySandbox
    google: GoogleSandbox
    pages: SandboxSite
    linked: str


async def seed_pipelines(front: Front, upstreams: Upstreams) -> dict[str, Any]:
    """Let every pipeline work once: a shop whose prices change, flats in Boston, reviews, a scraped page, a site."""
    client = front.client

    async def made(path: str, **body: Any) -> dict[str, Any]:
        got = await client.post(f"/api/v1{path}", json=body)
        assert got.status_code in (200, 202), got.text
        return dict(got.json()["data"])

    sitemap = upstreams.shop.url("/sitemap.xml")
    at_once = {"tokens_per_interval": 1_000, "interval_seconds": 1, "crawl_delay_seconds": 0}
    for lane in (f"127.0.0.1:{upstreams.shop.port}", upstreams.linked):
        (await client.patch(f"/api/v1/lanes/{lane}/rules", json=at_once, params={"new": True})).raise_for_status()
    await made("/admin/crawl-jobs", sitemap=sitemap)
    await made("/sites/crawls", url=f"http://{upstreams.linked}/", limit=10)
    reviews = await made("/review-fetch", access_token="sandbox-acme")
    scraped = await made("/scrape", url=upstreams.pages.url("/jobs/jsonld/1"), formats=["markdown", "html"])
    await front.app.database.write("DELETE FROM market_configs WHERE id <> 'boston'")
    boston = await made("/admin/markets/boston/scrape")
    async with asyncio.timeout(60):
        while (await front.data(f"/api/v1/jobs/{boston['job_id']}"))["finished_at"] is None:
            await front.app.worker.run(until_idle=True)
            await asyncio.sleep(0.05)
    upstreams.shop.time.advance(2 * 86_400)
    await made("/admin/crawl-jobs", sitemap=sitemap)
    await front.work()
    (product,) = await front.data("/api/v1/products", limit=1)
    listings = await front.data("/api/v1/listings", limit=1)
    return {
        "product": product["id"],
        "listing": listings[0]["id"],
        "reviews_job": reviews["job_id"],
        "scrape_task": scraped.get("task_id") or scraped["id"],
        "site": upstreams.linked,
    }


@contextmanager
def open_world(home: Path) -> Iterator[World]:
    """Serve a seeded Forager from a thread while the block runs."""
    ready: Future[World] = Future()
    stop: list[Callable[[], object]] = []

    async def serve() -> None:
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        stop.append(lambda: loop.call_soon_threadsafe(ended.set))
        async with (
            open_everything(home, SCRIPT) as (front, upstreams),
            running(front.api, host="127.0.0.1", port=0) as url,
        ):
            known = await seed_pipelines(front, upstreams) | await seed(front)
            ready.set_result(World(url, front, loop, shop=upstreams.shop, upstreams=upstreams, **known))
            await ended.wait()

    def work() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error)
            raise

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield ready.result(120)
    finally:
        if thread.is_alive():
            for each in stop:
                each()
        thread.join(60)


@contextmanager
def open_browser(program: Path) -> Iterator[Browser]:
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=str(program), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def new_context(browser: Browser, world: World, *, width: int = 1280, **options: Any) -> BrowserContext:
    """A browser profile of its own. Whatever goes wrong in it is added to `world.troubles`."""
    context = browser.new_context(viewport={"width": width, "height": 900}, base_url=world.url, **options)
    context.set_default_timeout(PATIENCE_MS)
    context.add_init_script(WATCH)

    def console(said: ConsoleMessage) -> None:
        where = said.location.get("url", "")
        # The engine of this world works only on request, so that its health may be red: a 503 is right then.
        if said.type == "error" and not where.endswith("/health"):
            world.troubles.append(f"{said.text} {where}")

    def box(shown: Dialog) -> None:
        world.troubles.append(f"dialog: {shown.message}")
        shown.dismiss()

    context.on("console", console)
    context.on("dialog", box)
    context.on("weberror", lambda wrong: world.troubles.append(f"error: {wrong.error}"))
    return context


def sign_in(page: Page, key: str = KEY) -> None:
    page.goto("/")
    page.get_by_label("Key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Overview").wait_for()


def settle(page: Page) -> None:
    """Wait until the page has loaded what it shows."""
    expect(page.locator("h1")).not_to_be_empty(timeout=PATIENCE_MS)
    expect(page.locator(".skeleton, [aria-busy=true]")).to_have_count(0, timeout=PATIENCE_MS)


AXE = "4.10.3"


def axe_source() -> str:
    """Return the script of axe-core, installed for the test. Skips the test if it cannot be installed."""
    folder = Path(".venv/axe")
    script = folder / "node_modules/axe-core/axe.min.js"
    npm = shutil.which("npm")
    if not script.exists() and npm:
        command = [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), f"axe-core@{AXE}"]
        subprocess.run(command, check=False, timeout=120, capture_output=True)
    if not script.exists():
        pytest.skip(f"axe-core {AXE} cannot be installed here")
    return script.read_text()
