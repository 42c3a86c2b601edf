"""An upstream to which no connection can be made: a job without any success is paused with the reason and the remedy,
instead of burning every retry of every task."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from forager.core.errors import Retry
from forager.core.ledger import NewJob
from forager.core.pipeline import Lane
from forager.engine.work.settle import MOST_IN_VAIN
from forager.sandbox import FULL_DENSITY, SerperConfig, SerperSandbox
from tests.contract.engine.conftest import OpenRig
from tests.support.acts import acts, many
from tests.support.engine import serper, until


async def test_a_job_whose_upstream_refuses_every_connection_is_paused_with_the_remedy(
    open_rig: OpenRig, unused_tcp_port: int
) -> None:
    nowhere = f"http://127.0.0.1:{unused_tcp_port}"
    rig = await open_rig(serper(nowhere, concurrency=10))
    job = await rig.submit_places(100, pages=3)
    await rig.run(nowhere, capacity=10)
    row = rig.job(job)
    assert (row["state"], row["completed"], row["failed"], row["skipped"], row["queued"]) == ("paused", 0, 0, 0, 300)
    assert MOST_IN_VAIN <= row["retries"] <= MOST_IN_VAIN + 10, "only what was in flight is tried beyond the limit"
    for part in (f"127.0.0.1:{unused_tcp_port}", "no connection", f"{MOST_IN_VAIN} attempts", "resume the job"):
        assert part in row["reason"]


async def test_a_paused_job_continues_after_a_resume_when_its_upstream_answers(
    open_rig: OpenRig, unused_tcp_port: int
) -> None:
    config = SerperConfig(density=FULL_DENSITY, rate_limit=None)
    nowhere = f"http://127.0.0.1:{unused_tcp_port}"
    rig = await open_rig(serper(nowhere, concurrency=10))
    job = await rig.submit_places(30, pages=1)
    await rig.run(nowhere, capacity=10)
    assert rig.job(job)["state"] == "paused"
    async with SerperSandbox(config, port=unused_tcp_port):
        await rig.ledger.resume(job)
        await rig.run(nowhere)
    row = rig.job(job)
    assert (row["state"], row["completed"], row["failed"]) == ("completed", 30, 0)


async def test_an_upstream_that_goes_away_in_the_middle_of_a_job_pauses_it(
    open_rig: OpenRig, unused_tcp_port: int
) -> None:
    config = SerperConfig(density=FULL_DENSITY, rate_limit=None)
    address = f"http://127.0.0.1:{unused_tcp_port}"
    rig = await open_rig(serper(address, concurrency=2))
    job = await rig.submit_places(300, pages=1)
    worker = rig.worker(address, capacity=2)
    async with rig.working(worker):
        async with SerperSandbox(config, port=unused_tcp_port):
            await until(lambda: rig.job(job)["completed"] >= 5)
        await until(lambda: rig.job(job)["state"] == "paused")
    row = rig.job(job)
    # Where the two tasks that come first use up their attempts before the pause, they fail; a resume tries them again.
    assert row["failed"] < MOST_IN_VAIN
    assert "no connection" in row["reason"]


async def test_a_crawl_of_many_sites_of_which_one_is_dead_is_not_paused(
    open_rig: OpenRig, unused_tcp_port: int
) -> None:
    dead, once = f"127.0.0.1:{unused_tcp_port}", Retry(1, first=0.05)
    async with SerperSandbox() as alive:
        good = urlsplit(alive.url).netloc
        rig = await open_rig(acts(Lane(dead, None, concurrency=1, retry=once, site=True), Lane(good, None, site=True)))
        wrong = [*many(3 * MOST_IN_VAIN, prefix="d", where=dead, url=f"http://{dead}/")]
        job = await rig.submit([*many(5, prefix="g", where=good, url=f"http://{good}/"), *wrong])
        await rig.run(f"http://{dead}", alive.url)
    row = rig.job(job)
    assert (row["state"], row["completed"], row["failed"]) == ("partially_completed", 5, 3 * MOST_IN_VAIN)


async def test_a_long_list_on_a_host_that_does_not_exist_is_paused_instead_of_failing_page_by_page(
    open_rig: OpenRig,
) -> None:
    nowhere = "nosuch.invalid:80"
    rig = await open_rig(acts(Lane(nowhere, rate=None, concurrency=1, retry=Retry(0), site=True)))
    job = await rig.submit([*many(10 * MOST_IN_VAIN, where=nowhere, url=f"http://{nowhere}/")])
    await rig.run(f"http://{nowhere}")
    row = rig.job(job)
    assert (row["state"], row["failed"]) == ("paused", MOST_IN_VAIN - 1)
    assert "the name nosuch.invalid does not resolve" in row["reason"]
    assert "resume the job" in row["reason"]


async def test_a_resume_tries_the_pages_again_that_failed_before_the_pause(
    open_rig: OpenRig, unused_tcp_port: int
) -> None:
    host = f"127.0.0.1:{unused_tcp_port}"
    rig = await open_rig(acts(Lane(host, rate=None, concurrency=1, retry=Retry(0), site=True)))
    job = await rig.submit([*many(2 * MOST_IN_VAIN, where=host, url=f"http://{host}/")])
    await rig.run(f"http://{host}")
    assert (rig.job(job)["state"], rig.job(job)["failed"]) == ("paused", MOST_IN_VAIN - 1)
    async with SerperSandbox(port=unused_tcp_port):
        await rig.ledger.resume(job)
        await rig.run(f"http://{host}")
    row = rig.job(job)
    assert (row["state"], row["completed"], row["failed"]) == ("completed", 2 * MOST_IN_VAIN, 0)


async def test_a_resume_of_a_job_that_a_person_paused_leaves_its_failures(
    open_rig: OpenRig, unused_tcp_port: int
) -> None:
    host = f"127.0.0.1:{unused_tcp_port}"
    rig = await open_rig(acts(Lane(host, rate=None, concurrency=1, retry=Retry(0), site=True)))
    (last, *plans) = many(4, where=host, url=f"http://{host}/")
    job = await rig.submit([*plans, replace(last, due=datetime.now(UTC) + timedelta(days=1))])
    async with rig.working(rig.worker(f"http://{host}")):
        await until(lambda: rig.job(job)["failed"] == 3)
    await rig.ledger.pause(job)
    await rig.ledger.resume(job)
    assert (rig.job(job)["failed"], rig.job(job)["queued"]) == (3, 1)


async def test_a_standing_job_is_not_paused_because_one_receiver_is_away(
    open_rig: OpenRig, unused_tcp_port: int
) -> None:
    dead = f"127.0.0.1:{unused_tcp_port}"
    rig = await open_rig(acts(Lane(dead, rate=None, concurrency=1, retry=Retry(0))))
    standing = NewJob("acts", {}, idempotency_key=" deliveries/x", standing=True)
    plans = [*many(2 * MOST_IN_VAIN, where=dead, url=f"http://{dead}/")]
    job = (await rig.ledger.append(standing, plans)).job
    await rig.run(f"http://{dead}")
    assert (rig.job(job)["state"], rig.job(job)["failed"]) == ("failed", 2 * MOST_IN_VAIN)


async def test_a_job_of_a_few_tasks_fails_by_its_retries_as_before(open_rig: OpenRig, unused_tcp_port: int) -> None:
    nowhere = f"http://127.0.0.1:{unused_tcp_port}"
    rig = await open_rig(serper(nowhere))
    job = await rig.submit_places(2, pages=2)
    await rig.run(nowhere)
    row = rig.job(job)
    assert (row["state"], row["failed"], row["skipped"]) == ("failed", 2, 2)
