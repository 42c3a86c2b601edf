"""When an alert is sent, and what a difference looks like. No I/O."""

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from forager.core.change import Change
from forager.pipelines.alerts.api import ChannelBody
from forager.pipelines.alerts.channels import LONGEST_BODY, FiredAlert, NotifyChannel, message_of, quiet_end, slot_of
from forager.pipelines.watches.observe import NOISY, by_word, compare_fields, compare_texts, learnt
from forager.sdk.alert_rules import AlertRule, filled, fires, title_of
from forager.sdk.expressions import FieldType, compiled


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def channel(**options: object) -> NotifyChannel:
    return NotifyChannel.model_validate({"name": "team", "service": "json", **options})


def test_quiet_hours_across_midnight_end_in_the_morning() -> None:
    quiet = channel(quiet_from=22, quiet_until=7)
    assert quiet_end(quiet, at("2026-03-14T23:30")) == at("2026-03-15T07:00")
    assert quiet_end(quiet, at("2026-03-14T06:59")) == at("2026-03-14T07:00")
    assert quiet_end(quiet, at("2026-03-14T07:00")) is None
    assert quiet_end(quiet, at("2026-03-14T21:59")) is None


def test_quiet_hours_are_those_of_the_time_zone() -> None:
    quiet = channel(quiet_from=22, quiet_until=7, timezone="America/New_York")
    assert quiet_end(quiet, at("2026-07-01T03:00")) == at("2026-07-01T11:00")
    assert quiet_end(quiet, at("2026-07-01T12:00")) is None


def test_a_digest_is_due_at_the_end_of_its_time_and_after_quiet_hours() -> None:
    assert slot_of(channel(digest_seconds=3600), at("2026-03-14T12:10"), 0) == at("2026-03-14T13:00")
    late = channel(digest_seconds=3600, quiet_from=22, quiet_until=7)
    assert slot_of(late, at("2026-03-14T21:30"), 0) == at("2026-03-15T07:00")


def test_alerts_beyond_the_limit_of_an_hour_are_joined_at_its_end() -> None:
    limited = channel(per_hour=2)
    assert slot_of(limited, at("2026-03-14T12:10"), 1) is None
    assert slot_of(limited, at("2026-03-14T12:10"), 2) == at("2026-03-14T13:00")


def test_a_digest_lists_a_hundred_alerts_and_counts_the_rest() -> None:
    alert = FiredAlert(
        alert="r_1", channel="c", rule="r", change=1, record_kind="k", record_key="k", title="T", body="B",
        at=at("2026-03-14T12:00"),
    )  # fmt: skip
    assert message_of([alert]) == ("T", "B")
    title, body = message_of([alert] * 103)
    assert title == "103 alerts from Forager"
    assert body.count("- T") == 100
    assert body.endswith("- and 3 more")


def test_a_digest_has_what_changed_in_each_alert_and_stays_within_the_longest_message() -> None:
    url = "https://shop.example/oak"
    alert = FiredAlert(
        alert="r_1", channel="c", rule="r", change=1, record_kind="k", record_key="k", title="r: Oak table",
        body=f"price: 60 → 45\n{url}", url=url, at=at("2026-03-14T12:00"),
    )  # fmt: skip
    assert message_of([alert, alert])[1].splitlines() == [f"- r: Oak table {url}", "  price: 60 → 45"] * 2

    long = alert.model_copy(update={"body": "\n".join(["word " * 200] * 50)})
    body = message_of([long] * 130)[1]
    assert len(body) <= LONGEST_BODY
    assert body.count("- r: Oak table") == 100
    assert body.endswith("- and 30 more")


def test_the_alert_of_a_product_is_named_after_the_product() -> None:
    product = {"product_name": "Oak table", "price": 45, "url": "https://shop.example/oak", "url_hash": "5f0c"}
    assert title_of(changed("changed", **product)) == "Oak table"


@pytest.mark.parametrize("template", ["{nosuch.__class__}", "{Price}", "{old.price} now", "{}", "{ title }"])
def test_a_template_with_what_is_no_placeholder_is_refused_at_its_entry(template: str) -> None:
    with pytest.raises(ValidationError, match="is not a placeholder; write the name of a field"):
        ChannelBody.model_validate({"name": "x", "url": "ntfy://topic", "title": template})
    assert ChannelBody.model_validate({"name": "x", "url": "ntfy://topic", "title": "{title} {price}"}).title


@pytest.mark.parametrize("hours", ["7-7", "07-7", "0-24", "24-0", "25-7", "22", "-"])
def test_quiet_hours_that_are_none_or_all_of_the_day_are_refused(hours: str) -> None:
    with pytest.raises(ValidationError, match="two different hours"):
        ChannelBody.model_validate({"name": "x", "url": "ntfy://topic", "quiet": hours})


def changed(op: str, **body: object) -> Change:
    return Change(7, "product", "k", op, 2, None, "products", 0, body)


@pytest.mark.parametrize(
    ("when", "old", "fired"),
    [
        ("price < 50", {"price": 60}, True),
        ("price < 50", {"price": 49}, False),
        ("price < 50", None, True),
        ("price < old.price * 0.95", {"price": 48}, True),
        ("price < old.price * 0.95", {"price": 46}, False),
        ('stock == "in" and old.stock != "in"', {"stock": "out"}, True),
        ('stock == "in" and old.stock != "in"', {"stock": "in"}, False),
        ('change.op == "new"', {"price": 60}, False),
    ],
)
def test_a_rule_fires_when_its_condition_becomes_true(when: str, old: dict[str, object] | None, fired: bool) -> None:
    condition = compiled(when, {"price": FieldType("number"), "stock": FieldType("text")})
    rule = AlertRule(name="r", record_kind="product", condition=when, channels=["c"])
    assert fires(rule, condition, changed("changed", price=45, stock="in"), old) is fired


def test_a_template_has_names_and_nothing_else() -> None:
    assert filled("{title} {price} {missing}{x.__class__}", {"title": "T", "price": 5}) == "T 5 {x.__class__}"


def test_dates_and_counters_are_no_change() -> None:
    before = "Garden\nUpdated 3 minutes ago, 1,204 views\nOpen daily"
    after = "Garden\nUpdated on March 5, 2026, 9 views\nOpen daily"
    assert not compare_texts(
        before, before.replace("3 minutes", "9 hours").replace("1,204", "7"), ["dates", "counters"], {}
    )
    assert compare_texts(before, after, [], {})


def test_words_are_marked_as_removed_and_added() -> None:
    assert by_word("it is sold out today", "it is in stock today") == ("it is [-sold out-] {+in stock+} today", 2, 2)


def test_fields_that_differ_are_listed_with_both_values() -> None:
    difference = compare_fields({"price": 60, "title": "T"}, {"price": 45, "title": "T", "stock": "in"})
    assert difference.summary == "price: 60 → 45; stock: nothing → in"


def test_a_place_is_noise_after_it_has_differed_in_a_row_and_none_after_it_has_stayed() -> None:
    noise: dict[str, int] = {}
    for _ in range(NOISY):
        noise = learnt(noise, ["here"])
    assert noise == {"here": NOISY}
    assert learnt({"there": NOISY - 1}, []) == {}, "it stayed once before it was noise"
    for _ in range(2 * NOISY):
        noise = learnt(noise, [])
    assert noise == {}
