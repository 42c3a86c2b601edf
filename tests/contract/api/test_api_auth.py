"""Authentication: every route without the key, keys that are nearly right, and routes that are open on purpose."""

import ast
import base64
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import Route

import forager.api.auth
from forager.api.serve import serve
from forager.core.errors import Rejected
from tests.support.api import KEY, Front, client_of

OPEN = {"/health", "/readiness", "/metrics"}
FILES = "/dashboard/"
"""The dashboard's files and its sign-in are also open: test_api_dashboard.py."""
DOCUMENTS = ("/", "/docs", "/docs/plain", "/openapi.json", "/demo", "/llms.txt", "/llms-full.txt")
METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD")


def _routes(api: FastAPI) -> Iterator[tuple[str, str]]:
    """(method, path) of everything that the router can reach, documents included."""
    for route in _walk(api.router.routes):
        for method in sorted(route.methods or ()):
            if route.path.startswith(FILES):
                continue
            yield method, route.path_format.format(**dict.fromkeys(route.param_convertors, "x"))


def _walk(routes: Sequence[object]) -> Iterator[Route | APIRoute]:
    for route in routes:
        if isinstance(route, Route):
            yield route
        else:
            inner = getattr(route, "routes", None) or getattr(getattr(route, "original_router", None), "routes", [])
            assert inner, f"{route!r} is a kind of route that this test cannot look into"
            yield from _walk(inner)


async def test_every_route_without_the_key_is_refused_but_three__S11(simple: Front) -> None:
    found = list(_routes(simple.api))
    assert len({path for _, path in found}) > 25
    assert {path for _, path in found} >= {"/docs", "/openapi.json", "/api/v1/places/jobs", *OPEN}
    async with client_of(simple.api, key=None) as stranger:
        for method, path in found:
            answer = await stranger.request(method, path)
            if path in OPEN:
                assert answer.status_code in (200, 503), path
            else:
                assert answer.status_code == 401, f"{method} {path} is open"


async def test_the_list_of_routes_in_the_document_is_the_list_that_was_checked__S11(simple: Front) -> None:
    document = (await simple.client.get("/openapi.json")).json()
    checked = {path for _, path in _routes(simple.api)}
    for path in document["paths"]:
        assert any(_same(path, known) for known in checked), path


def _same(template: str, path: str) -> bool:
    parts, others = template.split("/"), path.split("/")
    return len(parts) == len(others) and all(p == o or p.startswith("{") for p, o in zip(parts, others, strict=True))


async def test_a_refusal_contains_nothing_but_the_remedy__S11(simple: Front) -> None:
    async with client_of(simple.api, key=None) as stranger:
        there = await stranger.get("/api/v1/jobs")
        nowhere = await stranger.get("/api/v1/nowhere")
    for answer in (there, nowhere):
        said = answer.json()
        assert (said["success"], said["data"], said["meta"]["code"]) == (False, None, "unauthorized")
        assert "X-Service-Key" in said["error"]
        assert KEY not in answer.text
    assert there.json()["error"] == nowhere.json()["error"], "a stranger must not learn which routes there are"


@pytest.mark.parametrize(
    "path", ["/health/", "/Health", "//health", "/health/../api/v1/jobs", "/metrics/x", "/health;x"]
)
async def test_nothing_but_the_exact_address_is_open__S11(simple: Front, path: str) -> None:
    async with client_of(simple.api, key=None) as stranger:
        assert (await stranger.get(path)).status_code == 401


async def test_only_the_whole_key_opens__S12(simple: Front) -> None:
    wrong = ["", " ", KEY[:-1], KEY + "x", KEY.swapcase(), KEY[::-1], f"{KEY},{KEY}", f"Bearer {KEY}", "\xff" * 8]
    async with client_of(simple.api, key=None) as stranger:
        for key in wrong:
            answer = await stranger.get("/api/v1/jobs", headers=[(b"X-Service-Key", key.encode("latin-1"))])
            assert answer.status_code == 401, key
        twice = await stranger.get("/api/v1/jobs", headers=[("X-Service-Key", KEY), ("X-Service-Key", "other")])
        assert twice.status_code == 401
        assert (await stranger.get("/api/v1/jobs", params={"X-Service-Key": KEY})).status_code == 401
        assert (await stranger.get("/api/v1/jobs", headers={"x-service-key": KEY})).status_code == 200


def _basic(password: str, name: str = "anybody", scheme: str = "Basic") -> dict[str, str]:
    return {"Authorization": f"{scheme} {base64.b64encode(f'{name}:{password}'.encode()).decode()}"}


async def test_a_browser_may_read_the_documents_with_the_key_as_a_password__S11(simple: Front) -> None:
    async with client_of(simple.api, key=None) as stranger:
        for path in DOCUMENTS:
            asked = await stranger.get(path)
            assert asked.status_code == 401
            assert asked.headers["www-authenticate"].startswith('Basic realm="')
            for sent in (_basic(KEY), _basic(KEY, name=""), _basic(KEY, scheme="basic")):
                answer = await stranger.get(path, headers=sent)
                assert answer.status_code == (307 if path == "/" else 200), (path, sent)
        assert (await stranger.get("/api/v1/jobs")).headers["www-authenticate"] == "X-Service-Key"


async def test_a_password_that_a_browser_sends_by_itself_reaches_nothing_but_the_documents__S11(simple: Front) -> None:
    refused = 0
    async with client_of(simple.api, key=None) as browser:
        for method, path in _routes(simple.api):
            if path not in OPEN and (method, path) not in {("GET", document) for document in DOCUMENTS}:
                answer = await browser.request(method, path, headers=_basic(KEY))
                assert answer.status_code == 401, f"{method} {path} takes a password"
                assert "Basic" not in answer.headers["www-authenticate"]
                refused += 1
        site = str(browser.base_url).rstrip("/")
        for path in ("/docs/", "/docs/x", "//docs", "//", "/openapi.json/"):
            assert (await browser.get(f"{site}{path}", headers=_basic(KEY))).status_code == 401
    assert refused > 40


async def test_only_the_whole_key_is_a_password__S12(simple: Front) -> None:
    whole = base64.b64encode(f"me:{KEY}".encode()).decode()
    wrong = [
        *(_basic(key) for key in ("", KEY[:-1], KEY + "x", KEY.swapcase(), f"{KEY}:")),
        *(
            {"Authorization": text}
            for text in ("Basic", "Basic ", f"Basic {KEY}", f"Bearer {whole}", f"Basic {whole}!")
        ),
        {"Authorization": "Basic " + base64.b64encode(KEY.encode()).decode()},
        {**_basic(KEY), "X-Service-Key": "other"},
    ]
    async with client_of(simple.api, key=None) as stranger:
        for headers in wrong:
            assert (await stranger.get("/openapi.json", headers=headers)).status_code == 401, headers
        twice = [("Authorization", f"Basic {whole}"), ("Authorization", "Basic x")]
        assert (await stranger.get("/openapi.json", headers=twice)).status_code == 401


async def test_a_replaced_key_is_refused_from_then_on(simple: Front) -> None:
    simple.api.state.service_key.replace("another-key")
    assert (await simple.client.get("/api/v1/jobs")).status_code == 401
    with pytest.raises(ValueError, match="empty"):
        simple.api.state.service_key.replace("")


def test_keys_are_compared_in_constant_time_only__S12() -> None:
    """Reads the source: a comparison by `==` would pass every test of behaviour."""
    tree = ast.parse(Path(forager.api.auth.__file__).read_text())
    owner = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "owner")
    called = {ast.unparse(node.func) for node in ast.walk(owner) if isinstance(node, ast.Call)}
    compared = [ast.unparse(node) for node in ast.walk(owner) if isinstance(node, ast.Compare)]
    assert "hmac.compare_digest" in called
    assert not [text for text in compared if "_key" in text or "sent[" in text]


async def test_others_can_connect_only_with_a_strong_key__S12(simple: Front) -> None:
    for key in ("short", "changeme" * 5, "a" * 64):
        with pytest.raises(Rejected, match="strong service key"):
            async with serve(simple.app, host="0.0.0.0", port=0, key=key):
                pass


async def test_a_websocket_is_refused(simple: Front) -> None:
    sent: list[dict[str, object]] = []

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    async def receive() -> dict[str, object]:
        return {"type": "websocket.connect"}

    scope = {"type": "websocket", "path": "/health", "raw_path": b"/health", "query_string": b"", "headers": []}
    await simple.api(scope, receive, send)  # type: ignore[arg-type]
    assert sent[0]["type"] == "websocket.close"


async def test_a_wrong_key_is_distinguished_from_a_missing_one(simple: Front) -> None:
    async with client_of(simple.api, None) as without, client_of(simple.api, "wrong") as wrong:
        said = [(await client.get("/api/v1/jobs")).json()["error"] for client in (without, wrong)]
    assert said[0].startswith("Send the service key in the header X-Service-Key.")
    assert said[1].startswith("The service key in X-Service-Key is wrong.")
