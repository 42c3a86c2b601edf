"""`forager rechecks` on a store of its own: what it prints, and what it refuses."""

import pytest
from rich.console import Console

from forager.api.examples import RECHECK
from forager.cli.rechecks import table_of
from tests.support.cli import Forager


@pytest.mark.usefixtures("store")
def test_rechecks_are_listed_paused_and_resumed_and_an_unknown_one_is_not_found(forager: Forager) -> None:
    for each in forager("rechecks", "list", "--json").data:
        name = each["name"]
        assert name in forager("rechecks", "list").out
        assert forager("rechecks", "pause", name).out == f"Paused {name}.\n"
        assert forager("rechecks", "pause", name, "--json").data["state"] == "paused"
        assert forager("rechecks", "resume", name).out == f"Resumed {name}.\n"
    for verb in ("pause", "resume"):
        ran = forager("rechecks", verb, "nothing")
        assert ran.code == 4
        assert "There is no recheck 'nothing'" in ran.err


def test_the_list_shows_what_is_due_how_late_and_why_a_rule_fails() -> None:
    idle = {**RECHECK, "name": "idle", "due": 0, "late_seconds": 0.0, "next_due": None}
    broken = {**RECHECK, "name": "broken", "due": 10_000, "state": "paused", "error": "p1: KeyError: 'url'"}
    console = Console(width=160)
    with console.capture() as captured:
        console.print(table_of([RECHECK, idle, broken]))
    _, first, second, third = (line.split() for line in captured.get().splitlines() if any(c.isalpha() for c in line))
    assert first == ["product.next_at", "active", "12", "3.5", "s", "48,210", "2026-03-14", "12:10:00"]
    assert second == ["idle", "active", "0", "48,210"]
    assert third[:3] == ["broken", "paused", "10,000+"]
    assert third[-3:] == ["p1:", "KeyError:", "'url'"]
