"""Consumers that join, leave and take long: no task is lost, none has its effect twice, and nothing rebalances by
itself. On a mock cluster, with the engine on a real PostgreSQL (R15)."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from forager.runners.kafka import consumer
from forager.sinks.kafka.cluster import KafkaCluster
from tests.contract.engine.test_moving_lanes import at_work
from tests.support.acts import many
from tests.support.engine import EngineRig, open_postgres, until
from tests.support.kafka import mock_cluster
from tests.support.kafka_stage import OURS, StageTopic, consuming, offered_acts

PATIENCE = 120.0
SESSION = 6.0


@pytest.fixture
async def rig(postgres_url: str) -> AsyncIterator[EngineRig]:
    rig = await open_postgres(postgres_url, (offered_acts(),))
    yield rig
    rig.check()
    await rig.close()


@pytest.fixture
def topic() -> StageTopic:
    return StageTopic(KafkaCluster(mock_cluster().brokers), session_seconds=SESSION, poll_seconds=SESSION)


def tasks(rig: EngineRig) -> list[tuple[int, int]]:
    return [(row["job_id"], row["id"]) for row in rig.tables.read("SELECT job_id, id FROM tasks ORDER BY id")]


def completed(rig: EngineRig) -> int:
    return int(rig.tables.read("SELECT sum(completed) AS n FROM jobs")[0]["n"])


async def survive_rebalances(rig: EngineRig, topic: StageTopic, messages: int, rebalances: int) -> None:
    """One consumer comes and goes while two others work; one task takes longer than poll interval and session."""
    group, joins = Group(rig, topic), -(-rebalances // 2)
    workers = [rig.worker(capacity=300), rig.worker(capacity=300)]
    feeds = [topic.feed(worker) for worker in workers]
    long = await rig.submit(many(1, prefix="long", seconds=1.3 * SESSION))
    topic.send(tasks(rig))
    async with at_work(*workers), consuming(*feeds):
        for number in range(joins):
            known = len(tasks(rig))
            await rig.submit(many(messages // joins, prefix=f"{number}-"))
            topic.send(tasks(rig)[known:])
            await group.join_and_leave()
        total = len(tasks(rig))
        await until(lambda: completed(rig) == total, PATIENCE)
        await group.until_committed()
        assert rig.job(long)["completed"] == 1
        assert [feed.consumer.losses for feed in feeds] == [0, 0], "the long task has cost no partition"
    assert total > 0.99 * messages
    assert rig.tables.read("SELECT max(attempt) AS most FROM tasks")[0]["most"] == 1


@dataclass
class Group:
    rig: EngineRig
    topic: StageTopic

    async def join_and_leave(self) -> None:
        """Another consumer joins, gets partitions, and leaves: twice a rebalance."""
        worker = self.rig.worker(capacity=50)
        feed = self.topic.feed(worker)
        async with at_work(worker), consuming(feed):
            await until(lambda: feed.consumer.has_partitions, PATIENCE)

    async def until_committed(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while await asyncio.to_thread(self.topic.lag):
                await asyncio.sleep(0.2)


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(
    ("messages", "rebalances"), [(10_000, 5), pytest.param(100_000, 20, marks=pytest.mark.chaos)], ids=["few", "full"]
)
async def test_rebalances_and_long_tasks_lose_and_double_nothing__R15(
    rig: EngineRig, topic: StageTopic, messages: int, rebalances: int
) -> None:
    await survive_rebalances(rig, topic, messages, rebalances)


async def test_messages_that_are_repeated_late_or_not_ours_change_nothing__R15(
    rig: EngineRig, topic: StageTopic
) -> None:
    """An hour's backlog: everything three times, messages of another ledger, and no messages at all."""
    await rig.submit(many(300))
    worker = rig.worker()
    other = [(job, task + 1_000_000) for job, task in tasks(rig)]
    topic.send(tasks(rig) * 3)
    topic.send(other)
    topic.send(tasks(rig), source="another ledger")
    for value in (b"", b"{}", b"not JSON", b'{"task_id": 7}', b'{"task_id": "00000000-0000-0000-0000-000000000000"}'):
        topic.send_raw(value, OURS)
    topic.flush()
    feed = topic.feed(worker)
    async with at_work(worker), consuming(feed):
        await until(lambda: completed(rig) == 300, PATIENCE)
        await Group(rig, topic).until_committed()
        await until(lambda: feed.consumer.lag == 0, PATIENCE)
    assert worker.stats.started == 300


async def test_an_offset_is_committed_when_all_tasks_before_it_have_ended(rig: EngineRig, topic: StageTopic) -> None:
    """The first message of a partition takes long, and all others wait for it. A task that is given back is also done
    with: the ledger has it."""
    await rig.submit(many(1, prefix="long", seconds=50.0))
    await rig.submit(many(40))
    worker = rig.worker()
    topic.send(tasks(rig))
    async with consuming(topic.feed(worker)), at_work(worker):
        await until(lambda: completed(rig) == 40, PATIENCE)
        assert await asyncio.to_thread(topic.lag) >= 41 // topic.partitions
    assert completed(rig) == 40
    assert await asyncio.to_thread(topic.lag) == 0


async def test_a_full_worker_pauses_its_partitions_and_takes_the_rest_later(rig: EngineRig, topic: StageTopic) -> None:
    await rig.submit(many(60, seconds=0.05))
    worker = rig.worker(capacity=4)
    feed = topic.feed(worker, most=8)
    topic.send(tasks(rig))
    seen: set[int] = set()
    async with at_work(worker), consuming(feed):

        def done() -> bool:
            seen.add(worker.claims.waiting)
            return completed(rig) == 60

        await until(done, PATIENCE)
        await Group(rig, topic).until_committed()
    assert 0 < max(seen) <= 8


async def test_partitions_that_were_paused_before_a_rebalance_are_read_after_it(
    rig: EngineRig, topic: StageTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "PAUSE_AFTER", 0.0)
    await rig.submit(many(60, seconds=0.2))
    worker = rig.worker(capacity=4)
    feed = topic.feed(worker, most=8)
    topic.send(tasks(rig))
    async with at_work(worker), consuming(feed):
        await until(lambda: worker.claims.waiting and feed.consumer.is_paused, PATIENCE)
        await Group(rig, topic).join_and_leave()
        await until(lambda: completed(rig) == 60, PATIENCE)
        await Group(rig, topic).until_committed()


async def test_a_stopping_worker_commits_finished_messages_and_leaves_the_rest_to_the_next(
    rig: EngineRig, topic: StageTopic
) -> None:
    await rig.submit(many(400, seconds=0.2))
    topic.send(tasks(rig))
    first, second = rig.worker(capacity=10), rig.worker(capacity=200)
    async with consuming(topic.feed(first, most=20)), at_work(first):
        await until(lambda: completed(rig) >= 20, PATIENCE)
    assert 20 <= completed(rig) < 400
    assert 0 < await asyncio.to_thread(topic.lag) <= 400 - completed(rig), "what ended while it drained is committed"
    async with consuming(topic.feed(second)), at_work(second):
        await until(lambda: completed(rig) == 400, PATIENCE)
        await Group(rig, topic).until_committed()
