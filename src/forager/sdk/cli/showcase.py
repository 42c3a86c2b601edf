"""A pipeline's part of `forager demo`, in which all pipelines run at once in one data folder.

A feature declares a `Showcase`: the simulated upstream that it needs, the jobs of each look, and what to show at the
end. The command runs them together, kills the worker in the middle, and writes one report.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import orjson

from forager.sdk.cli.client import Api
from forager.sdk.cli.demo import CrashDemo
from forager.sdk.cli.render import GENERAL, Job, Words

DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class DemoWorld:
    """The simulated upstreams of all pipelines, running in one process."""

    announced: Mapping[str, Mapping[str, Any]]
    """The announced addresses, by name of the upstream."""
    logs: Path
    """Folder with the request log of every upstream that writes one: `<name>.jsonl`."""

    def url(self, upstream: str, name: str = "url") -> str:
        return str(self.announced[upstream][name])

    def log(self, upstream: str) -> Path:
        return self.logs / f"{upstream}.jsonl"

    async def advance(self, upstream: str, days: float) -> None:
        """Move the time of an upstream; its prices, rents and listings follow."""
        await self._post(upstream, "clock", {"advance_seconds": days * DAY})

    async def change(self, upstream: str, **settings: Any) -> None:
        """Change settings of an upstream while it runs."""
        await self._post(upstream, "config", settings)

    async def _post(self, upstream: str, route: str, body: Any) -> None:
        request = Request(f"{self.url(upstream)}/_sandbox/{route}", data=orjson.dumps(body), method="POST")  # noqa: S310 - our own sandbox
        await asyncio.to_thread(lambda: urlopen(request).read())  # noqa: S310 - our own sandbox


@dataclass(frozen=True, slots=True)
class CostLine:
    """Estimate and actual cost of all jobs of a pipeline, in one unit."""

    unit: str
    """`credits`, `pages`, `USD`."""
    estimated: float | None
    spent: float
    note: str = ""
    is_limit: bool = True
    """True if the estimate is an upper limit; False if it is an expected value."""

    def line(self) -> str:
        """`558 of at most 915 credits, 357 saved by early exit`."""
        relation = "of at most" if self.is_limit else "against an expected"
        known = "" if self.estimated is None else f" {relation} {_amount(self.estimated, self.unit)}"
        text = f"{_amount(self.spent, self.unit)}{known}"
        return f"{text}, {self.note}" if self.note else text


def _amount(value: float, unit: str) -> str:
    return f"${value:,.2f}" if unit == "USD" else f"{value:,.0f} {unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The result of one pipeline, for the summary and the report."""

    figures: Sequence[tuple[str, str]]
    """Names and values for people, the most important first."""
    spending: CostLine | None = None
    sections: Sequence[str] = ()
    """HTML of its sections in the report, from `sdk/cli/report_html.py`. All scraped text in it is escaped."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """The same for programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Showcase:
    """The part of one pipeline."""

    title: str
    upstream: str
    """Name of the simulated upstream: `serper`, `site`, or a name of `sandbox.process.PROGRAMS`."""
    config: Mapping[str, Any]
    """Settings of the upstream."""
    settings: Callable[[DemoWorld], Mapping[str, Any]]
    """`settings(world)`: settings, by name, that point Forager at the upstream."""
    start: Callable[[Api, DemoWorld, int], Awaitable[Sequence[str]]]
    """`start(api, world, look)`: create the jobs of a look (0 is the first). Returns their ids."""
    found: Callable[[Api, DemoWorld, Sequence[Sequence[Job]]], Awaitable[Found]]
    """`found(api, world, looks)`: the result, given the finished jobs of every look."""
    looks: int = 1
    follow_up: bool = False
    """True if its jobs cause further jobs of the pipeline. The demo waits for these as well: its upstreams end with
    it."""
    kinds: tuple[str, ...] = ()
    """Kinds of its records, whose newest one is shown while it works."""
    lanes: Callable[[DemoWorld], Mapping[str, Mapping[str, Any]]] = lambda _: {}
    """`lanes(world)`: rules of its domains in the policy file, which remove the pauses for the simulated site."""
    logs: bool = False
    """True if the upstream writes a log of its requests."""
    words: Words = GENERAL
    crash: CrashDemo | None = None
    """Audits the first job with the upstream's log after the crash."""
