"""The dashboard's files, its sign-in, and what a session may do."""

import gzip
import re
import time
from collections.abc import AsyncIterator

import httpx
import pytest

from forager.api import auth
from forager.api.dashboard import dashboard_files
from tests.support.api import KEY, Front, client_of

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture
async def stranger(simple: Front) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(simple.api, key=None) as client:
        yield client


async def _signed_in(client: httpx.AsyncClient) -> dict[str, str]:
    """The header that writes of this session need. The cookie is kept by the client."""
    got = await client.post("/dashboard/session", json={"key": KEY})
    assert got.status_code == 200, got.text
    return {"X-CSRF-Token": (await client.get("/dashboard/session")).json()["data"]["csrf"]}


async def test_a_browser_gets_the_page_and_a_program_is_led_to_the_documents(
    simple: Front, stranger: httpx.AsyncClient
) -> None:
    for path in ("/", "/jobs", "/records/place/x", "/a-page-of-no-pipeline"):
        got = await stranger.get(path, headers=BROWSER)
        assert (got.status_code, got.headers["content-type"]) == (200, "text/html; charset=utf-8"), path
        assert 'src="/dashboard/main.js"' in got.text
        policy = got.headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
    led = await simple.client.get("/")
    assert (led.status_code, led.headers["location"]) == (307, "/docs")
    assert (await stranger.get("/jobs")).status_code == 401
    assert (await stranger.get("/api/v1/jobs", headers=BROWSER)).status_code == 401, "the API is never the page"
    assert (await stranger.post("/", headers=BROWSER)).status_code == 401


async def test_files_are_compressed_once_and_kept_by_their_tag(stranger: httpx.AsyncClient) -> None:
    packed = await stranger.get("/dashboard/main.js")
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["content-type"].startswith("text/javascript")
    assert packed.headers["cache-control"] == "no-cache"
    plain = await stranger.get("/dashboard/main.js", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.text == packed.text == gzip.decompress(dashboard_files()["main.js"].packed).decode()
    again = await stranger.get("/dashboard/main.js", headers={"If-None-Match": packed.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "path", ["nothing.js", "../api/auth.py", "..%2fapi%2fauth.py", "__init__.py", "features/places/x.js", "lib"]
)
async def test_nothing_but_its_own_files_is_served__S7(stranger: httpx.AsyncClient, path: str) -> None:
    got = await stranger.get(f"/dashboard/{path}")
    assert got.status_code in (401, 404), path
    assert "hmac" not in got.text


def test_every_file_that_a_module_or_the_page_names_is_there() -> None:
    files = dashboard_files()
    assert len(files) > 30
    for path, file in files.items():
        folder = path.rpartition("/")[0]
        text = file.plain.decode()
        for named in re.findall(r'(?:from|import)\(? ?"(\.{1,2}/[^"]+)"', text):
            parts = folder.split("/") if folder else []
            for step in named.split("/"):
                parts = parts[:-1] if step == ".." else parts if step == "." else [*parts, step]
            assert "/".join(parts) in files, f"{path} imports {named}"
        for named in re.findall(r'"/dashboard/([^"]+\.\w+)"|"(pages/\w+\.js)"', text):
            assert (named[0] or named[1]) in files, f"{path} names {named}"


def test_each_module_is_short_and_checked_and_the_framework_is_small() -> None:
    for path, file in dashboard_files().items():
        if path.endswith(".js"):
            text = file.plain.decode()
            assert text.startswith("// @ts-check\n"), path
            assert len(text.splitlines()) <= 250, path
            assert not re.search(r"\binnerHTML\b(?! = inSvg)|\beval\(|document\.write|insertAdjacentHTML", text), path
            assert not re.search(r"""["'`(]https?://[a-z]""", text), f"{path} loads from elsewhere"


async def test_the_key_becomes_a_cookie_that_no_script_and_no_other_site_can_use__S11(
    stranger: httpx.AsyncClient,
) -> None:
    assert (await stranger.get("/dashboard/session")).status_code == 401
    for wrong in ("", "wrong", KEY[:-1], KEY.swapcase()):
        refused = await stranger.post("/dashboard/session", json={"key": wrong})
        assert (refused.status_code, "set-cookie" in refused.headers) == (401, False), wrong
    got = await stranger.post("/dashboard/session", json={"key": f" {KEY}\n"})
    cookie = got.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert KEY not in got.text + got.headers["set-cookie"]
    session = (await stranger.get("/dashboard/session")).json()["data"]
    assert session["role"] == "admin"
    assert {page["name"] for page in session["features"]} >= {"places", "products", "listings"}
    assert (await stranger.get("/api/v1/jobs")).status_code == 200


async def test_a_write_of_a_session_needs_its_token__S11(simple: Front, stranger: httpx.AsyncClient) -> None:
    token = await _signed_in(stranger)
    body = {"pipeline": "places", "params": {"keyword": "bars", "zips": ["85001"], "pages": 1}}
    others: list[dict[str, str]] = [{}, {"X-CSRF-Token": ""}, {"X-CSRF-Token": token["X-CSRF-Token"][:-1] + "x"}]
    for headers in others:
        assert (await stranger.post("/api/v1/jobs", json=body, headers=headers)).status_code == 401, headers
    twice = [("X-CSRF-Token", token["X-CSRF-Token"])] * 2
    assert (await stranger.post("/api/v1/jobs", json=body, headers=twice)).status_code == 401
    assert (await stranger.post("/api/v1/jobs", json=body, headers=token)).status_code == 202
    async with client_of(simple.api, key=None) as another:
        await _signed_in(another)
        foreign = await another.post("/api/v1/jobs", json=body, headers=token)
        assert foreign.status_code == 401, "the token of one session is of no use in another"


async def test_a_session_ends_by_time_by_signing_out_and_by_a_new_key__S12(
    simple: Front, stranger: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _signed_in(stranger)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + auth.SESSION_SECONDS - 5)
    assert (await stranger.get("/api/v1/jobs")).status_code == 200
    monkeypatch.setattr(time, "time", lambda: now + auth.SESSION_SECONDS + 5)
    assert (await stranger.get("/api/v1/jobs")).status_code == 401
    monkeypatch.undo()
    assert (await stranger.get("/api/v1/jobs")).status_code == 200
    kept = dict(stranger.cookies)
    assert (await stranger.delete("/dashboard/session")).status_code == 200
    assert (await stranger.get("/api/v1/jobs")).status_code == 401
    stranger.cookies.update(kept)
    simple.api.state.service_key.replace("another-key-from-now-on")
    assert (await stranger.get("/api/v1/jobs")).status_code == 401


async def test_a_cookie_that_was_changed_or_sent_twice_is_refused__S12(
    simple: Front, stranger: httpx.AsyncClient
) -> None:
    value = simple.api.state.service_key.new_session(auth.SERVICE)
    expires, rest = value.split(".", 1)
    forged = [
        f"{int(expires) + 1}.{rest}",
        value.replace("service", "another"),
        value[:-1],
        value + "0",
        "",
        "....",
        f"x.{rest}",
        f"{value}; {auth.COOKIE}={value}x",
    ]
    for each in forged:
        got = await stranger.get("/api/v1/jobs", headers={"Cookie": f"{auth.COOKIE}={each}"})
        assert got.status_code == 401, each
    assert (await stranger.get("/api/v1/jobs", headers={"Cookie": f"{auth.COOKIE}={value}"})).status_code == 200


async def test_a_link_signs_in_once_within_five_minutes__S12(
    simple: Front, stranger: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = simple.api.state.service_key
    code = key.new_link()
    for wrong in ("", "x", code[:-1]):
        got = await stranger.get("/dashboard/enter", params={"code": wrong})
        assert (got.status_code, "set-cookie" in got.headers) == (303, False)
    got = await stranger.get("/dashboard/enter", params={"code": code})
    assert (got.status_code, got.headers["location"]) == (303, "/")
    assert (await stranger.get("/api/v1/jobs")).status_code == 200
    async with client_of(simple.api, key=None) as second:
        assert "set-cookie" not in (await second.get("/dashboard/enter", params={"code": code})).headers
        late, now = key.new_link(), time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + auth.LINK_SECONDS + 1)
        assert "set-cookie" not in (await second.get("/dashboard/enter", params={"code": late})).headers
        assert (await second.get("/api/v1/jobs")).status_code == 401
