"""`forager sinks` on a store of its own: what it prints, and what it refuses."""

import pytest

from tests.support.cli import Forager


@pytest.mark.usefixtures("store")
def test_sinks_are_listed_shown_paused_and_resumed(forager: Forager) -> None:
    assert "webhook" in forager("sinks", "list").out
    assert forager("sinks", "pause", "webhook").out == "Paused webhook.\n"
    assert "paused" in forager("sinks", "list").out
    assert forager("sinks", "show", "webhook", "--json").data["state"] == "paused"
    assert forager("sinks", "resume", "webhook").out == "Resumed webhook.\n"
    shown = forager("sinks", "show", "webhook").out
    assert "change 0" in shown
    assert "0 changes" in shown


@pytest.mark.usefixtures("store")
def test_a_replay_says_how_much_comes_again(forager: Forager) -> None:
    assert forager("places", "plan", "--keyword", "bars", "--zip", "85001").code == 0
    ran = forager("sinks", "replay", "webhook")
    assert ran.code == 0
    assert "webhook goes on after change 0" in ran.out
    assert "No worker is running" in ran.out
    assert forager("sinks", "replay", "webhook", "--after", "1000000").code == 2


@pytest.mark.usefixtures("store")
def test_refused_changes_are_listed_retried_and_discarded_one_or_all(forager: Forager) -> None:
    assert "webhook has refused nothing" in forager("sinks", "refused", "webhook").err
    assert forager("sinks", "refused", "webhook", "--json").data == []
    assert "0 changes will be delivered again." in forager("sinks", "retry", "webhook").out
    assert forager("sinks", "retry", "webhook", "7").code == 4
    assert forager("sinks", "discard", "webhook").code == 2
    assert forager("sinks", "discard", "webhook", "7", "--all").code == 2
    assert forager("sinks", "discard", "webhook", "--all").out == "0 changes discarded.\n"


def test_a_sink_is_added_and_removed_but_not_one_of_the_settings(forager: Forager) -> None:
    assert "kafka" in forager("sinks", "types").out
    hook = ("--type", "webhook", "-k", "place", "-o", "url=https://receiver.example/a", "--from-now")
    assert "Added places: 0 changes to pass." in forager("sinks", "add", "places", *hook).out
    shown = forager("sinks", "show", "places").out
    assert "url=https://receiver.example/a" in shown
    assert forager("sinks", "add", "places", *hook).code == 5
    assert "choose from" in forager("sinks", "add", "pets", "--type", "webhook", "-k", "pets").err
    assert forager("sinks", "add", "pets", "--type", "webhook", "-o", "url").code == 2
    assert "unknown type 'pets'" in forager("sinks", "add", "pets", "--type", "pets").err
    assert "come from the settings alone" in forager("sinks", "add", "pets", "--type", "search").err
    assert forager("sinks", "remove", "places").out == "Removed places.\n"
    assert forager("sinks", "remove", "webhook").code == 5
    assert forager("sinks", "remove", "nothing").code == 4
    assert forager("sinks", "show", "nothing").code == 4
