"""Alerts of a process that is killed with -9 twice while it sends them: every event arrives, none is stored twice."""

import asyncio
import contextlib
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from forager.secrets.service_key import read_service_key
from tests.acceptance.test_cli import Machine
from tests.acceptance.test_products import _kill
from tests.support.shop import no_pauses
from tests.support.watched import serving

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]
PAGES = 20
AT_ONCE = 2
"""Messages of one channel in flight."""
PATIENCE = 200.0


@pytest.fixture
def machine(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(tmp_path, tmp_path_factory.getbasetemp() / "bytecode")


async def test_kills_among_the_alerts_lose_none_and_store_none_twice(machine: Machine) -> None:
    async with serving() as site:
        address = f"127.0.0.1:{site.port}"
        rules = machine.folder / "policies.yaml"
        rules.write_text(no_pauses(address))
        machine.environment |= {
            "FORAGER_EGRESS_ALLOW": address,
            "FORAGER_DOMAIN_POLICIES_PATH": str(rules),
            "FORAGER_LEASE_SECONDS": "5",
        }
        names = [f"w{number}" for number in range(PAGES)]
        site.pages = {f"/{name}": "<html><p class=t>old</p></html>" for name in names}
        with contextlib.ExitStack() as stack:
            stack.enter_context(machine.started("up"))
            await _call(machine, "POST", "/channels", {"name": "team", "url": site.hook})
            for name in names:
                body = {"url": site.url(f"/{name}"), "name": name, "select": ".t", "notify": ["team"]}
                await _call(machine, "POST", "/watches", body)
            await _until(machine, "/watches", lambda rows: all(row["checks"] for row in rows))
            site.pages = {f"/{name}": "<html><p class=t>new</p></html>" for name in names}
            for name in names:
                await _call(machine, "POST", f"/watches/{name}/check", {})
            kills = 0
            for share in (0.2, 0.6):
                async with asyncio.timeout(PATIENCE):
                    while len(site.got) < PAGES * share:
                        await asyncio.sleep(0.01)
                await _kill(machine)
                kills += 1
            alerts = await _until(
                machine, "/alerts", lambda rows: len(rows) >= PAGES and all(row["delivered_at"] for row in rows)
            )
            await asyncio.to_thread(stack.close)
        assert Counter(row["rule"] for row in alerts) == dict.fromkeys(names, 1)
        messages = Counter(each["title"].partition(":")[0] for each in site.got)
        assert set(messages) == set(names)
        assert messages.total() <= PAGES + kills * AT_ONCE, "more was sent again than can have been in flight"


async def _call(machine: Machine, method: str, path: str, body: Any = None) -> Any:
    owner = await asyncio.to_thread(machine.until_up)
    headers = {"X-Service-Key": read_service_key(machine.home) or ""}
    async with httpx.AsyncClient(base_url=owner.url or "", headers=headers, timeout=30) as client:
        answer = await client.request(method, f"/api/v1{path}", json=body)
        assert answer.status_code < 300, answer.text
        return answer.json()["data"]


async def _until(machine: Machine, path: str, happened: Any) -> Any:
    async with asyncio.timeout(PATIENCE):
        while True:
            with contextlib.suppress(httpx.HTTPError):  # it is being started again
                if happened(rows := await _call(machine, "GET", path)):
                    return rows
            await asyncio.sleep(0.1)
