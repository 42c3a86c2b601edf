"""The scrape service is killed and stopped in the middle of a batch: every task ends once, and every job is reported
once by id."""

import asyncio
import json
import os
import signal
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from forager.sandbox.model import SimulatedModel
from forager.sandbox.receiver import WebhookReceiver
from forager.sandbox.scrape_pages import SiteAnswer, page
from forager.sandbox.site import SandboxSite
from forager.secrets.service_key import read_service_key
from tests.acceptance.test_cli import Machine, until
from tests.support.scrape import API, QUICK
from tests.support.webhooks import SECRET

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]

PAGES = 60
LATE = page("Cook", f"<h1>Late Shift Cook</h1><p class='company'>Still</p><p>{'Work. ' * 100}</p>").body
PATIENCE = 90.0


@pytest.fixture
def machine(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(tmp_path, tmp_path_factory.getbasetemp() / "bytecode")


@asynccontextmanager
async def website(machine: Machine) -> AsyncIterator[SandboxSite]:
    """Pages that take a while, so that a batch has a middle."""
    rules = machine.folder / "policies.yaml"
    rules.write_text(QUICK)
    zips = machine.folder / "zips.csv"
    zips.write_text("zip,state\n85001,AZ\n")  # the table that ships takes a second to load, at every start
    async with SandboxSite(latency=0.15) as site:
        machine.environment |= {
            "FORAGER_ZIP_TABLE": str(zips),
            "FORAGER_EGRESS_ALLOW": site.endpoint,
            "FORAGER_DOMAIN_POLICIES_PATH": str(rules),
            "FORAGER_LEASE_SECONDS": "2",
        }
        yield site


@asynccontextmanager
async def calling(machine: Machine) -> AsyncIterator[httpx.AsyncClient]:
    """A client of whatever process answers now."""
    owner = await asyncio.to_thread(machine.until_up)
    headers = {"X-Service-Key": read_service_key(machine.home) or ""}
    async with httpx.AsyncClient(base_url=owner.url or "", headers=headers, timeout=PATIENCE) as client:
        yield client


async def submit(machine: Machine, site: SandboxSite, pages: int = PAGES, **more: Any) -> str:
    targets = [
        {
            "target_type": "job_posting",
            "target_url": site.url(f"/jobs/jsonld/{n}"),
            "workspace_id": "acme",
            "render": "http",
        }
        for n in range(pages)
    ]
    async with calling(machine) as client:
        if pages == 1:
            made = await client.post(API, json={**targets[0], **more})
        else:
            made = await client.post(f"{API}/batch", json={"targets": targets, **more})
        assert made.status_code == 202, made.text
        return str(made.json()["data"]["job_id"])


async def ended(machine: Machine, job: str) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                async with calling(machine) as client:
                    seen = (await client.get(f"{API}/jobs/{job}")).json()["data"]
                    if seen["finished_at"] is not None:
                        results = (await client.get(f"{API}/jobs/{job}/results")).json()["data"]
                        return {**seen, "results": results}
            except httpx.TransportError:
                pass  # it is being started again
            await asyncio.sleep(0.1)


def check(seen: dict[str, Any], pages: int = PAGES) -> None:
    assert (seen["status"], seen["total_tasks"], seen["completed_tasks"]) == ("completed", pages, pages)
    assert len(seen["results"]) == len({each["task_id"] for each in seen["results"]}) == pages


async def kill(machine: Machine) -> None:
    """-9, and it is there again by itself."""
    owner = await asyncio.to_thread(machine.until_up)
    os.kill(owner.pid, signal.SIGKILL)
    await asyncio.to_thread(until, partial(_is_replaced, machine, owner.pid))


async def test_a_batch_survives_kill_9_and_every_task_ends_once__SC_1(machine: Machine) -> None:
    async with website(machine) as site:
        with machine.started("up"):
            job = await submit(machine, site)
            for quarter in (1, 2):
                await site.arrived(PAGES * quarter // 4)
                await kill(machine)
            check(await ended(machine, job))
            assert len([visit for visit in site.log if visit.path != "/robots.txt"]) >= PAGES


async def test_described_fields_survive_kill_9_and_no_question_is_charged_twice__SC_1(machine: Machine) -> None:
    pages, budget = 40, "10"
    async with website(machine) as site, SimulatedModel("key", latency=0.3) as model:
        machine.environment |= {
            "FORAGER_EGRESS_ALLOW": f"{site.endpoint},{model.endpoint}",
            "FORAGER_LLM_URL": model.base_url,
            "FORAGER_LLM_API_KEY": "key",
            "FORAGER_LLM_MODEL": model.name,
            "FORAGER_LLM_PRICE_IN": "1",
            "FORAGER_LLM_PRICE_OUT": "1",
        }
        for n in range(pages):
            html = f"<title>Table {n}</title><h1>Table {n}</h1><p>Price: {n + 100} EUR</p><p>{'Wood. ' * 50}</p>"
            site.answers[f"/t/{n}"] = SiteAnswer(200, html.encode())
        schema = {"fields": {"title": {"css": "h1"}, "price": {"type": "integer", "describe": "what it costs"}}}
        targets = [{"url": site.url(f"/t/{n}"), "schema": schema, "render": "http"} for n in range(pages)]
        with machine.started("up"):
            async with calling(machine) as client:
                made = await client.post(f"{API}/batch", json={"targets": targets, "max_usd": budget})
                assert made.status_code == 202, made.text
            job = str(made.json()["data"]["job_id"])
            hits = 0
            for quarter in (1, 2):
                async with asyncio.timeout(PATIENCE):
                    while len(model.log) < pages * quarter // 4:
                        await asyncio.sleep(0.01)
                hits += len(model.in_flight)
                await kill(machine)
            seen = await ended(machine, job)
        assert hits > 0, "no kill hit a question in flight"
        prices = [each["result"]["price"] for each in seen["results"]]
        assert (seen["status"], prices) == ("completed", [n + 100 for n in range(pages)])
        charged = [each.key for each in model.log if each.tokens]
        assert len(charged) == len(set(charged)) == pages, "a repeated question is one with the same key"
        assert len(model.log) > pages, "the questions that a kill interrupted were repeated"
        spent = float(seen["spent_usd"])
        assert model.charged / 1_000_000 <= spent <= float(budget), "at a dollar per million tokens"


async def test_after_kills_in_the_middle_of_batches_every_job_is_reported_once_by_id__SC_13__R16(
    machine: Machine,
) -> None:
    """Killed among the pages, and among the webhooks. The same id may come again after a kill; no second one may, and
    none may be missing."""
    sizes = (PAGES, 7, 5, 1, 1)
    async with website(machine) as site, WebhookReceiver([SECRET]) as receiver:
        machine.environment |= {
            "FORAGER_EGRESS_ALLOW": f"{site.endpoint},{receiver.endpoint}",
            "FORAGER_WEBHOOK_SECRET": SECRET,
            "FORAGER_DEFAULT_WEBHOOK_URL": receiver.url("/default"),
        }
        with machine.started("up"):
            jobs = {
                await submit(
                    machine, site, pages, **({"callback_url": receiver.url("/own")} if pages == 7 else {})
                ): pages
                for pages in sizes
            }
            for visits in (5, PAGES // 2):
                await site.arrived(visits)
                await kill(machine)
            async with asyncio.timeout(PATIENCE):
                await receiver.arrived(1)
            await kill(machine)
            for job, pages in jobs.items():
                check(await ended(machine, job), pages)
            await asyncio.to_thread(until, partial(_all_delivered, machine, len(jobs)), lambda: machine.said)
    wanted = {f"job_{job.replace('-', '')}_2": job for job in jobs}
    assert sorted(receiver.taken) == sorted(wanted), "one id for each job, none missing"
    assert {each.id for each in receiver.log} == set(wanted), "nothing was sent under another id"
    assert {each.problem for each in receiver.log} == {None}
    for id_, body in receiver.taken.items():
        said, pages = json.loads(body), jobs[wanted[id_]]
        assert (said["job_id"], said["status"]) == (wanted[id_], "completed")
        assert said["summary"] == {"total": pages, "completed": pages, "failed": 0}
        assert len({each["task_id"] for each in said["results"]}) == pages
        tries = receiver.tries(id_)
        assert {each.path for each in tries} == {"/own" if pages == 7 else "/default"}
        assert {each.body for each in tries} == {body}, "the same id is the same message"


async def test_sigterm_leaves_the_queue_for_the_next_start_and_ends_with_0__SC_14(machine: Machine) -> None:
    async with website(machine) as site:
        with machine.started("up") as process:
            job = await submit(machine, site)
            await site.arrived(PAGES // 4)
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 30) == 0
        before = len(site.log)
        assert before < PAGES
        with machine.started("up"):
            check(await ended(machine, job))
        # Requests in flight at the stop had ended, so none was repeated.
        paths = [visit.path for visit in site.log if visit.path != "/robots.txt"]
        assert len(paths) == len(set(paths)) == PAGES


async def test_after_sigterm_new_requests_are_refused_while_what_is_in_flight_ends__SC_14__SC_2(
    machine: Machine,
) -> None:
    async with website(machine) as site:
        site.answers["/late"] = SiteAnswer(200, LATE, delay=4.0)
        target = {
            "target_type": "job_posting",
            "target_url": site.url("/late"),
            "workspace_id": "acme",
            "render": "http",
        }
        with machine.started("up") as process:
            async with calling(machine) as client:
                waits = asyncio.create_task(client.post(f"{API}/sync", json=target))
                await _asked_for(site, "/late")
                process.send_signal(signal.SIGTERM)
                async with asyncio.timeout(60):
                    while (refused := await client.post(API, json=target)).status_code != 503:
                        assert refused.status_code == 202, refused.text
                assert (refused.json()["meta"]["code"], refused.headers["Retry-After"]) == ("shutting_down", "5")
                for path, body in (("/sync", target), ("/batch", {"targets": [target]})):
                    refused = await client.post(f"{API}{path}", json=body)
                    assert (refused.status_code, refused.json()["meta"]["code"]) == (503, "shutting_down")
                ready = await client.get("/readiness")
                assert (ready.status_code, ready.json()["data"]["reason"]) == (503, "shutting down")
                answered = await waits
                assert answered.json()["data"]["result"]["job_title"] == "Late Shift Cook"
            assert await asyncio.to_thread(process.wait, 30) == 0


async def test_sigterm_lets_a_browser_end_its_page_and_leaves_no_browser_behind__SC_14(
    machine: Machine, chromium: Path
) -> None:
    async with website(machine) as site:
        site.answers["/late"] = SiteAnswer(200, LATE, delay=3.0)
        machine.environment["FORAGER_CHROMIUM"] = str(chromium)
        target = {"target_type": "job_posting", "target_url": site.url("/late"), "workspace_id": "acme"}
        with machine.started("up") as process:
            async with calling(machine) as client:
                waits = asyncio.create_task(client.post(f"{API}/sync", json={**target, "render": "browser"}))
                await _asked_for(site, "/late")
                children = psutil.Process(process.pid).children(recursive=True)
                browsers = [each for each in children if "--headless" in " ".join(each.cmdline())]
                assert browsers, "no browser was at work"
                process.send_signal(signal.SIGTERM)
                answered = await waits
                assert answered.json()["data"]["result"]["job_title"] == "Late Shift Cook", answered.text
                assert answered.json()["meta"]["rendered"] is True
            assert await asyncio.to_thread(process.wait, 30) == 0
        assert [each for each in browsers if each.is_running() and each.status() != psutil.STATUS_ZOMBIE] == []


async def _asked_for(site: SandboxSite, path: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while not site.visits(path):
            await asyncio.sleep(0.01)


def _all_delivered(machine: Machine, jobs: int) -> bool:
    """Return whether the raw table has every message once, delivered."""
    with sqlite3.connect(f"file:{machine.home / 'ledger.db'}?mode=ro", uri=True) as db:
        states = [state for (state,) in db.execute("SELECT state FROM tasks WHERE kind = 'webhook'")]
    assert len(states) <= jobs, "a second message of a job"
    return states == [4] * jobs


def _is_replaced(machine: Machine, old: int) -> bool:
    owner = machine.owner()
    return owner is not None and owner.url is not None and owner.pid != old
