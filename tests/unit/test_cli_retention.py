"""`forager prune` and `forager db compact` on a store of their own."""

from pathlib import Path

import pytest

from tests.support.cli import Forager


@pytest.mark.usefixtures("store")
def test_the_command_shows_what_would_go_and_removes_it(forager: Forager) -> None:
    assert "Nothing is old enough to be removed" in forager("prune", "--dry-run").err
    assert forager("prune", "--json").data == {
        **dict.fromkeys(("jobs", "tasks", "messages", "rejected", "attempts", "changes", "records"), 0),
        "more": False,
    }


def test_an_embedded_store_is_compacted_and_another_is_not(forager: Forager) -> None:
    assert forager("db", "compact").code == 4
    forager("db", "upgrade")
    assert "MB now" in forager("db", "compact").out
    assert set(forager("db", "compact", "--json").data) == {"bytes_before", "bytes"}


@pytest.mark.usefixtures("store")
def test_the_archive_is_planned_confirmed_and_searched(
    forager: Forager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORAGER_ARCHIVE", str(tmp_path / "archive"))
    asked = ("archive", "--kind", "product", "--inactive-for", "180d")
    assert "0 records of kind product would be moved" in forager(*asked, "--plan").out
    assert forager(*asked, "--yes", "--json").data == {"records": 0, "files": 0, "after": 0, "more": False}
    assert "--inactive-for is missing" in forager("archive", "--kind", "product").err
    assert "No product with the key 'x'" in forager("archive", "--kind", "product", "--key", "x").err
    odd = "https://shop.example/a?b=c#d%2F"
    assert f"No product with the key {odd!r}" in forager("archive", "--kind", "product", "--key", odd).err
    assert "cannot be archived" in forager("archive", "--kind", "sighting", "--inactive-for", "180d").err
