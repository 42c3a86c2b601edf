"""Named keys: what each role may do, what is stored of a key, and that a revoked one opens nothing any more."""

import asyncio
from typing import Any

import httpx
import pytest

from forager.api.key_gate import refusal_of
from forager.api.serve import running
from forager.ledger.tables.api_keys import KEPT_DAYS, hash_of
from tests.support.api import KEY, ONE_QUERY, Front, client_of

JOB = {"pipeline": "places", "params": dict(ONE_QUERY)}


async def _made(front: Front, name: str, role: str) -> str:
    made = await front.client.post("/api/v1/keys", json={"name": name, "role": role})
    assert made.status_code == 201, made.text
    return str(made.json()["data"]["key"])


async def test_a_key_is_shown_once_and_stored_as_a_hash__S12(front: Front) -> None:
    key = await _made(front, "grafana", "viewer")
    listed = await front.client.get("/api/v1/keys")
    assert [(each["name"], each["role"]) for each in listed.json()["data"]] == [
        ("service key", "admin"),
        ("grafana", "viewer"),
    ]
    assert key not in listed.text
    (row,) = await front.app.database.fetch("SELECT * FROM api_keys")
    assert row["hash"] == hash_of(key)
    assert key not in str(dict(row))
    again = await front.client.post("/api/v1/keys", json={"name": "grafana", "role": "admin"})
    assert again.status_code == 409
    for name, role in (
        ("", "viewer"),
        ("x" * 65, "viewer"),
        ("a/b", "viewer"),
        ("service key", "viewer"),
        ("x", "boss"),
    ):
        refused = await front.client.post("/api/v1/keys", json={"name": name, "role": role})
        assert refused.status_code == 422, (name, role)
        assert refused.json()["meta"]["fields"][0]["field"] == ("name" if role == "viewer" else "role")


async def test_each_role_does_what_it_may_and_no_more(front: Front) -> None:
    keys = {role: await _made(front, role, role) for role in ("admin", "operator", "viewer")}
    expected: list[tuple[str, str, Any, dict[str, int]]] = [
        ("GET", "/api/v1/jobs", None, {"viewer": 200, "operator": 200, "admin": 200}),
        ("GET", "/api/v1/system", None, {"viewer": 200, "operator": 200, "admin": 200}),
        ("POST", "/api/v1/jobs/plan", JOB, {"viewer": 200, "operator": 200, "admin": 200}),
        ("POST", "/api/v1/jobs", JOB, {"viewer": 403, "operator": 202, "admin": 202}),
        ("POST", "/api/v1/dead/retry", {}, {"viewer": 403, "operator": 200, "admin": 200}),
        ("POST", "/api/v1/prune", {"dry_run": True}, {"viewer": 403, "operator": 403, "admin": 200}),
        ("GET", "/api/v1/keys", None, {"viewer": 403, "operator": 403, "admin": 200}),
        ("GET", "/api/v1/actions", None, {"viewer": 403, "operator": 403, "admin": 200}),
        ("DELETE", "/api/v1/keys/nobody", None, {"viewer": 403, "operator": 403, "admin": 404}),
    ]
    for role, key in keys.items():
        async with client_of(front.api, key=key) as client:
            for method, path, body, statuses in expected:
                got = await client.request(method, path, json=body)
                assert got.status_code == statuses[role], (role, method, path, got.text)
                if got.status_code == 403:
                    assert got.json()["meta"]["code"] == "forbidden"
                    assert repr(role) in got.json()["error"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/sinks"),
        ("DELETE", "/api/v1/sinks/prices"),
        ("POST", "/api/v1/proxies"),
        ("PATCH", "/api/v1/proxies/7"),
        ("POST", "/api/v1/archive"),
        ("POST", "/api/v1/blobs/gc"),
    ],
)
def test_an_operator_changes_no_settings(method: str, path: str) -> None:
    assert refusal_of("x", "operator", method, path) is not None
    assert refusal_of("x", "admin", method, path) is None


@pytest.mark.parametrize("path", ["/api/v1/sinks/prices/pause", "/api/v1/lanes/a.example/pause", "/api/v1/scrape/sync"])
def test_an_operator_runs_and_steers(path: str) -> None:
    assert refusal_of("x", "operator", "POST", path) is None
    assert refusal_of("x", "viewer", "POST", path) is not None


async def test_every_write_is_logged_with_the_name_of_its_key(front: Front) -> None:
    operator = await _made(front, "night shift", "operator")
    async with client_of(front.api, key=operator) as client:
        made = await client.post("/api/v1/jobs", json=JOB)
        await client.get("/api/v1/jobs")
        await client.post("/api/v1/jobs/plan", json=JOB)
        await client.post(f"/api/v1/jobs/{made.json()['data']['id']}/nothing")
    actions = await front.data("/api/v1/actions", key="night shift")
    assert [(each["method"], each["path"].rpartition("/")[2], each["status"]) for each in actions] == [
        ("POST", "nothing", 404),
        ("POST", "jobs", 202),
    ]
    assert actions[1]["request_id"] == made.headers["X-Request-ID"]
    first = await front.client.get("/api/v1/actions", params={"limit": 1})
    assert first.json()["data"][0] == actions[0]
    rest = await front.data("/api/v1/actions", cursor=first.json()["meta"]["next_cursor"])
    assert [each["key_name"] for each in rest] == ["night shift", "service key"]


async def test_the_log_of_actions_is_kept_for_a_while(front: Front) -> None:
    await _made(front, "a", "viewer")
    old = KEPT_DAYS * 86_400_000 + 60_000
    await front.app.database.write("UPDATE actions SET at = at - :old", {"old": old})
    await _made(front, "b", "viewer")
    from forager.ledger.tables.api_keys import KeyTable

    await KeyTable(front.app.database, front.app.ledger.now_ms).forget()
    assert len(await front.data("/api/v1/actions")) == 1


async def test_the_last_use_of_a_key_is_shown(front: Front) -> None:
    key = await _made(front, "grafana", "viewer")
    async with client_of(front.api, key=key) as client:
        await client.get("/api/v1/jobs")
    async with asyncio.timeout(10):
        while (await front.data("/api/v1/keys"))[1]["last_used_at"] is None:
            await asyncio.sleep(0.05)


async def test_a_revoked_key_opens_nothing_and_ends_its_sessions_and_streams__S12(front: Front) -> None:
    key = await _made(front, "night shift", "operator")
    async with (
        running(front.api, host="127.0.0.1", port=0) as url,
        httpx.AsyncClient(base_url=url, timeout=30) as browser,
        httpx.AsyncClient(base_url=url, headers={"X-Service-Key": key}, timeout=30) as program,
    ):
        assert (await browser.post("/dashboard/session", json={"key": key})).status_code == 200
        session = (await browser.get("/dashboard/session")).json()["data"]
        assert (session["name"], session["role"]) == ("night shift", "operator")
        assert (await program.get("/api/v1/jobs")).status_code == 200
        async with program.stream("GET", "/api/v1/live", params={"topics": "overview"}) as stream:
            lines = stream.aiter_lines()
            while not (await anext(lines)).startswith("data: "):
                pass
            assert (await front.client.delete("/api/v1/keys/night shift")).status_code == 200
            async with asyncio.timeout(30):
                async for _ in lines:
                    pass  # until the stream ends
        assert (await program.get("/api/v1/jobs")).status_code == 401
        assert (await browser.get("/api/v1/jobs")).status_code == 401
        assert (await browser.get("/dashboard/session")).status_code == 401
    again = await _made(front, "night shift", "admin")
    async with client_of(front.api, key=again) as client:
        assert (await client.get("/api/v1/jobs")).status_code == 200
    missing = await front.client.delete("/api/v1/keys/nightshift")
    assert missing.status_code == 404
    assert "'night shift'" in missing.json()["error"]


async def test_a_ticket_of_the_documents_has_the_role_of_its_reader__S11(simple: Front) -> None:
    """Otherwise a viewer who opens /docs would get a ticket that opens everything."""
    viewer = await _made(simple, "reader", "viewer")
    async with client_of(simple.api, key=viewer) as client:
        page = (await client.get("/docs")).text
    ticket = {"X-Page-Ticket": page.partition('name="ticket" content="')[2].partition('"')[0]}
    async with client_of(simple.api, key=None) as browser:
        assert (await browser.get("/api/v1/jobs", headers=ticket)).status_code == 200
        assert (await browser.post("/api/v1/jobs", json=JOB, headers=ticket)).status_code == 403
        assert (await simple.client.delete("/api/v1/keys/reader")).status_code == 200
        assert (await browser.get("/api/v1/jobs", headers=ticket)).status_code == 401


async def test_the_service_key_stays_the_first_admin_key(simple: Front) -> None:
    assert (await simple.client.delete("/api/v1/keys/service key")).status_code == 404
    async with client_of(simple.api, key=KEY) as client:
        assert (await client.get("/api/v1/keys")).status_code == 200


async def test_a_rotated_key_keeps_its_name_and_role_and_its_old_text_opens_nothing(front: Front) -> None:
    old = await _made(front, "grafana", "viewer")
    rotated = await front.client.post("/api/v1/keys/grafana/rotate")
    made = rotated.json()["data"]
    assert (made["name"], made["role"]) == ("grafana", "viewer")
    assert made["key"] != old
    for key, status in ((old, 401), (made["key"], 200)):
        async with client_of(front.api, key=key) as client:
            assert (await client.get("/api/v1/jobs")).status_code == status
            assert (await client.post("/api/v1/keys/grafana/rotate")).status_code == (401 if status == 401 else 403)
    assert (await front.client.post("/api/v1/keys/nobody/rotate")).status_code == 404
    (row,) = await front.app.database.fetch("SELECT * FROM api_keys")
    assert row["hash"] == hash_of(made["key"])
