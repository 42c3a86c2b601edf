"""The events of a job in pages, and the commands that show them nested."""

import io
from typing import Any

import orjson
import pytest
from rich.console import Console

from forager.client.connect import Application, LocalTransport
from forager.pipelines.reviews.cli import ReviewTree, read_events, watch_tree
from forager.sdk.cli.client import Api
from tests.support.api import KEY
from tests.support.reviews import API, Reviews


async def pages(service: Reviews, job: str, limit: int) -> list[dict[str, Any]]:
    found, after = [], 0
    while True:
        got = await service.client.get(f"{API}/{job}/events", params={"after": after, "limit": limit})
        page = got.json()["data"]
        found += page["events"]
        after = page["last"]
        if page["ended"]:
            return found


async def test_every_record_is_an_event_once_and_parents_come_first__RV_10(simple: Reviews) -> None:
    job = await simple.fetch()
    empty = (await simple.client.get(f"{API}/{job}/events")).json()["data"]
    assert empty == {"events": [], "last": 0, "ended": False}
    await simple.work()
    found = await pages(simple, job, 100)
    assert [event["number"] for event in found] == sorted({event["number"] for event in found})
    for kind in ("account", "location", "review"):
        assert sum(event["event"] == kind for event in found) == len(await simple.records(kind, job))
    assert found == await pages(simple, job, 1_000)
    assert (await simple.client.get(f"{API}/{job}/events", params={"limit": 1_001})).status_code == 422


async def test_a_tree_shows_a_part_and_counts_everything__RV_10(
    simple: Reviews, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await simple.fetch()
    api = Api(LocalTransport(application(simple)), KEY)
    assert not await read_events(api, job, lambda _: None, lambda: None, wait=False), "it has not ended"
    await simple.work()
    screen = io.StringIO()
    console = Console(file=screen, width=120, force_terminal=True)
    monkeypatch.setattr("forager.sdk.cli.render.out", lambda: console)
    assert await watch_tree(api, job)
    seen = await simple.seen(job)
    drawn = screen.getvalue()
    assert f"{seen['accounts']} accounts, {seen['locations']} locations, {seen['reviews']:,} reviews" in drawn
    assert "★" in drawn


def application(service: Reviews) -> Application:
    api: Application = service.api
    return api


def test_what_google_sent_is_neither_markup_nor_moves_the_cursor() -> None:
    tree = ReviewTree()
    evil = "[red]x[/] \x1b[2J"
    tree.add({"event": "account", "data": {"account_id": "1", "account_name": evil}})
    tree.add({"event": "location", "data": {"account_id": "1", "location_id": "2", "title": evil}})
    tree.add({"event": "review", "data": {"account_id": "1", "location_id": "2", "rating": 3, "text": evil}})
    screen = io.StringIO()
    Console(file=screen, width=100).print(tree.drawn())
    assert screen.getvalue().count("[red]x[/] ·[2J") == 3


def test_a_tree_stays_small_however_much_is_found() -> None:
    tree = ReviewTree()
    for account in range(20):
        tree.add({"event": "account", "data": {"account_id": f"{account}"}})
        for location in range(50):
            data = {"account_id": f"{account}", "location_id": f"{location}", "rating": None}
            tree.add({"event": "location", "data": data})
            tree.add({"event": "review", "data": orjson.loads(orjson.dumps(data))})
    screen = io.StringIO()
    Console(file=screen, width=100).print(tree.drawn())
    lines = screen.getvalue().splitlines()
    assert lines[0] == "20 accounts, 1,000 locations, 1,000 reviews"
    assert len(lines) < 80
    assert "and 46 more" in screen.getvalue()
    assert "and 14 more" in lines[-1]
