"""The dashboard in a real browser: sign-in, roles, live updates, the keyboard, and texts that would like to run."""

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

pytest.importorskip("playwright")

from playwright.sync_api import Browser, Page, expect

from forager.sandbox import Fault, Rule
from tests.support.api import KEY, ONE_QUERY
from tests.support.dashboard import (
    BAD_ZIP,
    PATIENCE_MS,
    World,
    axe_source,
    hide,
    new_context,
    open_browser,
    open_world,
    settle,
    sign_in,
    xss_strings,
)

expect.set_options(timeout=PATIENCE_MS)
COLOUR_RULES = ["color-contrast", "link-in-text-block"]
RESUME = """async (job) => {
  const session = (await (await fetch("/dashboard/session")).json()).data;
  const sent = { method: "POST", headers: { "X-CSRF-Token": session.csrf } };
  return (await fetch(`/api/v1/jobs/${job}/resume`, sent)).status;
}"""


@pytest.fixture(scope="module")
def browser(chromium: Path) -> Iterator[Browser]:
    with open_browser(chromium) as opened:
        yield opened


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory, chromium: Path) -> Iterator[World]:
    del chromium  # without it everything here is skipped, so that no world is made
    with open_world(tmp_path_factory.mktemp("world")) as opened:
        yield opened


@pytest.fixture
def world(seeded: World) -> World:
    seeded.troubles.clear()
    return seeded


@pytest.fixture
def page(browser: Browser, world: World) -> Iterator[Page]:
    context = new_context(browser, world)
    opened = context.new_page()
    sign_in(opened)
    world.troubles.clear()  # the browser logs the 401 of a first visit
    yield opened
    context.close()


def test_there_are_150_texts_that_would_like_to_run() -> None:
    assert len(set(xss_strings())) == 150


def test_a_wrong_key_is_refused_in_words_and_the_right_one_stays_signed_in(browser: Browser, world: World) -> None:
    context = new_context(browser, world)
    page = context.new_page()
    page.goto("/jobs")
    page.get_by_label("Key").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_have_text("This is not a key of this Forager.")
    page.get_by_label("Key").fill(KEY)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Jobs", exact=True)).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Jobs", exact=True)).to_be_visible()
    assert page.evaluate("document.cookie") == "", "no script can read the session"
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Key")).to_be_visible()
    context.close()


def test_a_session_that_has_ended_leads_to_the_sign_in_page(page: Page, world: World) -> None:
    settle(page)
    page.context.clear_cookies()
    # Not by the mouse: a request of the page itself may have found out already, and then the link is gone.
    page.evaluate("document.querySelector('a[href=\"/sinks\"]')?.click()")
    expect(page.get_by_label("Key")).to_be_visible()


def test_a_viewer_sees_no_button_that_its_role_does_not_allow__S22(browser: Browser, world: World) -> None:
    made = world.run(world.front.client.post("/api/v1/keys", json={"name": "reader", "role": "viewer"}))
    context = new_context(browser, world)
    page = context.new_page()
    sign_in(page, made.json()["data"]["key"])
    page.goto(f"/jobs/{world.paused_job}")
    expect(page.get_by_role("heading", name="bars · 85001")).to_be_visible()
    expect(page.get_by_role("button", name="Resume")).to_have_count(0)
    refused = page.evaluate(RESUME, world.paused_job)
    assert refused == 403, "the button is not what keeps a viewer from writing"
    page.goto("/keys")
    expect(page.get_by_text("are for admins")).to_be_visible()
    world.run(world.front.client.delete("/api/v1/keys/reader"))
    page.get_by_role("link", name="Jobs").first.click()
    expect(page.get_by_label("Key")).to_be_visible()
    context.close()


@pytest.mark.parametrize("width", [390, 1280])
def test_no_page_is_wider_than_its_window(browser: Browser, world: World, width: int) -> None:
    context = new_context(browser, world, width=width)
    page = context.new_page()
    sign_in(page)
    for path in world.pages():
        page.goto(path)
        settle(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
    context.close()


def test_a_job_moves_without_a_reload_in_two_tabs(page: Page, world: World) -> None:
    job = world.run(world.front.create(**ONE_QUERY))
    page.goto(f"/jobs/{job}")
    second = page.context.new_page()
    second.goto("/jobs")
    expect(page.locator("h1 + span")).to_have_text("queued")
    row = second.locator("tr", has=second.locator(f"a[href='/jobs/{job}']"))
    expect(row).to_contain_text("queued")
    world.run(world.front.work())
    expect(page.locator("h1 + span")).to_have_text("completed")
    expect(row).to_contain_text("completed")
    second.close()


def test_a_stream_that_is_cut_is_opened_again(page: Page, world: World) -> None:
    page.goto("/")
    settle(page)
    page.context.route("**/api/v1/live**", lambda route: route.abort())
    page.get_by_label("Main", exact=True).get_by_role("link", name="Changes").click()
    expect(page.get_by_text("Live updates are interrupted")).to_be_visible(timeout=PATIENCE_MS)
    page.context.unroute("**/api/v1/live**")
    expect(page.get_by_text("Live updates are interrupted")).not_to_be_visible(timeout=PATIENCE_MS)


def test_a_job_is_started_by_the_keyboard_alone(page: Page, world: World) -> None:
    page.keyboard.press("n")
    expect(page.get_by_role("heading", name="New job")).to_be_visible()
    page.get_by_role("button", name="places", exact=True).focus()
    page.keyboard.press("Enter")
    page.locator("[name=keyword]").focus()
    page.keyboard.type("bars")
    page.locator("[name=zips]").focus()
    page.keyboard.type("85001")
    expect(page.locator("[data-estimate]")).to_contain_text("$")
    page.locator("[name=limit_usd]").focus()
    page.keyboard.type("1")
    expect(page.locator("[name=max_credits]")).to_have_value("3333")
    page.get_by_role("button", name="Start").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="bars · 85001")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("dead")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Dead letters")).to_be_visible()


def test_a_rejected_field_shows_the_message_of_the_api(page: Page, world: World) -> None:
    page.goto("/jobs/new?pipeline=places")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("label", has=page.locator("[name=keyword]")).locator(".error")).to_contain_text("required")


def test_pages_to_scrape_are_given_as_lines_and_cloned_as_lines(page: Page, world: World) -> None:
    assert world.upstreams is not None
    urls = [world.upstreams.pages.url(f"/jobs/jsonld/{number}") for number in (1, 2)]
    page.goto("/jobs/new?pipeline=scrape")
    targets = page.locator("[name=targets]")
    targets.fill("example.com")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("label", has=targets).locator(".error")).to_contain_text("entry 1: not a valid http(s) URL")
    targets.fill("\n".join(urls))
    with page.expect_request(lambda sent: sent.method == "POST") as sent:
        page.get_by_role("button", name="Start").click()
    assert json.loads(sent.value.post_data or "")["params"]["targets"] == [{"target_url": url} for url in urls]
    page.get_by_role("link", name="Clone").click()
    expect(targets).to_have_value("\n".join(urls))
    page.get_by_label("type of the pages").select_option("job_posting")
    targets.fill(f'{{"target_url": "{urls[0]}"}}\n{{"url": "{urls[1]}", "render": "http"}}\n{urls[1]}')
    with page.expect_request(lambda sent: sent.method == "POST") as sent:
        page.get_by_role("button", name="Start").click()
    assert json.loads(sent.value.post_data or "")["params"]["targets"] == [
        {"target_url": urls[0]},
        {"url": urls[1], "render": "http"},
        {"target_type": "job_posting", "target_url": urls[1]},
    ]
    expect(page.get_by_role("link", name="Clone")).to_be_visible()


def test_a_limit_in_dollars_keeps_its_text_and_is_rounded_down(page: Page, world: World) -> None:
    page.goto("/jobs/new?pipeline=places")
    page.locator("[name=keyword]").fill("bars")
    page.locator("[name=zips]").fill("85001")
    dollars, limit = page.locator("[name=limit_usd]"), page.locator("[name=max_credits]")
    dollars.fill("0.0008")
    expect(limit).to_have_value("2")
    with page.expect_response("**/api/v1/jobs/plan"):
        dollars.fill("0.0002")
    expect(dollars).to_have_value("0.0002")
    expect(limit).to_have_value("0")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("form [role=alert]")).to_have_text(
        "$0.0002 does not pay for one credit, which costs $0.0003. Give at least that, or no limit."
    )
    assert "/jobs/new" in page.url
    limit.press_sequentially("5")
    expect(dollars).to_have_value("")


def test_a_job_without_a_place_says_what_is_missing_beside_the_field(page: Page, world: World) -> None:
    page.goto("/jobs/new?pipeline=places")
    page.locator("[name=keyword]").fill("bars")
    names = page.locator("form [name]").evaluate_all("(all) => all.slice(0, 4).map((each) => each.name)")
    assert names == ["keyword", "state", "zips", "areas"]
    page.get_by_role("button", name="Start").click()
    expect(page.locator("label", has=page.locator("[name=state]")).locator(".error")).to_contain_text(
        "give state (such as AZ)"
    )
    expect(page.locator("form .notice")).to_contain_text("Give state (such as AZ), zips (such as 85001) or areas")


def test_a_job_that_ended_at_its_limit_says_so(page: Page, world: World) -> None:
    job = world.run(world.front.create(keyword="cafes", zips=["85001", "85002", "85003"], pages=1, max_credits=2))
    world.run(world.front.work())
    page.goto(f"/jobs/{job}")
    expect(page.locator(".notice.warn")).to_have_text("Stopped at your limit of 2 credits; 1 page was skipped.")


def test_a_key_is_made_on_the_page_and_shown_once(page: Page, world: World) -> None:
    page.goto("/keys")
    page.get_by_role("button", name="New key").click()
    page.locator("dialog").get_by_label("name").fill("grafana")
    page.get_by_role("button", name="Make the key").click()
    expect(page.locator("dialog pre")).to_contain_text("forager_")
    page.get_by_role("button", name="Done").click()
    expect(page.locator("table").first).to_contain_text("grafana")
    expect(page.locator("table").nth(1)).to_contain_text("POST /api/v1/keys")


def test_records_are_searched_and_offered_as_files(page: Page, world: World) -> None:
    page.goto("/records/product")
    settle(page)
    rows = page.locator("tbody tr")
    everything = rows.count()
    name = rows.first.locator(".job-name").inner_text()
    page.get_by_label("Search", exact=True).fill(name)
    expect(rows).not_to_have_count(everything, timeout=PATIENCE_MS)
    expect(rows.first.locator(".job-name")).to_have_text(name)
    page.get_by_text("Export", exact=True).click()
    for form in ("CSV", "JSON lines", "Parquet", "Excel"):
        link = page.get_by_role("link", name=form, exact=True)
        assert "search=" in (link.get_attribute("href") or ""), form


def test_an_operation_is_found_and_tried_with_the_key_of_the_session(page: Page, world: World) -> None:
    page.goto("/docs")
    page.locator(".docs-item").first.wait_for()
    page.get_by_label("Search operations").fill("list jobs")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="List jobs")).to_be_visible()
    page.locator("[name=limit]").fill("1")
    expect(page.locator(".codebox").first).to_contain_text("/api/v1/jobs?limit=1")
    page.get_by_role("tab", name="Python").click()
    expect(page.locator(".codebox").first).to_contain_text("httpx.get(")
    page.get_by_role("button", name="Send").click()
    expect(page.locator("[data-answer]")).to_contain_text('"success": true')


def test_the_system_page_has_checks_a_log_and_settings_with_their_origin(page: Page, world: World) -> None:
    page.goto("/system")
    settle(page)
    expect(page.locator(".check", has_text="python")).to_be_visible()
    page.get_by_label("Filter settings").fill("FORAGER_HOME")
    expect(page.locator("tr", has_text="FORAGER_HOME")).to_contain_text("command")
    page.reload()
    expect(page.get_by_label("Filter settings")).to_have_value("forager_home")
    expect(page.locator("tr", has_text="FORAGER_HOME")).to_contain_text("command")


def test_what_a_page_is_filtered_by_stays_in_its_address(page: Page, world: World) -> None:
    page.goto(f"/jobs/{world.done_job}")
    page.get_by_role("button", name="failed", exact=True).click()
    page.wait_for_url("**state=failed")
    page.reload()
    expect(page.locator(".virtual .line")).to_have_count(1)
    page.get_by_role("tab", name="sinks").click()
    page.reload()
    expect(page.get_by_role("tab", name="sinks")).to_have_attribute("aria-selected", "true")
    page.goto("/changes")
    page.get_by_label("Kind").select_option("product")
    page.reload()
    expect(page.get_by_label("Kind")).to_have_value("product")
    page.goto("/products/changes")
    page.get_by_role("button", name="prices").click()
    page.reload()
    expect(page.get_by_role("button", name="prices")).to_have_attribute("aria-pressed", "true")


def test_the_way_back_to_a_list_keeps_its_filters(page: Page, world: World) -> None:
    for path, way in (("/products?sort=price", "← Catalogue"), ("/listings?beds=2", "← All listings")):
        page.goto(path)
        page.locator(".tile").first.click()
        page.get_by_role("link", name=way).click()
        page.wait_for_url(f"**{path}")


def test_a_site_is_read_as_markdown(page: Page, world: World) -> None:
    page.goto("/sites")
    page.get_by_role("link", name=world.site).first.click()
    page.locator(".plain-row").nth(2).click()
    expect(page.locator(".markdown :is(p, li, h1, h2, h3)").first).to_be_visible()


def test_a_job_has_the_name_of_its_market_or_its_first_page(page: Page, world: World) -> None:
    page.goto("/jobs")
    expect(page.locator(".job-name", has_text="Boston · MA").first).to_be_visible()
    expect(page.locator(".job-name", has_text="/jobs/jsonld/1").first).to_be_visible()


@pytest.fixture(params=[1280, 390])
def either(browser: Browser, world: World, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page that is signed in, on a desk and on a phone."""
    context = new_context(browser, world, width=request.param)
    opened = context.new_page()
    sign_in(opened)
    world.troubles.clear()
    yield opened
    assert world.troubles == []
    context.close()


def test_the_life_of_a_task_is_shown_in_steps_that_explain_themselves(either: Page, world: World) -> None:
    either.goto(f"/tasks/{world.dead_task}")
    steps = either.locator(".life")
    for step in ("Queued", "Fetched", "Handed over and stored"):
        expect(steps.get_by_text(step, exact=True)).to_be_visible()
    label = steps.get_by_role("note", name="Fetched: From sending")
    label.focus()
    assert "From sending the request" in label.evaluate("(at) => getComputedStyle(at, '::after').content")
    expect(either.locator(".look", has_text="sighting")).to_be_visible()


def test_all_jobs_that_match_a_filter_are_paused_together(either: Page, world: World) -> None:
    world.run(world.front.work())  # other tests leave jobs in the queue
    jobs = [world.run(world.front.create(**{**ONE_QUERY, "keyword": f"inns {n}"})) for n in range(2)]
    either.goto("/jobs")
    either.get_by_role("button", name="queued", exact=True).click()
    expect(either.locator("tbody tr")).to_have_count(2)
    either.get_by_label("Select", exact=True).first.check()
    either.get_by_role("button", name="Select all that match").click()
    either.get_by_role("button", name="pause", exact=True).click()
    expect(either.get_by_text("2 jobs: done.")).to_be_visible()
    for job in jobs:
        assert world.run(world.front.data(f"/api/v1/jobs/{job}"))["state"] == "paused"
        world.run(world.front.client.post(f"/api/v1/jobs/{job}/cancel"))


def test_tasks_of_a_job_are_found_by_text_and_state(either: Page, world: World) -> None:
    either.goto(f"/jobs/{world.done_job}")
    lines = either.locator(".virtual .line")
    expect(lines).to_have_count(6)
    either.get_by_label("Find tasks").fill("85003")
    expect(lines).to_have_count(2)
    either.get_by_role("button", name="failed", exact=True).click()
    expect(lines).to_have_count(1)
    either.get_by_role("tab", name="sinks").click()
    expect(either.locator(".look", has_text="webhook")).to_be_visible()
    either.get_by_role("tab", name="records").click()
    expect(either.get_by_role("link", name="Download csv")).to_have_count(1)


def test_a_sink_delivers_again_from_a_change_on(either: Page, world: World) -> None:
    either.goto("/sinks")
    either.locator("[data-sink=search]").get_by_role("button", name="Replay from").click()
    either.get_by_role("button", name="the last 100").click()
    after = int(either.locator("dialog [name=after]").input_value())
    either.locator("dialog").get_by_role("button", name="Deliver again").click()
    expect(either.get_by_text(f"search delivers the changes after {after:,}.")).to_be_visible()
    assert world.run(world.front.data("/api/v1/sinks/search"))["cursor"] == after > 0


def test_a_schedule_is_added_changed_and_removed(either: Page, world: World) -> None:
    either.goto("/schedules")
    either.get_by_role("button", name="Add a schedule").click()
    dialog = either.locator("dialog")
    for name, text in (("name", "weekly"), ("when", "1d"), ("keyword", "bakeries"), ("zips", "85001")):
        dialog.locator(f"[name={name}]").fill(text)
    dialog.get_by_text("more options").click()
    dialog.locator("[name=max_credits]").fill("50")
    dialog.get_by_role("button", name="Add", exact=True).click()
    row = either.locator("[data-schedule=weekly]")
    expect(row).to_contain_text("every 1 d")
    row.get_by_role("button", name="Change").click()
    either.locator("dialog [name=when]").fill("0 5 * * 1")
    either.locator("dialog").get_by_role("button", name="Save").click()
    expect(row).to_contain_text("0 5 * * 1 UTC")
    assert world.run(world.front.data("/api/v1/schedules/weekly"))["params"]["max_credits"] == 50
    row.get_by_role("button", name="Remove").click()
    either.locator("dialog").get_by_role("button", name="Remove").click()
    expect(row).to_have_count(0)


def test_a_key_is_rotated_and_shown_once_more(either: Page, world: World) -> None:
    made = world.run(world.front.client.post("/api/v1/keys", json={"name": "night", "role": "viewer"}))
    either.goto("/keys")
    row = either.locator("tr", has_text="night").first
    row.get_by_role("button", name="Rotate").click()
    either.get_by_role("button", name="Replace").click()
    shown = either.locator("dialog pre")
    expect(shown).to_contain_text("forager_")
    assert shown.inner_text() != made.json()["data"]["key"]
    world.run(world.front.client.delete("/api/v1/keys/night"))


def test_old_data_is_counted_before_it_is_removed(either: Page, world: World) -> None:
    either.goto("/system")
    settle(either)
    either.locator("[data-retention]").get_by_role("button", name="Preview").click()
    expect(either.locator("[data-retention]")).to_contain_text("Nothing is older")


def test_a_lane_is_paused_from_the_palette_and_gets_a_rule_of_an_operator(either: Page, world: World) -> None:
    either.goto("/lanes/serper")
    settle(either)
    either.locator("[name=max_concurrent_requests]").fill("7")
    either.locator("[name=from]").fill("0")
    either.locator("[name=to]").fill("23")
    either.get_by_role("button", name="Save").click()
    expect(either.locator("tr", has_text="max concurrent requests")).to_contain_text("operator")
    expect(either.locator("tr", has_text="allowed hours")).to_contain_text("0:00 to 23:00")
    either.get_by_role("button", name="Clear overrides").click()
    expect(either.locator("tr", has_text="max concurrent requests")).not_to_contain_text("operator")
    either.locator(".jump").click()
    either.get_by_label("Jump to", exact=True).last.fill("lane serper")
    either.get_by_role("option", name="Pause lane serper").click()
    expect(either.get_by_text("Pause lane serper: done.")).to_be_visible()
    world.run(world.front.client.post("/api/v1/lanes/serper/resume"))


def test_a_stored_page_of_a_product_is_parsed_again(either: Page, world: World) -> None:
    either.goto(f"/products/{world.product}")
    either.get_by_role("button", name="Parse again").click()
    expect(either.locator("[data-reparse]")).to_be_visible()
    expect(either.locator("[data-reparse]")).to_contain_text("fields stay")


def test_the_menu_is_hidden_and_stays_so(page: Page, world: World) -> None:
    page.keyboard.press("m")
    expect(page.get_by_label("Main", exact=True)).not_to_be_visible()
    page.reload()
    settle(page)
    expect(page.get_by_label("Main", exact=True)).not_to_be_visible()
    page.get_by_role("button", name="Show the menu").click()
    expect(page.get_by_label("Main", exact=True)).to_be_visible()


def test_records_of_a_job_are_all_listed_and_can_be_opened(page: Page, world: World) -> None:
    found = world.run(world.front.data("/api/v1/records/review", order="newest", limit=50))
    assert len(found) > 10
    page.goto("/records/review")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(len(found))
    expect(rows.first.locator(".job-name")).to_have_text(found[0]["reviewer"]["displayName"])
    rows.first.locator("a").first.click()
    expect(page.get_by_role("heading", name=found[0]["reviewer"]["displayName"])).to_be_visible()
    expect(page.locator("dl.pairs")).to_contain_text(found[0]["review_key"])


def test_records_are_sorted_by_a_column_and_listed_from_either_end(page: Page, world: World) -> None:
    page.goto("/records/place")
    settle(page)
    names = page.locator("tbody .job-name")
    newest = names.first.inner_text()
    page.get_by_label("Order").select_option("oldest")
    expect(names.first).not_to_have_text(newest)
    page.get_by_role("button", name="rating count").click()
    expect(page.locator("th[aria-sort=ascending]")).to_contain_text("rating count")
    page.get_by_role("button", name="rating count").click()
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("rating count")
    most = max(each["rating_count"] or 0 for each in world.run(world.front.data("/api/v1/records/place", limit=1000)))
    expect(page.locator("tbody tr").first.locator("td").last).to_have_text(f"{most:,}")
    page.reload()
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("rating count")


def test_the_listings_that_are_shown_are_saved_as_a_file(either: Page, world: World) -> None:
    either.goto("/listings")
    everything = world.run(world.front.data("/api/v1/listings", limit=1000))
    wanted = world.run(world.front.data("/api/v1/listings", limit=1000, beds=2))
    assert 0 < len(wanted) < len(everything)
    either.get_by_label("Beds").select_option("2")
    either.wait_for_function("location.search.includes('beds=2')")
    either.get_by_text("Export", exact=True).click()
    with either.expect_download() as saved:
        either.get_by_role("button", name="JSON lines").click()
    rows = [json.loads(line) for line in saved.value.path().read_text().splitlines()]
    assert saved.value.suggested_filename == "listings.jsonl"
    assert [row["id"] for row in rows] == [row["id"] for row in wanted]
    with either.expect_download() as saved:
        either.get_by_role("button", name="CSV").click()
    assert len(list(csv.DictReader(saved.value.path().open()))) == len(wanted)


def test_a_task_is_parsed_again_with_what_would_change(either: Page, world: World) -> None:
    jobs = world.run(world.front.data("/api/v1/jobs", pipeline="products"))
    tasks = [each for job in jobs for each in world.run(world.front.data(f"/api/v1/jobs/{job['id']}/tasks"))]
    crawled = next(each for each in tasks if each["kind"] == "products.crawl" and each["state"] == "completed")
    for task in (crawled["id"], world.scrape_task):
        either.goto(f"/tasks/{task}")
        expect(either.locator(".look", has_text="text/html").get_by_role("button", name="Source")).to_be_visible()
        with either.expect_request(lambda sent: sent.method == "POST"):
            either.get_by_role("button", name="Parse again").click()
        either.get_by_role("heading", name="Parse the stored page again").wait_for()
        found = either.locator("[data-reparse]")
        while not found.is_visible():
            world.run(world.front.work())  # a scrape reads the stored page in a task of its own
        expect(found).to_contain_text("fields stay")
        either.get_by_role("button", name="Close").click()


def test_the_overview_shows_lanes_that_wait_and_where_changes_are_delivered(either: Page, world: World) -> None:
    world.run(world.front.client.post("/api/v1/lanes/serper/pause"))
    either.goto("/")
    row = either.locator(".look", has_text="serper is paused by an operator")
    expect(row).to_be_visible()
    expect(either.locator(".look a[href='/sinks']").first).to_be_visible()
    row.get_by_role("button", name="resume serper").click()
    expect(row).to_have_count(0)
    assert not world.run(world.front.data("/api/v1/lanes/serper"))["paused"]


def test_pictures_of_products_are_shown_from_the_store(page: Page, world: World) -> None:
    async def downloaded() -> None:
        await world.front.app.rechecker.look()
        await world.front.work()

    world.run(downloaded())
    page.goto(f"/products/{world.product}")
    expect(page.locator(".hero .cover img")).not_to_have_js_property("naturalWidth", 0)


def test_reviews_start_from_the_simulated_world_with_one_click(either: Page, world: World) -> None:
    either.goto("/reviews")
    either.get_by_role("button", name="Fetch from the simulated world").click()
    either.wait_for_url("**/reviews/*")
    expect(either.locator(".card .tag", has_text="queued")).to_be_visible()
    world.run(world.front.work())
    expect(either.locator(".card .tag", has_text="completed")).to_be_visible()


@pytest.mark.parametrize("width", [1280, 390])
def test_a_stranger_does_five_tasks_without_reading_documents(browser: Browser, world: World, width: int) -> None:
    """Start a job with a price limit; see why a job waits; retry the dead letters of a reason; find the cheapest
    two-bedroom flat in Boston and its rents; see where a price came from."""
    if not world.run(world.front.data("/api/v1/dead")):  # the letter of this world was retried at the other width
        world.front.sandbox.serper.script.add([Rule(Fault.MALFORMED, zip=BAD_ZIP, keyword="diners", page=1, times=1)])
        world.run(world.front.create(keyword="diners", zips=[BAD_ZIP], pages=1))
        world.run(world.front.work())
    context = new_context(browser, world, width=width)
    page = context.new_page()
    sign_in(page)

    def menu(title: str) -> None:
        if width < 820:
            page.get_by_role("button", name="Menu").click()
        page.get_by_label("Main").get_by_role("link", name=title).click()

    page.get_by_role("link", name="New job").click()
    page.get_by_role("button", name="places Business").click()
    page.locator("[name=keyword]").fill("bakeries")
    page.locator("[name=zips]").fill("02139")
    expect(page.locator("[data-estimate]")).to_contain_text("$", timeout=PATIENCE_MS)
    page.locator("[name=limit_usd]").fill("0.5")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("heading", name="bakeries · 02139")).to_be_visible()
    expect(page.locator(".figures", has_text="Credits")).to_contain_text("of 1,666")

    menu("Overview")
    waiting = page.locator(".look", has_text="bars · 85001 is paused")
    expect(waiting).to_contain_text("credits are being topped up")
    waiting.locator("a.strong").click()
    expect(page.locator(".notice.warn")).to_contain_text("credits are being topped up")

    menu("Dead letters")
    page.get_by_role("button", name="Retry 1", exact=True).click()
    expect(page.get_by_text("No task has failed permanently.")).to_be_visible()

    menu("Listings")
    page.get_by_label("Beds").select_option("2")
    page.get_by_label("Sort").select_option(label="cheapest first")
    page.wait_for_function("location.search.includes('beds=2')")
    page.locator(".tile").first.click()
    expect(page.get_by_role("heading", name="Rent over time")).to_be_visible()

    menu("Products")
    page.locator(".tile a, a.tile").first.click()
    expect(page.locator("tr", has_text="price").first).to_contain_text("json-ld")
    context.close()


def test_a_task_that_fails_again_after_its_retry_is_shown_again(page: Page, world: World) -> None:
    world.front.sandbox.serper.script.add([Rule(Fault.MALFORMED, zip=BAD_ZIP, keyword="inns", page=1, times=2)])
    world.run(world.front.create(keyword="inns", zips=[BAD_ZIP], pages=1))
    world.run(world.front.work())
    page.goto("/dead")
    retry = page.locator(".looks").get_by_role("button", name="Retry")
    retry.click()
    expect(page.get_by_text("No task has failed permanently.")).to_be_visible()
    world.run(world.front.work())
    expect(retry).to_be_visible(timeout=15_000)
    retry.click()
    world.run(world.front.work())
    expect(page.get_by_text("No task has failed permanently.")).to_be_visible()


def test_no_page_has_a_serious_finding_of_axe(browser: Browser, world: World) -> None:
    """Every rule in light, on a desk and on a phone; in dark those about colours, because nothing else of a page
    depends on the scheme."""
    source = axe_source()
    found: set[str] = set()
    colours = {"runOnly": {"type": "rule", "values": COLOUR_RULES}}
    for scheme, width, only in (("light", 1280, {}), ("light", 390, {}), ("dark", 1280, colours)):
        context = new_context(browser, world, width=width, color_scheme=scheme, bypass_csp=True)
        context.add_init_script(source)
        page = context.new_page()
        sign_in(page)
        for path in (*world.pages(), *world.pipeline_pages()):
            page.goto(path)
            settle(page)
            for wrong in page.evaluate(
                "(only) => axe.run(document, {resultTypes: ['violations'], ...only}).then((all) => all.violations)",
                only,
            ):
                if wrong["impact"] in ("serious", "critical"):
                    found.add(f"{path} {scheme} {width}: {wrong['id']} {wrong['nodes'][0]['html'][:120]}")
        context.close()
    assert found == set()


def test_no_page_has_an_error_and_no_text_of_any_kind_runs__S16__S22(page: Page, world: World) -> None:
    """The last test of this file: it puts the texts into all records."""
    _look_at_every_page(page, world, xss_strings())


@pytest.mark.chaos
@pytest.mark.timeout(1800)
def test_every_text_runs_in_no_field_of_any_page__S16__S22(page: Page, world: World) -> None:
    texts = xss_strings()
    for turn in range(0, 150, 7):  # the texts move on by seven, so that each comes to fields of every kind
        _look_at_every_page(page, world, texts[turn:] + texts[:turn])


def _look_at_every_page(page: Page, world: World, texts: Sequence[str]) -> None:
    hidden = world.run(hide(world.front, texts))
    assert hidden >= len(texts)
    job = world.run(world.front.create(**{**ONE_QUERY, "keyword": texts[0][:100]}))
    world.run(world.front.client.post(f"/api/v1/jobs/{job}/pause", json={"reason": texts[1][:100]}))
    for path in (*world.pages(), *world.pipeline_pages(), f"/jobs/{job}"):
        page.goto(path)
        settle(page)
        assert page.evaluate("window.__ran") is None, path
        assert page.evaluate("window.__violations") == [], path
    assert world.troubles == []
    page.goto("/records/place?order=oldest")
    expect(page.locator("td", has_text="<").first).to_be_visible(timeout=PATIENCE_MS)  # shown as they are
