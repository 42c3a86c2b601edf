"""From a page that changes to a message in a channel: watch, condition, digest, failing channels, secrets."""

import logging
import sqlite3
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from forager.core.change import Change
from forager.core.http import Fetch, Request, Response, Screenshot
from forager.core.outcome import Done, Drop, Snooze
from forager.core.task import Plan
from forager.pipelines.alerts.app_steps import AlertSteps
from forager.pipelines.alerts.channels import MOST_JOINED
from forager.pipelines.alerts.pipeline import SendAlerts, standing_job
from forager.pipelines.watches.app_steps import WatchSteps
from forager.pipelines.watches.observe import NOISY
from forager.pipelines.watches.pipeline import CheckPage
from forager.pipelines.watches.records import WatchedPage
from forager.pipelines.watches.wiring import check_forgotten
from forager.sdk.alert_rules import AlertRule, checked, fires, kinds_of
from tests.support.watched import Watched, open_watched

PRICE = {"fields": {"price": {"type": "number", "css": ".price"}}}


def shop(price: int) -> str:
    return f"<html><title>Oak table</title><p class=price>$ {price}</p></html>"


async def add_price_watch(watched: Watched, **more: Any) -> None:
    watched.site.pages["/p"] = shop(60)
    await watched.add("/channels", {"name": "team", "url": watched.site.hook, **more})
    body = {"url": watched.site.url("/p"), "name": "oak", "schema": PRICE, "when": "price < 50", "notify": ["team"]}
    await watched.add("/watches", body)
    await watched.settle()


async def test_a_price_that_falls_below_the_limit_is_one_message_with_the_old_and_the_new_price(both: Watched) -> None:
    await add_price_watch(both)
    assert both.site.got == []
    both.site.pages["/p"] = shop(55)
    await both.check("oak")
    assert both.site.got == [], "it changed, and is not below 50"
    both.site.pages["/p"] = shop(45)
    seen = await both.check("oak", alerts=1)
    assert (seen["fields"], seen["summary"], seen["checks"], seen["changes"]) == (
        {"price": 45},
        "price: 55 → 45",
        3,
        2,
    )
    (message,) = both.site.got
    assert message["title"] == "oak: Oak table"
    assert message["message"] == f"price: 55 → 45\n{both.site.url('/p')}"
    both.site.pages["/p"] = shop(44)
    await both.check("oak")
    assert len(both.site.got) == 1, "the condition was true before"
    (alert,) = await both.get("/alerts")
    assert (alert["rule"], alert["channel"], alert["delivered_at"] is not None) == ("oak", "team", True)
    assert [each["summary"] for each in await both.get("/watches/oak/observations")] == [
        "price: 45 → 44",
        "price: 55 → 45",
        "price: 60 → 55",
        None,
    ]
    sink = await both.get("/sinks/team")
    assert (sink["type"], sink["delivered"], sink["waiting"]) == ("notify", 1, 0)


async def test_a_digest_joins_the_alerts_of_its_time_into_one_message(watched: Watched) -> None:
    await watched.add("/channels", {"name": "team", "url": watched.site.hook, "digest": "1h"})
    for name in ("a", "b"):
        watched.site.pages[f"/{name}"] = "<html><p class=t>old</p></html>"
        body = {"url": watched.site.url(f"/{name}"), "name": name, "select": ".t", "notify": ["team"]}
        await watched.add("/watches", body)
    await watched.settle()
    for name in ("a", "b"):
        watched.site.pages[f"/{name}"] = "<html><p class=t>new</p></html>"
        await watched.check(name)
    assert watched.site.got == []
    alerts = await watched.get("/alerts")
    assert len({each["due_at"] for each in alerts}) == 1
    assert all(each["delivered_at"] is None for each in alerts)
    channel = await watched.get("/channels/team")
    assert channel["waiting"] == 1, "one message for both"
    due = round(datetime.fromisoformat(alerts[0]["due_at"]).timestamp() * 1000)
    sent = await AlertSteps(watched.app).send(SendAlerts(channel="team", slot=due), no_fetch)
    assert isinstance(sent, Done)
    assert len(sent.effects) == 2, "both are marked as delivered with the message"
    (message,) = watched.site.got
    assert message["title"] == "2 alerts from Forager"
    assert message["message"].count("\n- ") == 1


async def test_a_message_waits_for_the_end_of_quiet_hours(watched: Watched) -> None:
    hour = watched.app.clock.now().hour
    body = {"name": "team", "url": watched.site.hook, "quiet": f"{hour}-{(hour + 2) % 24}"}
    await watched.add("/channels", body)
    waits = await AlertSteps(watched.app).send(SendAlerts(channel="team", alert="a_1"), no_fetch)
    assert isinstance(waits, Snooze)
    assert 3_600 <= waits.wait <= 7_200
    assert watched.site.got == []
    gone = await AlertSteps(watched.app).send(SendAlerts(channel="nothing", alert="a_1"), no_fetch)
    assert isinstance(gone, Drop)


async def test_a_change_keeps_the_pictures_before_and_after_it(watched: Watched) -> None:
    page = {"url": watched.site.url("/p"), "name": "p", "select": "p", "render": "browser", "screenshots": True}
    watched.site.pages["/p"] = "<p>old</p>"
    await watched.add("/watches", page)
    steps = WatchSteps(watched.app)

    def answers(text: str, picture: bytes) -> Fetch:
        async def fetch(request: Request) -> Response:
            assert request.script == (Screenshot(full_page=True),)
            body = f"<html><p>{text}</p></html>".encode()
            at = watched.app.clock.now()
            return Response(
                request.url, 200, {"Content-Type": "text/html"}, body, at, 1, rendered=True, screenshot=picture
            )

        return fetch

    outcome = await steps.check(CheckPage(watch="p", url=page["url"]), answers("old", b"\x89PNG one"))
    assert isinstance(outcome, Done)
    (first,) = outcome.records
    assert isinstance(first, WatchedPage)
    assert (await watched.app.read_page(str(first.screenshot))).body == b"\x89PNG one"
    await watched.app.database.write(
        "INSERT INTO watched_pages (watch, url, text, seen_text, screenshot, version, first_seen_at, last_seen_at,"
        " times_seen, changed_at) VALUES ('p', :url, 'old', 'old', :picture, 1, 1, 1, 1, 1)",
        {"url": page["url"], "picture": first.screenshot},
    )
    outcome = await steps.check(CheckPage(watch="p", url=str(page["url"])), answers("new", b"\x89PNG two"))
    assert isinstance(outcome, Done)
    (second,) = outcome.records
    assert isinstance(second, WatchedPage)
    assert second.screenshot_before == first.screenshot
    assert (await watched.app.read_page(str(second.screenshot))).body == b"\x89PNG two"


async def test_a_real_browser_takes_the_pictures_before_and_after_a_change(chromium: Path, tmp_path: Path) -> None:
    pool: dict[str, Any] = {"chromium": chromium, "browser_pool_size": 1, "browser_pool_max": 1}
    async with open_watched(tmp_path / "home", **pool) as watched:
        watched.site.pages["/p"] = "<body style='background:#fff'><p>old words</p></body>"
        page = {"url": watched.site.url("/p"), "name": "p", "render": "browser", "screenshots": True}
        await watched.add("/watches", page)
        await watched.settle()
        first = await watched.get("/watches/p")
        assert (first["state"], first["screenshot_before"]) == ("works", None), first
        watched.site.pages["/p"] = "<body style='background:#268'><p>new words</p></body>"
        second = await watched.check("p")
        assert second["summary"].endswith("[-old-] {+new+} words")
        assert second["screenshot_before"] == first["screenshot"] != second["screenshot"]
        pictures = [(await watched.client.get(second[name])).content for name in ("screenshot_before", "screenshot")]
        assert all(picture.startswith(b"\x89PNG") for picture in pictures)
        assert pictures[0] != pictures[1]


async def no_fetch(request: Request) -> Response:
    raise AssertionError(f"{request.url} was asked for")


async def test_a_channel_that_fails_is_visible_where_sinks_are_and_loses_nothing(watched: Watched) -> None:
    await add_price_watch(watched)
    logging.getLogger("apprise").disabled = True  # as after the set-up of a library that disables existing loggers
    watched.site.refuses = 1
    watched.site.pages["/p"] = shop(45)
    await watched.check("oak")
    sink = await watched.get("/sinks/team")
    assert (sink["state"] in ("failing", "idle"), sink["waiting"], sink["failures"]) == (True, 1, 1)
    assert "error code: 500" in sink["error"] or "500" in sink["error"]
    assert (await watched.get("/channels/team"))["state"] == "failing"
    await watched.settle(alerts=1)
    assert (await watched.get("/channels/team"))["state"] == "works"


async def test_the_address_of_a_channel_is_sealed_and_in_no_answer(watched: Watched) -> None:
    secret = f"json://user:Very-Secret-Token@127.0.0.1:{watched.site.port}/hook"
    made = await watched.post("/channels", {"name": "team", "url": secret})
    assert made.status_code == 201
    shown = (
        made.text
        + (await watched.client.get("/api/v1/channels")).text
        + (await watched.client.get("/api/v1/sinks")).text
    )
    assert "Very-Secret-Token" not in shown
    home = watched.app.settings.home
    with sqlite3.connect(home / "ledger.db") as db:
        (sealed,) = db.execute("SELECT sealed FROM vault WHERE kind = 'channel'").fetchone()
    assert sealed.startswith("s1.")
    assert b"Very-Secret-Token" not in b"".join(path.read_bytes() for path in home.glob("ledger.db*"))
    tested = await watched.post("/channels/team/test")
    assert tested.status_code == 200
    assert watched.site.got[0]["title"] == "Forager: channel team works"
    resealed = await watched.app.rotate_keys()
    assert resealed.resealed >= 1
    assert (await watched.post("/channels/team/test")).status_code == 200


async def test_a_text_that_differs_at_every_check_is_learnt_as_noise(watched: Watched) -> None:
    def page(number: int, news: str = "Nothing new.") -> str:
        joke = ("Why did the chicken", "Knock knock who", "A horse walks into", "Two fish in", "I told my wife")[
            number % 5
        ]
        return (
            f"<html><body><h1>Gardens</h1><p>Welcome to the long page about gardens, trees and all that grows.</p>"
            f"<p>{joke} a bar, number {number}, and everyone in the garden laughs about it for a while.</p>"
            f"<p>Steady line one about roses and tulips, which bloom from April to June.</p><p>{news}</p></body></html>"
        )

    watched.site.pages["/t"] = page(0)
    await watched.add("/watches", {"url": watched.site.url("/t"), "name": "t"})
    await watched.settle()
    for number in range(1, NOISY + 3):
        watched.site.pages["/t"] = page(number)
        seen = await watched.check("t")
    assert seen["changes"] == NOISY, "after that it is noise"
    assert seen["noise"] == 1
    watched.site.pages["/t"] = page(99, "The garden is closed on Monday.")
    seen = await watched.check("t")
    assert seen["changes"] == NOISY + 1
    assert "Monday" in seen["summary"]
    assert "99" not in seen["summary"]


async def test_a_worker_whose_clock_is_behind_the_stores_notices_changes(both: Watched) -> None:
    """The store stamps a new watch, the worker's clock a check: an hour between the two must not hide a change."""
    await add_price_watch(both)
    await both.app.database.write("UPDATE page_watches SET created_at = created_at + 3600000")
    both.site.pages["/p"] = shop(45)
    seen = await both.check("oak", alerts=1)
    assert (seen["summary"], seen["state"], seen["checks"]) == ("price: 60 → 45", "works", 2)


async def test_the_page_of_a_removed_watch_is_not_that_of_a_new_one_with_its_name(both: Watched) -> None:
    await add_price_watch(both)
    assert (await both.client.delete("/api/v1/watches/oak")).status_code == 200
    both.site.pages["/other"] = shop(40)
    body = {"url": both.site.url("/other"), "name": "oak", "schema": PRICE, "notify": ["team"]}
    added = await both.add("/watches", body)
    assert (added["state"], added["fields"], added["checks"]) == ("new", None, 0)
    await both.settle()
    seen = await both.get("/watches/oak")
    assert (seen["fields"], seen["summary"], seen["checks"]) == ({"price": 40}, None, 1)
    assert both.site.got == [], "the first sight of a page is no change of it"


async def test_rules_about_forager_itself_fire_for_dead_letters(watched: Watched) -> None:
    from forager.pipelines.alerts.wiring import look

    await watched.add("/channels", {"name": "team", "url": watched.site.hook})
    assert await look(watched.app) is False, "no rule is about it"
    rule = {"name": "dead", "kind": "dead_letters", "when": "dead_letters > 0", "notify": ["team"]}
    await watched.add("/rules", rule)
    await watched.add("/watches", {"url": watched.site.url("/missing"), "name": "gone"})
    await watched.settle()
    assert (await watched.get("/watches/gone"))["state"] == "failing"
    assert await look(watched.app) is True
    await watched.settle(alerts=1)
    assert watched.site.got[0]["title"] == "dead: watches"


async def test_a_preview_counts_how_often_a_rule_would_have_fired(watched: Watched) -> None:
    await add_price_watch(watched)
    for price in (45, 60, 40):
        watched.site.pages["/p"] = shop(price)
        await watched.check("oak")
    body = {"kind": "watched_page", "when": 'contains(summary, "price")', "repeats": True}
    found = await watched.add("/rules/preview", body)
    assert (found["fired"], found["changes"], found["whole"]) == (3, 4, True)
    assert found["text"] == "would have fired 3 times in the last 7 days"


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("/channels", {"name": "x", "url": "nonsense"}, "is not an address of a channel"),
        ("/channels", {"name": "x", "url": "syslog://"}, "is not an address of a channel"),
        ("/channels", {"name": "x", "url": "json://10.0.0.1/"}, "10.0.0.1"),
        ("/channels", {"name": "x", "url": "ntfy://topic", "quiet": "7-7"}, "two different hours"),
        ("/channels", {"name": "x", "url": "ntfy://topic", "timezone": "Mars/Base"}, "is not a time zone"),
        ("/channels", {"name": "x", "url": "ntfy://topic", "digest": 59}, "digest"),
        ("/channels", {"name": "x", "url": "ntfy://topic", "per_hour": 0}, "per_hour"),
        ("/rules", {"name": "x", "kind": "produkt", "notify": ["team"]}, "product"),
        ("/rules", {"name": "x", "kind": "product", "when": "prise < 5", "notify": ["team"]}, "did you mean 'price'"),
        ("/rules", {"name": "x", "kind": "product", "notify": ["nobody"]}, "there is no channel"),
        ("/rules", {"name": "x", "kind": "product", "notify": []}, "notify"),
        ("/rules/preview", {"kind": "product", "days": 32}, "days"),
        ("/channels", {"name": "x", "url": "ntfy://topic", "quiet": "late"}, "two different hours"),
        ("/channels", {"name": "x", "url": "ntfy://no-such-host.invalid/prices"}, "does not resolve"),
        ("/watches", {"url": "not a url"}, "url"),
        ("/watches", {"url": "http://10.0.0.1/"}, "10.0.0.1"),
        ("/watches", {"url": "http://[::ffff:169.254.169.254]/latest"}, "not a public web address"),
        ("/watches", {"url": "https://a.example/", "every": "59s"}, "at least a minute"),
        ("/watches", {"url": "https://a.example/", "select": ":::"}, "select"),
        ("/watches", {"url": "https://a.example/", "schema": "missing"}, "there is no schema"),
        ("/watches", {"url": "https://a.example/", "when": "price < 5"}, "needs a channel"),
        ("/watches", {"url": "https://a.example/", "screenshots": True}, "made by a browser"),
        (
            "/watches",
            {"url": "https://a.example/", "schema": PRICE, "when": "prise < 5", "notify": ["team"]},
            "did you mean 'price'",
        ),
    ],
)
async def test_bad_input_is_refused_with_its_field_and_a_remedy(
    watched: Watched, path: str, body: dict[str, Any], told: str
) -> None:
    assert told in await watched.wrong(path, body)


async def test_limits_hold_at_and_past_them(watched: Watched) -> None:
    await watched.add("/channels", {"name": "a", "url": "ntfy://topic", "digest": 60, "per_hour": 10_000})
    assert "per_hour" in await watched.wrong("/channels", {"name": "b", "url": "ntfy://topic", "per_hour": 10_001})
    await watched.add("/watches", {"url": watched.site.url("/x"), "every": 60, "name": "n" * 100})
    assert "name" in await watched.wrong("/watches", {"url": watched.site.url("/x"), "name": "n" * 101})
    assert "already" in await watched.wrong("/watches", {"url": watched.site.url("/x"), "name": "n" * 100})


async def test_a_page_whose_first_check_fails_shows_why_and_is_checked_again(both: Watched) -> None:
    await both.add("/watches", {"url": both.site.url("/late"), "name": "late", "every": "1m"})
    await both.settle()
    seen = await both.get("/watches/late")
    assert (seen["state"], seen["error"]) == ("failing", "The page is gone (404).")
    assert await check_forgotten(both.app) == 0, "its time has not come"
    await back_by(both, "late", 61)
    both.site.pages["/late"] = "<html><p>There it is, at last.</p></html>"
    assert await check_forgotten(both.app) == 1
    assert await check_forgotten(both.app) == 0, "once"
    await both.settle()
    seen = await both.get("/watches/late")
    assert (seen["state"], seen["error"], seen["checks"]) == ("works", None, 1)
    assert seen["next_check_at"] is not None
    await back_by(both, "late", 3_600)
    assert await check_forgotten(both.app) == 0, "its record has the time of the next check"


async def test_a_watch_whose_process_died_before_its_check_was_created_is_checked(both: Watched) -> None:
    both.site.pages["/p"] = "<html><p>A page with a few words.</p></html>"
    await both.add("/watches", {"url": both.site.url("/p"), "name": "p"})
    await both.app.database.write("UPDATE page_watches SET job = NULL")  # as after a kill between the two statements
    assert await check_forgotten(both.app) == 0, "it may be created this moment"
    await back_by(both, "p", 31)
    assert await check_forgotten(both.app) == 1
    await both.settle()
    assert (await both.get("/watches/p"))["checks"] >= 1
    await both.add("/watches/p/pause", {})
    await both.app.database.write("UPDATE page_watches SET job = NULL, asked_at = 1")
    assert await check_forgotten(both.app) == 0, "it is paused"


async def back_by(watched: Watched, name: str, seconds: int) -> None:
    """Let all that was noted about the last check of a watch be older."""
    await watched.app.database.write(
        "UPDATE page_watches SET asked_at = asked_at - :ms, failed_at = failed_at - :ms WHERE name = :name",
        {"ms": seconds * 1000, "name": name},
    )


async def test_a_new_watch_is_not_compared_with_what_a_removed_one_of_its_name_has_seen(watched: Watched) -> None:
    await watched.add("/channels", {"name": "team", "url": watched.site.hook})
    watched.site.pages |= {"/a": "<html><p>Roses are red.</p></html>", "/b": "<html><p>Violets are blue.</p></html>"}
    await watched.add("/watches", {"url": watched.site.url("/a"), "name": "w", "notify": ["team"]})
    await watched.settle()
    await watched.client.delete("/api/v1/watches/w")
    await watched.add("/watches", {"url": watched.site.url("/b"), "name": "w", "notify": ["team"]})
    assert (await watched.get("/watches/w"))["state"] == "new", "it has seen nothing itself"
    await watched.settle()
    seen = await watched.get("/watches/w")
    assert (seen["text"], seen["summary"], seen["checks"]) == ("Violets are blue.", None, 1)
    assert watched.site.got == [], "the first sight of a page is no change of it"
    watched.site.pages["/b"] = "<html><p>Violets are violet.</p></html>"
    assert "violet" in (await watched.check("w", alerts=1))["summary"]


async def test_a_digest_of_more_alerts_than_one_message_covers_leaves_none_behind(watched: Watched) -> None:
    await watched.add("/channels", {"name": "team", "url": watched.site.hook, "digest": "1h"})
    due = 3_600_000
    rows = [
        f"('r_{n}', 'team', 'r', {n}, 'product', 'k', 'title {n}', 'body', 1, {due})" for n in range(MOST_JOINED + 5)
    ]
    await watched.app.database.write(
        "INSERT INTO fired_alerts (alert, channel, rule, change, record_kind, record_key, title, body, at, slot)"
        f" VALUES {', '.join(rows)}"
    )
    await watched.app.ledger.append(standing_job("team"), [Plan(SendAlerts(channel="team", slot=due))])
    await watched.settle(alerts=2)
    assert [message["title"] for message in watched.site.got] == ["1,000 alerts from Forager", "5 alerts from Forager"]
    left = await watched.app.database.fetch("SELECT count(*) AS n FROM fired_alerts WHERE delivered_at IS NULL")
    assert left[0]["n"] == 0


async def test_the_limit_of_an_hour_holds_for_a_backlog_and_after_an_outage(watched: Watched) -> None:
    await watched.add("/channels", {"name": "team", "url": watched.site.hook, "per_hour": 2})
    for name in "abcde":
        watched.site.pages[f"/{name}"] = "<html><p class=t>old</p></html>"
        body = {"url": watched.site.url(f"/{name}"), "name": name, "select": ".t", "notify": ["team"]}
        await watched.add("/watches", body)
    await watched.settle()
    for name in "abcde":
        watched.site.pages[f"/{name}"] = "<html><p class=t>new</p></html>"
        await watched.check(name)
        # as changes of an hour ago, which are delivered only now
        await watched.app.database.write("UPDATE fired_alerts SET at = at - 7200000")
    assert len(watched.site.got) == 2
    late = await AlertSteps(watched.app).send(SendAlerts(channel="team", alert="a_1"), no_fetch)
    assert isinstance(late, Snooze), "what a failing service has held up waits for the next hour as well"
    assert 0 < late.wait <= 3_600
    due = await watched.app.database.fetch("SELECT count(*) AS n FROM fired_alerts WHERE slot IS NOT NULL")
    assert due[0]["n"] == 3


async def test_a_rule_that_a_killed_process_has_left_behind_is_no_obstacle(watched: Watched) -> None:
    await watched.add("/channels", {"name": "team", "url": watched.site.hook})
    body = {"url": watched.site.url("/p"), "name": "p", "notify": ["team"]}
    rule = {"name": "p", "kind": "watched_page", "key": "p", "notify": ["team"]}
    await watched.add("/rules", rule)  # as after a kill between the rule and the watch
    await watched.add("/watches", body)
    assert [each["name"] for each in await watched.get("/rules")] == ["p"]
    await watched.add("/rules", {**rule, "name": "other", "when": 'contains(text, "x")'})
    assert "there is a rule" in await watched.wrong("/watches", {**body, "name": "other"}), "another one is in the way"


async def test_a_rule_about_the_end_of_a_record_fires_when_it_is_gone(watched: Watched) -> None:
    kinds = kinds_of(watched.app.pipelines)
    body = {"product_name": "Oak table", "price": 60}
    about: dict[str, Any] = {
        "kind": "product",
        "key": "k",
        "version": 2,
        "pipeline": "products",
        "scope": "all",
        "job": None,
        "at": 0,
    }
    gone = Change(id=7, op="gone", body=body, **about)
    rule = AlertRule(name="gone", record_kind="product", condition='change.op == "gone"', channels=["team"])
    assert fires(rule, checked(rule, kinds), gone, body)
    cheap = AlertRule(name="cheap", record_kind="product", condition="price < 100", channels=["team"])
    assert not fires(cheap, checked(cheap, kinds), gone, body), "what is gone is not cheap"
