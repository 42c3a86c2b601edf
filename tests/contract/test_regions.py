"""Lanes that are pinned to a region: only sessions of that region take them, until it has had no worker for the time
that the pin allows. On PostgreSQL, which workers on several machines share."""

from collections.abc import AsyncIterator, Sequence

import pytest

from forager.core.ledger import Away, GivenLane
from forager.core.regions import Pin, served_queues
from forager.ledger.catalog import DEFAULT_QUEUE
from forager.ledger.tables.domains import follow_declared
from forager.ledger.tables.regions import Regions
from tests.support.recycled import Recycled
from tests.support.rig import LEASE, Rig, Worker, postgres_rig
from tests.support.rig_pipelines import calls

PLENTY = 100
FAIL_OVER = 60.0


@pytest.fixture
async def rig(rig_databases: Recycled) -> AsyncIterator[Rig]:
    with rig_databases.lent() as (url, tables):
        made = await postgres_rig(url, create=False, tables=tables)
        yield made
        made.check()
        await made.ledger.close()


@pytest.fixture
def regions(rig: Rig) -> Regions:
    return Regions(rig.ledger.database, rig.ledger.now_ms)


async def worker_in(rig: Rig, region: str | None, *queues: str) -> Worker:
    served = served_queues(queues, [DEFAULT_QUEUE], region)
    worker = Worker(rig, await rig.ledger.begin(f"in {region}", served))
    assert await rig.ledger.beat(worker.session, {}, PLENTY)
    return worker


async def with_work(rig: Rig, *lanes: str) -> None:
    for lane in lanes:
        await rig.submit(calls(2, where=lane, prefix=f"{lane}/"))


async def taken(worker: Worker) -> Sequence[str]:
    return sorted(lane.name for lane in await worker.rig.ledger.take_lanes(worker.session, PLENTY))


async def test_only_workers_of_its_region_take_a_pinned_lane(rig: Rig, regions: Regions) -> None:
    await regions.pin("shop.example", "eu")
    await with_work(rig, "shop.example", "other.example")
    anywhere, us, eu = await worker_in(rig, None), await worker_in(rig, "us"), await worker_in(rig, "eu")
    assert await taken(anywhere) == ["other.example"]
    assert await taken(us) == []
    assert await taken(eu) == ["shop.example"]


async def test_a_worker_alone_without_a_region_leaves_pinned_lanes_alone(rig: Rig, regions: Regions) -> None:
    await regions.pin("shop.example", "eu")
    await with_work(rig, "shop.example", "other.example")
    assert await taken(await worker_in(rig, None)) == ["other.example"]


async def test_a_pin_holds_for_sub_domains_unless_they_have_one_of_their_own(rig: Rig, regions: Regions) -> None:
    await regions.pin("shop.example", "eu")
    await regions.pin("us.shop.example", "us")
    await with_work(rig, "www.shop.example", "a.us.shop.example", "myshop.example")
    assert await taken(await worker_in(rig, "us")) == ["a.us.shop.example", "myshop.example"]
    assert await taken(await worker_in(rig, "eu")) == ["www.shop.example"]


async def test_a_lane_that_exists_moves_when_it_is_pinned_and_its_owner_gives_it_back(
    rig: Rig, regions: Regions
) -> None:
    await with_work(rig, "shop.example")
    us = await worker_in(rig, "us")
    (lane,) = await rig.ledger.take_lanes(us.session, PLENTY)
    assert list(await rig.ledger.strayed(us.session)) == []
    await regions.pin("shop.example", "eu")
    await worker_in(rig, "eu")
    assert list(await rig.ledger.strayed(us.session)) == [lane.id]
    await rig.ledger.give_lanes(us.session, {lane.id: GivenLane()})
    assert await taken(us) == []
    assert await regions.unpin("shop.example")
    assert await taken(us) == ["shop.example"]


async def test_a_request_may_not_take_a_lane_of_another_region_by_its_name(rig: Rig, regions: Regions) -> None:
    await regions.pin("shop.example", "eu")
    us, eu = await worker_in(rig, "us"), await worker_in(rig, "eu")
    assert await rig.ledger.take_lane(us.session, "shop.example") is Away.ELSEWHERE
    assert not isinstance(await rig.ledger.take_lane(eu.session, "shop.example"), Away)


async def test_a_lane_fails_over_after_its_time_and_returns_with_its_region(rig: Rig, regions: Regions) -> None:
    await regions.pin("shop.example", "eu", FAIL_OVER)
    await regions.pin("strict.example", "eu")
    await with_work(rig, "shop.example", "strict.example")
    us = await worker_in(rig, "us")
    await worker_in(rig, "eu")  # and it never appears again
    await regions.follow()
    rig.pass_time(LEASE + 1)
    us = await worker_in(rig, "us")
    await rig.ledger.sweep()
    await regions.follow()
    assert await taken(us) == [], "its region may come back within the time"
    rig.write(f"UPDATE regions SET seen_at = seen_at - {FAIL_OVER * 1000:.0f}")
    await regions.follow()
    assert await taken(us) == ["shop.example"], "the other pin allows no fail-over"
    (view,) = [each for each in await regions.list() if each.name == "eu"]
    assert (view.workers, view.failed_over, view.lanes, view.waiting) == (0, ("shop.example",), 1, 1)
    eu = await worker_in(rig, "eu")
    await regions.follow()
    (lane,) = await rig.ledger.strayed(us.session)
    await rig.ledger.give_lanes(us.session, {lane: GivenLane()})
    assert await taken(eu) == ["shop.example", "strict.example"]


async def test_a_region_that_never_had_a_worker_fails_over_from_the_time_of_the_pin(rig: Rig, regions: Regions) -> None:
    await regions.pin("shop.example", "moon", FAIL_OVER)
    await with_work(rig, "shop.example")
    us = await worker_in(rig, "us")
    assert await taken(us) == []
    rig.write(f"UPDATE region_pins SET created_at = created_at - {FAIL_OVER * 1000:.0f}")
    await regions.follow()
    assert await taken(us) == ["shop.example"]


async def test_a_start_with_other_declared_queues_leaves_pins_in_force(rig: Rig, regions: Regions) -> None:
    rig.catalog.queues["api"] = DEFAULT_QUEUE
    await regions.pin("api", "eu")
    await with_work(rig, "api")
    await follow_declared(rig.ledger.database, {"api": DEFAULT_QUEUE})
    assert await taken(await worker_in(rig, "us")) == []


async def test_the_list_shows_workers_lanes_and_pins_of_each_region(rig: Rig, regions: Regions) -> None:
    await regions.pin("shop.example", "eu", FAIL_OVER)
    await with_work(rig, "shop.example")
    eu = await worker_in(rig, "eu")
    await worker_in(rig, "us")
    await taken(eu)
    await regions.follow()
    told = {each.name: (each.workers, each.lanes, each.owned, each.waiting, each.pins) for each in await regions.list()}
    assert told == {"eu": (1, 1, 1, 0, (Pin("shop.example", "eu", FAIL_OVER),)), "us": (1, 0, 0, 0, ())}
