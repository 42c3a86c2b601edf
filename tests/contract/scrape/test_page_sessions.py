"""Named sessions: a browser's cookies and storage, kept sealed in the ledger from one visit to the next."""

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from forager.core.errors import Permanent
from forager.core.http import SessionRef
from forager.core.secret import Secret
from forager.ledger.tables import page_sessions
from forager.sandbox.scrape_pages import SiteAnswer
from tests.support.scrape import Service, open_service

ONE: dict[str, Any] = {"browser_pool_size": 1, "browser_pool_max": 1}
COUNTS = b"""<!doctype html><html><head><title>Visits</title></head><body><main><h1>Visits</h1><p id="out"></p></main>
<script>
const visits = Number(localStorage.getItem("visits") || 0) + 1;
localStorage.setItem("visits", visits);
const seen = (document.cookie.match(/seen=(\\d+)/) || [0, 0])[1];
document.cookie = `seen=${Number(seen) + 1}; max-age=3600`;
document.getElementById("out").textContent = `storage ${visits}, cookie ${Number(seen) + 1}, and some more words`;
</script></body></html>"""
SECRET = "token-0123456789"


@pytest.fixture
async def browsing(chromium: Path, tmp_path: Path) -> AsyncIterator[Service]:
    async with open_service(tmp_path, chromium=chromium, **ONE) as opened, opened.app.engine():
        opened.site.answers["/visits"] = SiteAnswer(200, COUNTS)
        yield opened


async def visit(service: Service, **more: Any) -> str:
    body = {"target_type": "page", "render": "auto", "formats": ["text"], "timeout_seconds": 60, **more}
    answer = await service.sync("/visits", **body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["data"]["result"]["text"])


async def test_cookies_and_storage_are_there_at_the_next_visit_of_the_same_session(browsing: Service) -> None:
    assert "storage 1, cookie 1" in await visit(browsing, session="shop")
    assert "storage 2, cookie 2" in await visit(browsing, session="shop")
    assert "storage 1, cookie 1" in await visit(browsing, render="browser"), "without a session"
    assert "storage 1, cookie 1" in await visit(browsing, session="other")
    assert "storage 1, cookie 1" in await visit(browsing, session="shop", workspace_id="other"), (
        "of its workspace alone"
    )
    assert "storage 3, cookie 3" in await visit(browsing, session="shop")
    listed = (await browsing.client.get("/api/v1/sessions")).json()["data"]
    assert [(each["workspace_id"], each["name"], each["visits"]) for each in listed] == [
        ("acme", "other", 1),
        ("acme", "shop", 3),
        ("other", "shop", 1),
    ]
    assert listed[1]["cookies"] == 1
    assert any(host.startswith("127.0.0.1") for host in listed[1]["hosts"])


async def test_a_session_is_sealed_and_gone_once_it_was_removed(browsing: Service) -> None:
    await visit(browsing, session="shop")
    home = browsing.app.settings.home
    with sqlite3.connect(home / "ledger.db") as db:
        (sealed,) = db.execute("SELECT sealed FROM vault WHERE kind = 'session'").fetchone()
    assert sealed.startswith("s1.")
    assert b'"localStorage"' not in b"".join(path.read_bytes() for path in home.glob("ledger.db*"))
    assert (await browsing.app.rotate_keys()).resealed >= 1
    assert "storage 2" in await visit(browsing, session="shop"), "it opens with the new key"
    removed = await browsing.client.delete("/api/v1/sessions/shop?workspace_id=acme")
    assert removed.json()["data"] == {"removed": "shop"}
    assert (await browsing.client.delete("/api/v1/sessions/shop?workspace_id=acme")).status_code == 404
    with sqlite3.connect(home / "ledger.db") as db:
        assert db.execute("SELECT count(*) FROM vault WHERE kind = 'session'").fetchone() == (0,)
    assert "storage 1" in await visit(browsing, session="shop")


async def test_visits_of_one_session_at_once_lose_none(browsing: Service) -> None:
    targets = [
        browsing.target("/visits", target_type="page", render="browser", session="shop", formats=["text"])
        for _ in range(4)
    ]
    ended = await browsing.ended(await browsing.batch(targets))
    assert ended["completed_tasks"] == 4
    assert "storage 5" in await visit(browsing, session="shop")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"session": "a b"}, "session"),
        ({"session": ""}, "session"),
        ({"session": "n" * 101}, "session"),
        ({"session": "s", "render": "http"}, "a session is one of a browser"),
        ({"session": "s", "max_age": 60}, "never stored"),
    ],
)
async def test_a_session_that_cannot_be_one_is_refused(still: Service, more: dict[str, Any], told: str) -> None:
    answer = await still.sync("/visits", **{"target_type": "page", "render": "auto", **more})
    assert answer.status_code == 422
    assert told in answer.text


async def test_limits_of_sessions_hold_at_and_past_them(still: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    table = still.app.page_sessions
    monkeypatch.setattr(page_sessions, "MOST_SESSIONS", 2)
    monkeypatch.setattr(page_sessions, "LARGEST", 100)
    state = Secret('{"cookies": [], "origins": []}')
    for name in ("a", "b"):
        assert await table.load(SessionRef("w", name)) is None
        await table.save(SessionRef("w", name), state)
    assert await table.load(SessionRef("w", "a")) is not None
    with pytest.raises(Permanent, match="which is the maximum"):
        await table.load(SessionRef("w", "c"))
    large = Secret('{"cookies": [], "x": "' + SECRET * 10 + '"}')
    with pytest.raises(Permanent, match="not kept") as refused:
        await table.save(SessionRef("w", "a"), large)
    assert SECRET not in str(refused.value)
    assert (await table.load(SessionRef("w", "a"))) == state, "the last one that fitted stays"
