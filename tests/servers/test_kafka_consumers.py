"""Kafka workers on a real broker: rebalances, a task longer than the poll interval, a broker that dies (R15)."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from forager.sinks.kafka.cluster import KafkaCluster
from tests.contract.engine.test_moving_lanes import at_work
from tests.contract.runners.test_kafka_consumers import PATIENCE, SESSION, Group, completed, survive_rebalances, tasks
from tests.support.acts import many
from tests.support.engine import EngineRig, open_postgres, until
from tests.support.kafka_broker import Broker
from tests.support.kafka_stage import StageTopic, consuming, offered_acts

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]


@pytest.fixture
async def rig(postgres_url: str) -> AsyncIterator[EngineRig]:
    rig = await open_postgres(postgres_url, (offered_acts(),))
    yield rig
    rig.check()
    await rig.close()


def new_topic(brokers: str) -> StageTopic:
    made = StageTopic(KafkaCluster(brokers), session_seconds=SESSION, poll_seconds=SESSION)
    assert made.cluster.make_topics([made.topic], made.partitions) == []
    return made


async def test_rebalances_and_long_tasks_lose_and_double_nothing_on_a_real_broker__R15(
    rig: EngineRig, brokers: str
) -> None:
    await survive_rebalances(rig, new_topic(brokers), 10_000, 5)


async def test_a_broker_that_is_killed_delays_tasks_and_loses_none__R15(rig: EngineRig, broker: Broker) -> None:
    topic = new_topic(broker.brokers)
    await rig.submit(many(2_000, seconds=0.05))
    topic.send(tasks(rig))
    worker = rig.worker(capacity=20)
    async with at_work(worker), consuming(topic.feed(worker)):
        await until(lambda: completed(rig) > 100, PATIENCE)
        await asyncio.to_thread(broker.kill)
        await asyncio.to_thread(broker.start)
        await until(lambda: completed(rig) == 2_000, PATIENCE)
        await Group(rig, topic).until_committed()
    assert rig.tables.read("SELECT max(attempt) AS most FROM tasks")[0]["most"] == 1
