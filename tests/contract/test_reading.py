"""`forager.read`: records in Python, through a running Forager or straight from the store."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import forager
from forager.api.serve import running
from forager.core.errors import Rejected
from tests.support.api import KEY, open_front

ZIPS = ["85001", "85002"]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], list[Any]]:
    """A store with places: its folder, their keys, and what is read while its API runs."""
    home = tmp_path_factory.mktemp("filled")

    async def fill() -> tuple[list[str], list[Any]]:
        async with open_front(home) as front, running(front.api, host="127.0.0.1", port=0) as url:
            await front.create(keyword="bars", zips=ZIPS, pages=1)
            await front.work()
            keys = [each["place_uid"] for each in await front.data("/api/v1/records/place", limit=1_000)]
            records = forager.read("places", settings={"home": home, "api_url": url, "service_key": KEY})
            return keys, await asyncio.to_thread(list, records)

    keys, over_http = asyncio.run(fill())
    assert keys
    return home, keys, over_http


def test_records_are_read_through_a_running_forager_and_from_the_store_alike(
    filled: tuple[Path, list[str], list[Any]],
) -> None:
    home, keys, over_http = filled
    alone = list(forager.read("place", settings={"home": home}))
    assert [each["place_uid"] for each in alone] == keys
    assert alone == over_http


async def test_a_caller_with_a_running_loop_may_read_and_stop_in_the_middle(
    filled: tuple[Path, list[str], list[Any]],
) -> None:
    home, keys, _ = filled
    records = forager.read("places", settings={"home": home})
    for _ in range(2):
        assert [each["place_uid"] for each in islice(records, 2)] == keys[:2], "a reader that stops leaves the store"


def test_since_as_of_and_filters_choose(filled: tuple[Path, list[str], list[Any]]) -> None:
    home, keys, _ = filled
    now = datetime.now(UTC)

    def count(**more: Any) -> int:
        return len(list(forager.read("places", settings={"home": home}, **more)))

    assert count(since=now - timedelta(hours=1)) == len(keys)
    assert count(since=now) == 0
    assert count(as_of=now) == len(keys)
    assert count(as_of=now - timedelta(hours=1)) == 0
    assert count(where={"place_uid": keys[0]}) == 1
    assert len(list(forager.read("sightings", since=now - timedelta(hours=1), settings={"home": home}))) >= len(keys)


def test_an_unreadable_request_is_refused_with_its_remedy(filled: tuple[Path, list[str], list[Any]]) -> None:
    home, _, _ = filled
    with pytest.raises(Rejected, match="choose from"):
        list(forager.read("pets", settings={"home": home}))
    with pytest.raises(Rejected, match="time zone"):
        forager.read("places", since=datetime(2026, 3, 14))  # noqa: DTZ001 - the mistake itself
    with pytest.raises(AttributeError, match="no attribute 'write'"):
        _ = forager.write


@pytest.mark.parametrize(("package", "to"), [("pyarrow", "arrow"), ("pandas", "pandas")])
def test_tables_have_a_row_for_each_record_or_name_the_package(
    filled: tuple[Path, list[str], list[Any]], monkeypatch: pytest.MonkeyPatch, package: str, to: str
) -> None:
    home, keys, _ = filled
    records = forager.read("places", settings={"home": home})
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(Rejected, match=f"pip install {package}"):
        getattr(records, to)()
    monkeypatch.undo()
    pytest.importorskip(package)
    table = getattr(records, to)()
    assert list(table["place_uid"].tolist() if to == "pandas" else table["place_uid"].to_pylist()) == keys
