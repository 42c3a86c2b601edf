"""`make screenshots`: pictures of every page of the dashboard in light, dark and 390 px, from a seeded world.

They are written to `build/screenshots` below the current folder, or to the folder that is given. With `--tour`, only
the pages that the documentation shows are written, to `docs/images`.
"""

import asyncio
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from forager.fetch.browser.chromium import find_chromium
from tests.support.dashboard import World, new_context, open_browser, open_world, settle, sign_in
from tests.support.dashboard_story import at_work, tell_story

TOUR = ("overview", "jobs-done", "tasks-dead", "listings", "products-one", "places", "scrape-scraped", "reviews-one")
"""Pages that the documentation shows."""
FORMS = {"light": (1280, "light"), "dark": (1280, "dark"), "phone": (390, "light")}


def main() -> None:
    given = [each for each in sys.argv[1:] if each != "--tour"]
    tour = "--tour" in sys.argv
    folder = Path(given[0] if given else "docs/images" if tour else "build/screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    program = find_chromium(os.environ.get("FORAGER_CHROMIUM"))
    with (
        tempfile.TemporaryDirectory() as home,
        open_world(Path(home)) as world,
        open_browser(program) as browser,
        ExitStack() as stack,
    ):
        world.run(tell_story(world), patience=300)
        world.run(add_watches(world))
        stack.enter_context(working(world))
        for form, (width, scheme) in FORMS.items():
            context = new_context(browser, world, width=width, color_scheme=scheme)
            page = context.new_page()
            page.goto("/")
            if not tour:
                page.screenshot(path=folder / f"sign-in-{form}.png")
            sign_in(page)
            for path in (*world.pages(), *world.pipeline_pages()):
                name = _name(world, path)
                if tour and name not in TOUR:
                    continue
                page.goto(path)
                settle(page)
                page.screenshot(path=folder / f"{name}-{form}.png")
            context.close()
    sys.stdout.write(f"{len(list(folder.glob('*.png')))} pictures are in {folder}\n")


@contextmanager
def working(world: World) -> Iterator[None]:
    """Run the engine in the loop of the world while the block runs."""
    ended, begun = asyncio.Event(), threading.Event()

    async def work() -> None:
        async with at_work(world):
            begun.set()
            await ended.wait()

    work_done = asyncio.run_coroutine_threadsafe(work(), world.loop)
    while not begun.wait(0.2):
        if work_done.done():
            work_done.result()
    try:
        yield
    finally:
        world.loop.call_soon_threadsafe(ended.set)
        work_done.result(120)


async def add_watches(world: World) -> None:
    """Watch a product whose price changes, with a rule and a channel, so that the page of watches has something."""
    shop, client = world.shop, world.front.client
    assert shop is not None
    (product,) = await world.front.data("/api/v1/products", limit=1)
    bodies: tuple[tuple[str, dict[str, Any]], ...] = (
        ("channels", {"name": "team", "url": f"json://127.0.0.1:{shop.port}/hook", "digest": "1h"}),
        ("watches", {"url": product["url"], "name": "oak-table", "notify": ["team"]}),
        ("watches", {"url": shop.url("/"), "name": "front-page", "select": ".nothing-is-here"}),
        ("rules", {"name": "cheaper", "kind": "product", "when": "price < old.price * 0.95", "notify": ["team"]}),
    )
    for path, body in bodies:
        (await client.post(f"/api/v1/{path}", json=body)).raise_for_status()
    await world.front.work()
    shop.time.advance(9 * 86_400)
    (await client.post("/api/v1/watches/oak-table/check")).raise_for_status()
    await world.front.work()


def _name(world: World, path: str) -> str:
    known = {world.done_job: "done", world.paused_job: "paused", world.dead_task: "dead", world.place: "one"}
    known |= {world.scrape_task: "scraped", world.reviews_job: "one", world.site: "one"}
    known |= {f"/products/{world.product}": "/products/one", f"/listings/{world.listing}": "/listings/one"}
    for key, name in known.items():
        path = path.replace(key, name)
    return path.partition("?")[0].strip("/").replace("/", "-") or "overview"


if __name__ == "__main__":
    main()
