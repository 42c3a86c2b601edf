"""`forager lanes` on a store of its own: what it prints, what it refuses, and that a rule stays set."""

from pathlib import Path
from typing import Any

import pytest

from forager.cli.lanes import amount, read_hours, read_names, standing
from forager.core.rules import FIELDS
from tests.support.cli import Forager


@pytest.mark.usefixtures("store")
def test_a_site_without_visits_shows_its_rules_and_their_sources(forager: Forager) -> None:
    ran = forager("lanes", "show", "www.linkedin.com")
    assert ran.code == 0
    assert "linkedin.com (site)" in ran.out
    assert "policy file, linkedin.com" in ran.out
    assert "06-22 UTC" in ran.out
    shown = forager("lanes", "show", "https://www.linkedin.com/in/somebody", "--json").data
    assert shown["name"] == "linkedin.com"
    assert set(shown["rules"]) == set(FIELDS)


def test_every_rule_can_be_set_taken_back_and_cleared(forager: Forager) -> None:
    options = (
        *("--tokens", "0.5", "--interval", "20", "--min-delay", "10", "--max-delay", "20", "--hours", "22-6"),
        *("--no-robots", "--concurrency", "2", "--crawl-delay", "1.5", "--no-proxies", "--proxy-cooldown", "5"),
        *("--block", "font, image", "--no-via"),
    )
    said = forager("lanes", "set", "shop.example", *options, "--new", "--json").data["overrides"]
    assert said == {
        "tokens_per_interval": 0.5,
        "interval_seconds": 20,
        "min_delay_ms": 10,
        "max_delay_ms": 20,
        "allowed_hours": {"start": 22, "end": 6},
        "respect_robots_txt": False,
        "max_concurrent_requests": 2,
        "crawl_delay_seconds": 1.5,
        "use_proxies": False,
        "proxy_cooldown_seconds": 5,
        "block_resources": ["image", "font"],
        "via": False,
    }
    assert set(said) == set(FIELDS)
    assert forager("lanes", "list", "--overrides", "--json").data[0]["rules"] == said
    fewer = forager("lanes", "set", "shop.example", "--unset", "allowed-hours", "--robots", "--json").data["overrides"]
    assert fewer == {**{key: said[key] for key in said if key != "allowed_hours"}, "respect_robots_txt": True}
    only = forager("lanes", "set", "shop.example", "--clear", "--block", "none", "--json").data["overrides"]
    assert only == {"block_resources": []}
    assert forager("lanes", "set", "shop.example", "--clear", "--json").data["overrides"] is None
    assert "No operator has set a rule" in forager("lanes", "list", "--overrides").err


@pytest.mark.usefixtures("store")
def test_a_lane_is_paused_listed_and_resumed(forager: Forager) -> None:
    assert "No lanes yet" in forager("lanes", "list").err
    refused = forager("lanes", "pause", "shop.example")
    assert (refused.code, refused.out) == (4, "")
    assert "There is no lane 'shop.example'" in refused.err
    assert "forager lanes pause shop.example --new " in refused.err, "a command that can be copied"
    assert "forager lanes set shop.example --new …" in forager("lanes", "set", "shop.example", "--tokens", "2").err
    for verb in ("show", "resume"):
        assert "--new" not in forager("lanes", verb, "serpr").err, "an option that this command lacks"
    assert forager("lanes", "pause", "shop.example", "--new").out == "Paused shop.example.\n"
    assert "paused" in forager("lanes", "list").out
    assert forager("lanes", "list", "--json").data[0]["paused"] is True
    assert forager("lanes", "resume", "shop.example").out == "Resumed shop.example.\n"
    assert forager("lanes", "list", "--json").data[0]["paused"] is False


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("set", "shop.example"), "Give at least one rule"),
        (("set", "shop.example", "--hours", "night"), "START-END"),
        (("set", "shop.example", "--new", "--tokens", "0"), "--tokens"),
        (("set", "shop.example", "--new", "--hours", "5-5"), "start 0 and end 24"),
        (("set", "shop.example", "--unset", "colour"), "colour"),
        (("set", "shop.example", "--new", "--block", "video"), "--block"),
        (("set", "shop.example/x", "--tokens", "1"), "host name"),
        (("set", "serper", "--robots"), "serper is an API"),
        (("pause", "www.linkedin.com"), "linkedin.com"),
        (("set", "serper", "--rate", "fast"), "invalid rate 'fast'; write one such as 30/s"),
        (("set", "serper", "--rate", "0/s"), "invalid rate"),
        (("set", "serper", "--rate", "5/s", "--tokens", "1"), "--rate sets --tokens and --interval"),
    ],
)
def test_an_invalid_rule_is_refused_with_a_valid_one(forager: Forager, arguments: tuple[str, ...], said: str) -> None:
    ran = forager("lanes", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_a_rate_limited_by_a_pause_is_answered_with_the_rule_that_holds(forager: Forager) -> None:
    ran = forager("lanes", "set", "shop.example", "--tokens", "30", "--interval", "1", "--new")
    assert "Your rate changes nothing: one request in 1.25 s on average" in ran.err
    assert "the random pause of 0.5 to 2 s (policy file, default)" in ran.err
    assert "forager lanes set shop.example --rate 30/1s" in ran.err
    faster = forager("lanes", "set", "shop.example", "--rate", "30/s")
    assert "changes nothing" not in faster.err
    shown = forager("lanes", "show", "shop.example", "--json").data
    assert shown["pace"]["seconds"] == pytest.approx(1 / 30)
    assert shown["pace"]["rules"] == ["tokens_per_interval", "interval_seconds"]
    assert shown["rules"]["max_concurrent_requests"]["value"] == 60, "enough at once for answers of two seconds"
    assert forager("lanes", "set", "serper", "--rate", "10/min", "--json").data["overrides"] == {
        "tokens_per_interval": 10,
        "interval_seconds": 60,
    }, "an API has no pauses"


@pytest.mark.usefixtures("store")
def test_a_policy_file_that_is_wrong_is_refused_with_its_lines(forager: Forager, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text("domains:\n  shop.example:\n    tokens_per_interval: fast\n")
    (tmp_path / ".env").write_text("SCRAPER_DOMAIN_POLICIES_PATH=rules.yaml\n")
    ran = forager("lanes", "list")
    assert ran.code != 0
    assert "line 3: domains.shop.example.tokens_per_interval" in ran.err


def test_values_are_written_as_people_do() -> None:
    assert [amount("min_delay_ms", 5), amount("interval_seconds", 2.5), amount("x", None)] == ["5 ms", "2.5 s", "-"]
    assert [amount("x", True), amount("x", []), amount("x", {"start": 6, "end": 22})] == [
        "yes",
        "nothing",
        "06-22 UTC",
    ]
    assert (read_hours("06:00-22:00"), read_names("none")) == ({"start": 6, "end": 22}, [])
    free: dict[str, Any] = {"paused": False, "owner": None, "state": {}}
    assert standing({**free, "state": {"breaker": {"state": "open"}}}) == "breaker open"
    assert [standing(free), standing({**free, "owner": "w"}), standing({**free, "paused": True})] == [
        "idle",
        "running",
        "paused",
    ]
