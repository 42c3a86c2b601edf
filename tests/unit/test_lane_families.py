"""A pipeline may speak for a whole family of lanes: one for each host that webhooks go to."""

from forager.core.pipeline import Lane, family
from forager.core.rules import Rules
from forager.engine.lanes.lane import DeclaredLanes
from forager.engine.lanes.rules.policy_file import Policies
from forager.engine.lanes.rules.precedence import Politeness
from forager.sinks.webhook.pipeline import RETRY, WEBHOOK_LANES
from forager.sinks.webhook.pipeline import build as build_webhooks

LANE = "webhook:shop.example:8443"


def test_each_receiving_host_has_a_lane_of_an_api_with_the_familys_numbers__SC_13() -> None:
    politeness = Politeness(lanes={"deliveries": build_webhooks().lanes})
    for lane in (politeness.lane_for(LANE), DeclaredLanes([build_webhooks()]).lane_for(LANE)):
        assert (lane.name, lane.concurrency, lane.retry) == (LANE, 4, RETRY)
        assert (lane.site, lane.robots, lane.proxied, lane.breaker) == (False, False, False, None)
    assert politeness.is_api(LANE)
    assert politeness.lane_name("webhook:Shop.Example:8443") == LANE


def test_rules_for_a_site_do_not_reach_what_is_delivered_to_it() -> None:
    slow = Rules(tokens_per_interval=1, interval_seconds=60, respect_robots_txt=True)
    politeness = Politeness(
        policies=Policies(domains={"shop.example": slow}), lanes={"deliveries": build_webhooks().lanes}
    )
    assert politeness.lane_for("shop.example").robots
    assert politeness.lane_for("webhook:shop.example").rate == WEBHOOK_LANES.rate
    assert politeness.lane_name("webhook:shop.example") == "webhook:shop.example"


def test_an_operators_word_holds_for_one_lane_of_a_family() -> None:
    overrides = {LANE: Rules(max_concurrent_requests=1)}
    politeness = Politeness(lanes={"deliveries": build_webhooks().lanes}, overrides=overrides)
    assert politeness.lane_for(LANE).concurrency == 1
    assert politeness.lane_for("webhook:other.example").concurrency == 4


def test_a_family_is_the_text_before_the_first_colon_and_a_site_with_a_port_has_none() -> None:
    assert family("webhook:a.example:1") == family("webhook:b") == "webhook:*"
    sites = Politeness(lanes={"deliveries": build_webhooks().lanes, "p": (Lane("shop.example", site=True),)})
    assert not sites.is_api("shop.example:8443")
