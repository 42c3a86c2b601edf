"""The Kafka sink on a real broker: publishers that die at every step of a transaction, two at once, a broker that dies.

For a reader of committed messages nothing may be missing and nothing may come twice (RV-7). The negative control, whose
cursor is not part of the transaction, must fail.
"""

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from forager.core.errors import Transient
from forager.sinks.kafka.publisher import POINTS
from forager.sinks.kafka.sink import KafkaSink
from tests.support import kafka
from tests.support.chaos import Dice, gone
from tests.support.kafka_broker import Broker
from tests.support.sink_process import Options, start
from tests.support.sink_suite import log_of, make_changes, open_store

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]

KILLED = -9
KILLS = 20
BATCH = 7  # of `sink_process`


async def grow(store: str, jobs: int = 2) -> None:
    engine = await open_store(store)
    await make_changes(engine.ledger, jobs)
    await engine.close()


async def check(store: str, folder: Path) -> None:
    """Committed readers see the log: each change once, and those of a job in their order."""
    engine = await open_store(store)
    log = await log_of(engine.ledger)
    await engine.close()
    arrived = Counter(change for change, _, _ in kafka.read_topic(folder))
    wanted = {change.id for change in log if change.kind in kafka.KINDS}
    assert sorted(wanted - arrived.keys()) == [], "missing"
    assert {change: times for change, times in arrived.items() if times > 1} == {}, "twice"
    assert arrived.keys() == wanted


async def finish(options: Options) -> None:
    assert await gone(start(replace(options, death="", forever=False)), 120) == 0


@pytest.mark.parametrize("point", POINTS)
async def test_a_publisher_that_is_killed_at_any_step_loses_and_doubles_nothing__RV_7(folder: Path, point: str) -> None:
    store, dice, killed = str(folder), Dice(), 0
    options = Options(store, "kafka", store, death=point)
    for _ in range(KILLS):
        await grow(store)
        nth = dice.between(1, 2)
        killed += await gone(start(replace(options, nth=nth)), 120) == KILLED
    assert killed == KILLS
    await finish(options)
    await check(store, folder)


async def test_a_publisher_whose_cursor_is_not_in_the_transaction_loses_changes__RV_7(folder: Path) -> None:
    """The negative control."""
    store = str(folder)
    await grow(store)
    options = Options(store, "kafka-apart", store, death="kafka-flushed", nth=2)
    assert await gone(start(options), 120) == KILLED
    await finish(options)
    with pytest.raises(AssertionError, match="missing"):
        await check(store, folder)


async def test_of_two_publishers_at_once_the_elder_is_fenced_and_nothing_comes_twice__RV_7(folder: Path) -> None:
    engine = await open_store(str(folder))
    await make_changes(engine.ledger, 20)
    log = await log_of(engine.ledger)
    elder, younger = (kafka.open_kafka(engine.ledger, folder, None) for _ in range(2))
    await elder.write(log[:10])
    await younger.write(log[:20])
    with pytest.raises(Transient):
        await elder.write(log[10:30])
    refused = 0
    places = {elder: 0, younger: 0}

    async def publish(sink: KafkaSink) -> None:
        """Publish as a process that believes it holds the lane: whatever fails is handed over again."""
        nonlocal refused
        while places[sink] < len(log):
            try:
                await sink.write(log[places[sink] : places[sink] + BATCH])
                places[sink] += BATCH
                await asyncio.sleep(0.2)  # or one is through before the other has connected again
            except Transient:
                refused += 1
                await asyncio.sleep(0.05)

    async with asyncio.timeout(120):
        await asyncio.gather(publish(elder), publish(younger))
    assert refused > 0, "they never met"
    await engine.close()
    await check(str(folder), folder)


async def test_a_broker_that_is_killed_loses_and_doubles_nothing__RV_7(broker: Broker, folder: Path) -> None:
    store, dice = str(folder), Dice()
    options = Options(store, "kafka", store, forever=True)
    for _ in range(5):
        await grow(store, 8)
        process = start(options)
        await asyncio.sleep(0.3 + dice.seconds(1.0))
        await asyncio.to_thread(broker.kill)
        await asyncio.sleep(dice.seconds(0.5))
        await asyncio.to_thread(broker.start)
        await asyncio.sleep(dice.seconds(1.0))
        process.kill()
        assert await gone(process, 60) == KILLED
    await finish(options)
    await check(store, folder)
