"""Described fields on the command line: the values, what they cost, and what is refused."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from forager.sandbox.model import SimulatedModel
from forager.sandbox.scrape_pages import job
from forager.sandbox.site import SandboxSite
from tests.support.cli import Forager

SCHEMA = {
    "fields": {
        "title": {"css": "h1"},
        "salary": {"describe": "how much the job pays"},
        "location": {"describe": "where it is"},
    }
}


@pytest.fixture
def model(site: SandboxSite, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedModel]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    made = SimulatedModel("key")
    asyncio.run_coroutine_threadsafe(made.start(), loop).result(10)
    monkeypatch.setenv("FORAGER_EGRESS_ALLOW", f"{site.endpoint},{made.endpoint}")
    for name, value in (
        ("URL", made.base_url),
        ("API_KEY", "key"),
        ("MODEL", made.name),
        ("PRICE_IN", "0.15"),
        ("PRICE_OUT", "0.6"),
    ):
        monkeypatch.setenv(f"FORAGER_LLM_{name}", value)
    yield made
    asyncio.run_coroutine_threadsafe(made.stop(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(60)
    loop.close()


@pytest.fixture
def schema(tmp_path: Path) -> str:
    (tmp_path / "postings.json").write_text(json.dumps(SCHEMA))
    return "postings.json"


def test_a_schema_is_tested_and_its_cost_shown(
    forager: Forager, site: SandboxSite, model: SimulatedModel, schema: str
) -> None:
    ran = forager("schemas", "test", schema, site.url("/jobs/plain/1"), "--max-usd", "0.05")
    assert ran.code == 0, ran.err
    assert "a year" in ran.out
    assert 'described:"' in ran.out
    assert "Cost: $0.0000" in ran.err
    again = forager("schemas", "test", schema, site.url("/jobs/plain/1"), "--json").data
    assert again["result"]["title"] == job(1)["title"]
    assert again["cost_usd"] == "0"
    assert len(model.log) == 1


def test_a_page_and_a_batch_are_read_by_a_stored_schema_within_a_budget(
    forager: Forager, site: SandboxSite, model: SimulatedModel, schema: str, tmp_path: Path
) -> None:
    assert forager("schemas", "add", "postings", schema).code == 0
    one = forager("scrape", site.url("/jobs/plain/1"), "--schema", "postings", "--max-usd", "1")
    assert (one.code, "a year" in one.out) == (0, True), one.err
    (tmp_path / "urls.txt").write_text("".join(f"{site.url(f'/jobs/plain/{n}')}\n" for n in range(2, 5)))
    batch = forager("scrape", "batch", "urls.txt", "--schema", schema, "--max-usd", "1", "--json").data
    assert [page["result"]["title"] for page in batch] == [job(n)["title"] for n in range(2, 5)]
    assert len(model.log) == 4
    shown = forager("jobs", "list", "--json").data
    assert all(0 < each["spent"] < each["max_cost"] == 1_000_000 for each in shown)


def test_a_plan_fetches_and_spends_nothing(
    forager: Forager, site: SandboxSite, model: SimulatedModel, schema: str, tmp_path: Path
) -> None:
    one = forager("scrape", site.url("/jobs/plain/1"), "--schema", schema, "--plan", "--json").data
    assert (one["pages"], one["described_pages"], one["worst_usd"]) == (1, 1, 0.0132)
    (tmp_path / "urls.txt").write_text("".join(f"{site.url(f'/jobs/plain/{n}')}\n" for n in range(10)))
    ten = forager("scrape", "batch", "urls.txt", "--schema", schema, "--plan", "--json").data
    assert ten["worst_usd"] == pytest.approx(0.132)
    capped = forager("scrape", "batch", "urls.txt", "--schema", schema, "--plan", "--max-usd", "0.1")
    assert "$0.100" in capped.out
    free = forager("scrape", site.url("/jobs/plain/1"), "--plan")
    assert "$0.00" in free.out
    assert (model.log, site.visits()) == ([], [])


def test_a_plan_has_the_price_of_the_unblocking_service(
    forager: Forager, site: SandboxSite, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    address = "https://unblock.example/?key={key}&url={url}"
    for name, value in {"URL": address, "API_KEY": "k", "PRICE": "0.001", "MAX_USD_DAY": "1"}.items():
        monkeypatch.setenv(f"FORAGER_VIA_{name}", value)
    (tmp_path / "urls.txt").write_text("".join(f"{site.url(f'/jobs/plain/{n}')}\n" for n in range(3)))
    assert "unblocking" not in forager("scrape", "plan", "urls.txt").out
    lane = forager("lanes", "set", site.url("").split("/")[2], "--via", "--new")
    assert lane.code == 0, lane.err

    assert "unblocking service  $0.003" in forager("scrape", "plan", "urls.txt").out
    assert forager("scrape", "plan", "urls.txt", "--json").data["via_usd"] == 0.003
    assert site.visits() == []


@pytest.mark.usefixtures("site")
def test_a_schema_with_a_name_that_no_route_takes_is_refused_by_the_rule_for_names(
    forager: Forager, schema: str
) -> None:
    for command in ("add", "learn"):
        ran = forager("schemas", command, "a/b", schema)
        assert (ran.code, "'a/b' is not a valid name; use letters" in ran.err) == (2, True), ran.err


def test_an_unpaid_page_is_exit_code_1_with_the_remedy(
    forager: Forager, site: SandboxSite, model: SimulatedModel, schema: str
) -> None:
    ran = forager("scrape", site.url("/jobs/plain/1"), "--schema", schema, "--max-usd", "0.001")
    assert ran.code == 1
    assert "The budget of the job, --max-usd, does not pay" in ran.err
    assert model.log == []


def test_what_is_wrong_is_named_by_the_option(forager: Forager, site: SandboxSite, schema: str) -> None:
    url = site.url("/jobs/plain/1")
    off = forager("scrape", url, "--schema", schema)
    assert (off.code, "FORAGER_LLM_URL" in off.err) == (2, True), off.err
    assert "--schema" in off.err
    assert "cannot be read" in forager("scrape", url, "--schema", "missing.json").err
    assert "there is no schema" in forager("scrape", url, "--schema", "missing").err
    assert forager("scrape", url, "--schema", schema, "--max-usd", "-1").code == 2
