"""The same places job by plain workers and by Celery shifts; and no-op tasks through plain Celery. The broker is a
private Redis."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from pydantic import SecretStr

from bench.support.peers import ROOT
from bench.support.places import places_app, zip_codes
from bench.support.stores import Store, Stores
from bench.support.upstream import KEY, Upstream
from forager.app.application import App
from forager.runners.celery.dispatch import Dispatcher, sending_shifts
from tests.support.brokers import Redis

PROCESSES = 2


@dataclass(frozen=True)
class Ran:
    seconds: float
    """From the job's creation to the commit of its last task."""
    messages: int
    """Shifts that were sent, including those before the job."""
    tasks: int


@contextlib.contextmanager
def redis() -> Iterator[Redis]:
    broker = Redis()
    broker.start()
    try:
        yield broker
    finally:
        broker.close()


async def run_places(stores: Stores, serper: Upstream, tasks: int, broker: Redis | None) -> Ran:
    """Let two processes do a job of this number of queries: plain workers, or the children of a Celery worker."""
    store = stores.new("postgres")
    url = None if broker is None else SecretStr(broker.url)
    try:
        async with places_app(store, serper, broker_url=url, shifts=PROCESSES) as app, _dispatching(app) as dispatcher:
            with _workers(store, serper, broker):
                await _finished(app, 1)  # the workers are up
                started = time.perf_counter()
                await _finished(app, tasks)
                seconds = time.perf_counter() - started
                return Ran(seconds, dispatcher.sent if dispatcher else 0, tasks)
    finally:
        stores.drop(store)


def plain_celery(broker: Redis, tasks: int) -> float:
    """Return the no-op tasks per second of plain Celery, sent and done."""
    script = ROOT / "bench" / "peers" / "run_celery.py"
    command = [sys.executable, str(script), broker.url, str(tasks), str(PROCESSES)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return tasks / float(json.loads(done.stdout.splitlines()[-1])["seconds"])


@contextlib.asynccontextmanager
async def _dispatching(app: App) -> AsyncIterator[Dispatcher | None]:
    """Do what `forager up --runner celery` does besides the API."""
    if app.settings.broker_url is None:
        yield None
        return
    async with sending_shifts(app) as dispatcher, app.engine():
        yield dispatcher


async def _finished(app: App, tasks: int) -> None:
    job = (await app.submit("places", {"keyword": f"bars {tasks}", "zips": zip_codes(tasks), "pages": 1})).job
    while (report := await app.reports.job(job)).state != "completed":
        assert report.failed == 0, report
        await asyncio.sleep(0.05)


@contextlib.contextmanager
def _workers(store: Store, serper: Upstream, broker: Redis | None) -> Iterator[None]:
    plain = [["forager", "worker"]] * PROCESSES
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "ERROR"]
    celery = [["celery", "-A", "forager.runners.celery", "worker", "-c", str(PROCESSES), "-Q", "celery", *quiet]]
    with contextlib.ExitStack() as stack:
        for command in plain if broker is None else celery:
            process = subprocess.Popen(
                [sys.executable, "-m", *command],
                env=_environment(store, serper, broker),
                cwd=store.home,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
        yield


def _environment(store: Store, serper: Upstream, broker: Redis | None) -> dict[str, str]:
    given = {
        "HOME": str(store.home),
        "DATABASE_URL": store.url or "",
        "SERPER_BASE_URL": serper.url,
        "SERPER_API_KEY": KEY,
        "EGRESS_ALLOW": serper.netloc,
        "BROKER_URL": broker.url if broker else "",
        "LOG_LEVEL": "ERROR",
    }
    path = os.pathsep.join(filter(None, [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    own = {name: value for name, value in os.environ.items() if not name.startswith("FORAGER_")}
    return {**own, "PYTHONPATH": path, **{f"FORAGER_{name}": value for name, value in given.items() if value}}
