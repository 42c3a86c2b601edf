"""Fixtures for all tests. Servers start with the first test that uses them, one per test process."""

import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.support.chromium import be_patient, require_chromium
from tests.support.memory_folder import use_memory
from tests.support.postgres import (
    OWN_SERVER,
    Postgres,
    PostgresServer,
    PostgresUnavailable,
    find_programs,
    running_postgres,
)

if TYPE_CHECKING:
    from tests.support.recycled import Recycled

# Examples that touch a disk take as long as the machine is busy: a time limit per example would only be noise. CI shows
# whether a change is sound, with the same examples each time; new ones are searched elsewhere, and by `make fuzz`.
settings.register_profile(
    "default",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "fuzz", settings.get_profile("default"), derandomize=False, max_examples=2000, stateful_step_count=100
)
settings.load_profile("default")

use_memory()
# A shell starts background jobs with SIGINT ignored, and processes that tests start and interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Collecting makes a great deal that stays: looking through it for garbage took two thirds of the time.
gc.set_threshold(50_000, 20, 20)


def pytest_collection_finish() -> None:
    """Exclude the thousands of tests, and what they import, from garbage collection: it stays alive until the end."""
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        given = getattr(getattr(item, "callspec", None), "params", {})
        one = item.get_closest_marker("one_store")
        if one is not None and one.args != (False,) and "postgres" in given.values():
            item.add_marker(pytest.mark.chaos)
        fixtures = set(getattr(item, "fixturenames", ()))
        if "chromium" in fixtures:
            item.add_marker(pytest.mark.browser)
        if "postgres" in given.values() or {"postgres", "postgres_server", "require_postgres"} & fixtures:
            item.add_marker(pytest.mark.postgres)


TIMEOUT_AGAIN = 20.0
"""Seconds after which a test is interrupted again, if its timeout did not end it."""


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_timeout_set_timer() -> Generator[None, Any, Any]:
    """Let the timeout of a test fire until the test has ended.

    An event loop records an exception that hits one of its tasks, and goes on. If that is not the task of the test, the
    test waits further, and so may the end of a fixture: one signal is not enough.
    """
    result = yield
    left, _ = signal.getitimer(signal.ITIMER_REAL)
    if left:
        signal.setitimer(signal.ITIMER_REAL, left, TIMEOUT_AGAIN)
    return result


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Mix files that wait with files that compute; None leaves other kinds of distribution to xdist."""
    if config.getvalue("dist") != "loadfile":
        return None
    from tests.support.scheduling import MixedScheduling

    return MixedScheduling(config, log)


@pytest.fixture(autouse=True)
def _logs_as_they_were() -> Iterator[None]:
    """A command that was run in this process has set its own level: the next test must not miss lines for that."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def require_postgres() -> None:
    """For a test that starts a server of its own kind."""
    _require_programs()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A running PostgreSQL: the user's (FORAGER_TEST_POSTGRES) or one started for this test process."""
    if not os.environ.get(OWN_SERVER):
        _require_programs()
    with running_postgres() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: Postgres) -> Iterator[str]:
    """The URL of a fresh, empty database that is gone after the test."""
    url = postgres.create_database()
    yield url
    postgres.drop_database(url)


@pytest.fixture
def unmade_postgres_url(postgres: Postgres) -> Iterator[str]:
    """The URL of a database that does not exist yet, for `create_schema` to make; it is gone after the test."""
    url = postgres.unused_url()
    yield url
    postgres.drop_database(url)


@pytest.fixture(scope="session")
def app_databases(postgres: Postgres) -> Iterator["Recycled"]:
    """Databases with the schema of every pipeline that ships, for one test after another."""
    from forager.app.config import new_settings
    from forager.app.features import all_features
    from forager.app.wiring import build_pipelines
    from forager.ledger.catalog import Catalog
    from forager.ledger.schema.migrate import create_postgres
    from tests.support.recycled import Recycled

    template = postgres.create_database()
    create_postgres(template, Catalog(build_pipelines(new_settings(), all_features())))
    databases = Recycled(postgres, urlsplit(template).path[1:])
    yield databases
    databases.close()
    postgres.drop_database(template)


@pytest.fixture
def app_postgres_url(app_databases: "Recycled") -> Iterator[str]:
    """The URL of a database with the schema of every pipeline that ships: an application opens it at once."""
    with app_databases.lent() as (url, _):
        yield url


@pytest.fixture
def postgres_server(require_postgres: None) -> Iterator[PostgresServer]:
    """A PostgreSQL for one test alone, which may `kill`, `stop` and `start` it."""
    with PostgresServer(fsync=False) as server:
        yield server


@pytest.fixture(scope="session")
def chromium() -> Iterator[Path]:
    """The Chromium of this machine, with patience for its first start."""
    program = require_chromium()
    with pytest.MonkeyPatch.context() as patch:
        be_patient(patch)
        yield program


def _require_programs() -> None:
    """Without PostgreSQL its tests are skipped with the reason; in CI nothing is silently left out."""
    try:
        find_programs()
    except PostgresUnavailable as reason:
        if os.environ.get("CI"):
            pytest.fail(str(reason))
        pytest.skip(str(reason))
