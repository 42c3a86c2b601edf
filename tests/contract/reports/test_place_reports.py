"""Places, their history and exports: each once, by every way of reading."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from forager.core.errors import NotFound
from forager.pipelines.places.estimate import Pages
from forager.pipelines.places.reports import PlaceFilter, density, find_places, one_place
from forager.sdk.queries import QueryPage
from tests.support.places_rig import Places, PlacesRig, found
from tests.support.reports import whole


async def test_places_are_found_by_each_filter(rig: PlacesRig, small_window: int) -> None:
    bars = await rig.submit("bars", zips=("85001", "10001"), pages=1)
    await rig.run(lambda key: found(1, 10) if key == "85001/1" else found(8, 10))
    pubs = await rig.submit("pubs", zips=("85003",), pages=1)
    await rig.run(lambda key: found(16, 5))
    numbers = {
        PlaceFilter(): range(1, 21),
        PlaceFilter(job=bars): range(1, 18),
        PlaceFilter(job=pubs): range(16, 21),
        PlaceFilter(zip="10001"): range(11, 18),  # the job had seen 8 to 10 in 85001 already
        PlaceFilter(job=bars, zip="10001"): range(11, 18),
        PlaceFilter(keyword="pubs"): range(16, 21),
        PlaceFilter(keyword="Pubs"): range(16, 21),
        PlaceFilter(keyword="pub"): (),
        PlaceFilter(job=pubs, keyword="PUBS"): range(16, 21),
        PlaceFilter(zip="85003", keyword="PUBS"): range(16, 21),
        PlaceFilter(state="NY"): range(11, 18),
        PlaceFilter(keyword="bars", state="AZ"): range(1, 11),
        PlaceFilter(category="Bar"): range(1, 21, 2),
        PlaceFilter(zip="85003", category="Pub"): (16, 18, 20),
        PlaceFilter(job=pubs, category="Pub", min_rating=4.7): (18,),
        PlaceFilter(min_rating=4.85): (19,),
        PlaceFilter(title="bAR 1"): (1, *range(10, 20)),
        PlaceFilter(title="%"): (),
        PlaceFilter(title="_"): (),
        PlaceFilter(category="Zoo"): (),
        PlaceFilter(category="bar"): (),
    }
    for asked, expected in numbers.items():

        async def ask(cursor: str | None, asked: PlaceFilter = asked) -> QueryPage[Any]:
            return await find_places(rig.ledger.database, asked, cursor=cursor, limit=3)

        got = [place.place_uid for place in await whole(ask)]
        assert got == [f"ChIJ{n:06d}" for n in expected], asked


async def test_a_title_and_a_keyword_are_found_as_they_are_written_whatever_the_letters(rig: PlacesRig) -> None:
    await rig.submit("CAFÉ", pages=1)
    await rig.run(lambda _: found(1, 1, title="LE CAFÉ"))
    for asked in (PlaceFilter(title="CAFÉ"), PlaceFilter(title="e cafÉ"), PlaceFilter(keyword="CAFÉ")):
        assert len((await find_places(rig.ledger.database, asked)).items) == 1, asked


async def test_a_place_is_found_by_its_cid_too__PL_13(rig: PlacesRig) -> None:
    await rig.submit(pages=1)
    await rig.run(lambda key: found(1, 2))
    place = await one_place(rig.ledger.database, "ChIJ000001")
    assert (place.title, place.times_seen, place.version) == ("Bar 1", 1, 1)
    assert place.cid is not None
    assert await one_place(rig.ledger.database, place.cid) == place
    with pytest.raises(NotFound):
        await one_place(rig.ledger.database, "nobody")


def _with_phone(phone: str) -> Callable[[str], Places]:
    return lambda _: found(1, 1, phoneNumber=phone)


async def test_a_record_has_its_history(rig: PlacesRig) -> None:
    jobs = []
    for n, phone in enumerate(("1", "2", "2", "3")):
        jobs.append(await rig.submit(f"word {n}", pages=1))
        await rig.run(_with_phone(phone))
    changes = await whole(lambda cursor: rig.reports.history("place", "ChIJ000001", cursor=cursor, limit=1))
    assert [(c.op, c.version, c.job) for c in changes] == [
        ("changed", 3, jobs[3]), ("changed", 2, jobs[1]), ("new", 1, jobs[0]),
    ]  # fmt: skip
    assert [(c.body or {})["phone"] for c in changes] == ["3", "2", "1"]
    of_job = await rig.reports.history("job", str(jobs[0]))
    assert [change.op for change in of_job.items] == ["ended", "created"]


async def test_an_export_has_every_record_once(rig: PlacesRig) -> None:
    bars = await rig.submit("bars", zips=("85001", "85003"), pages=1)
    await rig.run(lambda key: found(1, 10) if key == "85001/1" else found(6, 9))
    pubs = await rig.submit("pubs", zips=("85001",), pages=1)
    await rig.run(lambda key: found(14, 3))

    async def keys(kind: str, job: UUID | None = None) -> list[str]:
        return [row["place_uid"] async for page in rig.reports.export(kind, job=job, limit=4) for row in page]

    assert sorted(await keys("place")) == [f"ChIJ{n:06d}" for n in range(1, 17)]
    assert await keys("place", bars) == [f"ChIJ{n:06d}" for n in range(1, 15)]
    assert await keys("sighting", pubs) == [f"ChIJ{n:06d}" for n in range(14, 17)]
    assert len(await keys("sighting")) == 14 + 3
    (row,) = (await rig.reports.export_page("sighting", job=pubs, limit=1)).items
    assert row["job"] == pubs
    assert row["payload"] == found(14, 1)[0]
    assert row["first_seen_at"].tzinfo is not None


async def test_a_list_does_not_end_where_a_name_was_merged_away__PL_13(rig: PlacesRig) -> None:
    """Seen by its cid and by its placeId before these were known to be one place: one sighting leads nowhere now."""
    by_cid, by_id = {"title": "The Anchor", "cid": "77"}, {"title": "The Anchor", "placeId": "ChIJ-anchor"}
    job = await rig.submit("bars", zips=("85001", "85003", "85004", "85006"), pages=1)
    pages = {"85001/1": [by_cid], "85003/1": [by_id], "85004/1": [by_id | by_cid], "85006/1": found(1, 3)}
    leases = await rig.lease()
    for key, places in pages.items():
        await rig.answer(leases[key], places)

    async def keys(limit: int) -> list[str]:
        return [row["place_uid"] async for page in rig.reports.export("place", job=job, limit=limit) for row in page]

    assert await keys(1) == await keys(100) == ["ChIJ-anchor", *(f"ChIJ{n:06d}" for n in range(1, 4))]


async def test_density_distinguishes_full_pages_from_short_ones__PL_5(rig: PlacesRig) -> None:
    await rig.submit("bars", zips=("85001", "85003"), pages=3)
    await rig.run(lambda key: found(1, {"85001/1": 10, "85001/2": 10, "85001/3": 3}.get(key, 4)))
    await rig.submit("pubs", zips=("85003", "10001"), pages=1)
    await rig.run(lambda key: found(1, 10))
    seen = await density(rig.ledger.database, keyword="bars", state="AZ")
    assert seen.same_keyword == {"85001": Pages(full=2, short=1), "85003": Pages(full=0, short=1)}
    assert seen.any_keyword == {
        "85001": Pages(full=2, short=1),
        "85003": Pages(full=1, short=1),
        "10001": Pages(full=1, short=0),
    }
