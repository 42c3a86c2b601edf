"""A site that is reached through an unblocking service: what it gets, what it costs, and what it may not do."""

from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from forager.sandbox.scrape_pages import SiteAnswer
from forager.sandbox.unblocker import COST_HEADER, SimulatedUnblocker
from forager.settings import Settings
from tests.support.scrape import Service, open_service

KEY = "a-key-of-the-service"
PATH = "/companies/pages/1"
PRICE = "0.002"


@pytest.fixture
async def paid(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Service, SimulatedUnblocker]]:
    """A service whose site is reached through the unblocking service; its settings are the fixture's parameter."""
    more: dict[str, Any] = dict(getattr(request, "param", {}))
    database = str(request.getfixturevalue("app_postgres_url")) if more.pop("postgres", False) else None
    async with SimulatedUnblocker(KEY) as unblocker:
        settings = {"via_price": PRICE, "via_max_usd_day": "1", "via_api_key": KEY, **more}
        opened = open_service(tmp_path, database, egress=(unblocker.endpoint,), via_url=unblocker.template, **settings)
        async with opened as service:
            await through(service)
            async with service.app.engine():
                yield service, unblocker


async def through(service: Service, *, via: bool = True) -> None:
    answer = await service.client.patch(f"/api/v1/lanes/{service.site.endpoint}/rules?new=true", json={"via": via})
    assert answer.status_code == 200, answer.text
    assert answer.json()["data"]["rules"]["via"] == {"value": via, "by": "operator", "where": service.site.endpoint}


async def spent(service: Service) -> tuple[Decimal, int]:
    assert service.app.via is not None
    found = await service.app.via.spent()
    return found.month, found.requests


async def page(service: Service, path: str = PATH, **more: Any) -> Any:
    return await service.sync(path, target_type="page", **more)


@pytest.mark.parametrize("paid", [{}, {"postgres": True}], indirect=True)
async def test_a_page_comes_through_the_service_and_has_its_own_address(
    paid: tuple[Service, SimulatedUnblocker],
) -> None:
    service, unblocker = paid
    answer = await page(service)
    assert answer.status_code == 200, answer.text
    assert answer.json()["meta"]["page_url"] == service.site.url(PATH)
    assert answer.json()["data"]["result"]["markdown"]
    assert [each.url for each in unblocker.log] == [service.site.url("/robots.txt"), service.site.url(PATH)]
    assert await spent(service) == (Decimal(PRICE) * 2, 2), "robots.txt is a request like any other"
    overview = (await service.client.get("/api/v1/overview")).json()["data"]
    assert overview["spend"]["today_usd"] == pytest.approx(0.004)
    assert KEY not in answer.text


async def test_the_final_address_is_taken_from_the_services_header(paid: tuple[Service, SimulatedUnblocker]) -> None:
    service, _ = paid
    service.site.answers["/moved"] = SiteAnswer(302, headers={"Location": service.site.url(PATH)})
    answer = await page(service, "/moved")
    assert answer.json()["meta"]["page_url"] == service.site.url(PATH)


@pytest.mark.parametrize(
    ("trouble", "reason", "costs"),
    [((503, 503, 503), "server_error", 0), ((404,), "not_found", 1), ((403,), "refused", 1)],
)
async def test_a_page_that_the_service_could_not_fetch_costs_nothing(
    paid: tuple[Service, SimulatedUnblocker], trouble: tuple[int, ...], reason: str, costs: int
) -> None:
    service, unblocker = paid
    await page(service)
    before = await spent(service)
    unblocker.trouble(*trouble)
    answer = await page(service, "/companies/pages/2")
    assert answer.json()["meta"]["reason"] == reason, answer.text
    assert (await spent(service))[0] - before[0] == Decimal(PRICE) * costs


@pytest.mark.parametrize(("status", "told"), [(401, "refused the key"), (402, "no credit left")])
async def test_a_refused_key_and_an_empty_account_pause_the_job_with_the_remedy(
    paid: tuple[Service, SimulatedUnblocker], status: int, told: str
) -> None:
    service, unblocker = paid
    await page(service)
    unblocker.trouble(status)
    before = await spent(service)
    answer = await page(service, "/companies/pages/3", timeout_seconds=5)
    assert (answer.status_code, answer.json()["meta"]["reason"]) == (504, "paused"), answer.text
    assert (
        told in answer.json()["error"]["message"] if isinstance(answer.json()["error"], dict) else told in answer.text
    )
    assert (await spent(service))[0] == before[0]


@pytest.mark.parametrize("paid", [{"via_max_usd_day": "0.006"}, {"via_max_usd_month": "0.006"}], indirect=True)
async def test_the_cap_is_never_exceeded_and_what_it_leaves_no_money_for_waits(
    paid: tuple[Service, SimulatedUnblocker],
) -> None:
    service, unblocker = paid
    targets = [service.target(f"/companies/pages/{n}", target_type="page") for n in range(1, 9)]
    job = await service.batch(targets)
    while (seen := await service.data(f"/jobs/{job}"))["completed_tasks"] < 2:
        assert seen["finished_at"] is None
    waiting = await page(service, "/companies/pages/9", timeout_seconds=5)
    assert waiting.status_code == 504
    assert len(unblocker.log) == 3, "robots.txt and two pages"
    assert await spent(service) == (Decimal("0.006"), 3)


@pytest.mark.parametrize("paid", [{"via_cost_header": COST_HEADER, "via_max_usd_day": "10"}], indirect=True)
async def test_the_cost_in_an_answers_header_is_counted(paid: tuple[Service, SimulatedUnblocker]) -> None:
    service, unblocker = paid
    unblocker.cost = 25
    await page(service)
    assert (await spent(service))[0] == Decimal(PRICE) * 50


async def test_a_lost_answer_counts_with_its_price(paid: tuple[Service, SimulatedUnblocker]) -> None:
    service, unblocker = paid
    await page(service)
    before = await spent(service)
    unblocker.trouble(0, 0, 0)
    await page(service, "/companies/pages/2")
    assert (await spent(service))[0] - before[0] == Decimal(PRICE) * 3


async def test_no_login_session_action_or_picture_goes_through_the_service(
    paid: tuple[Service, SimulatedUnblocker],
) -> None:
    service, unblocker = paid
    await page(service)
    seen = len(unblocker.log)
    for more in ({"session": "s"}, {"actions": [{"do": "scroll"}]}, {"formats": ["screenshot"]}):
        answer = await page(service, render="browser", **more)
        assert (answer.status_code, answer.json()["meta"]["reason"]) == (502, "egress_refused"), answer.text
        assert "--no-via" in answer.text
    assert len(unblocker.log) == seen
    assert all("authorization" not in each.headers and "cookie" not in each.headers for each in unblocker.log)


async def test_the_guard_holds_for_pages_that_the_service_would_fetch(
    paid: tuple[Service, SimulatedUnblocker],
) -> None:
    service, unblocker = paid
    await service.client.patch("/api/v1/lanes/10.0.0.1/rules?new=true", json={"via": True})
    answer = await service.client.post("/api/v1/scrape/sync", json={"url": "http://10.0.0.1/", "render": "http"})
    assert answer.json()["meta"]["reason"] == "egress_refused", answer.text
    assert unblocker.log == []


async def test_an_estimate_names_what_the_service_costs(paid: tuple[Service, SimulatedUnblocker]) -> None:
    service, _ = paid
    targets = [service.target(PATH), service.target("/companies/pages/2")]
    plan = await service.client.post("/api/v1/jobs/plan", json={"pipeline": "scrape", "params": {"targets": targets}})
    assert Decimal(plan.json()["data"]["via_usd"]) == Decimal(PRICE) * 2, plan.text
    site = await service.client.post("/api/v1/sites/plan", json={"url": service.site.url("/"), "limit": 500})
    assert Decimal(site.json()["data"]["via_usd"]) == Decimal(1)
    await through(service, via=False)
    plan = await service.client.post("/api/v1/jobs/plan", json={"pipeline": "scrape", "params": {"targets": targets}})
    assert Decimal(plan.json()["data"]["via_usd"]) == 0


async def test_without_the_service_a_lane_is_not_sent_through_it(simple: Service) -> None:
    answer = await simple.client.patch("/api/v1/lanes/shop.example/rules?new=true", json={"via": True})
    assert answer.status_code == 422
    assert "FORAGER_VIA_URL" in answer.text


async def test_a_policy_file_that_wants_a_missing_service_sends_nothing_directly(tmp_path: Path) -> None:
    policies = "domains:\n  default:\n    via: true\n    min_delay_ms: 0\n    max_delay_ms: 0\n"
    async with open_service(tmp_path, policies=policies) as service, service.app.engine():
        answer = await page(service, timeout_seconds=5)
        assert (answer.status_code, answer.json()["meta"]["reason"]) == (504, "paused"), answer.text
        assert not service.site.log


@pytest.mark.parametrize(
    "wrong", ["https://api.example/", "ftp://api.example/?u={url}", "https://u:p@api.example/?u={url}", "u={url}"]
)
def test_an_invalid_service_address_is_refused_and_not_shown(wrong: str) -> None:
    from forager.core.errors import Rejected
    from forager.fetch.via import checked_template

    assert Settings().via_url is None
    with pytest.raises(Rejected, match="should be a URL") as refused:
        checked_template(wrong)
    assert wrong not in str(refused.value)
