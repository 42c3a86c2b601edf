"""`forager scrape` with a site on this machine, and without pauses between two requests to it."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from forager.sandbox.site import SandboxSite
from tests.support.cli import Forager
from tests.support.scrape import QUICK


@pytest.fixture
def site() -> Iterator[SandboxSite]:
    """In its own loop: a command also has one."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    made = SandboxSite()
    asyncio.run_coroutine_threadsafe(made.start(), loop).result(10)
    yield made
    asyncio.run_coroutine_threadsafe(made.stop(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(60)
    loop.close()


@pytest.fixture
def forager(forager: Forager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, site: SandboxSite) -> Forager:
    (tmp_path / "policies.yaml").write_text(QUICK)
    monkeypatch.setenv("FORAGER_DOMAIN_POLICIES_PATH", "policies.yaml")
    monkeypatch.setenv("FORAGER_EGRESS_ALLOW", site.endpoint)
    return forager
