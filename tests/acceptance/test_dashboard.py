"""The dashboard in a real browser: sign-in, roles, live updates, the keyboard, and texts that would like to run."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

pytest.importorskip("playwright")

from playwright.sync_api import Browser, Page, expect

from tests.support.api import KEY, ONE_QUERY
from tests.support.dashboard import (
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
    page.context.clear_cookies()
    page.get_by_role("navigation").get_by_role("link", name="Sinks").first.click()
    expect(page.get_by_label("Key")).to_be_visible()


def test_a_viewer_sees_no_button_that_its_role_does_not_allow(browser: Browser, world: World) -> None:
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
    page.get_by_role("link", name="Changes").click()
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


def test_a_rejected_field_has_the_sentence_of_the_api_beside_it(page: Page, world: World) -> None:
    page.goto("/jobs/new?pipeline=places")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("label", has=page.locator("[name=keyword]")).locator(".error")).to_contain_text("required")


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


def test_a_site_is_read_as_markdown(page: Page, world: World) -> None:
    page.goto("/sites")
    page.get_by_role("link", name=world.site).first.click()
    page.locator(".plain-row").nth(2).click()
    expect(page.locator(".markdown :is(p, li, h1, h2, h3)").first).to_be_visible()


@pytest.mark.parametrize("width", [1280, 390])
def test_a_stranger_does_five_tasks_without_reading_documents(browser: Browser, world: World, width: int) -> None:
    """Start a job with a price limit; see why a job waits; retry the dead letters of a reason; find the cheapest
    two-bedroom flat in Boston and its rents; see where a price came from."""
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
    waiting = page.locator(".look", has_text="is paused")
    expect(waiting).to_contain_text("credits are being topped up")
    waiting.locator("a.strong").click()
    expect(page.locator(".notice.warn")).to_contain_text("credits are being topped up")

    menu("Dead letters")
    if width > 820:  # the phone comes second, when the letter is gone
        page.get_by_role("button", name="Retry 1").first.click()
    expect(page.get_by_text("No task has failed for good.")).to_be_visible()

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


def test_no_page_has_a_serious_finding_of_axe(browser: Browser, world: World) -> None:
    source = axe_source()
    found: set[str] = set()
    for scheme in ("light", "dark"):
        context = new_context(browser, world, color_scheme=scheme, bypass_csp=True)
        page = context.new_page()
        sign_in(page)
        for path in (*world.pages(), *world.pipeline_pages()):
            page.goto(path)
            settle(page)
            page.evaluate(source)
            for wrong in page.evaluate(
                "axe.run(document, {resultTypes: ['violations']}).then((all) => all.violations)"
            ):
                if wrong["impact"] in ("serious", "critical"):
                    found.add(f"{path} {scheme}: {wrong['id']} {wrong['nodes'][0]['html'][:120]}")
        context.close()
    assert found == set()


def test_no_page_has_an_error_and_no_text_of_any_kind_runs(page: Page, world: World) -> None:
    """The last test of this file: it puts the texts into all records."""
    _look_at_every_page(page, world, xss_strings())


@pytest.mark.chaos
@pytest.mark.timeout(1800)
def test_every_text_runs_in_no_field_of_any_page(page: Page, world: World) -> None:
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
    page.goto("/records/place")
    expect(page.locator("td", has_text="<").first).to_be_visible(timeout=PATIENCE_MS)  # shown as they are
