"""Plain HTTP first, a browser when the page needs one: what each look means for the lane."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from forager.core.http import Fetch, Request, Response
from forager.core.pipeline import Breaker
from forager.fetch.page_classifier import looks as looks_like
from forager.sandbox.scrape_pages import SiteAnswer, retry_after
from forager.sandbox.site import SandboxSite
from tests.contract.engine.conftest import OpenRig
from tests.support.sites import SITE, RulesByHost, looks, plans, site_worker

pytestmark = pytest.mark.one_store  # which way a page is fetched is decided by the engine


def usual_challenge() -> SiteAnswer:
    """Return a page that checks for a browser, as one of the big bot walls writes it."""
    text = "<title>Just a moment...</title><script src='/cdn-cgi/challenge-platform/h/b/orchestrate/jsch/v1'></script>"
    return SiteAnswer(403, f"<!doctype html><html><head>{text}</head><body></body></html>".encode())


def rendering(asked: list[Request]) -> Callable[[Fetch], Fetch]:
    """Stands where the browser will: what a request for it is answered with does not matter here."""

    def wrap(inner: Fetch) -> Fetch:
        async def fetch(request: Request) -> Response:
            asked.append(request)
            response = await inner(replace(request, render="http"))
            return replace(response, rendered=True, looks="page") if request.render == "browser" else response

        return fetch

    return wrap


@pytest.mark.parametrize(
    ("path", "ways"),
    [("/page/1", ["http"]), ("/shell", ["http", "browser"]), ("/challenge", ["http", "browser"])],
)
async def test_auto_goes_to_a_browser_only_when_the_page_needs_one__SC_3(
    open_rig: OpenRig, path: str, ways: list[str]
) -> None:
    async with SandboxSite() as site:
        rig = await open_rig(looks())
        asked: list[Request] = []
        job = await rig.submit(plans([site.url(path, host="a.example")], render="auto"), "looks")
        await site_worker(rig, [site], RulesByHost(), wrap=rendering(asked)).run(until_idle=True)
        assert [request.render for request in asked] == ways
        assert rig.job(job)["state"] == "completed"
        assert len(site.visits(path)) == len(ways), "each of the two is paid for"


@pytest.mark.parametrize("status", [403, 429, 503])
async def test_a_challenge_before_the_browser_neither_slows_nor_opens_the_breaker__SC_3(
    open_rig: OpenRig, status: int
) -> None:
    async with SandboxSite() as site:
        site.answers["/x"] = challenge = replace(usual_challenge(), status=status, headers=retry_after(60))
        assert looks_like(status, challenge.headers, challenge.body) == "challenge"
        rig = await open_rig(looks())
        asked: list[str] = []

        def wrap(inner: Fetch) -> Fetch:
            async def fetch(request: Request) -> Response:
                asked.append(request.render)
                if request.render == "browser":
                    return Response(request.url, 200, {}, b"<p>in</p>", datetime.now(UTC), 5, rendered=True)
                return await inner(request)

            return fetch

        urls = [site.url(f"/x?n={n}", host="a.example") for n in range(12)]
        lane = replace(SITE, breaker=Breaker(10, 5, 60.0))
        job = await rig.submit(plans(urls, render="auto"), "looks")
        await site_worker(rig, [site], RulesByHost(lane), wrap=wrap).run(until_idle=True)
        assert rig.job(job)["completed"] == 12
        assert asked.count("browser") == 12


async def test_a_task_that_waits_for_its_lane_between_two_requests_does_not_repeat_the_first(open_rig: OpenRig) -> None:
    async with SandboxSite() as site:
        rig = await open_rig(looks())
        first, second = site.url("/page/1", host="a.example"), site.url("/page/2", host="a.example")
        job = await rig.submit(plans([first], then=second), "looks")
        await site_worker(rig, [site], RulesByHost(replace(SITE, rate=1, per=6.0, burst=1))).run(until_idle=True)
        assert rig.states(job)[first] == "completed"
        assert [v.path for v in site.log] == ["/page/1", "/page/2"]
        assert rig.tasks(job)[first]["attempt"] == 1
