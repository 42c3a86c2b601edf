"""A process that does not fit its ledger is refused at the start, with the remedy: another key, another folder of
pages, an older schema."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from forager.api import create_api
from forager.api.serve import serve_metrics
from forager.app.application import App
from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.app.wiring import adopt_blob_folder, blob_folder, build_pipelines
from forager.cli.main import run
from forager.core.errors import Rejected, SealBroken, StoreError, StoreOutdated
from forager.ledger.catalog import Catalog
from forager.ledger.schema.connect import locate
from forager.ledger.schema.migrate import downgrade
from forager.storage.pages.folder import make_folder_id, read_folder_id
from tests.support.api import KEY, PATIENCE, client_of


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str | None:
    return None if request.param == "sqlite" else str(request.getfixturevalue("app_postgres_url"))


def new_key() -> SecretStr:
    return SecretStr(secrets.token_urlsafe(32))


@asynccontextmanager
async def working(home: Path, database_url: str | None, **more: Any) -> AsyncIterator[App]:
    async with open_app(new_settings(home=home, database_url=database_url, **more), must_fit=True) as app:
        yield app


async def test_a_worker_without_the_key_of_a_sealed_proxy_is_refused(tmp_path: Path, database_url: str | None) -> None:
    first, second = new_key(), new_key()
    async with working(tmp_path, database_url, secret_key=(first,)):
        pass  # nothing is sealed yet, so that any key fits
    async with working(tmp_path, database_url, secret_key=(second,)) as app:
        await app.proxies.add("http://user:pass@proxy1.example:8080")
    with pytest.raises(SealBroken, match="Set FORAGER_SECRET_KEY to the same keys on every machine"):
        async with working(tmp_path, database_url, secret_key=(first,)):
            pass
    async with working(tmp_path, database_url, secret_key=(first, second)):
        pass  # one key for new texts, one for old ones


async def test_a_prefect_flow_without_the_key_of_a_sealed_proxy_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    from forager.runners.prefect.application import open_desk

    async with working(tmp_path, None, secret_key=(new_key(),)) as app:
        await app.proxies.add("http://user:pass@proxy1.example:8080")
    with pytest.raises(SealBroken, match="Set FORAGER_SECRET_KEY to the same keys on every machine"):
        async with AsyncExitStack() as stack:
            await open_desk(new_settings(home=tmp_path, secret_key=(new_key(),)), stack)


async def test_a_worker_with_another_folder_of_pages_is_refused_until_that_folder_is_adopted(
    tmp_path: Path, app_postgres_url: str
) -> None:
    async with working(tmp_path / "a", app_postgres_url):
        pass
    async with working(tmp_path / "a", app_postgres_url):
        pass
    with pytest.raises(StoreError, match="`forager blobs adopt` makes this one the ledger's"):
        async with working(tmp_path / "b", app_postgres_url):
            pass
    settings = new_settings(home=tmp_path / "b", database_url=app_postgres_url)
    async with open_app(settings) as app:  # commands that do not work are not refused
        await adopt_blob_folder(app.database, blob_folder(settings))
    async with working(tmp_path / "b", app_postgres_url):
        pass
    with pytest.raises(StoreError, match="stored in another folder"):
        async with working(tmp_path / "a", app_postgres_url):
            pass


async def test_processes_that_start_at_once_agree_on_the_id_of_their_folder(tmp_path: Path) -> None:
    made = await asyncio.gather(*(asyncio.to_thread(make_folder_id, tmp_path / "blobs") for _ in range(8)))
    assert set(made) == {read_folder_id(tmp_path / "blobs")}
    assert [path.name for path in (tmp_path / "blobs").iterdir()] == ["folder.id"]


async def test_a_worker_on_an_older_schema_is_refused(tmp_path: Path, app_postgres_url: str) -> None:
    settings = new_settings(home=tmp_path, database_url=app_postgres_url)
    store = await asyncio.to_thread(locate, app_postgres_url, settings.database_schema)
    await asyncio.to_thread(downgrade, store, Catalog(build_pipelines(settings)), "places@base")
    with pytest.raises(StoreOutdated, match="run `forager db upgrade`"):
        async with working(tmp_path, app_postgres_url):
            pass


async def test_an_api_without_an_engine_is_healthy_and_leaves_the_work_to_others(
    tmp_path: Path, app_postgres_url: str
) -> None:
    async with (
        working(tmp_path, app_postgres_url) as app,
        working(tmp_path, app_postgres_url) as other,
        client_of(create_api(app, key=KEY)) as client,
    ):
        assert (await client.get("/health")).json()["data"]["worker"] == "stopped"
        async with app.api_only():
            health = await client.get("/health")
            assert (health.status_code, health.json()["data"]["worker"]) == (200, "elsewhere")
            assert (await client.get("/readiness")).status_code == 200
            assert app.worker.session is None
            async with other.engine(), asyncio.timeout(PATIENCE):
                while not other.worker.alive:
                    await asyncio.sleep(0.01)


def test_leaving_the_work_to_others_needs_postgresql_and_celery_a_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORAGER_HOME", str(tmp_path))
    for options in (["--api-only"], ["--runner", "celery"]):
        assert run(["up", *options]) == 2
        assert "needs PostgreSQL" in capsys.readouterr().err
    monkeypatch.setenv("FORAGER_DATABASE_URL", "postgresql://127.0.0.1:1/none")
    assert run(["up", "--runner", "celery"]) == 2
    assert "FORAGER_BROKER_URL" in capsys.readouterr().err


async def test_a_worker_shows_the_figures_of_the_api_on_its_own_port(tmp_path: Path) -> None:
    async with working(tmp_path, None) as app, app.engine(), httpx.AsyncClient() as client:
        async with serve_metrics(app, host="127.0.0.1", port=0) as url:
            shown = await client.get(url)
            elsewhere = await client.get(url.replace("/metrics", "/api/v1/jobs"))
            with pytest.raises(Rejected, match="--metrics-port"):
                async with serve_metrics(app, host="127.0.0.1", port=int(url.split(":")[2].split("/")[0])):
                    pass
        async with client_of(create_api(app, key=KEY)) as api:
            of_api = await api.get("/metrics")
    assert elsewhere.status_code == 404
    names = [{each.name for each in text_string_to_metric_families(page.text)} for page in (shown, of_api)]
    assert names[0] == names[1]
    assert "forager_tasks_in_flight" in names[0]
