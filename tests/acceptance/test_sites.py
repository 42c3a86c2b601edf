"""A crawl of a site whose process is killed with -9 in the middle: every useful page is stored, none twice."""

import asyncio
import contextlib
import sqlite3
from pathlib import Path

import httpx
import pytest

from forager.sandbox.linked import LinkedConfig, LinkedSandbox
from forager.secrets.service_key import read_service_key
from tests.acceptance.test_cli import Machine
from tests.acceptance.test_products import _ended, _kill
from tests.support.shop import no_pauses

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]


@pytest.fixture
def machine(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(tmp_path, tmp_path_factory.getbasetemp() / "bytecode")


async def test_a_crawl_that_is_killed_twice_finds_every_useful_page(machine: Machine) -> None:
    config = LinkedConfig(pages=300, section_size=100, words=60, sitemap=False, latency_ms=20)
    async with LinkedSandbox(config) as site:
        address = f"127.0.0.1:{site.port}"
        rules = machine.folder / "policies.yaml"
        rules.write_text(no_pauses(address))
        machine.environment |= {
            "FORAGER_EGRESS_ALLOW": address,
            "FORAGER_DOMAIN_POLICIES_PATH": str(rules),
            "FORAGER_LEASE_SECONDS": "10",
        }
        useful = site.pages.useful()
        with contextlib.ExitStack() as stack:
            stack.enter_context(machine.started("up"))
            job = await _start(machine, {"url": site.url(), "limit": 5_000, "form": "html"})
            for share in (0.2, 0.5):
                while site.log.total < len(useful) * share:
                    await asyncio.sleep(0.02)
                await _kill(machine)
            ended = await _ended(machine, job)
            await asyncio.to_thread(stack.close)
        assert (ended["state"], ended["failed"]) == ("completed", 0)
        with contextlib.closing(sqlite3.connect(machine.home / "ledger.db")) as db:
            urls = [row[0] for row in db.execute("SELECT url FROM site_pages")]
            (counted,) = db.execute("SELECT pages FROM site_crawls").fetchone()
        assert len(urls) == len(set(urls))
        assert useful <= {url.removeprefix(site.url("")) for url in urls}
        assert len(urls) <= counted <= len([call for call in site.log.since(0) if call.subject != "/robots.txt"])


async def _start(machine: Machine, body: dict[str, object]) -> str:
    owner = await asyncio.to_thread(machine.until_up)
    headers = {"X-Service-Key": read_service_key(machine.home) or ""}
    async with httpx.AsyncClient(base_url=owner.url or "", headers=headers) as client:
        made = await client.post("/api/v1/sites/crawls", json=body)
        assert made.status_code == 202, made.text
        return str(made.json()["data"]["job_id"])
