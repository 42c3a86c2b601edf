"""Actions on a page, pictures, PDF files and captured JSON, by a real browser; and what of it is refused."""

from base64 import b64decode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from forager.sandbox.scrape_pages import SiteAnswer
from tests.support.scrape import API, Service, open_service

ONE: dict[str, Any] = {"browser_pool_size": 1, "browser_pool_max": 1}
JSON = b"application/json"

SHOP = b"""<!doctype html><html><head><title>Shop</title></head><body>
<input id="q"><select id="sort"><option value="name">Name</option><option value="price">Price</option></select>
<button id="more">More</button><a id="on" href="/second">On</a>
<div id="chart" style="width:120px;height:80px;background:#268">Chart</div>
<div style="height:3000px"></div><main id="out"><p>Nothing has been searched for yet.</p></main>
<script>
const out = document.getElementById("out");
const say = (text) => { const p = document.createElement("p"); p.className = "said"; p.textContent = text;
  out.append(p); };
document.getElementById("q").addEventListener("keydown", (e) => {
  if (e.key === "Enter") say(`searched for ${e.target.value}`); });
document.getElementById("sort").addEventListener("change", (e) => say(`sorted by ${e.target.value}`));
document.getElementById("more").addEventListener("click", async () => {
  for (let n = 1; n <= 3; n++) {
    const got = await (await fetch(`/api/items?page=${n}`)).json();
    say(`item ${got.name}`); }
  await (await fetch("/other.json")).text();
});
</script></body></html>"""
SECOND = b"""<!doctype html><html><head><title>Second</title></head><body><main><h1>Second page</h1>
<p>A click has led to this page, which has a text of its own.</p></main></body></html>"""


@pytest.fixture
async def browsing(chromium: Path, tmp_path: Path) -> AsyncIterator[Service]:
    async with open_service(tmp_path, chromium=chromium, **ONE) as opened, opened.app.engine():
        prepare(opened)
        yield opened


def prepare(service: Service) -> None:
    service.site.answers["/shop"] = SiteAnswer(200, SHOP)
    service.site.answers["/second"] = SiteAnswer(200, SECOND)
    service.site.answers["/api/items"] = lambda request: SiteAnswer(
        200, f'{{"name": "{request.query.partition("=")[2]}"}}'.encode(), JSON
    )
    service.site.answers["/other.json"] = SiteAnswer(200, b'{"other": true}', JSON)


async def read(service: Service, *actions: dict[str, Any], **more: Any) -> dict[str, Any]:
    body = {"target_type": "page", "render": "auto", "timeout_seconds": 60, **more}
    answer = await service.sync("/shop", **body, **({"actions": list(actions)} if actions else {}))
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def test_typing_keys_and_choices_reach_the_page_in_their_order(browsing: Service) -> None:
    answer = await read(
        browsing,
        {"do": "type", "selector": "#q", "text": "oak table"},
        {"do": "press", "key": "Enter"},
        {"do": "select", "selector": "#sort", "value": "price"},
        {"do": "wait_for", "selector": ".said"},
        formats=["html"],
    )
    html = answer["data"]["result"]["html"]
    assert html.index("searched for oak table") < html.index("sorted by price")
    assert answer["meta"]["rendered"] is True


async def test_after_a_click_to_another_page_that_page_is_returned(browsing: Service) -> None:
    answer = await read(browsing, {"do": "click", "selector": "#on"}, {"do": "wait_for", "selector": "h1"})
    assert answer["meta"]["page_url"] == browsing.site.url("/second")
    assert "of its own" in answer["data"]["result"]["markdown"]


async def test_a_click_does_not_lead_where_robots_txt_forbids(browsing: Service) -> None:
    browsing.site.set_robots("User-agent: *\nDisallow: /second\n")
    answer = await browsing.sync(
        "/shop", target_type="page", render="browser", actions=[{"do": "click", "selector": "#on"}]
    )
    assert (answer.status_code, answer.json()["meta"]["reason"]) == (403, "robots")
    assert all(each.path != "/second" for each in browsing.site.log)


async def test_a_click_does_not_lead_into_the_own_network(browsing: Service) -> None:
    inside = b"""<!doctype html><title>In</title><body><p>Words of a page.</p>
<a id="in" href="http://127.0.0.1:9/secret">In</a></body>"""
    browsing.site.answers["/shop"] = SiteAnswer(200, inside)
    answer = await browsing.sync(
        "/shop", target_type="page", render="browser", actions=[{"do": "click", "selector": "#in"}]
    )
    assert answer.status_code == 502, answer.text
    assert answer.json()["meta"]["reason"] in ("egress_refused", "refused")


async def test_json_of_the_background_is_captured_in_order_and_by_its_address(browsing: Service) -> None:
    click = {"do": "click", "selector": "#more"}
    enough = {"do": "wait", "seconds": 1}
    result = (await read(browsing, click, enough, formats=["captured"], capture={"match": "/api/"}))["data"]["result"]
    assert [(each["json"], each["status"], each["method"]) for each in result["captured"]] == [
        ({"name": str(number)}, 200, "GET") for number in (1, 2, 3)
    ]
    assert result["captured"][0]["url"] == browsing.site.url("/api/items?page=1")
    every = (await read(browsing, click, enough, formats=["captured"]))["data"]["result"]["captured"]
    assert [each["json"] for each in every][-1] == {"other": True}
    two = await read(browsing, click, enough, formats=["captured"], capture={"most": 2})
    assert len(two["data"]["result"]["captured"]) == 2


async def test_an_answer_that_is_too_large_is_left_out_of_the_capture(browsing: Service) -> None:
    browsing.site.answers["/other.json"] = SiteAnswer(200, b'{"other": "' + b"x" * (1024 * 1024) + b'"}', JSON)
    answer = await read(
        browsing, {"do": "click", "selector": "#more"}, {"do": "wait", "seconds": 1}, formats=["captured"]
    )
    assert [each["json"] for each in answer["data"]["result"]["captured"]] == [{"name": str(n)} for n in (1, 2, 3)]


def size_of(picture: str) -> tuple[int, int]:
    """Width and height in the header of a PNG."""
    png = b64decode(picture)
    return int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")


async def test_a_screenshot_shows_the_window_the_page_or_one_element(browsing: Service) -> None:
    window = (await read(browsing, formats=["screenshot"]))["data"]["result"]["screenshot"]
    whole = (await read(browsing, formats=["screenshot"], screenshot={"full_page": True}))["data"]["result"]
    element = (await read(browsing, formats=["screenshot"], screenshot={"selector": "#chart"}))["data"]["result"]
    assert size_of(whole["screenshot"])[1] > 3000 > size_of(window)[1]
    assert size_of(element["screenshot"]) == (120, 80)


async def test_a_page_is_printed_and_read_back_by_its_task(browsing: Service) -> None:
    answer = await read(browsing, formats=["pdf", "markdown"])
    assert b64decode(answer["data"]["result"]["pdf"]).startswith(b"%PDF-")
    task = answer["data"]["task_id"]
    got = await browsing.client.get(f"/api/v1/pages/{task}/pdf")
    assert (got.status_code, got.content[:5]) == (200, b"%PDF-")
    assert "attachment" in got.headers["content-disposition"]


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ({"do": "click", "selector": "#absent", "seconds": 0.2}, "actions.0 (click)"),
        ({"do": "type", "selector": "#absent", "text": "x", "seconds": 0.2}, "actions.0 (type)"),
        ({"do": "select", "selector": "#sort", "value": "colour", "seconds": 0.2}, "actions.0 (select)"),
        ({"do": "wait_for", "selector": "#absent", "seconds": 0.2}, "actions.0 (wait_for)"),
        ({"do": "click", "selector": "##"}, "cannot be read"),
        ({"do": "press", "key": "Entr"}, "Entr"),
    ],
)
async def test_an_action_that_cannot_be_done_fails_the_page_by_name(
    browsing: Service, action: dict[str, Any], message: str
) -> None:
    answer = await browsing.sync("/shop", target_type="page", render="browser", actions=[action])
    assert answer.status_code == 502, answer.text
    assert answer.json()["meta"]["reason"] == "action_failed"
    assert message in answer.json()["error"]


async def test_an_optional_action_is_left_out_where_its_element_is_missing(browsing: Service) -> None:
    answer = await read(
        browsing,
        {"do": "click", "selector": "#absent", "seconds": 0.2, "optional": True},
        {"do": "type", "selector": "#q", "text": "oak"},
        {"do": "press", "key": "Enter", "selector": "#q"},
        formats=["html"],
    )
    assert "searched for oak" in answer["data"]["result"]["html"]


async def test_a_script_runs_only_where_the_operator_allows_it(chromium: Path, tmp_path: Path) -> None:
    script = {"do": "evaluate", "script": "await 1; document.title = 'changed by a script'; return 7"}
    async with open_service(tmp_path, chromium=chromium, scrape_evaluate=True, **ONE) as service, service.app.engine():
        prepare(service)
        assert (await read(service, script))["data"]["result"]["title"] == "changed by a script"
        slow = {"do": "evaluate", "script": "await new Promise(() => {})", "seconds": 0.3}
        failed = await service.sync("/shop", target_type="page", render="browser", actions=[slow])
        assert "did not end within 0.3 s" in failed.json()["error"]
        wrong = {"do": "evaluate", "script": "absent()"}
        failed = await service.sync("/shop", target_type="page", render="browser", actions=[wrong])
        assert failed.json()["meta"]["reason"] == "action_failed"
        assert "absent is not defined" in failed.json()["error"]


async def test_actions_are_not_answered_from_the_store(browsing: Service) -> None:
    await read(browsing, max_age=3600)
    answer = await read(browsing, {"do": "click", "selector": "#on"}, max_age=3600)
    assert (answer["meta"]["stored"], answer["meta"]["page_url"]) == (False, browsing.site.url("/second"))
    again = await read(browsing, max_age=3600)
    assert again["data"]["result"]["title"] == "Shop"


CLICK = {"do": "click", "selector": "a"}


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        ({"actions": [{"do": "evaluate", "script": "1"}]}, "actions.0.do", "FORAGER_SCRAPE_EVALUATE"),
        ({"actions": [CLICK] * 31}, "actions", "30"),
        ({"actions": []}, "actions", "empty"),
        ({"actions": [{"do": "jump"}]}, "actions.0", "click"),
        ({"actions": [{"do": "click"}]}, "actions.0.click.selector", "required"),
        ({"actions": [{"selector": "a"}]}, "actions.0", "'do'"),
        ({"actions": [{"do": "click", "selector": "a" * 501}]}, "actions.0.click.selector", "500"),
        ({"actions": [{"do": "wait", "seconds": 31}]}, "actions.0.wait.seconds", "30"),
        ({"actions": [{"do": "wait", "seconds": 16}] * 2}, "", "32 s together"),
        ({"actions": [CLICK], "render": "http"}, "", "done by a browser"),
        ({"formats": ["pdf"], "render": "http"}, "", "made by a browser"),
        ({"screenshot": {"full_page": True}}, "", "add screenshot to formats"),
        ({"capture": {"match": "x"}}, "", "add captured to formats"),
        ({"formats": ["screenshot"], "screenshot": {"full_page": True, "selector": "a"}}, "", "one element"),
        ({"formats": ["captured"], "capture": {"most": 51}}, "capture.most", "50"),
    ],
)
async def test_what_cannot_be_done_is_refused_with_its_field(
    still: Service, given: dict[str, Any], field: str, message: str
) -> None:
    refused = await still.client.post(API, json=still.target(**{"target_type": "page", "render": "auto", **given}))
    assert refused.status_code == 422, refused.text
    assert message in refused.text
    if field:
        assert field in [each["field"] for each in refused.json()["meta"]["fields"]]


async def test_the_most_that_is_allowed_is_taken(still: Service) -> None:
    actions = [CLICK] * 29 + [{"do": "wait", "seconds": 30}]
    body = still.target(target_type="page", render="auto", actions=actions)
    taken = await still.client.post(API, json=body)
    assert taken.status_code == 202, taken.text
