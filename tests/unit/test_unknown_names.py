"""A page of a host that does not exist fails at the first look-up, in every pipeline that is given addresses."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from forager.core.errors import NameUnknown, Permanent, Unreachable
from forager.core.http import Request, Response
from forager.pipelines.sites.app_steps import SiteSteps
from forager.pipelines.sites.job import SiteJob
from forager.pipelines.sites.tasks import ReadSitemap, StartCrawl, VisitPage
from forager.pipelines.watches import app_steps as watches
from forager.pipelines.watches.pipeline import CheckPage
from forager.pipelines.watches.records import PageWatch

URL = "http://nosuch.invalid/"


async def unknown(request: Request) -> Response:
    raise NameUnknown("the name nosuch.invalid does not resolve.")


async def silent(request: Request) -> Response:
    raise Unreachable("the name nosuch.invalid does not resolve (try again).")


def of_sites(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    steps = SiteSteps(cast("Any", SimpleNamespace(database=None, clock=None)))
    running = SimpleNamespace(
        job=SiteJob(url=URL, crawl="c1"), known_before=False, spent=lambda now: None, scope=None, year=2026
    )

    async def of(crawl: str) -> Any:
        return running

    monkeypatch.setattr(steps, "_of", of)
    clock = SimpleNamespace(now=lambda: None)
    monkeypatch.setattr(steps, "_service", SimpleNamespace(database=None, clock=clock))
    options = SiteJob(url=URL, crawl="c1").model_dump(mode="json", exclude={"crawl"})
    return [
        lambda fetch: steps.start(StartCrawl(crawl="c1", url=URL, options=options), fetch),
        lambda fetch: steps.sitemap(ReadSitemap(crawl="c1", url=f"{URL}sitemap.xml"), fetch),
        lambda fetch: steps.visit(VisitPage(crawl="c1", url=URL), fetch),
    ]


def of_watches(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    watch = PageWatch(name="w", url=URL, mode="text", every=3600, ignored=[])

    async def one(database: Any, kind: Any, **key: Any) -> PageWatch:
        return watch

    async def rows(sql: str, values: Any) -> list[Any]:
        return []

    monkeypatch.setattr(watches, "one_row", one)
    steps = watches.WatchSteps(cast("Any", SimpleNamespace(database=SimpleNamespace(fetch=rows))))
    return [lambda fetch: steps.check(CheckPage(watch="w", url=URL), fetch)]


@pytest.mark.parametrize("steps_of", [of_sites, of_watches])
async def test_a_host_that_does_not_exist_is_looked_up_once(steps_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in steps_of(monkeypatch):
        with pytest.raises(Permanent, match="Check the URL"):
            await step(unknown)


@pytest.mark.parametrize("steps_of", [of_sites, of_watches])
async def test_name_servers_that_do_not_answer_are_queried_again(
    steps_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in steps_of(monkeypatch):
        with pytest.raises(Unreachable):
            await step(silent)
