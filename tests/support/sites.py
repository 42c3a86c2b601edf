"""The engine on web sites: a pipeline that looks at URLs, rules by host, and a worker who finds every test host."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from pydantic import BaseModel

from forager.core.errors import Retry, Transient
from forager.core.hosts import host_of
from forager.core.http import Fetch, Render, Request, Response
from forager.core.outcome import Done, Outcome
from forager.core.pipeline import Breaker, Lane, Pipeline, WhenOpen, step
from forager.core.record import Record
from forager.core.task import Plan, Task
from forager.engine.work.worker import Worker
from forager.fetch.guard import EgressGuard
from forager.fetch.http.fetcher import HttpFetcher
from forager.fetch.robots import RobotsTxt
from forager.ledger.tables.domains import LedgerRobots
from forager.sandbox.site import SandboxSite
from forager.sandbox.wire import LOOPBACK
from tests.support.engine import EngineRig, make_worker

SITE = Lane("*", rate=None, concurrency=20, site=True, slow_by=0.5, slow_for=300.0, retry=Retry(3, first=0.05))
"""Without robots and without pauses, so that a test sets the rule that it is about."""
BREAKER = Breaker(window=10, failures=5, cooldown=0.5)


class Look(Task):
    kind: ClassVar[str] = "look"
    url: str
    render: Render = "http"
    then: str | None = None
    """Another URL, looked at afterwards by the same task."""

    def key(self) -> str:
        return self.url

    def lane(self) -> str:
        return host_of(self.url)


class Seen(Record):
    kind: ClassVar[str] = "seen"
    table: ClassVar[str] = "seen_pages"
    key_field: ClassVar[str] = "url"
    url: str
    final_url: str
    status: int
    rendered: bool


async def look(task: Look, fetch: Fetch) -> Outcome:
    response: Response | None = None
    for url in (task.url, task.then):
        if url is not None:
            response = await fetch(Request(url, render=task.render, timeout=5.0))
            if response.status >= 500:
                raise Transient(f"it answered {response.status}.")
    assert response is not None
    seen = Seen(url=task.url, final_url=response.url, status=response.status, rendered=response.rendered)
    return Done(records=(seen,), cost=0)


class Nothing(BaseModel):
    pass


def looks(*, when_open: WhenOpen = "snooze", timeout: float = 30.0) -> Pipeline:
    steps = (step(Look, look, timeout=timeout, when_open=when_open),)
    return Pipeline("looks", Nothing, lambda _: (), steps, records=(Seen,))


def plans(urls: Iterable[str], **more: Any) -> list[Plan]:
    return [Plan(Look(url=url, **more)) for url in urls]


class RulesByHost:
    """`LaneRules`: one lane for all hosts except those with a lane of their own. Ports are ignored."""

    def __init__(self, every: Lane = SITE, **hosts: Lane) -> None:
        self.every = every
        self.hosts: Mapping[str, Lane] = {name.replace("_", "."): lane for name, lane in hosts.items()}

    def lane_for(self, name: str, used_by: Collection[str] | None = None) -> Lane:
        return replace(self.hosts.get(name.partition(":")[0], self.every), name=name)

    def lane_name(self, url: str) -> str:
        return host_of(url)


def site_worker(rig: EngineRig, sites: Sequence[SandboxSite], rules: RulesByHost, **more: Any) -> Worker:
    """Every name under `.example` is one of the sites, by its port."""

    async def resolve(host: str, port: int) -> list[str]:
        return [LOOPBACK]

    allowed = [f"{host}:{site.port}" for site in sites for host in (LOOPBACK, *HOSTS)]
    fetcher = HttpFetcher(EgressGuard(allowed, resolver=resolve), rig.clock, lambda _: None, limit=1_000)
    rig.fetchers.append(fetcher)
    if more.pop("robots", False):
        more["robots"] = RobotsTxt(LedgerRobots(rig.ledger.database), rig.clock)
    rig.may_rest = True
    fetch = more.pop("wrap", lambda inner: inner)(fetcher)
    return make_worker(rig.ledger, rig.pipelines, fetch, rig.clock, rules=rules, **{"capacity": 200, **more})


HOSTS = tuple(f"{name}.example" for name in "abcd") + tuple(f"s{n}.example" for n in range(100))
