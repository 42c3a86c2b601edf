"""Guarantees of Kafka workers as processes: lost messages cost a minute, Kafka may go away, and a worker that would
get no task is refused at its start."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from forager.app.config import new_settings
from forager.app.wiring import build_pipelines
from forager.core.errors import Rejected
from forager.core.ids import sink_lane
from forager.ledger.postgres.tasks import OFFERED_MS
from forager.pipelines.reviews.publication import publication
from forager.runners.kafka.feed import make_topics, stage_of
from forager.runners.kafka.start_checks import check
from forager.sinks.kafka.cluster import KafkaCluster
from tests.support.runner_rig import PATIENCE, RunnerRig

on_kafka = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300), pytest.mark.brokered("kafka")]
POSTGRES, BROKERS = "postgresql://host/database", {"kafka_brokers": "host:9092"}


async def until_offers_end(runner: RunnerRig) -> int:
    """Let the minute pass that offered tasks are left to consumers. Returns how many there were."""
    rows = await runner.app.database.write(
        f"UPDATE queue SET due = due - {OFFERED_MS} WHERE offered AND due > CAST(:now AS BIGINT) RETURNING task_id",
        {"now": await runner.app.ledger.now_ms() + 1_000},
    )
    return len(rows)


class TestAsProcesses:
    pytestmark = on_kafka

    async def test_messages_that_are_lost_cost_a_minute_and_no_task__RV_4(self, runner: RunnerRig) -> None:
        """Nothing is published; later everything is, when there is nothing left to claim."""
        await runner.app.ledger.pause_lane(sink_lane("kafka"), paused=True)
        runner.keep_working()
        job, offered = await runner.submit(), 0
        async with asyncio.timeout(PATIENCE):
            while (await runner.report(job)).state != "completed":
                offered += await until_offers_end(runner)
                await asyncio.sleep(0.1)
        done = await runner.report(job)
        assert (done.failed, done.completed) == (0, done.total)
        assert offered == done.total, "every task was offered, and none was claimed by a message"
        await runner.app.ledger.pause_lane(sink_lane("kafka"), paused=False)
        after = await runner.until(await runner.submit())
        assert (after.failed, after.completed) == (0, after.total)
        assert set(await runner.started(job)) == {1}

    async def test_a_kafka_that_goes_away_delays_the_work_and_loses_none__RV_4(self, runner: RunnerRig) -> None:
        assert runner.broker is not None
        runner.keep_working()
        job = await runner.submit()
        await runner.until(job, completed=3)
        await asyncio.to_thread(runner.broker.kill)
        other = await runner.submit()
        await asyncio.sleep(1)
        await asyncio.to_thread(runner.broker.start)
        for each in (job, other):
            done = await runner.until(each)
            assert (done.failed, done.completed) == (0, done.total)


async def test_a_worker_that_finds_no_kafka_logs_it_and_starts_all_the_same() -> None:
    with capture_logs() as lines:
        await make_topics(KafkaCluster("127.0.0.1:1", timeout=0.5), ["fetch-reviews"], 1)
    assert [line["event"] for line in lines] == ["kafka_connecting", "kafka_topic_not_created"]
    assert lines[0]["brokers"] == "127.0.0.1:1"


@pytest.mark.parametrize(
    ("given", "queues", "problem"),
    [
        ({**BROKERS}, ["review-worker"], "needs PostgreSQL"),
        ({"database_url": POSTGRES, "kafka_tasks": True}, ["review-worker"], "set FORAGER_KAFKA_BROKERS"),
        ({"database_url": POSTGRES, **BROKERS}, ["review-worker"], "Set FORAGER_KAFKA_TASKS=true"),
        ({"database_url": POSTGRES, "kafka_tasks": True, **BROKERS}, None, "--queue account-worker"),
        ({"database_url": POSTGRES, "kafka_tasks": True, **BROKERS}, ["review-worker"], None),
    ],
)
def test_a_worker_that_would_get_no_task_is_refused_with_the_remedy__RV_4(
    given: dict[str, Any], queues: list[str] | None, problem: str | None
) -> None:
    settings = new_settings(**given)
    if problem is None:
        check(settings, queues)
        return
    with pytest.raises(Rejected, match=problem):
        check(settings, queues)


def test_a_queue_without_a_topic_is_refused_with_those_that_have_one__RV_4() -> None:
    with pytest.raises(Rejected, match="account-worker, location-worker, review-worker"):
        stage_of({"reviews": publication}, "scraping")


def test_tasks_in_kafka_need_postgres_in_every_process__RV_4() -> None:
    with pytest.raises(Rejected, match="FORAGER_KAFKA_TASKS needs PostgreSQL"):
        build_pipelines(new_settings(kafka_tasks=True, **BROKERS))
