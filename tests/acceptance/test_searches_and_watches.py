"""Web searches, watches and sessions of a process that is killed with -9 twice: nothing is lost, none counts twice."""

import asyncio
import contextlib
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from forager.sandbox import FULL_DENSITY, SerperConfig, SerperSandbox
from forager.sandbox.site import SandboxSite
from tests.acceptance.test_alerts import _call, _until
from tests.acceptance.test_cli import Machine
from tests.acceptance.test_products import _kill
from tests.support.shop import no_pauses
from tests.support.watched import serving

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]
PATIENCE = 200.0
SEARCHES, READ = 12, 2


@pytest.fixture
def machine(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(tmp_path, tmp_path_factory.getbasetemp() / "bytecode")


async def test_kills_among_web_searches_read_each_result_once_and_pay_what_was_sent(machine: Machine) -> None:
    async with SandboxSite() as pages:
        pages.latency = 0.05
        config = SerperConfig(
            density=FULL_DENSITY, rate_limit=None, search_site=pages.url().rstrip("/"), repeat_share=0.0, latency_ms=400
        )
        async with SerperSandbox(config) as serper:
            rules = machine.folder / "policies.yaml"
            rules.write_text(no_pauses(pages.endpoint))
            machine.environment |= {
                "FORAGER_EGRESS_ALLOW": f"{pages.endpoint},{serper.url.removeprefix('http://')}",
                "FORAGER_DOMAIN_POLICIES_PATH": str(rules),
                "FORAGER_LEASE_SECONDS": "5",
                "FORAGER_SERPER_BASE_URL": serper.url,
                "SERPER_API_KEY": config.key,
            }
            with contextlib.ExitStack() as stack:
                stack.enter_context(machine.started("up"))
                jobs = []
                for number in range(SEARCHES):
                    made = await _call(machine, "POST", "/web/searches", {"query": f"oak table {number}", "read": READ})
                    jobs.append(made["job_id"])
                async with asyncio.timeout(PATIENCE):
                    while serper.stats()["requests"] < 2:
                        await asyncio.sleep(0.01)
                await _kill(machine)
                async with asyncio.timeout(PATIENCE):
                    while len(pages.visits()) < SEARCHES * READ * 0.4:
                        await asyncio.sleep(0.01)
                await _kill(machine)
                found = [await _until(machine, f"/web/searches/{job}", lambda search: search["done"]) for job in jobs]
                await asyncio.to_thread(stack.close)
            assert {search["status"] for search in found} == {"completed"}
            for search in found:
                assert [hit["position"] for hit in search["results"]] == list(range(1, 11))
                assert [hit["page"]["status"] for hit in search["results"][:READ]] == ["completed"] * READ
            with contextlib.closing(sqlite3.connect(machine.home / "ledger.db")) as db:
                (reading,) = db.execute("SELECT count(*) FROM jobs WHERE pipeline = 'scrape'").fetchone()
                (results,) = db.execute("SELECT count(*) FROM web_results").fetchone()
            assert (reading, results) == (SEARCHES, SEARCHES * 10), "one scrape job and ten results for each search"
            assert sum(search["credits"] for search in found) >= SEARCHES
            assert serper.stats()["requests"] <= sum(search["credits"] for search in found), "what was sent is counted"


async def test_kills_among_first_checks_leave_no_watch_unchecked_and_no_page_seen_twice(machine: Machine) -> None:
    async with serving() as site:
        address = f"127.0.0.1:{site.port}"
        rules = machine.folder / "policies.yaml"
        rules.write_text(no_pauses(address))
        machine.environment |= {
            "FORAGER_EGRESS_ALLOW": address,
            "FORAGER_DOMAIN_POLICIES_PATH": str(rules),
            "FORAGER_LEASE_SECONDS": "5",
        }
        names = [f"w{number}" for number in range(16)]
        site.pages = {f"/{name}": f"<html><p>The page of {name}.</p></html>" for name in names}
        with contextlib.ExitStack() as stack:
            stack.enter_context(machine.started("up"))
            for number, name in enumerate(names):
                if number in (5, 11):
                    await _kill(machine)
                await _add(machine, {"url": site.url(f"/{name}"), "name": name})
            rows = await _until(machine, "/watches", lambda rows: all(row["checks"] for row in rows))
            await asyncio.to_thread(stack.close)
        assert {row["name"]: row["state"] for row in rows} == dict.fromkeys(names, "works")
        with contextlib.closing(sqlite3.connect(machine.home / "ledger.db")) as db:
            seen = Counter(row[0] for row in db.execute("SELECT key FROM changes WHERE kind = 'watched_page'"))
        assert seen == Counter(names), "the page is as it was: one observation each"


async def _add(machine: Machine, body: dict[str, Any]) -> None:
    """Add a watch; the process that answers may be the one that was killed a moment ago."""
    for _ in range(20):
        try:
            await _call(machine, "POST", "/watches", body)
        except AssertionError as refused:
            if "already" in str(refused):
                return
            raise
        except OSError:
            await asyncio.sleep(0.2)
        else:
            return
    raise AssertionError("it could not be added")
