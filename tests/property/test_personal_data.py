"""Property 39 of the scrape specification, its other half: facts about people on a page are in its result and nowhere
else."""

import asyncio
import io
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from html import escape
from pathlib import Path

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from forager.logging import _Lines, configure_logs
from tests.support.origin import Origin, Seen, reply
from tests.support.scrape import QUICK, Service, open_service

QUICKER = QUICK.replace("interval_seconds: 1", "interval_seconds: 0.01")
"""A lane that is taken again waits for a window first."""
WORD = st.text("abcdefghijklmnopqrstuvwxyz", min_size=6, max_size=12).map(lambda text: f"q{text}z")


@dataclass
class World:
    """The whole service on a site that answers with the page of the running example."""

    runner: asyncio.Runner
    stack: AsyncExitStack
    status: int = 200
    page: str = ""

    async def open(self, home: Path) -> "World":
        self.origin = await self.stack.enter_async_context(Origin(self._answer))
        self.service: Service = await self.stack.enter_async_context(
            open_service(home, policies=QUICKER, egress_allow=(self.origin.endpoint,))
        )
        return self

    def _answer(self, seen: Seen) -> bytes:
        if seen.target == "/robots.txt":
            return reply(404)
        return reply(self.status, self.page.encode(), Content_Type="text/html; charset=utf-8")

    async def read(self, target_type: str) -> tuple[str, str]:
        """Return the service's answers about this page, and its metrics."""
        task = await self.service.ask(target_type=target_type, target_url=self.origin.url("/about"))
        await self.service.work()
        told = await self.service.data(f"/{task}")
        return json.dumps(told, ensure_ascii=False), (await self.service.client.get("/metrics")).text


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    level = logging.root.level
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        yield runner.run(World(runner, stack).open(tmp_path))
        runner.run(stack.aclose())
    logging.root.handlers[:] = [each for each in logging.root.handlers if not isinstance(each, _Lines)]
    logging.root.setLevel(level)
    logging.captureWarnings(False)
    structlog.reset_defaults()


def page_about(name: str, email: str, kind: str) -> str:
    said = {"@context": "https://schema.org", "@type": kind, "name": name, "email": email, "jobTitle": f"Baker {name}"}
    words = f"<p>Write to {escape(name)} at <a href='mailto:{email}'>{email}</a>.</p>" * 3
    data = f'<script type="application/ld+json">{json.dumps(said)}</script>'
    return f"<!doctype html><title>{escape(name)}</title>{data}<body><h1>{escape(name)}</h1>{words}"


def wall_before(name: str) -> str:
    """The task's own error quotes it."""
    return f"<!doctype html><title>Sign in</title><p>Sign in to see the page of {escape(name)}</p><input type=password>"


async def until(is_there: Callable[[], bool]) -> None:
    """Wait for a line of the log, which is written a moment after the answer."""
    async with asyncio.timeout(30):
        while not is_there():
            await asyncio.sleep(0.005)


# Feature: scraping-microservices, Property 39: No credentials in logs or metrics
def test_no_personal_data_of_a_page_is_logged_or_counted__SC_P39(world: World) -> None:
    shown = Counter[str]()

    @settings(max_examples=100, deadline=None)
    @given(
        first=WORD,
        last=WORD,
        kind=st.sampled_from([("linkedin_profile", "Person"), ("company_website", "Organization")]),
        end=st.sampled_from(["read", "walled", "missing"]),
    )
    def check(first: str, last: str, kind: tuple[str, str], end: str) -> None:
        lines = io.StringIO()
        configure_logs("DEBUG", "json", stream=lines)
        name, email = f"{first.title()} {last.title()}", f"{first}.{last}@example.org"
        world.status = 404 if end == "missing" else 200
        world.page = wall_before(name) if end == "walled" else page_about(name, email, kind[1])
        told, metrics = world.runner.run(world.read(kind[0]))
        shown[end] += name in told
        world.runner.run(until(lambda: f'"target_type":"{kind[0]}"' in lines.getvalue()))
        logged = lines.getvalue().lower()
        assert f'"target_type":"{kind[0]}"' in logged, "there is a line about the page"
        for personal in (first, last):
            assert personal not in logged
            assert personal not in metrics.lower()

    check()
    assert min(shown["read"], shown["walled"]) >= 5, "the control: what was on a page is in its result or its error"
