"""One contract, several runners: plain workers, Celery on Redis, Celery on RabbitMQ, Kafka workers. Each keeps its
broker, database and workers for all tests of a file."""

import os
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from forager.app.config import new_settings
from forager.app.features import all_features
from forager.app.wiring import build_pipelines
from forager.ledger.catalog import Catalog
from tests.support.brokers import Broker, BrokerMissing, Rabbit, Redis
from tests.support.kafka import MockKafka
from tests.support.postgres import Postgres
from tests.support.runner_rig import RunnerRig, runner_rig
from tests.support.schema_templates import create_schema

BROKERS: dict[str, type[Redis] | type[Rabbit] | type[MockKafka]] = {
    "redis": Redis,
    "rabbitmq": Rabbit,
    "kafka": MockKafka,
}


@pytest.fixture(scope="module")
def broker(request: pytest.FixtureRequest) -> Iterator[Broker | None]:
    """The broker of this runner; None for the embedded one."""
    if request.param == "embedded":
        yield None
        return
    try:
        broker = BROKERS[request.param]()
    except BrokerMissing as missing:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(str(missing))
    broker.start()
    yield broker
    broker.close()


@pytest.fixture(scope="module")
def runner_database(postgres: Postgres, broker: Broker | None) -> Iterator[str]:
    """A database for each runner: stored pages and secrets of one are no other's."""
    url = postgres.create_database()
    create_schema(url, Catalog(build_pipelines(new_settings(), all_features())))
    yield url
    postgres.drop_database(url)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runner(broker: Broker | None, runner_database: str) -> AsyncIterator[RunnerRig]:
    async with runner_rig(runner_database, broker) as rig:
        yield rig


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "broker" in metafunc.fixturenames:
        brokered = metafunc.definition.get_closest_marker("brokered")
        named = brokered.args if brokered else ()
        runners = named or (["redis", "rabbitmq"] if brokered else ["embedded", "redis", "rabbitmq", "kafka"])
        metafunc.parametrize("broker", runners, indirect=True, scope="module")
