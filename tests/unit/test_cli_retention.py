"""`forager prune` and `forager db compact` on a store of their own."""

from tests.support.cli import Forager


def test_the_command_shows_what_would_go_and_removes_it(forager: Forager) -> None:
    assert "Nothing is old enough to be removed" in forager("prune", "--dry-run").err
    assert forager("prune", "--json").data == {
        **dict.fromkeys(("jobs", "tasks", "messages", "rejected", "attempts", "changes", "records"), 0),
        "more": False,
    }


def test_an_embedded_store_is_compacted_and_another_is_not(forager: Forager) -> None:
    assert forager("db", "compact").code == 4
    forager("jobs", "list")
    assert "MB now" in forager("db", "compact").out
    assert set(forager("db", "compact", "--json").data) == {"bytes_before", "bytes"}
