"""Kafka for tests: librdkafka's mock cluster in a process of its own, and a real broker where there is one.

The mock cluster is a stand-in: it speaks the protocol and can fail on demand, but it shows aborted messages to readers
of committed ones, fences no zombie and keeps no transactional offsets. Transactions are shown on a real broker only
(`tests/support/kafka_broker.py`).
"""

import contextlib
import hashlib
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from forager.core.change import Change
from forager.core.clock import Faults
from forager.sdk.delivery import Publication, PublishedMessage
from forager.sinks.kafka.cluster import KafkaCluster
from forager.sinks.kafka.publisher import CHANGE, SOURCE
from forager.sinks.kafka.sink import KafkaSink

TIMEOUT = 20.0
KINDS = frozenset({"job", "thing", "seen"})
BROKERS = "brokers"
"""The file in a test's folder that names the cluster, for its processes."""


class MockCluster:
    """A cluster in a process of its own, which ends with ours."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.support.kafka_mock"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.brokers = self._process.stdout.readline().strip()
        assert self.brokers, "the mock cluster did not start"

    def say(self, command: str) -> None:
        """`down` or `up` (all brokers), or `errors KEY CODE…`: the next requests of a kind fail in this way."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline().strip() == "done"

    def close(self) -> None:
        """End the cluster with everything in it."""
        self._process.kill()
        self._process.wait()


class MockKafka:
    """A mock cluster as the broker of a runner (`tests.support.brokers.Broker`). It keeps its messages while it is
    down."""

    def __init__(self) -> None:
        self._cluster = MockCluster()
        self.url = self._cluster.brokers

    def start(self) -> None:
        self._cluster.say("up")

    def kill(self) -> None:
        self._cluster.say("down")

    def close(self) -> None:
        self._cluster.close()


@cache
def mock_cluster() -> MockCluster:
    """One for all tests of this process; each test has topics of its own."""
    return MockCluster()


def brokers_of(folder: Path) -> str:
    """The cluster of a test: the one that its folder names, otherwise the mock."""
    named = folder / BROKERS
    if not named.exists():
        named.write_text(f"mock {mock_cluster().brokers}")
    return named.read_text().removeprefix("mock ")


def named_mock(folder: Path) -> bool:
    return (folder / BROKERS).read_text().startswith("mock ")


def prefix_of(folder: Path) -> str:
    return f"t{hashlib.sha256(str(folder).encode()).hexdigest()[:10]}-"


def everything(change: Change) -> PublishedMessage:
    value = {"id": change.id, "identity": change.identity, "op": change.op, "body": change.body}
    return PublishedMessage("all", str(change.job), value)


EVERYTHING = Publication(("all",), KINDS, everything)


def open_kafka(
    ledger: Any, folder: Path, faults: Faults | None, *, together: bool = True, name: str = "tests"
) -> KafkaSink:
    """A sink that publishes every change of the rig's pipeline on one topic."""
    return KafkaSink(
        KafkaCluster(brokers_of(folder), TIMEOUT),
        {"rig": EVERYTHING},
        ledger,
        name=prefix_of(folder) + name,
        prefix=prefix_of(folder),
        partitions=0 if named_mock(folder) else 3,  # the mock creates topics by itself, and has no call for it
        faults=faults,
        together=together,
    )


def read_topic(folder: Path, topic: str = "all") -> list[tuple[int, str, dict[str, Any]]]:
    """(change, key, value) of every committed message of a test's topic, in the order of changes."""
    found = []
    for message in KafkaCluster(brokers_of(folder), TIMEOUT).read(prefix_of(folder) + topic):
        headers: dict[str, Any] = dict(message.headers() or ())
        assert headers[SOURCE]
        key, value = message.key(), message.value()
        assert key is not None
        assert value is not None
        found.append((int(headers[CHANGE]), str(key, "utf-8") if isinstance(key, bytes) else key, orjson.loads(value)))
    return sorted(found, key=lambda each: each[0])


def published(folder: Path) -> list[tuple[str, int]]:
    """(identity, change) of everything that arrived; nothing if nothing did yet."""
    with contextlib.suppress(Exception):  # the topic may not be there yet
        return [(value["identity"], number) for number, _, value in read_topic(folder)]
    return []


def wanted(changes: Sequence[Change]) -> list[tuple[str, int]]:
    return [(change.identity, change.id) for change in changes if change.kind in KINDS]
