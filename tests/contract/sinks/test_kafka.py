"""The Kafka sink on a mock cluster: the form of messages, its cursor, outages, errors that brokers answer with.

`tests/servers/test_kafka.py` shows on a real broker that a transaction is whole when its publisher dies.
"""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from pydantic import ValidationError

from forager.app.config import new_settings
from forager.core.change import Change
from forager.core.errors import Permanent, Rejected, Transient
from forager.core.sink import SinkRow
from forager.sdk.delivery import NumberSet, Publication, PublishedMessage
from forager.sdk.service import SinkService
from forager.sinks.kafka.cluster import KafkaCluster
from forager.sinks.kafka.publisher import TOPIC, Publisher, read_cursor
from forager.sinks.kafka.sink import KafkaSink
from forager.sinks.kafka.wiring import TopicOptions, build, from_settings, publication_of
from tests.support import kafka
from tests.support.engine import EngineRig
from tests.support.sink_suite import log_of, make_changes, open_store

PRODUCE, LIST_OFFSETS, END_TXN = 0, 2, 26
LEADER_NOT_AVAILABLE, NOT_LEADER, TOO_LARGE, COORDINATOR_NOT_AVAILABLE = 5, 6, 10, 15


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[EngineRig]:
    opened = await open_store(str(tmp_path))
    yield opened
    await opened.close()


def sink_of(engine: EngineRig, folder: Path, **more: Any) -> KafkaSink:
    return kafka.open_kafka(engine.ledger, folder, None, **more)


async def test_a_message_has_the_job_as_its_key_and_its_change_as_a_header__RV_4(
    engine: EngineRig, tmp_path: Path
) -> None:
    await make_changes(engine.ledger, 1)
    log = await log_of(engine.ledger)
    assert await sink_of(engine, tmp_path).write(log)
    arrived = kafka.read_topic(tmp_path)
    assert [(change, key) for change, key, _ in arrived] == [(each.id, str(each.job)) for each in log]
    assert [value["body"] for _, _, value in arrived] == [each.body for each in log]


async def test_the_cursor_in_kafka_wins_over_the_ledgers__RV_7(engine: EngineRig, tmp_path: Path) -> None:
    await make_changes(engine.ledger, 2)
    log = await log_of(engine.ledger)
    await sink_of(engine, tmp_path).write(log)
    brokers = KafkaCluster(kafka.brokers_of(tmp_path), kafka.TIMEOUT)
    prefix = kafka.prefix_of(tmp_path)
    assert read_cursor(brokers, prefix + TOPIC, prefix + "tests").last == log[-1].id
    another_process = sink_of(engine, tmp_path)
    await another_process.write(log)
    assert [change for change, _, _ in kafka.read_topic(tmp_path)] == [each.id for each in log]


async def test_two_ledgers_have_cursors_of_their_own(engine: EngineRig, tmp_path: Path) -> None:
    await make_changes(engine.ledger, 1)
    log = await log_of(engine.ledger)
    await sink_of(engine, tmp_path, name="one").write(log)
    await sink_of(engine, tmp_path, name="two").write(log)
    assert [change for change, _, _ in kafka.read_topic(tmp_path)] == sorted(2 * [each.id for each in log])


async def test_a_cursor_of_another_ledger_is_refused_and_the_remedy_named(engine: EngineRig, tmp_path: Path) -> None:
    await make_changes(engine.ledger, 1)
    log = await log_of(engine.ledger)
    foreign = [replace(change, at=change.at - 1) for change in log]
    await sink_of(engine, tmp_path).write(foreign)
    with pytest.raises(Transient, match="FORAGER_KAFKA_NAME"):
        await sink_of(engine, tmp_path).write(log)
    beyond = [replace(log[-1], id=log[-1].id + 1_000)]
    await sink_of(engine, tmp_path, name="other").write(beyond)
    with pytest.raises(Transient, match="another ledger"):
        await sink_of(engine, tmp_path, name="other").write(log)


async def test_a_cluster_that_was_down_gets_everything_once_when_it_is_back(engine: EngineRig, tmp_path: Path) -> None:
    cluster = kafka.MockCluster()
    (tmp_path / kafka.BROKERS).write_text(f"mock {cluster.brokers}")
    await make_changes(engine.ledger, 2)
    log = await log_of(engine.ledger)
    sink = KafkaSink(
        KafkaCluster(cluster.brokers, 2.0),
        {"rig": kafka.EVERYTHING},
        engine.ledger,
        name=kafka.prefix_of(tmp_path) + "tests",
        prefix=kafka.prefix_of(tmp_path),
        partitions=0,
    )
    await sink.write(log[:5])
    cluster.say("down")
    for _ in range(2):
        with pytest.raises(Transient):
            await sink.write(log[5:])
    cluster.say("up")
    await sink.write(log[5:])
    assert {change for change, _, _ in kafka.read_topic(tmp_path)} == {each.id for each in log}


async def test_an_opened_sink_publishes_with_its_connection(
    engine: EngineRig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []
    connect = KafkaCluster.producer

    def counted(self: KafkaCluster, name: str) -> Any:
        names.append(name)
        return connect(self, name)

    monkeypatch.setattr(KafkaCluster, "producer", counted)
    sink = sink_of(engine, tmp_path)
    await asyncio.gather(sink.open(), sink.open())
    assert len(names) == 1, "a second publisher of the same name would fence the first"
    await make_changes(engine.ledger, 1)
    log = await log_of(engine.ledger)
    await sink.write(log)
    assert len(names) == 1
    assert [change for change, _, _ in kafka.read_topic(tmp_path)] == [each.id for each in log]


async def test_a_connection_that_is_given_up_is_closed_before_the_next_one_is_made(
    engine: EngineRig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    begun, may_go_on = threading.Event(), threading.Event()
    connect, close = KafkaCluster.producer, Publisher.close

    def held(self: KafkaCluster, name: str) -> Any:
        events.append("connect")
        begun.set()
        may_go_on.wait(60)
        return connect(self, name)

    def counted(self: Publisher) -> None:
        events.append("close")
        close(self)

    monkeypatch.setattr(KafkaCluster, "producer", held)
    monkeypatch.setattr(Publisher, "close", counted)
    sink = sink_of(engine, tmp_path)
    opening = asyncio.create_task(sink.open())
    assert await asyncio.to_thread(begun.wait, 60)
    opening.cancel()
    await make_changes(engine.ledger, 1)
    log = await log_of(engine.ledger)
    writing = asyncio.create_task(sink.write(log))
    await asyncio.sleep(0)
    assert events == ["connect"], "the change waits for the connection that was given up"
    may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert await writing
    assert events == ["connect", "close", "connect"]
    assert [change for change, _, _ in kafka.read_topic(tmp_path)] == [each.id for each in log]


async def test_a_sink_cannot_be_opened_while_no_broker_answers_and_its_first_change_tries_again(
    engine: EngineRig, tmp_path: Path
) -> None:
    cluster = kafka.MockCluster()
    (tmp_path / kafka.BROKERS).write_text(f"mock {cluster.brokers}")
    sink = sink_of(engine, tmp_path)
    cluster.say("down")
    with pytest.raises(Transient, match="cannot be reached"):
        await sink.open()
    cluster.say("up")
    await make_changes(engine.ledger, 1)
    log = await log_of(engine.ledger)
    await sink.write(log)
    assert [change for change, _, _ in kafka.read_topic(tmp_path)] == [each.id for each in log]


async def test_errors_that_pass_are_not_seen(engine: EngineRig, tmp_path: Path) -> None:
    cluster = kafka.MockCluster()
    (tmp_path / kafka.BROKERS).write_text(f"mock {cluster.brokers}")
    await make_changes(engine.ledger, 1)
    log = await log_of(engine.ledger)
    sink = sink_of(engine, tmp_path)
    await sink.write(log[:1])
    cluster.say(f"errors {PRODUCE} {NOT_LEADER} {NOT_LEADER}")
    cluster.say(f"errors {END_TXN} {COORDINATOR_NOT_AVAILABLE}")
    await sink.write(log[1:])
    assert [change for change, _, _ in kafka.read_topic(tmp_path)] == [each.id for each in log]


async def test_a_topic_that_has_no_leader_yet_is_waited_for(engine: EngineRig, tmp_path: Path) -> None:
    """A broker has created it a moment ago."""
    cluster = kafka.MockCluster()
    (tmp_path / kafka.BROKERS).write_text(f"mock {cluster.brokers}")
    await make_changes(engine.ledger, 1)
    log = await log_of(engine.ledger)
    sink = sink_of(engine, tmp_path)
    cluster.say(f"errors {LIST_OFFSETS} {NOT_LEADER} {LEADER_NOT_AVAILABLE} {NOT_LEADER}")
    assert await sink.write(log)
    assert [change for change, _, _ in kafka.read_topic(tmp_path)] == [each.id for each in log]


async def test_a_message_that_no_broker_takes_is_refused_and_the_next_batch_continues(
    engine: EngineRig, tmp_path: Path
) -> None:
    await make_changes(engine.ledger, 1)
    first, second, *_ = await log_of(engine.ledger)

    def message(change: Change) -> PublishedMessage:
        return PublishedMessage(
            "all", "key", {**kafka.everything(change).value, "fill": "x" * (2_000_000 * (change.id == 1))}
        )

    brokers, prefix = KafkaCluster(kafka.brokers_of(tmp_path), kafka.TIMEOUT), kafka.prefix_of(tmp_path)
    big = {"rig": Publication(("all",), kafka.KINDS, message)}
    sink = KafkaSink(brokers, big, engine.ledger, name=prefix + "tests", prefix=prefix, partitions=0)
    with pytest.raises(Permanent, match="refuses the message"):
        await sink.write([first])
    await sink.write([second])
    assert [change for change, _, _ in kafka.read_topic(tmp_path)] == [second.id]


async def test_changes_of_other_pipelines_and_kinds_are_passed_without_a_message(
    engine: EngineRig, tmp_path: Path
) -> None:
    await make_changes(engine.ledger, 1)
    log = [replace(change, pipeline="places") for change in await log_of(engine.ledger)]
    assert await sink_of(engine, tmp_path).write(log) is False
    assert kafka.published(tmp_path) == []


def test_a_bitmap_contains_exactly_the_added_numbers() -> None:
    published = NumberSet()
    for number in (1, 8, 9, 1_000_003):
        published.add(number)
    assert [n for n in (0, 1, 7, 8, 9, 10, 1_000_002, 1_000_003, 5_000_000) if n in published] == [1, 8, 9, 1_000_003]


# ── rows ──


async def test_a_row_publishes_whole_changes_and_a_replay_writes_them_again_with_the_same_numbers(
    engine: EngineRig, tmp_path: Path
) -> None:
    await make_changes(engine.ledger, 2)
    log = await log_of(engine.ledger)
    prefix = kafka.prefix_of(tmp_path)
    cluster = KafkaCluster(kafka.brokers_of(tmp_path), kafka.TIMEOUT)
    everything = publication_of(frozenset({"job", "thing", "seen"}), TopicOptions(topic="all"))
    sink = KafkaSink(
        cluster, {"rig": everything}, engine.ledger, sink="mine", name=prefix + "mine", prefix=prefix, again=True,
        partitions=0,
    )  # fmt: skip
    assert (sink.name, sink.kinds) == ("mine", everything.kinds)
    wanted = [each for each in log if each.kind in everything.kinds]
    for batch in (wanted[:4], wanted[:4], wanted[4:]):  # the second: its answer was lost
        await sink.write(batch)
    told = kafka.read_topic(tmp_path)
    assert [change for change, _, _ in told] == [each.id for each in wanted]
    assert [(key, value["body"]) for _, key, value in told] == [(each.identity, each.body) for each in wanted]
    await sink.write(wanted[:4])
    again = sorted([each.id for each in wanted] + [each.id for each in wanted[:4]])
    assert [change for change, _, _ in kafka.read_topic(tmp_path)] == again
    for message in cluster.read(prefix + "all"):
        headers: dict[str, Any] = dict(message.headers() or ())
        change = log[int(headers["forager-change"]) - 1]
        names = (headers["forager-kind"], headers["forager-op"], headers["forager-version"])
        assert names == (change.kind.encode(), change.op.encode(), str(change.version).encode())


def test_without_a_topic_each_kind_has_its_own_and_the_key_may_be_the_job() -> None:
    job = UUID(int=7)
    change = Change(1, "thing", "k1", "new", 1, job, "rig", 0, {})
    made = publication_of(frozenset({"thing", "job"}), TopicOptions(key="job"))
    assert made.topics == ("job", "thing")
    message = made.message(change)
    assert message is not None
    assert (message.topic, message.key) == ("thing", str(job))
    with pytest.raises(ValidationError):
        TopicOptions(topic="not a topic/../")


# ── settings ──


OWN = SinkRow("kafka", "kafka")


def service_with(tmp_path: Path, **given: Any) -> SinkService:
    settings = new_settings(home=tmp_path, **given)
    return cast("SinkService", SimpleNamespace(settings=settings, publications={}, ledger=None))


def test_without_brokers_there_is_no_sink(tmp_path: Path) -> None:
    assert from_settings(service_with(tmp_path)) is None
    assert from_settings(service_with(tmp_path, kafka_brokers="one:9092,two:9092")) == OWN
    with pytest.raises(Rejected, match="FORAGER_KAFKA_BROKERS"):
        build(service_with(tmp_path), OWN)


def test_without_the_client_library_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "forager.sinks.kafka.cluster", None)
    with pytest.raises(Rejected, match=r"forager-data\[kafka\]"):
        build(service_with(tmp_path, kafka_brokers="one:9092"), OWN)


def test_signing_in_needs_a_user_and_a_password_which_is_never_shown(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="FORAGER_KAFKA_PASSWORD"):
        build(service_with(tmp_path, kafka_brokers="one:9092", kafka_security="sasl_ssl", kafka_username="me"), OWN)
    sink = build(
        service_with(
            tmp_path,
            kafka_brokers="one:9092",
            kafka_security="sasl_ssl",
            kafka_username="me",
            kafka_password="canary-7431",
        ),
        OWN,
    )
    assert isinstance(sink, KafkaSink)
    assert "canary-7431" not in repr(vars(sink))
