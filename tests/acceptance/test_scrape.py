"""The scrape service as a process that is killed and stopped in the middle of a batch: every task ends, once."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from forager.keys import read_service_key
from forager.sandbox.site import SandboxSite
from tests.acceptance.test_cli import Machine, until
from tests.support.scrape import API, QUICK

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]

PAGES = 60
PATIENCE = 90.0


@pytest.fixture
def machine(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(tmp_path, tmp_path_factory.getbasetemp() / "bytecode")


@asynccontextmanager
async def website(machine: Machine) -> AsyncIterator[SandboxSite]:
    """Pages that take a while, so that a batch has a middle."""
    rules = machine.folder / "policies.yaml"
    rules.write_text(QUICK)
    async with SandboxSite(latency=0.15) as site:
        machine.environment |= {
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


async def submit(machine: Machine, site: SandboxSite) -> str:
    targets = [
        {
            "target_type": "job_posting",
            "target_url": site.url(f"/jobs/jsonld/{n}"),
            "workspace_id": "acme",
            "render": "http",
        }
        for n in range(PAGES)
    ]
    async with calling(machine) as client:
        made = await client.post(f"{API}/batch", json={"targets": targets})
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


def check(seen: dict[str, Any]) -> None:
    assert (seen["status"], seen["total_tasks"], seen["completed_tasks"]) == ("completed", PAGES, PAGES)
    assert len(seen["results"]) == len({each["task_id"] for each in seen["results"]}) == PAGES


async def test_a_batch_survives_kill_9_and_every_task_ends_once__SC_1(machine: Machine) -> None:
    async with website(machine) as site:
        with machine.started("up"):
            job = await submit(machine, site)
            for kill in (1, 2):
                await site.arrived(PAGES * kill // 4)
                owner = await asyncio.to_thread(machine.until_up)
                os.kill(owner.pid, signal.SIGKILL)
                await asyncio.to_thread(until, partial(_is_replaced, machine, owner.pid))
            check(await ended(machine, job))
            assert len([visit for visit in site.log if visit.path != "/robots.txt"]) >= PAGES


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
        # What was in flight at the stop had ended, so nothing was asked twice.
        paths = [visit.path for visit in site.log if visit.path != "/robots.txt"]
        assert len(paths) == len(set(paths)) == PAGES


def _is_replaced(machine: Machine, old: int) -> bool:
    owner = machine.owner()
    return owner is not None and owner.url is not None and owner.pid != old
