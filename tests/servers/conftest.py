"""One real Kafka broker and one real OpenSearch for all tests here; without them tests are skipped, with the reason."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import kafka, opensearch_server
from tests.support.kafka_broker import OWN_BROKER, Broker, why_none


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """One of our own, which may be killed."""
    if os.environ.get(OWN_BROKER):
        pytest.skip(f"{OWN_BROKER} names a broker that is not ours to kill")
    if reason := why_none():
        pytest.skip(reason)
    opened = Broker()
    opened.start()
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def brokers(request: pytest.FixtureRequest) -> str:
    """The address of a real broker: the named one, otherwise ours."""
    named = os.environ.get(OWN_BROKER)
    if named:
        return named
    opened: Broker = request.getfixturevalue("broker")
    return opened.brokers


@pytest.fixture
def folder(brokers: str, tmp_path: Path) -> Path:
    """The folder of a test, whose processes all publish to the real broker."""
    (tmp_path / kafka.BROKERS).write_text(brokers)
    return tmp_path


@pytest.fixture(scope="session")
def opensearch() -> Iterator[str]:
    """The URL of a real cluster: the named one, otherwise ours."""
    if reason := opensearch_server.why_none():
        pytest.skip(reason)
    named = os.environ.get(opensearch_server.OWN_CLUSTER)
    if named:
        yield named.rstrip("/")
        opensearch_server.remove_indexes(named.rstrip("/"))
        return
    server = opensearch_server.Server()
    yield server.url
    server.close()
