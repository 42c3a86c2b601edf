"""Whose rule holds when several speak, and which lane a host belongs to."""

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from forager.core.errors import Retry
from forager.core.pipeline import Breaker, Hours, Lane
from forager.core.rules import FIELDS, AllowedHours, Rules
from forager.engine.lanes.rules.policy_file import Policies, shipped_policies
from forager.engine.lanes.rules.precedence import EVERY_SITE, By, Politeness, ground, slower

HOST = "www.shop.example"
OPERATOR = Rules.model_validate(
    {
        "tokens_per_interval": 1,
        "interval_seconds": 1,
        "min_delay_ms": 1,
        "max_delay_ms": 1_000,
        "allowed_hours": {"start": 1, "end": 10},
        "respect_robots_txt": False,
        "max_concurrent_requests": 1,
        "crawl_delay_seconds": 1,
        "use_proxies": False,
        "proxy_cooldown_seconds": 1,
        "block_resources": ["image"],
        "via": False,
    }
)


def numbered(number: int, **other: Any) -> Rules:
    """The rules of the source with this number: every value identifies its source."""
    said = {
        "tokens_per_interval": number,
        "interval_seconds": 100 + number,
        "min_delay_ms": number,
        "max_delay_ms": 1_000 + number,
        "allowed_hours": {"start": number, "end": 20},
        "respect_robots_txt": True,
        "max_concurrent_requests": number,
        "crawl_delay_seconds": number,
        "use_proxies": True,
        "proxy_cooldown_seconds": number,
        "block_resources": ["font"],
        "via": True,
    }
    return Rules.model_validate({**said, **other})


PIPELINE_LANE = Lane(
    EVERY_SITE,
    rate=3,
    per=103,
    concurrency=3,
    gap=3,
    delay=(0.003, 1.003),
    hours=Hours(3, 20),
    robots=True,
    proxied=True,
    via=True,
    proxy_rest=3,
    block=frozenset({"font"}),
    site=True,
)
SPEAKERS: tuple[By, ...] = ("operator", "file", "pipeline", "default", "settings")


def politeness(*speakers: By, silent_about: str | None = None) -> Politeness:
    def rules(number: int) -> Rules:
        return numbered(number, **({silent_about: None} if silent_about else {}))

    return Politeness(
        Policies(
            {"shop.example": rules(2)} if "file" in speakers else {}, rules(4) if "default" in speakers else Rules()
        ),
        {"shop.example": rules(1)} if "operator" in speakers else {},
        {"shops": (PIPELINE_LANE,)} if "pipeline" in speakers else {},
        numbered(5),
    )


@pytest.mark.parametrize("speakers", [(*some, "settings") for n in range(5) for some in combinations(SPEAKERS[:-1], n)])
def test_of_those_who_speak_the_first_holds_in_every_field__SC_7(speakers: tuple[By, ...]) -> None:
    first = speakers[0]
    number = SPEAKERS.index(first) + 1
    polite = politeness(*speakers)
    said = polite.said("shop.example")
    assert set(said) == set(FIELDS)
    assert {each.by for each in said.values()} == {first}
    lane = polite.lane_for("shop.example")
    assert (lane.rate, lane.per, lane.concurrency, lane.gap) == (number, 100 + number, number, number)
    assert lane.delay == (number / 1_000, (1_000 + number) / 1_000)
    assert (lane.hours, lane.proxy_rest) == (Hours(number, 20), number)
    assert lane.crawl_delay == (first != "operator"), "robots' crawl-delay is a floor on all but an operator's word"


@pytest.mark.parametrize("field", FIELDS)
def test_a_rule_missing_in_one_source_is_taken_from_the_next__SC_7(field: str) -> None:
    polite = politeness("operator", "file", silent_about=field)
    said = polite.said("shop.example")
    assert said[field].by == "settings"
    assert all(said[other].by == "operator" for other in FIELDS if other != field)


def test_a_site_without_rules_has_the_default_of_the_file__SC_7() -> None:
    lane = Politeness(shipped_policies()).lane_for("unknown.example")
    assert (lane.rate, lane.per, lane.burst, lane.delay) == (2, 10, 2, (0.5, 2.0))
    assert lane.site
    assert lane.robots
    assert lane.crawl_delay
    assert (lane.breaker, lane.hours) == (Breaker(10, 5, 120.0), None)
    assert (lane.slow_by, lane.slow_for) == (0.5, 300.0)
    assert (lane.proxied, lane.proxy_rest, lane.concurrency) == (True, 30.0, 5)


def test_linkedin_gets_the_rules_of_the_shipped_file__SC_7() -> None:
    polite = Politeness(shipped_policies())
    lane = polite.lane_for(polite.lane_of("https://www.linkedin.com/in/somebody"))
    assert lane.name == "linkedin.com"
    assert (lane.rate, lane.per, lane.burst, lane.delay, lane.hours) == (1, 15, 1, (2.0, 5.0), Hours(6, 22))


def test_the_settings_speak_last__SC_0() -> None:
    lane = Politeness(ground=ground(tokens=7, interval=70, proxy_rest=9), breaker=Breaker(20, 4, 60.0)).lane_for(
        "a.example"
    )
    assert (lane.rate, lane.per, lane.burst, lane.proxy_rest, lane.breaker) == (7, 70, 7, 9, Breaker(20, 4, 60.0))
    assert lane.robots


def test_a_nearer_domain_speaks_before_the_one_it_lies_in() -> None:
    polite = Politeness(
        Policies({"example.com": Rules(tokens_per_interval=1), "jobs.example.com": Rules(tokens_per_interval=9)}),
        {"example.com": Rules(crawl_delay_seconds=4), "www.example.com": Rules(min_delay_ms=7, max_delay_ms=8)},
    )
    assert polite.lane_name("www.example.com") == "www.example.com"
    assert polite.lane_name("de.jobs.example.com") == "jobs.example.com"
    www, jobs = polite.lane_for("www.example.com"), polite.lane_for("jobs.example.com")
    assert (www.rate, www.gap, www.delay) == (1, 4, (0.007, 0.008))
    assert (jobs.rate, jobs.gap) == (9, 4)


@pytest.mark.parametrize("key", ["tokens_per_interval", "interval_seconds", "crawl_delay_seconds"])
def test_an_operators_own_rate_stands_above_robots_crawl_delay(key: str) -> None:
    polite = Politeness(overrides={"shop.example": Rules.model_validate({key: 1})})
    assert not polite.lane_for("shop.example").crawl_delay
    other = Politeness(overrides={"shop.example": Rules(max_concurrent_requests=1)})
    assert other.lane_for("shop.example").crawl_delay


def test_a_least_pause_above_anothers_most_follows_the_stronger_word() -> None:
    default = Rules(min_delay_ms=500, max_delay_ms=2_000)
    slow = Politeness(Policies({}, default), {"a.example": Rules(min_delay_ms=5_000)})
    assert slow.lane_for("a.example").delay == (5.0, 5.0)
    quick = Politeness(Policies({}, default), {"a.example": Rules(max_delay_ms=100)})
    assert quick.lane_for("a.example").delay == (0.1, 0.1)
    assert quick.said("a.example")["min_delay_ms"].by == "operator"


def test_a_pipeline_does_not_switch_robots_off_by_leaving_it_out() -> None:
    polite = Politeness(lanes={"shops": (Lane(EVERY_SITE, rate=1, site=True),)})
    lane = polite.lane_for("shop.example")
    assert lane.robots
    assert (lane.rate, lane.per, lane.burst) == (1, 1.0, 1)


def test_a_pipelines_own_lane_for_a_site_speaks_before_its_lane_for_all() -> None:
    lanes = (Lane(EVERY_SITE, rate=1, site=True), Lane("shop.example", rate=5, per=2, retry=Retry(9), site=True))
    polite = Politeness(lanes={"shops": lanes})
    assert polite.lane_name(HOST) == "shop.example"
    assert polite.lane_for("shop.example").rate == 5
    assert polite.lane_for("shop.example").retry == Retry(9)
    assert polite.lane_for("other.example").rate == 1


@pytest.mark.parametrize(("rate", "per", "holds"), [(5, 1.0, 5), (50, 10.0, 50), (6, 1.0, 5), (300, 2.0, 10)])
def test_a_pipeline_sends_at_most_five_requests_a_second_to_a_site_by_its_own_rule__PR_8(
    rate: float, per: float, holds: float
) -> None:
    own = Lane(HOST, rate=rate, per=per, burst=200, site=True)
    lane = Politeness(lanes={"shop": [own]}).lane_for(HOST)
    assert (lane.rate, lane.per) == (holds, per)
    assert lane.burst == (200 if holds == rate else holds)
    raised = Politeness(lanes={"shop": [own]}, overrides={HOST: Rules(tokens_per_interval=rate, interval_seconds=per)})
    assert raised.lane_for(HOST).rate == rate, "an operator may allow more"
    api = Politeness(lanes={"shop": [replace(own, site=False)]}).lane_for(HOST)
    assert api.rate == rate, "the limits of an API are its own"


def test_where_two_pipelines_share_a_site_the_slower_holds__SC_7() -> None:
    polite = Politeness(
        lanes={
            "quick": (Lane(EVERY_SITE, rate=5, concurrency=2, gap=0.1, site=True),),
            "slow": (Lane(EVERY_SITE, rate=2, per=10, concurrency=9, hours=Hours(6, 22), site=True),),
        }
    )
    lane = polite.lane_for("shop.example")
    assert (lane.rate, lane.per, lane.concurrency, lane.gap, lane.hours) == (2, 10, 2, 0.1, Hours(6, 22))
    alone = polite.lane_for("shop.example", used_by=["quick"])
    assert (alone.rate, alone.per, alone.hours) == (5, 1.0, None)


def test_a_pipelines_default_holds_only_where_that_pipeline_works() -> None:
    slow = Lane(EVERY_SITE, rate=1, per=3_600, concurrency=1, hours=Hours(1, 2), site=True)
    polite = Politeness(lanes={"slow": (slow,), "other": ()})
    without = Politeness().lane_for("shop.example")
    assert polite.lane_for("shop.example", used_by=["other"]) == without
    assert polite.lane_for("shop.example", used_by=[]) == without
    assert polite.lane_for("shop.example", used_by=["a pipeline that is not installed any more"]) == without
    own = polite.lane_for("shop.example", used_by=["slow"])
    assert (own.rate, own.per, own.concurrency, own.hours) == (1, 3_600, 1, Hours(1, 2))
    assert polite.lane_for("shop.example", used_by=["slow", "other"]) == own


def test_a_pipeline_without_rules_shares_those_that_hold_for_it_alone() -> None:
    """Its silence is no consent to the faster pace of the other: for it, the file's default or the settings hold."""
    quick = Lane(EVERY_SITE, rate=5, concurrency=50, delay=(0.0, 0.0), gap=0.0, site=True)
    file = Policies(default=Rules(min_delay_ms=500, max_delay_ms=2_000))
    polite = Politeness(file, lanes={"quick": (quick,), "silent": ()})
    assert polite.lane_for("shop.example", used_by=["quick"]).rate == 5
    shared = polite.lane_for("shop.example", used_by=["quick", "silent"])
    silent = polite.lane_for("shop.example", used_by=["silent"])
    assert (shared.rate, shared.per, shared.concurrency) == (silent.rate, silent.per, silent.concurrency)
    assert shared.delay == silent.delay == (0.5, 2.0)
    assert polite.said("shop.example", ["quick", "silent"])["tokens_per_interval"].by == "settings"
    assert polite.said("shop.example", ["quick", "silent"])["min_delay_ms"].by == "default"


def test_a_pipeline_can_set_no_pause_and_an_operator_or_robots_txt_still_can_set_one() -> None:
    file = Policies(default=Rules(min_delay_ms=500, max_delay_ms=2_000, crawl_delay_seconds=3))
    nothing, zeros = Lane(EVERY_SITE, site=True), Lane(EVERY_SITE, delay=(0.0, 0.0), gap=0.0, site=True)
    assert Politeness(file, lanes={"p": (nothing,)}).lane_for("a.example", ["p"]).delay == (0.5, 2.0)
    polite = Politeness(file, lanes={"p": (zeros,)})
    lane = polite.lane_for("a.example", ["p"])
    assert (lane.delay, lane.gap) == ((0.0, 0.0), 0.0)
    assert lane.crawl_delay, "the crawl-delay of robots.txt stays a minimum"
    assert polite.said("a.example", ["p"])["max_delay_ms"].by == "pipeline"
    slowed = replace(polite, overrides={"a.example": Rules(min_delay_ms=9, max_delay_ms=9)})
    assert slowed.lane_for("a.example", ["p"]).delay == (0.009, 0.009)


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (Hours(6, 22), Hours(8, 23), Hours(8, 22)),
        (Hours(20, 4), Hours(22, 8), Hours(22, 4)),
        (Hours(6, 22), None, Hours(6, 22)),
        (Hours(19, 10), Hours(8, 22), Hours(19, 22)),  # two pieces are in common: the longer
        (Hours(1, 3), Hours(5, 10), Hours(1, 3)),  # none: the shorter of the two
    ],
)
def test_of_two_hours_both_hold(one: Hours, other: Hours | None, both: Hours) -> None:
    first, second = Lane("a.example", hours=one, site=True), Lane("a.example", hours=other, site=True)
    assert slower(first, second).hours == both
    assert slower(second, first).hours == both


SERPER = Lane("serper", rate=300, burst=10, concurrency=1_000, cap_day=5)


def test_an_api_keeps_its_own_numbers_whatever_the_file_contains() -> None:
    polite = Politeness(shipped_policies(), lanes={"places": (SERPER,)})
    assert polite.lane_for("serper") == SERPER
    assert polite.is_api("serper")
    assert {each.by for each in polite.said("serper").values()} == {"pipeline"}


def test_an_operator_changes_rate_concurrency_and_hours_of_an_api_and_nothing_else() -> None:
    said = OPERATOR.model_copy(update={"tokens_per_interval": 50.0, "interval_seconds": 1.0})
    polite = Politeness(shipped_policies(), {"serper": said}, {"places": (SERPER,)})
    assert polite.lane_for("serper") == replace(SERPER, rate=50.0, per=1.0, concurrency=1, hours=Hours(1, 10))
    assert polite.said("serper")["tokens_per_interval"].by == "operator"


def test_the_host_of_an_api_stays_its_own_lane_and_lends_it_to_no_other() -> None:
    api = Lane("api.shop.example", rate=5)
    polite = Politeness(Policies({"shop.example": Rules()}), lanes={"shops": (api,)})
    assert polite.lane_name("api.shop.example") == "api.shop.example"
    assert polite.lane_name("eu.api.shop.example") == "shop.example"
    assert polite.lane_name(HOST) == "shop.example"


def test_the_whole_day_can_be_set_against_a_file_that_closes_at_night() -> None:
    always = Rules(allowed_hours=AllowedHours(start=0, end=24))
    lane = Politeness(shipped_policies(), {"linkedin.com": always}).lane_for("linkedin.com")
    assert lane.hours == Hours(0, 24)
