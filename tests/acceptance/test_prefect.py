"""The Prefect flows on a real Prefect server, in real processes, against the sandbox."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from pydantic import SecretStr

from forager.api.serve import serve
from forager.app import open_app
from forager.config import new_settings
from forager.sandbox import FULL_DENSITY, SerperConfig, SerperSandbox
from forager.sandbox.audit import audit
from tests.support.api import KEY
from tests.support.auditor import PostgresTables, Tables
from tests.support.engine import until
from tests.support.prefect_process import PATIENCE, FlowProcess
from tests.support.prefect_server import QUIET, PrefectServer, require_prefect

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]

ZIPS = tuple(f"{85001 + n}" for n in range(20))
BATCH = 5
LEASE = 5.0


@pytest.fixture(scope="module")
def prefect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    require_prefect()
    server = PrefectServer(tmp_path_factory.mktemp("prefect") / "server")
    server.begin()
    try:
        server.wait()
        yield server
    finally:
        server.kill()


async def test_beside_up_on_the_embedded_store_the_flows_create_and_watch__PL_16(
    prefect: PrefectServer, tmp_path: Path
) -> None:
    async with _sandbox() as sandbox:
        environment = _environment(prefect, sandbox, tmp_path)
        with _flow_process(environment) as flows:
            settings = new_settings(
                home=tmp_path,
                zip_table=Path(environment["FORAGER_ZIP_TABLE"]),
                serper_api_key=SecretStr(sandbox.config.key),
                serper_base_url=sandbox.url,
                egress_allow=(urlsplit(sandbox.url).netloc,),
            )
            async with open_app(settings) as app, serve(app, host="127.0.0.1", port=0, key=KEY):
                flows.call("create_scraping_job", keyword="bars", zips=ZIPS[:3], pages=1)
                made = await asyncio.to_thread(flows.result)
                flows.call("process_job_batches")
                async with app.engine():
                    assert await asyncio.to_thread(flows.result) == 0, "`up` does the work"
                job = await app.reports.job(made["job_id"])
    assert (job.state, job.completed) == ("completed", 3)


async def test_a_job_ends_although_prefect_is_killed_and_loses_its_database__PL_16(
    prefect: PrefectServer, tmp_path: Path, app_postgres_url: str
) -> None:
    async with _sandbox() as sandbox:
        environment = {**_environment(prefect, sandbox, tmp_path), "FORAGER_DATABASE_URL": app_postgres_url}
        tables = PostgresTables(app_postgres_url)
        with _flow_process(environment) as first:
            with _serving(environment):
                run = await asyncio.to_thread(
                    _run_deployment, prefect, keyword="bars", zips=ZIPS, pages=1, batch_size=BATCH
                )
            assert run["empirical_policy"]["retries"] == 0, "the engine's retries are the only ones"
            assert _job(tables)["total"] == len(ZIPS)
            assert not sandbox.log, "creating a job sends nothing"

            first.call("process_job_batches")
            await until(lambda: _job(tables)["completed"] >= BATCH, patience=PATIENCE)
            shown = await asyncio.to_thread(_flows_shown, prefect)
            assert shown >= {"create-scraping-job", "process-job-batches", "process-batch"}
            prefect.kill()
            first.kill()  # with the machine that ran the flow
        before = _job(tables)
        assert before["completed"] < len(ZIPS), "the job was not over"

        prefect.forget()
        prefect.begin()
        with _flow_process(environment) as one, _flow_process(environment) as other:
            await asyncio.to_thread(prefect.wait)
            one.call("process_job_batches")
            other.call("process_job_batches")
            done = [await asyncio.to_thread(each.result) for each in (one, other)]
        after = _job(tables)
        tables.close()
    assert (after["state"], after["completed"]) == ("completed", len(ZIPS))
    assert sum(done) == len(ZIPS) - before["completed"], "each query was leased by one of the two"
    repeats = audit(sandbox.log).repeats
    assert repeats <= BATCH, "only what was in flight at the kill was sent again"
    in_flight = after["spent"] - len(ZIPS)
    assert 0 <= in_flight <= BATCH, "what was in flight at the kill may have been paid, and is counted"


@asynccontextmanager
async def _sandbox() -> AsyncIterator[SerperSandbox]:
    async with SerperSandbox(SerperConfig(density=FULL_DENSITY, rate_limit=None)) as sandbox:
        yield sandbox


def _environment(prefect: PrefectServer, sandbox: SerperSandbox, home: Path) -> dict[str, str]:
    zips = home / "zips.csv"
    zips.write_text("zip,state,city\n" + "".join(f"{zip_code},AZ,Phoenix\n" for zip_code in ZIPS))
    return {
        **os.environ,
        **QUIET,
        "PREFECT_API_URL": prefect.api_url,
        "PREFECT_HOME": str(home / "prefect-client"),
        "PREFECT_RUNNER_POLL_FREQUENCY": "1",
        "FORAGER_HOME": str(home),
        "FORAGER_SERVICE_KEY": KEY,
        "FORAGER_ZIP_TABLE": str(zips),
        "FORAGER_LEASE_SECONDS": str(LEASE),
        "FORAGER_EGRESS_ALLOW": urlsplit(sandbox.url).netloc,
        "SERPER_API_KEY": sandbox.config.key,
        "FORAGER_SERPER_BASE_URL": sandbox.url,
    }


@contextmanager
def _flow_process(environment: Mapping[str, str]) -> Iterator[FlowProcess]:
    process = FlowProcess(environment)
    try:
        yield process
    finally:
        process.kill()


@contextmanager
def _serving(environment: Mapping[str, str]) -> Iterator[None]:
    """The deployments, served by the command of the guide."""
    command = [sys.executable, "-m", "forager.runners.prefect"]
    serving = subprocess.Popen(command, env=dict(environment), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        serving.terminate()
        serving.wait(PATIENCE)


def _run_deployment(prefect: PrefectServer, **parameters: Any) -> dict[str, Any]:
    """Run the deployment by Prefect's API, and wait for its end."""
    with httpx.Client(base_url=prefect.api_url, timeout=PATIENCE) as client:
        deployment = _until(
            lambda: client.get("/deployments/name/create-scraping-job/create-job"), lambda r: r.is_success
        )
        wanted = {"parameters": parameters, "idempotency_key": "once"}
        created = _until(
            lambda: client.post(f"/deployments/{deployment.json()['id']}/create_flow_run", json=wanted),
            lambda r: r.is_success,
        )
        run = created.json()["id"]
        ended = _until(
            lambda: client.get(f"/flow_runs/{run}"),
            lambda r: r.is_success and r.json()["state_type"] in ("COMPLETED", "FAILED", "CRASHED"),
        )
        assert ended.json()["state_type"] == "COMPLETED", ended.text
        found: dict[str, Any] = ended.json()
        return found


def _until(ask: Callable[[], httpx.Response], holds: Callable[[httpx.Response], bool]) -> httpx.Response:
    """Ask until the answer is the right one. Prefect's server answers with 503 while its SQLite is busy."""
    give_up = time.monotonic() + PATIENCE
    while not holds(answer := ask()):
        assert time.monotonic() < give_up, answer.text
        time.sleep(0.1)
    return answer


def _flows_shown(prefect: PrefectServer) -> set[str]:
    """The flows of which Prefect has runs."""
    flows = _until(
        lambda: httpx.post(f"{prefect.api_url}/flows/filter", json={}, timeout=PATIENCE), lambda r: r.is_success
    )
    return {flow["name"] for flow in flows.json()}


def _job(tables: Tables) -> Mapping[str, Any]:
    (row,) = tables.read("SELECT * FROM jobs WHERE pipeline = 'places'")
    return row
