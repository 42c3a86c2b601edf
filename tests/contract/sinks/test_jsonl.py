"""The JSONL sink's own: what is in the folder after every kind of end, and what a line holds."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from forager.app import open_app
from forager.config import new_settings
from forager.core.change import Change
from forager.core.errors import Permanent, Rejected, Transient
from forager.sinks import jsonl
from forager.sinks.jsonl import JsonlSink, read_lines, read_manifest
from tests.support.chaos import gone
from tests.support.sink_process import Options, start
from tests.support.sink_suite import log_of, make_changes, open_store

JOB = uuid4()


def change(number: int, **more: Any) -> Change:
    values = {"kind": "thing", "key": f"k{number}", "op": "new", "version": 1, "job": JOB, "pipeline": "rig"}
    return Change(**{"id": number, **values, "at": 1_773_489_840_120, "body": {"uid": f"k{number}"}, **more})


def numbers(folder: Path) -> list[int]:
    return [json.loads(line)["id"] for line in read_lines(folder)]


async def test_a_line_is_the_whole_change(tmp_path: Path) -> None:
    await JsonlSink(tmp_path).write([change(1, body={"uid": "k1", "tags": ["ü"]})])
    (line,) = read_lines(tmp_path)
    assert json.loads(line) == {
        "id": 1,
        "kind": "thing",
        "key": "k1",
        "op": "new",
        "version": 1,
        "scope": "world",
        "job": str(JOB),
        "pipeline": "rig",
        "at": "2026-03-14T12:04:00.120000Z",
        "body": {"uid": "k1", "tags": ["ü"]},
    }


async def test_parts_are_closed_at_their_size_and_never_change_again(tmp_path: Path) -> None:
    sink = JsonlSink(tmp_path, part_bytes=500)
    before: dict[str, bytes] = {}
    for number in range(1, 30):
        await sink.write([change(number)])
        for part in read_manifest(tmp_path).parts:
            content = (tmp_path / part.name).read_bytes()[: part.bytes]
            assert content.startswith(before.get(part.name, b""))
            before[part.name] = content
    parts = read_manifest(tmp_path).parts
    assert len(parts) > 3
    assert all(500 <= part.bytes < 800 for part in parts[:-1])
    assert [part.lines for part in parts] == [len(before[part.name].splitlines()) for part in parts]
    assert numbers(tmp_path) == list(range(1, 30))


async def test_what_was_cut_off_is_ignored_by_readers_and_cut_away_by_the_next_write(tmp_path: Path) -> None:
    await JsonlSink(tmp_path).write([change(1)])
    with (tmp_path / "part-00000001.jsonl").open("ab") as file:
        file.write(b'{"id":2,"kind":"th')
    assert numbers(tmp_path) == [1]
    await JsonlSink(tmp_path).write([change(2)])
    assert numbers(tmp_path) == [1, 2]
    assert (tmp_path / "part-00000001.jsonl").read_bytes() == b"".join(line + b"\n" for line in read_lines(tmp_path))


async def test_a_kill_between_the_lines_and_the_manifest_leaves_the_folder_whole(tmp_path: Path) -> None:
    engine = await open_store(str(tmp_path))
    await make_changes(engine.ledger, 3)
    await engine.close()
    options = Options(str(tmp_path), "jsonl", str(tmp_path), death="appended")
    for nth in (1, 2):
        assert await gone(start(replace(options, nth=nth)), 60) == -9
        at_rest = numbers(tmp_path / "jsonl")
        assert at_rest == list(range(1, len(at_rest) + 1))
    assert await gone(start(replace(options, death="")), 60) == 0
    engine = await open_store(str(tmp_path))
    assert numbers(tmp_path / "jsonl") == [each.id for each in await log_of(engine.ledger)]
    await engine.close()


async def test_two_who_write_to_the_same_folder_do_so_one_after_the_other(tmp_path: Path) -> None:
    """A process that was stopped and comes back late, beside the one that took over."""
    late, heir = JsonlSink(tmp_path), JsonlSink(tmp_path)
    await late.write([change(1), change(2)])
    await heir.write([change(3)])
    await late.write([change(3), change(4)])
    await heir.write([change(2), change(4), change(5)])
    assert numbers(tmp_path) == [1, 2, 3, 4, 5]


async def test_a_folder_that_another_process_holds_is_waited_for_and_then_tried_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "LOCK_SECONDS", 0.1)
    with jsonl._locked(tmp_path / ".lock"), pytest.raises(Transient, match="Another process holds"):
        await JsonlSink(tmp_path).write([change(1)])


async def test_a_line_that_is_too_long_is_refused_and_writes_nothing(tmp_path: Path) -> None:
    sink = JsonlSink(tmp_path, largest_line=1_000)
    with pytest.raises(Permanent, match="a line has at most 1,000"):
        await sink.write([change(1), change(2, body={"text": "x" * 1_000})])
    assert numbers(tmp_path) == []


async def test_a_place_that_is_no_folder_cannot_be_reached_rather_than_refuse(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        await JsonlSink(tmp_path / "file").write([change(1)])


@pytest.mark.parametrize("damage", ["not JSON", '{"version": 7}', "cut"])
async def test_a_damaged_folder_is_never_taken_for_a_refusal(tmp_path: Path, damage: str) -> None:
    await JsonlSink(tmp_path).write([change(1)])
    if damage == "cut":
        os.truncate(tmp_path / "part-00000001.jsonl", 3)
    else:
        (tmp_path / "manifest.json").write_text(damage)
    with pytest.raises(Transient, match="move the folder away and replay"):
        await JsonlSink(tmp_path).write([change(2)])


async def test_a_folder_in_the_settings_makes_the_sink_and_kinds_are_checked(tmp_path: Path) -> None:
    async with open_app(new_settings(home=tmp_path)) as app:
        assert "jsonl" not in app.deliveries
    folder = tmp_path / "changes"
    async with open_app(new_settings(home=tmp_path, jsonl_sink=folder, jsonl_sink_kinds=("job",))) as app:
        assert app.deliveries["jsonl"].sink.kinds == frozenset({"job"})
        async with app.engine():
            await app.submit("places", {"keyword": "bars", "zips": ["85001"], "dry_run": True})
            while not await app.has_delivered():
                pass
        (line,) = [json.loads(line) for line in read_lines(folder)]
        assert (line["kind"], line["op"], line["pipeline"]) == ("job", "created", "places")
    with pytest.raises(Rejected, match="unknown kind 'pets'"):
        async with open_app(new_settings(home=tmp_path, jsonl_sink=folder, jsonl_sink_kinds=("pets",))):
            pass
