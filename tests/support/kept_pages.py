"""A pipeline that keeps the pages it fetches and reads them from the store again, and a process of it to be killed.

`python -m tests.support.kept_pages '<options as JSON>'` works on the embedded store until nothing is left.
"""

import asyncio
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel

from forager.core.clock import SystemClock
from forager.core.errors import Retry
from forager.core.hosts import host_of
from forager.core.http import Fetch, Request
from forager.core.outcome import Done, Outcome
from forager.core.pipeline import Lane, Pipeline, step
from forager.core.record import Record
from forager.core.storage import read_or_fetch
from forager.core.task import Plan, Task
from forager.storage.pages.local import LocalBlobs
from tests.support.engine import open_sqlite

READING = Lane("reading", rate=None, retry=Retry(0))


class Keep(Task):
    kind: ClassVar[str] = "keep"
    url: str

    def key(self) -> str:
        return self.url

    def lane(self) -> str:
        return host_of(self.url)


class Reread(Task):
    kind: ClassVar[str] = "reread"
    blobs: ClassVar[tuple[str, ...]] = ("blob",)
    url: str
    blob: str

    def key(self) -> str:
        return self.url

    def lane(self) -> str:
        return READING.name


class KeptPage(Record):
    kind: ClassVar[str] = "kept_page"
    table: ClassVar[str] = "kept_pages"
    key_field: ClassVar[str] = "url"
    blobs: ClassVar[tuple[str, ...]] = ("blob",)
    url: str
    blob: str | None = None
    reread: str | None = None


async def keep(task: Keep, fetch: Fetch) -> Outcome:
    response = await fetch(Request(task.url, keep=True, timeout=5.0))
    children = [Plan(Reread(url=task.url, blob=response.blob))] if response.blob else []
    return Done(records=(KeptPage(url=task.url, blob=response.blob),), tasks=children, cost=0)


async def reread(task: Reread, fetch: Fetch) -> Outcome:
    response = await read_or_fetch(fetch, task.blob, Request(task.url, timeout=5.0))
    body = response.body.decode()
    return Done(records=(KeptPage(url=task.url, blob=response.blob, reread=body),), cost=0)


class Nothing(BaseModel):
    pass


def keeping() -> Pipeline:
    steps = (step(Keep, keep), step(Reread, reread))
    lanes = (Lane("127.0.0.1:*", rate=None, concurrency=10), READING)
    return Pipeline("keeping", Nothing, lambda _: (), steps, records=(KeptPage,), lanes=lanes)


def keep_plans(urls: Iterable[str]) -> list[Plan]:
    return [Plan(Keep(url=url)) for url in urls]


@dataclass(frozen=True)
class KeepingOptions:
    folder: str
    site: str

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.support.kept_pages", json.dumps(asdict(self))]


async def work(options: KeepingOptions) -> None:
    rig = await open_sqlite(Path(options.folder), [keeping()])
    blobs = LocalBlobs(Path(options.folder) / "blobs", SystemClock(), segment_bytes=64 * 1024)
    await rig.worker(options.site, blobs=blobs).run(until_idle=True)
    await blobs.close()
    await rig.close()


def main(argument: str) -> Any:
    asyncio.run(work(KeepingOptions(**json.loads(argument))))


if __name__ == "__main__":
    main(sys.argv[1])
