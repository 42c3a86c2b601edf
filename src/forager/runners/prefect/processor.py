"""Start and order the runs of `process_job_batches`: one works, at most one waits to take over.

`create_scraping_job` starts a processor for each job that it creates. A hundred jobs must not become a hundred waiting
processes, and a job must not be missed by a processor that is just ending. Two lock files of the data folder solve
both: `works` belongs to the run that works, `waits` to the run that comes next. A started run that finds `waits` taken
may end at once: the run that waits has not looked for jobs yet, so it will find the new one. The system releases the
locks of a process that dies.
"""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from prefect import get_client, get_run_logger
from prefect.deployments import arun_deployment
from prefect.exceptions import ObjectNotFound
from prefect.runtime import deployment

from forager.core.errors import StoreLocked
from forager.ledger.sqlite.lock import StoreLock
from forager.settings import Settings

DEPLOYMENT = "process-job-batches/process-batches"
PROCESS = "process"
"""The argument of `python -m forager.runners.prefect` that runs a processor instead of serving the deployments."""
LOG_FILE = "prefect-processor.log"
LOOK_EVERY = 0.5
API_URL = "PREFECT_API_URL"


@asynccontextmanager
async def turn_to_work(home: Path, *, skip_if_waiting: bool) -> AsyncIterator[bool]:
    """Wait until no other processor of this data folder works, and hold its lock while the block runs.

    Yields False, without waiting, if `skip_if_waiting` and another processor waits already.
    """
    works, waits = StoreLock(home / "pids" / "prefect-works"), StoreLock(home / "pids" / "prefect-waits")
    if not _taken(works):
        if not _taken(waits) and skip_if_waiting:
            yield False
            return
        get_run_logger().info("another processor works on the jobs in %s; waiting until it ends", home)
        try:
            while not _taken(works):  # noqa: ASYNC110 - a lock between processes
                await asyncio.sleep(LOOK_EVERY)
        finally:
            waits.release()  # before the first look for jobs: see above
    try:
        yield True
    finally:
        works.release()


async def start_processor(settings: Settings) -> str:
    """Start a processor that outlives this flow run. Returns what was started.

    A flow run of a deployment starts the deployment `process-batches`, which has the same settings. Any other program
    starts a process of this machine with its own environment.
    """
    if deployment.id is not None and await _deployed():
        run = await arun_deployment(DEPLOYMENT, parameters={"skip_if_waiting": True}, timeout=0, as_subflow=False)
        return f"the flow run {run.name} of the deployment {DEPLOYMENT}"
    log = settings.home / LOG_FILE
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT__")}
    if settings.prefect_api_url:
        environment[API_URL] = settings.prefect_api_url
    with log.open("ab") as written:
        process = subprocess.Popen(  # noqa: ASYNC220, S603 - starting it takes a millisecond; our own module
            [sys.executable, "-m", "forager.runners.prefect", PROCESS],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            start_new_session=True,  # Ctrl-C in the terminal of the caller must not reach it
        )
    threading.Thread(target=process.wait, daemon=True).start()  # a caller that lives on must not collect zombies
    return f"process {process.pid} (log: {log})"


async def _deployed() -> bool:
    try:
        async with get_client() as client:
            await client.read_deployment_by_name(DEPLOYMENT)
    except ObjectNotFound:
        return False
    return True


def _taken(lock: StoreLock) -> bool:
    try:
        lock.take()
    except StoreLocked:
        return False
    return True
