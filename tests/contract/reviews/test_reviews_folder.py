"""Mock mode by a folder: Google's objects from three files, through the same pipeline."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from forager.core.errors import Rejected
from forager.pipelines.reviews.recorded import FILES
from forager.pipelines.reviews.wiring import recorded_in
from tests.support.reviews import Reviews, open_reviews

ACCOUNTS = [{"name": "accounts/1", "accountName": "One"}, {"accountId": "2", "accountName": "Two"}]
PLACES = [
    {"name": "accounts/1/locations/8", "title": "Here"},
    {"name": "locations/9", "accountId": "2", "title": "There"},
]
REVIEWS = [
    *({"name": f"accounts/1/locations/8/reviews/r{n}", "starRating": "FIVE"} for n in range(120)),
    {"reviewId": "x", "locationId": "9", "starRating": "ONE", "comment": "Slow."},
    {"locationId": "9", "starRating": "ONE"},
]


def write(folder: Path, *contents: Any) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in zip(FILES, contents, strict=True):
        (folder / name).write_bytes(content if isinstance(content, bytes) else orjson.dumps(content))
    return folder


async def run(service: Reviews) -> str:
    job = await service.fetch("any-token")
    await service.work()
    return job


@pytest.mark.parametrize("wrapped", [False, True])
async def test_a_folder_is_read_whole_page_by_page__RV_11(tmp_path: Path, wrapped: bool) -> None:
    lists = (ACCOUNTS, PLACES, REVIEWS)
    keyed = [{key: rows} for key, rows in zip(("accounts", "locations", "reviews"), lists, strict=True)]
    folder = write(tmp_path / "mock", *(keyed if wrapped else lists))
    async with open_reviews(tmp_path, google_mock_folder=folder) as service:
        job = await run(service)
        seen = await service.seen(job)
        assert (seen["status"], seen["accounts"], seen["locations"]) == ("completed", 2, 2)
        assert (seen["reviews"], seen["rejected"], seen["pages"]) == (121, 1, 1 + 2 + 3 + 1)
        stored = {each["review_key"]: each for each in await service.records("review", job)}
        assert stored["2_9_x"]["text"] == "Slow."
        assert stored["1_8_r7"]["rating"] == 5
        assert service.google.log.total == 0, "Google was not called"


async def test_a_folder_needs_no_token__RV_11(tmp_path: Path) -> None:
    """Its jobs can then be created by the common route, and scheduled."""
    folder = write(tmp_path / "mock", ACCOUNTS, PLACES, REVIEWS)
    async with open_reviews(tmp_path, google_mock_folder=folder) as service:
        made = await service.client.post("/api/v1/jobs", json={"pipeline": "reviews", "params": {}})
        assert made.status_code == 202, made.text
        timed = {"pipeline": "reviews", "params": {}, "every": "1d"}
        scheduled = await service.client.put("/api/v1/schedules/nightly", json=timed)
        assert scheduled.status_code < 300, scheduled.text
        await service.work()
        seen = await service.seen(made.json()["data"]["id"])
        assert (seen["status"], seen["reviews"]) == ("completed", 121)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ((b"nonsense", [], []), r"accounts\.json is not JSON"),
        ((3, [], []), r"accounts\.json must hold a list"),
        (([{"accountName": "One"}], [], []), r"accounts\.json, row 1"),
        ((ACCOUNTS, [{"title": "Nowhere"}], []), r"locations\.json, row 1"),
        ((ACCOUNTS, PLACES, [{"reviewId": "x"}]), r"Reviews\.json, row 1"),
    ],
)
def test_a_folder_that_cannot_be_used_names_the_file_and_the_row__RV_11(
    tmp_path: Path, contents: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(Rejected, match=message):
        recorded_in(write(tmp_path, *contents))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match=r"accounts\.json cannot be read"):
        recorded_in(tmp_path)
