"""Proxies through the API: added, looked at, checked, switched, removed, and no password in anything that comes out."""

import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import Front, open_front
from tests.support.logs import logging_to
from tests.support.proxies import CANARIES, CANARY_ADDRESS
from tests.support.proxy import LittleProxy

PATH = "/api/v1/proxies"


@pytest.fixture
async def lines(tmp_path: Path) -> AsyncIterator[io.StringIO]:
    """The log of the test, at its most talkative."""
    with logging_to(io.StringIO()) as stream:
        yield stream


async def test_a_proxy_is_added_shown_switched_and_removed__PR_9(front: Front) -> None:
    made = await front.client.post(PATH, json={"address": CANARY_ADDRESS, "region": "us"})
    assert made.status_code == 201, made.text
    proxy = made.json()["data"]
    assert (proxy["protocol"], proxy["url"], proxy["port"]) == ("http", "203.0.112.7", 8080)
    assert (proxy["username"], proxy["password"], proxy["authenticated"]) == (None, None, True)
    assert (proxy["region"], proxy["source"], proxy["is_active"], proxy["healthy"]) == ("US", "operator", True, True)
    assert await front.data(PATH) == [proxy]
    one = f"{PATH}/{proxy['id']}"
    assert await front.data(one) == proxy
    off = (await front.client.patch(one, json={"is_active": False, "region": ""})).json()["data"]
    assert (off["is_active"], off["region"]) == (False, None)
    assert front.app.proxies.usable == 0
    assert (await front.client.patch(one, json={"is_active": True})).json()["data"]["is_active"] is True
    assert front.app.proxies.usable == 1
    assert (await front.client.delete(one)).json()["data"] == {"removed": proxy["id"]}
    assert await front.data(PATH) == []


async def test_the_counts_of_a_running_pool_are_shown_at_once__SC_P21(simple: Front) -> None:
    made = await simple.client.post(PATH, json={"address": CANARY_ADDRESS})
    proxy = made.json()["data"]["id"]
    simple.app.proxies.succeeded(proxy, elapsed_ms=250, size=1000)
    simple.app.proxies.failed(proxy)
    shown = await simple.data(f"{PATH}/{proxy}")
    assert (shown["success_count"], shown["failures"], shown["failure_count"]) == (1, 1, 1)
    assert (shown["avg_response_time_ms"], shown["bytes"], shown["healthy"]) == (250, 1000, False)


async def test_a_check_is_a_real_connection_and_restores__SC_9(tmp_path: Path) -> None:
    async with LittleProxy("socks5", user="u", password="p") as little, open_front(tmp_path) as front:
        front.app.proxies._guard._permit(little.address)  # as an operator's FORAGER_EGRESS_ALLOW would
        ids = []
        for user in ("u", "x"):
            address = f"socks5://{user}:p@{little.address}"
            ids.append((await front.client.post(PATH, json={"address": address})).json()["data"]["id"])
        front.app.proxies.failed(ids[0])
        good, bad = [(await front.client.post(f"{PATH}/{proxy}/check")).json()["data"] for proxy in ids]
        assert (good["id"], good["passed"], good["reason"]) == (ids[0], True, None)
        assert (bad["passed"], bad["reason"]) == (False, "it does not accept the user and password")
        assert [each["healthy"] for each in await front.data(PATH)] == [True, False]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "address"),
        ({"address": "proxy.example:80"}, "address"),
        ({"address": "ftp://u:canary@proxy.example:21"}, "address"),
        ({"address": "http://u:canary@proxy.example"}, "address"),
        ({"address": "http://u:canary@127.0.0.1:80"}, "address"),
        ({"address": "http://u:canary@proxy.example:80", "region": "canary"}, "region"),
        ({"address": "http://u:canary@proxy.example:80", "region": "1!"}, "region"),
        ({"address": 7}, "address"),
        ({"address": "http://u:canary@" + "p" * 3000}, "address"),
        ({"address": "http://u:canary@proxy.example:80", "password": "canary"}, "password"),
    ],
)
async def test_a_proxy_that_cannot_be_used_is_refused_by_field_without_its_password__S8(
    body: dict[str, Any], field: str, simple: Front, lines: io.StringIO
) -> None:
    refused = await simple.client.post(PATH, json=body)
    assert refused.status_code == 422, refused.text
    assert refused.json()["meta"]["fields"][0]["field"] == field
    assert "canary" not in refused.text + lines.getvalue()


async def test_existing_and_missing_proxies_are_reported(simple: Front) -> None:
    await simple.client.post(PATH, json={"address": CANARY_ADDRESS})
    again = await simple.client.post(PATH, json={"address": CANARY_ADDRESS})
    assert again.status_code == 409
    for method, path in (("GET", "/77"), ("DELETE", "/77"), ("POST", "/77/check"), ("PATCH", "/77")):
        missing = await simple.client.request(method, PATH + path, json={"is_active": True})
        assert missing.status_code == 404, (method, missing.text)
    for path in ("/0", "/x", f"/{2**70}"):
        assert (await simple.client.get(PATH + path)).status_code == 422
    assert (await simple.client.patch(f"{PATH}/1", json={})).status_code == 422


async def test_no_password_in_any_answer_log_metric_or_file__S8(
    store: str | None, tmp_path: Path, lines: io.StringIO
) -> None:
    async with open_front(tmp_path, store) as front:
        said: list[str] = []
        made = await front.client.post(PATH, json={"address": CANARY_ADDRESS})
        proxy = made.json()["data"]["id"]
        front.app.proxies.failed(proxy)
        for method, path, body in (
            ("POST", PATH, {"address": CANARY_ADDRESS}),
            ("GET", PATH, None),
            ("GET", f"{PATH}/{proxy}", None),
            ("PATCH", f"{PATH}/{proxy}", {"region": "DE"}),
            ("GET", "/health", None),
            ("GET", "/readiness", None),
            ("GET", "/metrics", None),
            ("GET", "/openapi.json", None),
        ):
            said.append((await front.client.request(method, path, json=body)).text)
        text = made.text + "".join(said) + lines.getvalue() + repr(front.app.proxies.__dict__)
    for file in tmp_path.rglob("*"):
        if file.is_file():
            text += file.read_bytes().decode("latin-1")
    assert [secret for secret in CANARIES if secret in text] == []


async def test_proxies_of_the_settings_are_there_from_the_start(tmp_path: Path) -> None:
    from pydantic import SecretStr

    from forager.app.compose import open_app
    from forager.app.config import new_settings

    named = new_settings(home=tmp_path, proxy_endpoints=(SecretStr(CANARY_ADDRESS), SecretStr("http://p.example:1")))
    async with open_app(named) as app:
        assert [(each.host, each.source) for each in await app.proxies.list()] == [
            ("203.0.112.7", "settings"),
            ("p.example", "settings"),
        ]
    other = new_settings(home=tmp_path, proxy_endpoints=(SecretStr("http://p.example:1"),))
    async with open_app(other) as app:
        assert len(await app.proxies.list()) == 2, "a passing command removes nothing"
        async with app.engine(schedules=False):
            while len(app.proxies) > 1:
                await app.clock.sleep(0.01)
        assert [each.host for each in await app.proxies.list()] == ["p.example"]
    async with open_app(new_settings(home=tmp_path)) as app, app.engine(schedules=False):
        await app.proxies.refresh()
        assert len(app.proxies) == 1, "a worker without proxies takes none from the others"
