"""Properties 30 and 39 of the scrape seed: how long credentials are remembered, and that nothing shows them."""

import asyncio
import io
import logging
import traceback

import structlog
from hypothesis import given
from hypothesis import strategies as st

from forager.core.clock import SystemClock
from forager.core.errors import ForagerError
from forager.fetch.guard import EgressGuard
from forager.fetch.http.fetcher import HttpFetcher
from forager.fetch.logins import SERVICE_KEY, CredentialClient
from forager.logging import _Lines, configure_logs
from forager.sandbox.credentials import CredentialBackend
from tests.support.clock import FakeClock

KEY = "backend-key-CANARY-77aa"


class Asked:
    """One backend for all examples of a property."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self.runner = runner
        self.backend = CredentialBackend(KEY)
        runner.run(self.backend.start())
        runner.run(self._open())

    async def _open(self) -> None:
        self.fetcher = HttpFetcher(EgressGuard([self.backend.endpoint]), SystemClock(), {SERVICE_KEY: KEY}.get)

    def close(self) -> None:
        self.runner.run(self.fetcher.close())
        self.runner.run(self.backend.stop())


# Feature: scraping-microservices, Property 30: Credential cache TTL behavior
def test_a_cached_login_within_its_lifetime_is_not_requested_again__SC_P30() -> None:
    visits = st.lists(
        st.tuples(st.floats(0, 700), st.sampled_from(["w1", "w2"]), st.sampled_from(["linkedin", "other"])),
        min_size=1,
        max_size=12,
    )

    with asyncio.Runner() as runner:
        asked = Asked(runner)

        @given(visits=visits, ttl=st.floats(0, 600))
        def check(visits: list[tuple[float, str, str]], ttl: float) -> None:
            clock = FakeClock()
            client = CredentialClient(asked.fetcher, clock, asked.backend.base_url, ttl=ttl)
            fetched: dict[tuple[str, str], tuple[float, str]] = {}
            for number, (later, workspace, provider) in enumerate(visits):
                clock.advance(later)
                asked.backend.keep(workspace, provider, {"value": f"v{number}"})
                before = len(asked.backend.log)
                found = runner.run(client.get(workspace, provider))["value"].reveal()
                known = fetched.get((workspace, provider))
                young = known is not None and clock.monotonic() - known[0] < ttl
                assert len(asked.backend.log) - before == (0 if young else 1)
                if known is None or not young:
                    fetched[workspace, provider] = (clock.monotonic(), f"v{number}")
                assert found == fetched[workspace, provider][1]

        check()
        asked.close()


# Feature: scraping-microservices, Property 39: No credentials in logs or metrics
def test_nothing_that_is_logged_about_credentials_shows_them__SC_P39() -> None:
    values = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/=_-", min_size=8, max_size=60)
    level = logging.root.level
    with asyncio.Runner() as runner:
        asked = Asked(runner)

        @given(
            value=values,
            name=st.sampled_from(["password", "li_at", "user", "x"]),
            status=st.sampled_from([0, 200, 500, 404]),
        )
        def check(value: str, name: str, status: int) -> None:
            secret = f"CANARY{value}"
            lines = io.StringIO()
            configure_logs("DEBUG", "json", [KEY], stream=lines)
            log = structlog.get_logger("test")
            asked.backend.keep("w", "p", {name: secret})
            client = CredentialClient(asked.fetcher, FakeClock(), asked.backend.base_url, retries=0)
            if status != 200:
                asked.backend.fail(status)
            try:
                found = runner.run(client.get("w", "p"))
                assert found[name].reveal() == secret
                log.info(f"found {found}", found=found, one=found[name], text=f"{found[name]}")
            except ForagerError as error:
                log.exception("not found", error=error.message, shown=repr(error), trace=traceback.format_exc())
            log.warning(f"sent with {KEY}", how=[f"it was {KEY}."])
            assert lines.getvalue()
            assert secret not in lines.getvalue()
            assert KEY not in lines.getvalue()

        try:
            check()
        finally:
            logging.root.handlers[:] = [h for h in logging.root.handlers if not isinstance(h, _Lines)]
            logging.root.setLevel(level)
            logging.captureWarnings(False)
            structlog.reset_defaults()
            asked.close()
