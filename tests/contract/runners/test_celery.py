"""Guarantees of Celery on any broker: messages may be lost, late or repeated, the broker may go away, a warm shutdown
drains at once, and jobs and schedules that are sent by message are created once."""

import asyncio
import pickle
import re
import signal
import statistics
import sys
import time
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from forager.core.schedules import Schedule
from forager.runners.celery.dispatch import FIRE, SUBMIT, WORK
from forager.sandbox.shop import ShopConfig, ShopSandbox
from tests.support.runner_rig import LEASE, PATIENCE, QUEUES, RunnerRig
from tests.support.shop import no_pauses

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300), pytest.mark.brokered]

BACKLOG = 300
PAGES = 300
JOB = {"keyword": "bars", "zips": ["85001"], "pages": 1}


def send_shifts(runner: RunnerRig, count: int, *, expires: float) -> None:
    celery = runner.celery
    with celery.producer_pool.acquire() as producer:
        for number in range(count):
            queue = QUEUES[number % 3]
            celery.send_task(WORK, kwargs={"queue": queue}, queue=queue, expires=expires, producer=producer)


def drop_messages(runner: RunnerRig) -> int:
    with runner.celery.connection_for_write() as connection:
        channel = connection.default_channel
        return sum(channel.queue_purge(queue) or 0 for queue in QUEUES)


def fired(runner: RunnerRig) -> int:
    """Return the number of `forager.fire` tasks that the workers have done."""
    return len(re.findall(r"forager\.fire\[\S+\] succeeded", runner.output.read_text()))


async def jobs_of(runner: RunnerRig, pipeline: str) -> int:
    rows = await runner.app.database.fetch(
        "SELECT count(*) AS n FROM jobs WHERE pipeline = :pipeline", {"pipeline": pipeline}
    )
    return int(rows[0]["n"])


async def test_late_and_repeated_messages_change_nothing(runner: RunnerRig) -> None:
    """An hour's backlog of shifts that have expired, and some that have not but find nothing to do."""
    await asyncio.to_thread(send_shifts, runner, BACKLOG, expires=0.001)
    await asyncio.to_thread(send_shifts, runner, 6, expires=60)
    runner.keep_working()
    job = await runner.submit()
    done = await runner.until(job)
    assert (done.failed, done.completed) == (0, done.total)
    assert set(await runner.started(job)) == {1}


class Canary:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def send_bodies_that_run(runner: RunnerRig, canary: Path) -> int:
    """Send messages that would create the canary if a worker unpickled or constructed their bodies."""
    touch = f"!!python/object/apply:os.system ['touch {canary}']"
    bodies = {"application/x-python-serialize": pickle.dumps(Canary(canary)), "application/x-yaml": touch.encode()}
    headers = {"task": WORK, "id": "1", "lang": "py"}
    with runner.celery.producer_pool.acquire() as producer:
        for queue, (content_type, body) in product(QUEUES, bodies.items()):
            producer.publish(
                body, routing_key=queue, headers=headers, content_type=content_type, content_encoding="binary"
            )
    return len(QUEUES) * len(bodies)


async def test_a_pickle_or_yaml_in_a_queue_is_refused_before_it_is_decoded__S15(
    runner: RunnerRig, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    pickle.loads(pickle.dumps(Canary(canary)))  # the control: this body does create the file
    assert canary.exists()
    canary.unlink()
    runner.keep_working()
    await runner.until(await runner.submit())  # the queues exist from here on
    sent = await asyncio.to_thread(send_bodies_that_run, runner, canary)
    async with asyncio.timeout(PATIENCE):
        while runner.output.read_text().count("ContentDisallowed") < sent:
            await asyncio.sleep(0.1)
    done = await runner.until(await runner.submit())
    assert (done.failed, done.completed) == (0, done.total)
    assert not canary.exists()


async def test_a_warm_shutdown_drains_at_once_and_burns_no_attempt(runner: RunnerRig) -> None:
    runner.keep_working()
    job = await runner.submit()
    await runner.until(job, completed=3)
    (worker,) = runner.workers
    worker.send_signal(signal.SIGTERM)
    began = asyncio.get_running_loop().time()
    assert await asyncio.to_thread(worker.wait, PATIENCE) == 0
    assert asyncio.get_running_loop().time() - began < runner.app.settings.shift_seconds
    runner.workers.clear()
    assert (await runner.report(job)).running == 0, "nothing waits for a lease to expire"
    runner.keep_working()
    done = await runner.until(job)
    assert (done.failed, done.completed) == (0, done.total)
    assert set(await runner.started(job)) == {1}


async def test_messages_that_are_lost_are_sent_again(runner: RunnerRig) -> None:
    runner.kill_workers()
    assert runner.dispatcher is not None
    job, sent = await runner.submit(), runner.dispatcher.sent
    async with asyncio.timeout(PATIENCE):
        while runner.dispatcher.sent == sent:
            await asyncio.sleep(0.05)
    await asyncio.to_thread(drop_messages, runner)
    runner.keep_working()
    done = await runner.until(job)
    assert (done.failed, done.completed) == (0, done.total)


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("often", [False, pytest.param(True, marks=pytest.mark.chaos)], ids=["few", "often"])
async def test_a_broker_that_is_killed_delays_the_work_and_loses_none__R9(runner: RunnerRig, often: bool) -> None:
    """Shifts that run go on without it. New ones wait until it is back, and health is red meanwhile."""
    assert runner.broker is not None
    runner.keep_working()
    delays = []
    for _ in range(20 if often else 3):
        running = await runner.submit()
        await runner.until(running, completed=3)
        await asyncio.to_thread(runner.broker.kill)
        jobs = [running]
        async with asyncio.timeout(PATIENCE):
            while runner.app.runner_trouble is None:
                if (await runner.report(jobs[-1])).state == "completed":
                    jobs.append(await runner.submit())  # for a shift that cannot be sent
                await asyncio.sleep(0.05)
        await asyncio.to_thread(runner.broker.start)
        back = time.monotonic()
        for job in jobs:
            done = await runner.until(job)
            assert (done.failed, done.completed) == (0, done.total)
        delays.append(time.monotonic() - back)
    assert runner.app.runner_trouble is None
    sys.stdout.write(f"seconds from the broker's return to the end of all jobs: {delays}\n")
    assert not often or statistics.median(delays) <= 15.0


@pytest.mark.brokered("rabbitmq")
async def test_a_crawl_is_distributed_by_the_broker_and_a_killed_worker_costs_no_page__PR_2__PR_21(
    runner: RunnerRig, tmp_path: Path
) -> None:
    """Submitted → row → RabbitMQ → worker → row: the process that accepts the crawl fetches no page of it."""
    runner.kill_workers()
    async with ShopSandbox(ShopConfig(pages=PAGES, categories=4, latency_ms=20)) as shop:
        site = f"127.0.0.1:{shop.port}"
        (tmp_path / "policies.yaml").write_text(no_pauses(site))
        rules = {"FORAGER_EGRESS_ALLOW": site, "FORAGER_DOMAIN_POLICIES_PATH": str(tmp_path / "policies.yaml")}
        made = await runner.app.submit("products", {"sitemap": shop.url("/"), "recrawl": False})
        runner.start_worker(**rules)
        await runner.until(made.job, completed=PAGES // 4)
        assert runner.kill_workers() == 1
        runner.start_worker(**rules)
        done = await runner.until(made.job)
        runner.kill_workers()
        fetched = Counter(call.subject for call in shop.log.since(0) if call.operation == "product")
    assert (done.failed, done.completed) == (0, done.total)
    assert sorted(map(int, fetched)) == list(range(1, PAGES + 1))
    (stored,) = await runner.app.database.fetch("SELECT count(*) AS items, count(DISTINCT sku) AS names FROM items")
    assert (stored["items"], stored["names"]) == (PAGES, PAGES)


async def test_a_job_and_a_firing_that_are_sent_twice_are_created_once__LI_6(runner: RunnerRig) -> None:
    runner.keep_working()
    before = await jobs_of(runner, "places")
    hourly = await runner.app.put_schedule(Schedule("hourly", "places", dict(JOB), cron="0 * * * *"), no_budget=True)
    now = await runner.app.ledger.now_ms()
    await runner.app.schedules.put(replace(hourly, next_at=now - 1_000))
    for _ in range(3):
        runner.celery.send_task(SUBMIT, args=["places", JOB, "once"], queue="celery")
        runner.celery.send_task(FIRE, args=["hourly"], queue="celery")
    async with asyncio.timeout(PATIENCE):
        while await jobs_of(runner, "places") < before + 2 or await runner.messages():
            await asyncio.sleep(0.1)
    await asyncio.sleep(LEASE / 3)
    assert await jobs_of(runner, "places") == before + 2
    following = (await runner.app.schedule("hourly")).next_at
    assert following is not None
    assert following > now


@pytest.mark.brokered("redis")  # refused before it connects to a broker
async def test_a_worker_that_could_not_do_its_shifts_is_refused_at_its_start(runner: RunnerRig, tmp_path: Path) -> None:
    runner.keep_working()
    job = await runner.submit()
    await runner.until(job)  # so that the ledger has a folder of pages
    refused = [runner.start_worker("--time-limit", "10"), runner.start_worker(FORAGER_HOME=str(tmp_path))]
    for worker in refused:
        runner.workers.remove(worker)
        assert await asyncio.to_thread(worker.wait, PATIENCE) != 0
    said = runner.output.read_text()
    assert "time limit of 10 s is shorter than a shift and its drain" in said
    assert "stored in another folder" in said


@pytest.mark.brokered("redis")  # what a message of beat does is shown above for each broker
async def test_two_beats_fire_a_schedule_once_per_time__LI_6(runner: RunnerRig) -> None:
    """Each of its times is sent twice, and creates one job."""
    runner.keep_working()
    often = await runner.app.put_schedule(Schedule("often", "places", dict(JOB), every=2.0), no_budget=True)
    before = fired(runner)
    beats = [runner.start_beat(), runner.start_beat()]
    try:
        async with asyncio.timeout(PATIENCE):
            while fired(runner) < before + 6:
                await asyncio.sleep(0.1)
    finally:
        for beat in beats:
            beat.terminate()
            await asyncio.to_thread(beat.wait)
        await runner.app.schedules.pause("often", paused=True, next_at=None)
    rows = await runner.app.database.fetch(
        "SELECT i.key FROM idempotency i JOIN jobs j ON j.id = i.job_id WHERE j.schedule = 'often'"
    )
    jobs = await runner.app.database.fetch("SELECT id FROM jobs WHERE schedule = 'often'")
    times = {int(row["key"].rpartition("/")[2]) for row in rows}
    assert 1 <= len(jobs) == len(times)
    assert often.next_at is not None
    assert all((at - often.next_at) % 2_000 == 0 for at in times)
