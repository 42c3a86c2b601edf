"""Fixtures that every test may use. Servers start when the first test asks for them, one per test process."""

import contextlib
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.support.postgres import Postgres, PostgresUnavailable, running_postgres

# Examples that touch a disk take as long as the machine is busy: a time limit per example would only be noise.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fuzz", settings.get_profile("default"), max_examples=2000, stateful_step_count=100)
settings.load_profile("default")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if {"postgres", "postgres_url"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.postgres)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A running PostgreSQL: the user's (FORAGER_TEST_POSTGRES) or one started for this test process."""
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(running_postgres())
        except PostgresUnavailable as reason:
            if os.environ.get("CI"):
                pytest.fail(str(reason))
            pytest.skip(str(reason))
        yield server


@pytest.fixture
def postgres_url(postgres: Postgres) -> Iterator[str]:
    """The URL of a fresh, empty database that is gone after the test."""
    url = postgres.create_database()
    yield url
    postgres.drop_database(url)
