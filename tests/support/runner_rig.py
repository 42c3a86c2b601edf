"""A runner under test: real worker processes on a real PostgreSQL, with the simulated Google as upstream.

The reviews pipeline has three lanes in three queues, so that a job needs the shifts of all of them.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
from amqp.exceptions import ChannelError
from pydantic import SecretStr

from forager.app.application import App
from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.core.secret import Secret
from forager.ledger.reports import JobReport
from forager.pipelines.reviews.wiring import submit_token
from forager.runners.celery.dispatch import Dispatcher, plain_celery, sending_shifts
from forager.sandbox import Band, GoogleConfig, GoogleSandbox, Tenant
from forager.settings import Settings
from tests.support.brokers import Broker
from tests.support.forked_command import Command, start_module
from tests.support.kafka import MockKafka

QUEUES = ("account-worker", "location-worker", "review-worker", "scraping", "maintenance", "celery")
LEASE = 3.0
EXPIRES = 5.0
PATIENCE = 90.0
FEW = (Band(1.0, 0, 40),)


class RunnerRig:
    """Submits jobs and looks at them, as `forager up` would; the work is done by processes that `start_worker` starts.
    With a broker they are Celery workers or Kafka workers, else plain ones."""

    def __init__(self, app: App, google: GoogleSandbox, broker: Broker | None, dispatcher: Dispatcher | None) -> None:
        self.app = app
        self.google = google
        self.broker = broker
        self.dispatcher = dispatcher
        self.workers: list[subprocess.Popen[bytes] | Command] = []
        self._started = False
        self.output = Path(app.settings.home) / "workers.log"

    def start_worker(self, *options: str, **environment: str) -> subprocess.Popen[bytes] | Command:
        """Start another worker process, with a process group of its own. The first one is started by its command line;
        later ones are forked from a process that has loaded the application, which saves them a second."""
        module, *arguments = [*self._command(), *options]
        environment = {**self._environment(), **environment}
        worker: subprocess.Popen[bytes] | Command
        if self._started:
            worker = start_module(module, arguments, environment=environment, output=self.output)
        else:
            with self.output.open("ab") as output:
                worker = subprocess.Popen(
                    [sys.executable, "-m", module, *arguments],
                    env=environment,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
        self._started = True
        self.workers.append(worker)
        return worker

    def start_beat(self) -> Command:
        """Start Celery beat, with a process group of its own."""
        with tempfile.NamedTemporaryFile(delete=False) as file:
            arguments = ["-A", "forager.runners.celery", "beat", "-s", f"{file.name}-beat"]
        return start_module("celery", arguments, environment=self._environment(), output=self.output)

    def keep_working(self) -> None:
        """Start a worker unless one runs."""
        if all(worker.poll() is not None for worker in self.workers):
            self.start_worker()

    def kill_workers(self) -> int:
        """Kill every worker with all its children, and return how many workers there were."""
        living = [worker for worker in self.workers if worker.poll() is None]
        for worker in living:
            try:
                os.killpg(worker.pid, signal.SIGKILL)
            except ProcessLookupError:  # forked a moment ago, and not yet in a group of its own
                os.kill(worker.pid, signal.SIGKILL)
            worker.wait()
        self.workers.clear()
        return len(living)

    async def submit(self) -> UUID:
        return (await submit_token(self.app, Secret("sandbox-acme"))).job

    async def report(self, job: UUID) -> JobReport:
        return await self.app.reports.job(job)

    async def until(self, job: UUID, *, completed: int | None = None, state: str = "completed") -> JobReport:
        """Wait until the job is in this state, or has `completed` completed tasks."""
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    seen = await self.report(job)
                    if seen.state == state or (completed is not None and seen.completed >= completed):
                        return seen
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"{seen}; workers: {self.output.read_text()[-4_000:]}") from None

    async def started(self, job: UUID) -> Sequence[int]:
        """Return the number of attempts of each task of a job."""
        rows = await self.app.database.fetch(
            "SELECT t.attempt FROM tasks t JOIN jobs j ON j.id = t.job_id WHERE j.public_id = :job", {"job": str(job)}
        )
        return [row["attempt"] for row in rows]

    async def busy_workers(self) -> set[int]:
        """Return the process ids of the workers that run tasks now, by themselves or in a child."""
        rows = await self.app.database.fetch("SELECT name FROM sessions WHERE id IN (SELECT session_id FROM queue)")
        own, found = {worker.pid for worker in self.workers}, set[int]()
        for row in rows:
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(int(row["name"].rpartition(":")[2]))
                found |= own & {process.pid, process.ppid()}
        return found

    @property
    def one_at_a_time(self) -> list[str]:
        """Options of a Celery worker that runs one shift at a time."""
        return ["-c", "1"] if self.dispatcher is not None else []

    @property
    def celery(self) -> Any:
        """A Celery application that sends to the broker."""
        assert self.broker is not None
        return plain_celery(self.broker.url)

    async def messages(self, queue: str = "celery") -> int:
        """Return the number of messages that wait in a queue of the broker."""

        def count() -> int:
            with self.celery.connection_for_read() as connection:
                try:
                    return int(connection.default_channel.queue_declare(queue, passive=True).message_count)
                except ChannelError:  # Redis has no empty queues
                    return 0

        return await asyncio.to_thread(count)

    def _command(self) -> list[str]:
        if self.dispatcher is None:
            queues = [word for queue in QUEUES[:3] for word in ("--queue", queue)]
            return ["forager", "worker", *(["--runner", "kafka", *queues] if self.broker else [])]
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "INFO"]
        return ["celery", "-A", "forager.runners.celery", "worker", "-c", "3", "-Q", ",".join(QUEUES), *quiet]

    def _environment(self) -> dict[str, str]:
        settings = self.app.settings
        own = {name: value for name, value in os.environ.items() if not name.startswith("FORAGER_")}
        given = {
            "home": str(settings.home),
            "zip_table": str(zip_table(settings.home)),
            "database_url": settings.database_url or "",
            "broker_url": self.broker.url if self.broker and self.dispatcher else "",
            **(kafka_settings(self.broker) if isinstance(self.broker, MockKafka) else {}),
            "lease_seconds": str(settings.lease_seconds),
            "shutdown_seconds": str(settings.shutdown_seconds),
            "shift_seconds": str(settings.shift_seconds),
            "shift_idle_seconds": str(settings.shift_idle_seconds),
            "egress_allow": ",".join(settings.egress_allow),
            "google_accounts_url": self.google.accounts_url,
            "google_locations_url": self.google.locations_url,
            "google_reviews_url": self.google.reviews_url,
            "google_requests_per_second": "5000",
        }
        return {**own, **{f"FORAGER_{name.upper()}": str(value) for name, value in given.items() if value != ""}}


def zip_table(home: Path) -> Path:
    """Path of the rig's small ZIP table. Each process would need a second for the one that ships."""
    return home / "zips.csv"


def kafka_settings(broker: MockKafka) -> dict[str, Any]:
    """The mock creates topics by itself; a dead worker's partitions are given to others soon."""
    return {
        "kafka_brokers": broker.url,
        "kafka_partitions": 0,
        "kafka_tasks": True,
        "kafka_session_seconds": 3.0,
        "kafka_timeout_seconds": 10.0,
    }


@asynccontextmanager
async def runner_rig(database_url: str, broker: Broker | None) -> AsyncIterator[RunnerRig]:
    """A rig without workers. At the end, whatever it started is killed."""
    tenant = Tenant(accounts=2, locations=30, reviews=FEW)
    config = GoogleConfig(quota_per_minute=None, default=tenant, latency_ms=40, latency_sigma=0.4)
    with tempfile.TemporaryDirectory(prefix="runner-") as home:
        async with (
            GoogleSandbox(config) as google,
            open_app(_settings(home, database_url, google, broker)) as app,
            AsyncExitStack() as stack,
        ):
            dispatcher = None
            if isinstance(broker, MockKafka):  # it publishes, and leaves the work to Kafka workers
                app.worker.serve(())
                await stack.enter_async_context(app.engine())
            elif broker is not None:  # what `up --runner celery` does
                dispatcher = await stack.enter_async_context(sending_shifts(app, expires=EXPIRES))
                await stack.enter_async_context(app.engine())
            rig = RunnerRig(app, google, broker, dispatcher)
            stack.callback(rig.kill_workers)
            yield rig


def _settings(home: str, database_url: str, google: GoogleSandbox, broker: Broker | None) -> Settings:
    hosts = (google.accounts_url, google.locations_url, google.reviews_url)
    zip_table(Path(home)).write_text("zip,state,active\n85001,AZ,true\n")
    return new_settings(
        home=Path(home),
        zip_table=zip_table(Path(home)),
        database_url=database_url,
        **(kafka_settings(broker) if isinstance(broker, MockKafka) else {}),
        broker_url=None if broker is None or isinstance(broker, MockKafka) else SecretStr(broker.url),
        shifts=3,
        shift_seconds=20.0,
        shift_idle_seconds=0.5,
        shutdown_seconds=5.0,
        lease_seconds=LEASE,
        google_accounts_url=hosts[0],
        google_locations_url=hosts[1],
        google_reviews_url=hosts[2],
        google_requests_per_second=5_000.0,
        egress_allow=tuple(url.removeprefix("http://") for url in hosts),
    )
