"""The Prefect flows on a real Prefect server, in real processes, against the sandbox."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from pydantic import SecretStr

from forager.api.serve import serve
from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.client.connect import up_lock
from forager.core.sink import SinkRow
from forager.ledger.sqlite.lock import read_owner
from forager.sandbox import FULL_DENSITY, SerperConfig, SerperSandbox
from forager.sandbox.audit import audit
from forager.settings import Settings
from tests.support.api import KEY
from tests.support.auditor import PostgresTables, SqliteTables, Tables
from tests.support.engine import until
from tests.support.prefect_process import PATIENCE, FlowProcess
from tests.support.prefect_server import QUIET, PrefectServer, require_prefect

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]

ZIPS = tuple(f"{85001 + n}" for n in range(20))
BATCH = 5
LEASE = 5.0
TARGET_PER_MINUTE = 333


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


async def test_with_up_on_the_embedded_store_the_flows_create_and_watch__PL_16(
    prefect: PrefectServer, tmp_path: Path
) -> None:
    async with _sandbox() as sandbox:
        environment = _environment(prefect, sandbox, tmp_path)
        with _flow_process(environment) as flows:
            settings = _settings(environment, sandbox, tmp_path)
            with up_lock(tmp_path):
                async with open_app(settings) as app, serve(app, host="127.0.0.1", port=0, key=KEY):
                    flows.call("create_scraping_job", keyword="bars", zips=ZIPS[:3], pages=1)
                    made = await asyncio.to_thread(flows.result)
                    assert not _processor_log(tmp_path).exists(), "`up` does the work: no processor is started"
                    flows.call("process_job_batches")
                    async with app.engine():
                        assert await asyncio.to_thread(flows.result) == 0, "`up` does the work"
                    job = await app.reports.job(made["job_id"])
    assert (job.state, job.completed) == ("completed", 3)


async def test_synchronous_python_creates_jobs_and_their_processor_reaches_the_rate__PL_18(
    prefect: PrefectServer, tmp_path: Path
) -> None:
    async with SerperSandbox(SerperConfig(density=FULL_DENSITY, rate_limit=None, latency_ms=1_000)) as sandbox:
        environment = _environment(prefect, sandbox, tmp_path)
        created = await _python(
            """
            from forager.runners.prefect import create_scraping_job
            first = create_scraping_job(keyword="bars", state="AZ", pages=3, concurrency=20, batch_size=60)
            second = create_scraping_job(keyword="pubs", zips=["85001"], pages=1)
            print("made:", first["status"], first["total_queries"], second["total_queries"])
            """,
            environment,
        )
        assert f"made: running {3 * len(ZIPS)} 1" in created, "both return at once, while the first job is processed"
        await until(lambda: len(sandbox.log) == 3 * len(ZIPS) + 1, patience=PATIENCE)
        sent = sorted(entry.at for entry in sandbox.log)
        assert 60 * len(sent) / (sent[-1] - sent[0]) >= TARGET_PER_MINUTE
        await until(lambda: _processors(tmp_path) == 0, patience=PATIENCE)
        with closing(SqliteTables(tmp_path / "ledger.db")) as tables:
            jobs = tables.read("SELECT state FROM jobs WHERE pipeline = 'places'")
        assert [job["state"] for job in jobs] == ["completed", "completed"]


async def test_the_processor_ends_when_sinks_have_delivered_or_names_those_that_have_not__PL_18(
    prefect: PrefectServer, tmp_path: Path, app_postgres_url: str
) -> None:
    lake = tmp_path / "lake"
    async with _sandbox() as sandbox:
        environment = {
            **_environment(prefect, sandbox, tmp_path),
            "FORAGER_DATABASE_URL": app_postgres_url,
            "FORAGER_FILES_FOLDER": str(lake),
        }
        settings = _settings(environment, sandbox, tmp_path, database_url=app_postgres_url, files_folder=lake)
        with _flow_process(environment) as flows:
            async with open_app(settings) as app:
                await app.roster.add(SinkRow("exports", "files", options={"every_seconds": 0.02}))
                await app.submit("places", {"keyword": "bars", "zips": ZIPS, "pages": 1})
            (lake / "exports").rmdir()
            (lake / "exports").write_text("Not a folder: the sink cannot write.")
            flows.call("process_job_batches", deliver_within=1)
            told = await asyncio.to_thread(flows.error)
            assert "sinks have not delivered all changes within 1 s: exports (" in told
            assert "changes behind" in told
            assert "start process_job_batches again" in told
            (lake / "exports").unlink()
            flows.call("process_job_batches")
            await asyncio.to_thread(flows.result)
        written = "".join(part.read_text() for part in lake.glob("exports/*/*/*.jsonl"))
        places = [json.loads(line) for line in written.splitlines()]
        stored = {each["key"] for each in places if each["kind"] == "place"}
        with closing(PostgresTables(app_postgres_url)) as tables:
            assert _job(tables)["completed"] == len(ZIPS)
            (found,) = tables.read("SELECT count(*) AS n FROM places")
    assert len(stored) == found["n"] > 0, "every place was delivered before the flow ended"


async def test_invalid_parameters_are_named_in_the_error_of_the_flow_run__PL_1(
    prefect: PrefectServer, tmp_path: Path
) -> None:
    async with _sandbox() as sandbox:
        with _flow_process(_environment(prefect, sandbox, tmp_path)) as flows:
            flows.call("create_scraping_job", keyword=" ", state="AZ", pages=99)
            told = await asyncio.to_thread(flows.error)
    assert "keyword: is empty" in told
    assert "pages: must be at most 10" in told
    assert not _processor_log(tmp_path).exists(), "no processor is started for a job that was not created"


async def test_a_job_ends_although_prefect_is_killed_and_loses_its_database__PL_16(
    prefect: PrefectServer, tmp_path: Path, app_postgres_url: str
) -> None:
    async with _sandbox() as sandbox:
        environment = {**_environment(prefect, sandbox, tmp_path), "FORAGER_DATABASE_URL": app_postgres_url}
        tables = PostgresTables(app_postgres_url)
        with _serving(environment) as serving:
            run = await asyncio.to_thread(
                _run_deployment, prefect, keyword="bars", zips=ZIPS, pages=1, batch_size=BATCH
            )
            assert run["empirical_policy"]["retries"] == 0, "the engine's retries are the only ones"
            assert _job(tables)["total"] == len(ZIPS)
            await until(lambda: _job(tables)["completed"] >= BATCH, patience=PATIENCE)
            shown = await asyncio.to_thread(_flows_shown, prefect)
            assert shown >= {"create-scraping-job", "process-job-batches", "process-batch"}
            assert not _processor_log(tmp_path).exists(), "the processor is a flow run of the deployment"
            prefect.kill()
            os.killpg(serving.pid, signal.SIGKILL)  # with the machine that ran the flows
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


def _processor_log(home: Path) -> Path:
    """Prefect takes a second to import, and every test process collects this file: only its tests load it."""
    from forager.runners.prefect.processor import LOG_FILE

    return home / LOG_FILE


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


def _settings(environment: Mapping[str, str], sandbox: SerperSandbox, home: Path, **more: Any) -> Settings:
    return new_settings(
        home=home,
        zip_table=Path(environment["FORAGER_ZIP_TABLE"]),
        serper_api_key=SecretStr(sandbox.config.key),
        serper_base_url=sandbox.url,
        egress_allow=(urlsplit(sandbox.url).netloc,),
        **more,
    )


@contextmanager
def _flow_process(environment: Mapping[str, str]) -> Iterator[FlowProcess]:
    process = FlowProcess(environment)
    try:
        yield process
    finally:
        process.kill()


@contextmanager
def _serving(environment: Mapping[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    """The deployments, served by the command of the guide, in a process group with the flow runs."""
    command = [sys.executable, "-m", "forager.runners.prefect"]
    quiet = subprocess.DEVNULL
    serving = subprocess.Popen(command, env=dict(environment), stdout=quiet, stderr=quiet, start_new_session=True)
    try:
        yield serving
    finally:
        with suppress(ProcessLookupError):
            os.killpg(serving.pid, signal.SIGKILL)
        serving.wait(PATIENCE)


async def _python(program: str, environment: Mapping[str, str]) -> str:
    """Run a plain program. Returns what it printed."""
    pipe = asyncio.subprocess.PIPE
    run = await asyncio.create_subprocess_exec(
        sys.executable, "-c", textwrap.dedent(program), env=dict(environment), stdout=pipe, stderr=pipe
    )
    async with asyncio.timeout(PATIENCE):
        out, err = await run.communicate()
    assert run.returncode == 0, err.decode()[-4_000:]
    return out.decode()


def _processors(home: Path) -> int:
    """Return how many processors hold one of the two locks of the data folder."""
    return sum(read_owner(home / "pids" / name) is not None for name in ("prefect-works", "prefect-waits"))


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
    """Repeat the request until the answer is the right one. Prefect's server answers with 503 while its SQLite is
    busy."""
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
