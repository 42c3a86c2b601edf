"""The scrape service held still for a property: a loop that runs while an example does, and hands that do the engine's.

The hands lease and settle through the ledger, so that every state that a task passes through can be looked at.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
from hypothesis import strategies as st

from forager.api import health
from forager.core.http import Render
from forager.core.ledger import Lease, OwnedLane, Session, Settlement, Want
from forager.core.states import TaskState
from forager.pipelines.scrape.extractors import EXTRACTORS
from forager.pipelines.scrape.job import OF_BROWSER, Result
from tests.support.scrape import Service, open_service

NOT_FOUND: dict[str, Any] = {"error": "There is no such page.", "reason": "not_found", "error_type": "http"}

T = TypeVar("T")
TYPES = {extractor.name: sorted(extractor.fields) for extractor in EXTRACTORS}
_hosts = itertools.count(1)


@dataclass
class Held:
    """The service, and a loop that runs while an example does."""

    runner: asyncio.Runner
    service: Service
    session: Session
    lanes: dict[str, int] = field(default_factory=dict)

    def run(self, work: Awaitable[T]) -> T:
        async def inside() -> T:
            return await work

        return self.runner.run(inside())

    async def call(self, method: str, path: str, **more: Any) -> httpx.Response:
        return await self.service.client.request(method, path, **more)

    async def lease(self, host: str, most: int) -> Sequence[Lease]:
        ledger = self.service.app.ledger
        if host not in self.lanes:
            owned = await ledger.take_lane(self.session, host)
            assert isinstance(owned, OwnedLane)
            self.lanes[host] = owned.id
        return (await ledger.settle_and_lease(self.session, [], [Want(self.lanes[host], most)])).leases

    async def settle(self, lease: Lease, state: TaskState) -> None:
        done = state is TaskState.COMPLETED
        records = (_result(lease),) if done else ()
        settlement = Settlement(lease, state, records=records, **({} if done else NOT_FOUND))
        assert not (await self.service.app.ledger.settle_and_lease(self.session, [settlement], [])).fenced


@contextlib.contextmanager
def held_still(home: Path) -> Iterator[Held]:
    patch = pytest.MonkeyPatch()
    patch.setattr(health, "FRESH", 0.0)
    with asyncio.Runner() as runner, patch.context():
        stack = contextlib.AsyncExitStack()
        service = runner.run(_enter(stack, home))
        yield Held(runner, service, runner.run(service.app.ledger.begin("test")))
        runner.run(stack.aclose())
    patch.undo()


async def _enter(stack: contextlib.AsyncExitStack, home: Path) -> Service:
    return await stack.enter_async_context(open_service(home, max_queue_depth=100_000, lease_seconds=3_600))


def _result(lease: Lease) -> Result:
    task: Any = lease.task
    return Result(
        task_key=task.key(),
        target_type=task.target_type,
        target_url=task.target_url,
        page_url=task.target_url,
        workspace_id=task.workspace_id,
        result={"job_title": f"Title {task.number}"},
        provenance={},
        pages=[task.target_url],
        rendered=False,
        fetched_at="2026-03-14T12:00:00Z",
    )


def new_host() -> str:
    return f"h{next(_hosts)}.example"


urls = st.from_regex(r"https?://[a-z]{1,12}\.[a-z]{2,4}(/[a-z0-9]{0,8}){0,3}(\?[a-z]=[0-9]{1,3})?", fullmatch=True)
renders: st.SearchStrategy[Render] = st.sampled_from(["auto", "http", "browser"])


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """A request of a caller."""
    kind = draw(st.sampled_from(sorted(TYPES)))
    said: dict[str, Any] = {
        "target_type": kind,
        "target_url": draw(urls),
        "workspace_id": draw(st.one_of(st.uuids().map(str), st.from_regex("[a-z0-9_-]{1,40}", fullmatch=True))),
    }
    if draw(st.booleans()):
        said["requested_fields"] = draw(st.lists(st.sampled_from(TYPES[kind]), min_size=1, max_size=8))
    if draw(st.booleans()):
        said["render"] = draw(renders)
        if said["render"] == "http" and OF_BROWSER & set(said.get("requested_fields", ())):
            said["render"] = "auto"  # only a browser can make these
    if draw(st.booleans()):
        said["callback_url"] = draw(st.one_of(st.none(), urls))
    return said


def without_callback(said: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if name != "callback_url"}
