"""The fetcher looks at a site's answer, and not at an API's."""

from forager.core.clock import SystemClock
from forager.core.http import Request
from forager.fetch.guard import EgressGuard
from forager.fetch.http.fetcher import HttpFetcher
from tests.support.origin import Origin, reply

SHELL = b"<html><body><div id=root></div><script src=/app.js></script></body></html>"


async def test_a_sites_answer_is_looked_at_and_an_apis_is_not() -> None:
    async with Origin(lambda _: reply(200, SHELL, Content_Type="text/html")) as origin:
        fetch = HttpFetcher(EgressGuard(allow=[origin.endpoint]), SystemClock(), lambda _: None)
        try:
            assert (await fetch(Request(origin.url(), site=True))).looks == "empty_shell"
            assert (await fetch(Request(origin.url()))).looks == "page"
        finally:
            await fetch.close()
