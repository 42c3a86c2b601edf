"""A crawl that is killed with -9 in the middle: every page is fetched, no product is stored twice, and only pages that
were in flight are fetched again."""

import asyncio
import contextlib
import os
import signal
import sqlite3
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from forager.sandbox.shop import ShopConfig, ShopSandbox
from forager.secrets.service_key import read_service_key
from tests.acceptance.test_cli import Machine, until
from tests.support.shop import JOBS, no_pauses

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

IN_FLIGHT = 32
PATIENCE = 300.0


@pytest.fixture
def machine(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(tmp_path, tmp_path_factory.getbasetemp() / "bytecode")


@pytest.mark.parametrize("pages", [1_000, pytest.param(5_000, marks=pytest.mark.chaos)])
async def test_a_crawl_that_is_killed_twice_loses_no_page_and_stores_no_product_twice__PR_2(
    machine: Machine, pages: int
) -> None:
    async with ShopSandbox(ShopConfig(pages=pages, categories=4, latency_ms=20)) as site:
        address = f"127.0.0.1:{site.port}"
        rules = machine.folder / "policies.yaml"
        rules.write_text(no_pauses(address))
        machine.environment |= {
            "FORAGER_EGRESS_ALLOW": address,
            "FORAGER_DOMAIN_POLICIES_PATH": str(rules),
            "FORAGER_LEASE_SECONDS": "10",
        }
        with contextlib.ExitStack() as stack:
            stack.enter_context(machine.started("up"))
            job = await _submit(machine, {"sitemap": site.url("/"), "recrawl": False})
            killed = 0
            for share in (0.25, 0.6):
                await _fetched(site, int(pages * share))
                await _kill(machine)
                killed += 1
            ended = await _ended(machine, job)
            await asyncio.to_thread(stack.close)  # in a thread: what is in flight waits for the site, which is here
        assert killed == 2
        assert (ended["state"], ended["failed"], ended["completed"]) == ("completed", 0, ended["total"])
        fetched = Counter(call.subject for call in site.log.since(0) if call.operation == "product")
        assert sorted(map(int, fetched)) == list(range(1, pages + 1))
        again = fetched.total() - len(fetched)
        assert again <= killed * IN_FLIGHT, "more was fetched again than can have been in flight"
    with sqlite3.connect(machine.home / "ledger.db") as store:
        ((items, names),) = store.execute("SELECT count(*), count(DISTINCT sku) FROM items").fetchall()
        ((new,),) = store.execute("SELECT count(*) FROM changes WHERE kind = 'product' AND op = 'new'").fetchall()
        ((versions,),) = store.execute("SELECT max(version) FROM items").fetchall()
    assert (items, names, new, versions) == (pages, pages, pages, 1)


async def _submit(machine: Machine, job: dict[str, Any]) -> str:
    owner = await asyncio.to_thread(machine.until_up)
    headers = {"X-Service-Key": read_service_key(machine.home) or ""}
    async with httpx.AsyncClient(base_url=owner.url or "", headers=headers) as client:
        made = await client.post(JOBS, json=job)
        assert made.status_code == 202, made.text
        return str(made.json()["data"]["job_id"])


async def _fetched(site: ShopSandbox, pages: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while site.log.total < pages:
            await asyncio.sleep(0.01)


async def _kill(machine: Machine) -> None:
    """-9, and it is there again by itself."""
    owner = await asyncio.to_thread(machine.until_up)
    os.kill(owner.pid, signal.SIGKILL)
    await asyncio.to_thread(until, partial(_is_replaced, machine, owner.pid))


def _is_replaced(machine: Machine, pid: int) -> bool:
    owner = machine.owner()
    return owner is not None and owner.pid != pid and owner.url is not None


async def _ended(machine: Machine, job: str) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        while True:
            owner = await asyncio.to_thread(machine.until_up)
            headers = {"X-Service-Key": read_service_key(machine.home) or ""}
            async with httpx.AsyncClient(base_url=owner.url or "", headers=headers) as client:
                seen = (await client.get(f"/api/v1/jobs/{job}")).json()["data"]
            if seen["finished_at"] is not None:
                return dict(seen)
            await asyncio.sleep(0.2)
